"""Zero-variance control variates for what a run has kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scirocco.postprocess.zero_variance import ZeroVariance, zero_variance
from scirocco.run.moments import FREE
from scirocco.run.trace import Trace


def trace_zero_variance(
    trace: Trace, function: Callable[..., Any] | None = None, *, degree: int = 1, ridge: float | None = None
) -> ZeroVariance:
    """The posterior mean of a function of the parameters, corrected by zero-variance control variates.

    The run must have kept its gradients, ``sample(..., gradients=True)``. ``function`` takes the parameters of one draw
    by name (or the array, if there is only one) and returns an array; without it all parameters are averaged, one after
    the other. ``degree`` is that of the polynomial, 1 or 2; where parameters have constraints only the first, because
    gradients are those of their free numbers.
    """
    slopes, draws = trace.gradients, trace.posterior
    if slopes is None:
        raise ValueError("the run kept no gradients: sample(..., gradients=True)")
    missing = [str(name) for name in slopes.data_vars if name not in draws]
    if missing:
        raise ValueError(f"the draws of {missing} were not stored: run without collect=")
    names = [str(name) for name in slopes.data_vars]
    constrained = any(name.startswith(FREE) for name in trace.moments.mean)
    if constrained and degree != 1:
        raise ValueError("parameters have constraints, and gradients are those of their free numbers: take degree=1")
    theta, gradient = (
        np.concatenate([data[n].values.reshape(*data[n].shape[:2], -1) for n in names], axis=-1, dtype=np.float64)
        for data in (draws, slopes)
    )
    values = theta if function is None else _evaluated(trace, function)
    places = gradient if constrained else theta  # the first degree does not look at them
    return zero_variance(values, places, gradient, degree=degree, ridge=ridge)


def _evaluated(trace: Trace, function: Callable[..., Any]) -> np.ndarray:
    """A function of each draw, (chain, draw, ...)."""
    arrays = {str(name): variable.values for name, variable in trace.posterior.data_vars.items()}
    only = next(iter(arrays)) if len(arrays) == 1 else None
    chains, count = next(iter(arrays.values())).shape[:2]

    def at(chain: int, draw: int) -> Any:
        params = {name: array[chain, draw] for name, array in arrays.items()}
        return np.asarray(function(params if only is None else params[only]), np.float64)

    return np.array([[at(chain, draw) for draw in range(count)] for chain in range(chains)])
