"""ESS and R-hat by coordinate, as ArviZ computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def _statistics() -> Any:
    """The part of ArviZ that works on arrays: the whole takes seconds to load."""
    import arviz_stats.base as statistics

    return statistics.array_stats  # type: ignore[attr-defined]


def ess(draws: Any, method: str = "bulk") -> Any:
    """The effective sample size of every coordinate, of an ``xarray.Dataset`` or of an array (chain, draw, ...)."""
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    return _each(draws, lambda a: _statistics().ess(a, 0, 1, method=method, **options))


def rhat(draws: Any) -> Any:
    """Rank-normalised split R-hat; a single chain is split in two."""
    return _each(draws, _split_rhat)


def standard_error(values: np.ndarray) -> np.ndarray:
    """Of means over chains and draws, (chain, draw, k) -> k; 0 for what does not move."""
    spread = values.std(axis=(0, 1), ddof=1)
    moving = spread > 1e-12 * np.maximum(1e-300, np.abs(values).max(axis=(0, 1)))
    error = np.zeros(values.shape[-1])
    if moving.any():
        error[moving] = spread[moving] / np.sqrt(_statistics().ess(values[..., moving], 0, 1, method="mean"))
    return error


def _split_rhat(values: np.ndarray) -> np.ndarray:
    if len(values) == 1:
        half = values.shape[1] // 2
        values = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    return np.asarray(_statistics().rhat(values, 0, 1))


def _each(draws: Any, compute: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A statistic of an array, or of every variable of a dataset."""
    if isinstance(draws, np.ndarray):
        return compute(draws.astype(np.float64, copy=False))
    import xarray as xr

    return draws.map(lambda v: xr.DataArray(compute(np.asarray(v.values, np.float64)), dims=v.dims[2:]))


def to_arviz(groups: dict[str, xr.Dataset]) -> Any:
    """InferenceData where ArviZ 0.x is installed, else a DataTree, which ArviZ 1.x takes."""
    import importlib.metadata
    import warnings

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
