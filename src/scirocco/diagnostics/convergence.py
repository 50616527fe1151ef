"""ESS and R-hat, through ArviZ (0.x and 1.x)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def arviz() -> Any:
    """ArviZ, imported when first needed: it takes longer to load than all of scirocco."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
        import arviz as module
    return module


def ess(posterior: xr.Dataset, method: str = "bulk") -> xr.Dataset:
    """The effective sample size of every coordinate."""
    return _dataset(arviz().ess(posterior, method=method))


def standard_error(values: np.ndarray) -> np.ndarray:
    """Of means over chains and draws, (chain, draw, k) -> k; 0 for what does not move."""
    import xarray as xr

    spread = values.std(axis=(0, 1), ddof=1)
    moving = spread > 1e-12 * np.maximum(1e-300, np.abs(values).max(axis=(0, 1)))
    error = np.zeros(values.shape[-1])
    if moving.any():
        names = {"chain": np.arange(values.shape[0]), "draw": np.arange(values.shape[1])}
        draws = xr.Dataset({"value": (("chain", "draw", "k"), values[..., moving])}, coords=names)
        error[moving] = spread[moving] / np.sqrt(ess(draws, "mean")["value"].values)
    return error


def rhat(posterior: xr.Dataset) -> xr.Dataset:
    """Rank-normalised split R-hat; a single chain is split in two."""
    import xarray as xr

    if posterior.sizes["chain"] == 1:
        half = posterior.sizes["draw"] // 2
        parts = [posterior.isel(draw=slice(0, half)), posterior.isel(draw=slice(half, 2 * half))]
        parts = [p.assign_coords(draw=np.arange(half), chain=[k]) for k, p in enumerate(parts)]
        posterior = xr.concat(parts, dim="chain")
    return _dataset(arviz().rhat(posterior))


def _dataset(result: Any) -> xr.Dataset:
    """ArviZ 1.x may answer with a tree of groups."""
    import xarray as xr

    return result["posterior"].to_dataset() if isinstance(result, xr.DataTree) else result


def to_arviz(posterior: xr.Dataset) -> Any:
    """InferenceData (ArviZ 0.x) or a DataTree (1.x)."""
    import xarray as xr

    module = arviz()
    if hasattr(module, "InferenceData"):
        return module.InferenceData(posterior=posterior)
    return xr.DataTree.from_dict({"/": xr.Dataset(), "posterior": posterior})
