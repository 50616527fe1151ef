"""The runner, its checkpoints, its progress bar, and the trace that it leaves."""

from scirocco.run.checkpoint import DamagedError
from scirocco.run.description import Description, RunOptions, Stop
from scirocco.run.ragged import Ragged
from scirocco.run.resume import resume
from scirocco.run.runner import DivergenceError
from scirocco.run.trace import Summary, Trace

__all__ = [
    "DamagedError",
    "Description",
    "DivergenceError",
    "Ragged",
    "RunOptions",
    "Stop",
    "Summary",
    "Trace",
    "resume",
]
