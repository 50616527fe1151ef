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
