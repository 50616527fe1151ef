"""ESS and R-hat by coordinate, as arviz-stats computes them (Vehtari et al. 2021).

ArviZ's own functions come with SciPy's statistics and all that ArviZ can do: a second to load, when a whole run of a
small model takes two.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import numbers

if TYPE_CHECKING:
    import xarray as xr

LEAST_DRAWS = 4  # draws of a chain
TAILS = 0.05, 0.95


def ess(draws: Any, method: str = "bulk") -> Any:
    """The effective sample size of every coordinate, of an ``xarray.Dataset``, a trace or an array (chain, draw, ...).

    For ``method`` "bulk" of the ranks, "tail" the smaller of those of the 5 % and 95 % quantiles, "mean", "median" or
    "sd" of these. NaN for fewer than four draws; of draws that are NaN too, with a warning.
    """
    if method not in _ESS:
        raise ValueError(f"method must be one of {list(_ESS)}; got {method!r}")
    return _each(draws, _ESS[method])


def rhat(draws: Any) -> Any:
    """Rank-normalised split R-hat, of what ``ess`` takes; a single chain is split in two."""
    return _each(draws, _rhat)


def standard_error(values: np.ndarray) -> np.ndarray:
    """Of means over chains and draws, (chain, draw, k) -> k; 0 for what does not move."""
    spread = values.std(axis=(0, 1), ddof=1)
    moving = spread > 1e-12 * np.maximum(1e-300, np.abs(values).max(axis=(0, 1)))
    error = np.zeros(values.shape[-1])
    if moving.any():
        error[moving] = spread[moving] / np.sqrt(ess(values[..., moving], "mean"))
    return error


def relative_errors(values: np.ndarray, spread: float | None = None) -> tuple[float, float]:
    """Monte Carlo errors of the mean and of the sd of one coordinate, (chain, draw), both in units of its sd.

    The sd is the root of a mean of squares, whose own spread grows with the fourth moment: heavy tails, and categories
    that are nearly always empty, need many times the draws of a normal law. ``spread`` is the variance of the squares
    over their squared mean, if it is known: few draws may not have seen the largest.
    """
    squares = (values - values.mean()) ** 2
    if spread is None:
        spread = squares.var() / squares.mean() ** 2
    return float(1 / np.sqrt(_ESS["mean"](values))), float(np.sqrt(spread / (4 * _ESS["sd"](values))))


def _each(draws: Any, compute: Callable[[np.ndarray], float]) -> Any:
    """A statistic of (chain, draw) arrays for the coordinates of an array, or of every variable of a dataset."""
    dataset = getattr(draws, "posterior", draws)
    if not hasattr(dataset, "data_vars"):
        return _by_coordinate("draws", draws, compute)
    import xarray as xr

    def one(name: Any, variable: Any) -> Any:
        missing = [dim for dim in ("chain", "draw") if dim not in variable.dims]
        if missing:
            raise ValueError(f"{name} must have the dimensions chain and draw; got {variable.dims}")
        ordered = variable.transpose("chain", "draw", ...)
        return xr.DataArray(_by_coordinate(str(name), ordered.values, compute), dims=ordered.dims[2:])

    return xr.Dataset({name: one(name, variable) for name, variable in dataset.data_vars.items()})


def _by_coordinate(name: str, draws: Any, compute: Callable[[np.ndarray], float]) -> np.ndarray:
    draws = numbers(name, draws)
    if draws.ndim < 2:
        raise ValueError(
            f"{name} must have the shape (chain, draw, ...); got {draws.shape}: one chain of n draws is draws[None]"
        )
    found = np.full(draws.shape[2:], np.nan)
    unknown = 0
    for index in np.ndindex(found.shape):
        values = draws[(slice(None), slice(None), *index)].astype(np.float64)
        if np.isnan(values).any():
            unknown += 1
        elif values.shape[1] >= LEAST_DRAWS:
            found[index] = compute(values)
    if unknown:
        warnings.warn(
            f"{name} has draws that are NaN in {unknown} of {found.size} coordinates, of which nothing can be said: "
            "the answer is NaN there",
            UserWarning,
            stacklevel=4,
        )
    return found


# Of one coordinate, (chain, draw).


def _rhat(values: np.ndarray) -> float:
    if len(values) == 1:
        values = values[0, : values.size // 2 * 2].reshape(2, -1)
    if values.shape[1] < LEAST_DRAWS:
        return np.nan
    halves = _split(values)
    return max(_scale_reduction(_normal_scores(x)) for x in (halves, np.abs(halves - np.median(halves))))


def _scale_reduction(values: np.ndarray) -> float:
    draws = values.shape[1]
    between, within = draws * np.var(values.mean(axis=1), ddof=1), np.mean(np.var(values, axis=1, ddof=1))
    with np.errstate(invalid="ignore", divide="ignore"):  # what does not move has none
        return float(np.sqrt((between / within + draws - 1) / draws))


def _size(values: np.ndarray) -> float:
    """Draws over the sum of autocorrelations, by Geyer's initial monotone sequence.

    Sums of neighbouring autocorrelations rho_2k + rho_2k+1 are positive and fall, in theory: they are used up to the
    first that is not positive, and of one that has risen only as much as the one before.
    """
    values = values.astype(np.float64, copy=False)
    if np.ptp(values) < np.finfo(float).resolution:
        return float(values.size)
    chains, draws = values.shape
    covariance = _autocovariance(values)
    within = np.mean(covariance[:, 0]) * draws / (draws - 1.0)
    total = within * (draws - 1.0) / draws
    if chains > 1:
        total += np.var(values.mean(axis=1), ddof=1)
    if not np.isfinite(total):
        return np.nan
    rho = 1.0 - (within - np.ascontiguousarray(covariance.T).mean(axis=1)) / total
    rho[0] = 1.0
    even, odd = rho[: draws // 2 * 2 : 2], rho[1::2]
    pairs = even + odd
    last = max(0, (draws - 3) // 2)
    ends = np.flatnonzero(~(pairs[:last] > 0))
    last = int(ends[0]) if len(ends) else last
    rest = even[last] if pairs[last] >= 0 or even[last] > 0 else 0.0
    least = np.minimum.accumulate(pairs[:last])
    risen = pairs[:last] > least
    even[:last][risen] = odd[:last][risen] = least[risen] / 2
    time = max(-1.0 + 2.0 * np.sum(rho[: 2 * last]) + rest, 1 / np.log10(values.size))
    return float(values.size / time)


def _autocovariance(values: np.ndarray) -> np.ndarray:
    draws = values.shape[1]
    # A fast length is a product of 2, 3 and 5, and divides a power of 30.
    length = next(m for m in count(2 * draws) if not pow(30, 64, m))
    spectrum = np.fft.rfft(values - values.mean(axis=1, keepdims=True), n=length, axis=1)
    spectrum *= np.conjugate(spectrum)
    return np.fft.irfft(spectrum, n=length, axis=1)[:, :draws] / draws


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all values; equal ones share the mean of their ranks."""
    from scipy.special import ndtri

    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return ndtri((ranks - 3 / 8) / (values.size + 1 / 4))[which].reshape(values.shape)


def _split(values: np.ndarray) -> np.ndarray:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _quantile_size(values: np.ndarray, level: float) -> float:
    return _size(_split(values <= np.quantile(values, level)))


_ESS: dict[str, Callable[[np.ndarray], float]] = {
    "bulk": lambda values: _size(_normal_scores(_split(values))),
    "tail": lambda values: min(_quantile_size(values, level) for level in TAILS),
    "mean": lambda values: _size(_split(values)),
    "median": lambda values: _quantile_size(values, 0.5),
    "sd": lambda values: _size(_split((values - values.mean()) ** 2)),
}


def to_arviz(groups: dict[str, xr.Dataset]) -> Any:
    """InferenceData where ArviZ 0.x is installed, else a DataTree, which ArviZ 1.x takes."""
    import importlib.metadata

    import xarray as xr

    try:
        old = importlib.metadata.version("arviz").startswith("0.")
    except importlib.metadata.PackageNotFoundError:
        old = False
    if not old:
        return xr.DataTree.from_dict({"/": xr.Dataset(), **groups})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
        import arviz
    return arviz.InferenceData(**groups)
