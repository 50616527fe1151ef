"""The runner, its checkpoints, its progress bar, and the trace that it leaves."""

from scirocco.run.trace import Summary, Trace

__all__ = ["Summary", "Trace"]
