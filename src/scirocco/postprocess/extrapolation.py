"""Bias control after the run: extrapolation in the step size.

    E_h[f] = E[f] + b h^p + O(h^2p),    estimate = (r^p E_{h/r}[f] - E_h[f]) / (r^p - 1)

from two runs, one at h and one at h/r (r = 2: step halving, 2 E_{h/2} - E_h for p = 1). The leading bias cancels: that
of the discretisation and, as it is of the same order, that of the minibatch noise. The variances of the two runs add
with factors (r^p / (r^p - 1))^2 and 1 / (r^p - 1)^2: give the smaller step the longer run. The order p is 1 for Euler
schemes and for any scheme with minibatch noise; 2 for symmetric splittings (BAOAB, BADODAB) with full gradients.
Richardson and Romberg; Durmus, Simsekli, Moulines and Badeau (2016) for Langevin samplers.

The difference of the two runs measures the bias itself. With three runs the order can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import numbers, positive_array, require_finite
from scirocco.run.convergence import standard_error

if TYPE_CHECKING:
    from scirocco.run.trace import Trace


@dataclass(frozen=True)
class Extrapolated:
    """The extrapolated estimate with its standard error, and the bias of the run with the larger step."""

    mean: np.ndarray
    se: np.ndarray
    bias: np.ndarray
    bias_se: np.ndarray

    @property
    def biased(self) -> np.ndarray:
        """Where the larger step's bias is beyond doubt, more than three standard errors."""
        return np.asarray(np.abs(self.bias) > 3 * self.bias_se)


def extrapolate(
    coarse: Any, fine: Any, *, ratio: float = 2.0, order: float = 1.0, function: Any = None, name: str | None = None
) -> Extrapolated:
    """From estimates at h (``coarse``) and at h/``ratio`` (``fine``).

    Each is a ``Trace``, or draws (chain, draw, ...). What is averaged is ``function`` of the draws, by default they
    themselves; ``name`` says which variable of a trace, if there are several.
    """
    positive_array("order", order)
    if not ratio > 1:
        raise ValueError(f"ratio must be above 1, the larger step over the smaller; got {ratio!r}")
    runs = (("coarse", coarse), ("fine", fine))
    (m1, e1), (m2, e2) = (_estimate(which, run, function, name) for which, run in runs)
    if m1.shape != m2.shape:
        raise ValueError(f"the two runs must estimate the same quantity; got shapes {m1.shape} and {m2.shape}")
    power = ratio**order
    mean = (power * m2 - m1) / (power - 1)
    se = np.sqrt((power * e2) ** 2 + e1**2) / (power - 1)
    # The coarse run's bias is b h^p; the difference of the runs is that times (1 - r^-p).
    share = 1 - 1 / power
    return Extrapolated(mean, se, (m1 - m2) / share, np.hypot(e1, e2) / share)


def _estimate(which: str, run: Trace | Any, function: Any, name: str | None) -> tuple[np.ndarray, np.ndarray]:
    if hasattr(run, "posterior"):
        found = run.posterior
        names = [str(n) for n in found.data_vars]
        if name is None and len(names) != 1:
            raise ValueError(f"name must say which variable; the trace has {names}")
        if name is not None and name not in names:
            raise ValueError(f"the trace has no variable {name!r}; it has {names}")
        run = found[name or names[0]].values
    draws = numbers(f"the draws of {which}", run).astype(np.float64, copy=False)
    require_finite(f"the draws of {which}", draws)
    if function is not None:
        draws = np.asarray(function(draws), np.float64)
        require_finite(f"function of the draws of {which}", draws)
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise ValueError(f"draws must have shape (chain, draw, ...) with at least 4 draws; got {draws.shape}")
    flat = draws.reshape(*draws.shape[:2], -1)
    shape = draws.shape[2:]
    return flat.mean(axis=(0, 1)).reshape(shape), standard_error(flat).reshape(shape)
