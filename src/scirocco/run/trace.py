"""What a run leaves: draws, streaming moments, and how far to trust them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.diagnostics import convergence
from scirocco.diagnostics.bias import BiasReport
from scirocco.run import checkpoint
from scirocco.run.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    import xarray as xr

    from scirocco.postprocess.zero_variance import ZeroVariance
    from scirocco.tuning.report import Tuning

MAX_ROWS = 200
GRADIENT = "gradient__"  # what the names of stored gradients begin with


@dataclass(frozen=True)
class Summary:
    """A table by coordinate and the bias report, printed together."""

    table: pd.DataFrame
    bias: BiasReport | None
    note: str
    tuning: Tuning | None = None

    def __str__(self) -> str:
        report = str(self.bias) if self.bias else "bias report: not available for this sampler or this unfinished run"
        import pandas as pd

        with pd.option_context("display.width", 120, "display.max_rows", MAX_ROWS):
            table = self.table.to_string(float_format=lambda x: f"{x:.4g}")
        tuning = str(self.tuning) if self.tuning else ""
        return "\n".join(part for part in (table, self.note, tuning, report) if part)

    __repr__ = __str__


class Trace:
    """The result of ``sample``.

    ``posterior`` is an ``xarray.Dataset`` with dimensions (chain, draw, ...); variables are named by their path in the
    parameters. ``mean`` and ``variance`` are streaming moments of all parameters, kept even when draws are not.
    ``stopped`` says why a run ended early, or is None.
    """

    def __init__(
        self,
        draws: dict[str, np.ndarray] | Path,
        count: int,
        moments: Moments,
        *,
        bias: BiasReport | None = None,
        stopped: str | None = None,
        seconds: float = 0.0,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self._draws, self.count, self.moments = draws, count, moments
        self.bias, self.stopped, self.seconds = bias, stopped, seconds
        self.meta = meta or {}
        self._stored: xr.Dataset | None = None

    @property
    def tuning(self) -> Tuning | None:
        """What ``step_size="auto"`` chose, and why; None if the step size was given."""
        from scirocco.tuning.report import Tuning

        facts = self.meta.get("tuning")
        return Tuning.from_json(facts) if facts else None

    @property
    def posterior(self) -> xr.Dataset:
        """The draws; those on disk are read when used."""
        stored = self._dataset
        return stored[[name for name in stored.data_vars if not str(name).startswith(GRADIENT)]]

    @property
    def gradients(self) -> xr.Dataset | None:
        """Estimates of grad U at the draws, named like the parameters, if the run kept them."""
        names = {n: str(n).removeprefix(GRADIENT) for n in self._dataset.data_vars if str(n).startswith(GRADIENT)}
        return self._dataset[list(names)].rename(names) if names else None

    @property
    def _dataset(self) -> xr.Dataset:
        """Everything that was stored."""
        if self._stored is None:
            import xarray as xr

            if isinstance(self._draws, Path):
                stored = xr.open_dataset(self._draws, engine="zarr", consolidated=False, chunks=None)
                found = stored.isel(draw=slice(0, self.count), missing_dims="ignore")
            else:
                found = xr.Dataset(
                    {
                        n: (("chain", "draw", *(f"{n}_dim_{i}" for i in range(a.ndim - 2))), a)
                        for n, a in self._draws.items()
                    }
                )
            if not found.data_vars:  # nothing was stored: only moments
                found = xr.Dataset()
            sizes = {"chain": found.sizes.get("chain", 0), "draw": self.count if found.data_vars else 0}
            named = found.assign_coords({dim: np.arange(size) for dim, size in sizes.items()})
            self._stored = named.assign_attrs(inference_library="scirocco")
        return self._stored

    @property
    def mean(self) -> dict[str, np.ndarray]:
        """The posterior mean of every parameter over all chains, from streaming moments."""
        return self.moments.pooled()[0]

    @property
    def variance(self) -> dict[str, np.ndarray]:
        """The posterior variance of every parameter over all chains, from streaming moments."""
        return self.moments.pooled()[1]

    def to_arviz(self) -> Any:
        """``InferenceData`` (ArviZ 0.x) or ``xarray.DataTree`` (1.x)."""
        return convergence.to_arviz(self.posterior)

    def summary(self, var_names: Sequence[str] | str | None = None) -> Summary:
        """Mean, sd, Monte Carlo error, ESS and R-hat by coordinate, and the bias report.

        Of variables with very many coordinates an even selection is shown.
        """
        import pandas as pd

        wanted = [var_names] if isinstance(var_names, str) else var_names
        chosen = list(self.posterior.data_vars) if wanted is None else list(wanted)
        unknown = [name for name in chosen if name not in self.posterior]
        if unknown:
            raise ValueError(f"var_names {unknown} are not in the trace; it has {list(self.posterior.data_vars)}")
        if not chosen:
            return Summary(self._moment_table(), self.bias, "no draws were stored: moments only", self.tuning)
        if self.count < 4:
            few = f"{self.count} draws are too few for ESS and R-hat"
            return Summary(self._moment_table(), self.bias, few, self.tuning)
        selected, note = _thinned(self.posterior[chosen], MAX_ROWS)
        bulk, tail, r_hat = convergence.ess(selected), convergence.ess(selected, "tail"), convergence.rhat(selected)
        average = convergence.ess(selected, "mean")
        rows: dict[str, dict[str, float]] = {}
        for name in map(str, chosen):
            values = selected[name].values
            for index in np.ndindex(values.shape[2:]):
                here = values[(slice(None), slice(None), *index)]
                sd = float(np.std(here, ddof=1, dtype=np.float64))
                rows[_label(selected, name, index)] = {
                    "mean": float(np.mean(here, dtype=np.float64)),
                    "sd": sd,
                    "mcse": sd / float(np.sqrt(average[name].values[index])),
                    "ess_bulk": float(bulk[name].values[index]),
                    "ess_tail": float(tail[name].values[index]),
                    "r_hat": float(r_hat[name].values[index]),
                }
        return Summary(pd.DataFrame.from_dict(rows, orient="index"), self.bias, note, self.tuning)

    def zero_variance(
        self, function: Callable[..., Any] | None = None, *, degree: int = 1, ridge: float | None = None
    ) -> ZeroVariance:
        """The posterior mean of a function of the parameters, corrected by zero-variance control variates.

        The run must have kept its gradients, ``sample(..., gradients=True)``. ``function`` takes the parameters of one
        draw by name (or the array, if there is only one) and returns an array; without it all parameters are averaged,
        one after the other. ``degree`` is that of the polynomial, 1 or 2.
        """
        from scirocco.postprocess.zero_variance import zero_variance

        slopes, draws = self.gradients, self.posterior
        if slopes is None:
            raise ValueError("the run kept no gradients: sample(..., gradients=True)")
        missing = [str(name) for name in slopes.data_vars if name not in draws]
        if missing:
            raise ValueError(f"the draws of {missing} were not stored: run without collect=")
        names = [str(name) for name in slopes.data_vars]
        theta, gradient = (
            np.concatenate([data[n].values.reshape(*data[n].shape[:2], -1) for n in names], axis=-1, dtype=np.float64)
            for data in (draws, slopes)
        )
        values = theta if function is None else self._evaluated(function)
        return zero_variance(values, theta, gradient, degree=degree, ridge=ridge)

    def _evaluated(self, function: Callable[..., Any]) -> np.ndarray:
        """A function of each draw, (chain, draw, ...)."""
        arrays = {str(name): variable.values for name, variable in self.posterior.data_vars.items()}
        only = next(iter(arrays)) if len(arrays) == 1 else None
        chains, count = next(iter(arrays.values())).shape[:2]

        def at(chain: int, draw: int) -> Any:
            params = {name: array[chain, draw] for name, array in arrays.items()}
            return np.asarray(function(params if only is None else params[only]), np.float64)

        return np.array([[at(chain, draw) for draw in range(count)] for chain in range(chains)])

    def _moment_table(self) -> pd.DataFrame:
        import pandas as pd

        mean, variance = self.moments.pooled()
        rows = {}
        for name, values in mean.items():
            step = -(-values.size // MAX_ROWS) or 1
            for k in range(0, values.size, step):
                index = np.unravel_index(k, values.shape)
                label = f"{name}[{', '.join(map(str, index))}]" if values.shape else name
                rows[label] = {"mean": values[index], "sd": np.sqrt(variance[name][index])}
        return pd.DataFrame.from_dict(rows, orient="index")

    def save(self, path: str | Path) -> None:
        """Write the trace to a folder, as arrays and JSON. An existing trace there is replaced."""
        folder = Path(path)
        if folder.exists() and any(folder.iterdir()) and not (folder / checkpoint.NAME).is_file():
            raise FileExistsError(f"{folder} exists and is not a scirocco trace; it is left alone")
        if (folder / checkpoint.NAME).is_file() and checkpoint.part(checkpoint.read(folder)[0], "state"):
            raise FileExistsError(f"{folder} holds a run that can be resumed; save the trace to another folder")
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / "draws.zarr.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self._dataset.load().to_zarr(fresh, mode="w", consolidated=False)
        shutil.rmtree(folder / "draws.zarr", ignore_errors=True)
        fresh.rename(folder / "draws.zarr")
        arrays = {f"mean/{name}": a for name, a in self.moments.mean.items()}
        arrays |= {f"square/{name}": a for name, a in self.moments.square.items()}
        if self.bias is not None:
            arrays |= {f"bias/{name}": a for name, a in self.bias.to_arrays().items()}
        facts = {
            "draws": self.count, "written": self.count, "moment_count": self.moments.count, "seconds": self.seconds,
            "stopped": self.stopped, "finished": True,
        }  # fmt: skip
        checkpoint.write(folder, arrays, {**self.meta, "run": facts})

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """A trace saved by ``save``, or what a run with ``path=`` has made so far, even if it was killed."""
        import xarray as xr

        folder = Path(path)
        arrays, meta = checkpoint.read(folder)
        facts = meta["run"]
        mean, square, found, tail = (checkpoint.part(arrays, kind) for kind in ("mean", "square", "bias", "tail"))
        moments = Moments(facts["moment_count"], mean, square)
        bias = BiasReport.from_arrays(found) if found else None
        stored = folder / "draws.zarr"
        draws: dict[str, np.ndarray] | Path = stored
        if not stored.is_dir():
            draws = tail
        elif not facts.get("finished"):
            whole = xr.open_dataset(stored, engine="zarr", consolidated=False, chunks=None)
            draws = {
                name: np.concatenate([whole[name][:, : facts["written"]].values, rest], axis=1)
                for name, rest in tail.items()
            }
        return cls(
            draws, facts["draws"], moments, bias=bias, stopped=facts["stopped"], seconds=facts["seconds"],
            meta={k: v for k, v in meta.items() if k not in ("run", "format")},
        )  # fmt: skip

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}{list(v.shape[2:])}" for n, v in self.posterior.data_vars.items()) or "no variables"
        chains = self.posterior.sizes.get("chain", 0)
        end = f", {self.stopped}" if self.stopped else ""
        return f"<Trace: {chains} chains, {self.count:,} draws of {shapes}{end}>"


def _thinned(posterior: xr.Dataset, limit: int) -> tuple[xr.Dataset, str]:
    """An even selection of coordinates, so that no table has more than about ``limit`` rows."""
    import xarray as xr

    sizes = {n: int(np.prod(v.shape[2:])) for n, v in posterior.data_vars.items()}
    if sum(sizes.values()) <= limit:
        return posterior, ""
    share = max(1, limit // len(sizes))
    chosen = {}
    for name, variable in posterior.data_vars.items():
        picks = np.unique(np.linspace(0, max(0, sizes[name] - 1), min(sizes[name], share)).astype(int))
        values = variable.values.reshape(*variable.shape[:2], -1)[:, :, picks]
        labels = [", ".join(map(str, np.unravel_index(k, variable.shape[2:]))) for k in picks]
        chosen[name] = xr.DataArray(values, dims=("chain", "draw", f"{name}_at"), coords={f"{name}_at": labels})
    total, shown = sum(sizes.values()), sum(c.shape[2] for c in chosen.values())
    return xr.Dataset(chosen), f"({shown:,} of {total:,} coordinates shown, evenly spread)"


def _label(posterior: xr.Dataset, name: str, index: tuple[int, ...]) -> str:
    if f"{name}_at" in posterior.coords:
        return f"{name}[{posterior.coords[f'{name}_at'].values[index[0]]}]"
    return f"{name}[{', '.join(map(str, index))}]" if index else name
