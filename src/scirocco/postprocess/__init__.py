"""What can be got out of draws afterwards: estimates with less variance, estimates with less bias."""

from scirocco.postprocess.extrapolation import Extrapolated, extrapolate
from scirocco.postprocess.trace_zero_variance import trace_zero_variance
from scirocco.postprocess.zero_variance import StreamingZeroVariance, ZeroVariance, zero_variance

__all__ = [
    "Extrapolated",
    "StreamingZeroVariance",
    "ZeroVariance",
    "extrapolate",
    "trace_zero_variance",
    "zero_variance",
]
