"""The runner, its checkpoints, its progress bar, and the trace that it leaves."""

from scirocco.run.finish import DivergenceError
from scirocco.run.trace import Summary, Trace

__all__ = ["DivergenceError", "Summary", "Trace"]
