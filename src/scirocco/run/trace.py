"""What a run leaves: draws, what the steps said of themselves, streaming moments, and how far to trust them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.parts import name_of, part_named
from scirocco.run import checkpoint, convergence, store
from scirocco.run.describe import rebuild
from scirocco.run.folder import NAME, REPORT, group_folder, group_folders, has_state, read_meta
from scirocco.run.moments import Moments
from scirocco.run.ragged import Ragged, concatenated, draws_of
from scirocco.run.second_half import SecondHalf
from scirocco.run.store import Draws, Variable, Variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import xarray as xr

MAX_ROWS = 200
GRADIENT, STATS = "gradient__", "stats__"  # what the names of stored gradients and of the steps' reports begin with
CHECKED_BYTES = 2**28  # of draws that ``load`` reads to compare them with the streaming moments


@dataclass(frozen=True)
class Summary:
    """A table by coordinate and the bias report, printed together."""

    table: pd.DataFrame
    bias: Any
    note: str
    tuning: Any = None

    def __str__(self) -> str:
        report = str(self.bias) if self.bias else "bias report: not available for this sampler or this unfinished run"
        import pandas as pd

        with pd.option_context("display.width", 120, "display.max_rows", MAX_ROWS):
            table = self.table.to_string(float_format=lambda x: f"{x:.4g}")
        tuning = str(self.tuning) if self.tuning else ""
        return "\n".join(part for part in (table, self.note, tuning, report) if part)

    __repr__ = __str__


def table_of(values: np.ndarray, labels: list[str], bias: Any = None, note: str = "", tuning: Any = None) -> Summary:
    """Mean, sd, Monte Carlo error, ESS and R-hat of the columns of (chain, draw, column)."""
    import pandas as pd

    if values.shape[1] < 4:
        few = f"{values.shape[1]} draws are too few for ESS and R-hat"
        table = {"mean": values.mean(axis=(0, 1)), "sd": values.std(axis=(0, 1))}
        return Summary(pd.DataFrame(table, index=labels), bias, few, tuning)
    sd = values.std(axis=(0, 1), ddof=1)
    table = {
        "mean": values.mean(axis=(0, 1)), "sd": sd, "mcse": sd / np.sqrt(convergence.ess(values, "mean")),
        "ess_bulk": convergence.ess(values), "ess_tail": convergence.ess(values, "tail"),
        "r_hat": convergence.rhat(values),
    }  # fmt: skip
    return Summary(pd.DataFrame(table, index=labels), bias, note, tuning)


class Trace:
    """The result of ``sample``.

    ``posterior`` is an ``xarray.Dataset`` with dimensions (chain, draw, ...); variables are named by their path in the
    parameters. ``ragged`` has the draws whose size changes, ``sample_stats`` what the step that made each draw said of
    itself. ``mean`` and ``variance`` are streaming moments of all parameters, kept even when draws are not. ``bias`` is
    the report on how far the sampled law is from the posterior. ``stopped`` says why a run ended early, or is None.
    """

    def __init__(
        self, draws: Draws | Path, count: int, moments: Moments, *, bias: Any = None, stopped: str | None = None,
        seconds: float = 0.0, meta: dict[str, Any] | None = None, variables: Variables | None = None,
    ) -> None:  # fmt: skip
        self._draws, self.count, self.moments = draws, count, moments
        self.bias, self.stopped, self.seconds = bias, stopped, seconds
        self.meta = meta or {}
        self._variables = variables
        self._stored: xr.Dataset | None = None

    @property
    def tuning(self) -> Any:
        """What ``step_size="auto"`` chose, and why; None if the step size was given."""
        return rebuild(self.meta.get("tuning"))

    @property
    def posterior(self) -> xr.Dataset:
        """The draws; those on disk are read when used."""
        stored = self._dataset
        return stored[[name for name in stored.data_vars if not str(name).startswith((GRADIENT, STATS))]]

    @property
    def ragged(self) -> dict[str, Ragged]:
        """The draws whose size changes from draw to draw, by name."""
        names = store.ragged_names(self._variables or {})
        if isinstance(self._draws, Path):
            wanted = {name: self._variables[name] for name in names}  # type: ignore[index]
            chains = range(self._dataset.sizes.get("chain", self.meta["chains"]))
            return store.read_draws(self._draws, wanted, self.count, chains) if wanted else {}
        return {name: self._draws[name] for name in names}

    @property
    def sample_stats(self) -> xr.Dataset:
        """What the last step before each draw said of itself: step size, gradient norm, kinetic energy, ..."""
        return self._named(STATS)

    @property
    def gradients(self) -> xr.Dataset | None:
        """Estimates of grad U at the draws, named like the parameters, if the run kept them."""
        found = self._named(GRADIENT)
        return found if found.data_vars else None

    def _named(self, prefix: str) -> xr.Dataset:
        names = {n: str(n).removeprefix(prefix) for n in self._dataset.data_vars if str(n).startswith(prefix)}
        return self._dataset[list(names)].rename(names)

    @property
    def _dataset(self) -> xr.Dataset:
        """Everything that was stored with a fixed size."""
        if self._stored is None:
            import xarray as xr

            if isinstance(self._draws, Path):
                found = xr.Dataset()
                if (self._draws / store.DRAWS).is_dir():
                    whole = xr.open_dataset(self._draws / store.DRAWS, engine="zarr", consolidated=False, chunks=None)
                    found = whole.isel(draw=slice(0, self.count), missing_dims="ignore")
                    order = [name for name in self._variables or {} if name in found]
                    found = found[order]
            else:
                fixed = {n: a for n, a in self._draws.items() if not isinstance(a, Ragged)}
                known = self._variables or {n: Variable(a.shape[2:], a.dtype) for n, a in fixed.items()}
                found = xr.Dataset({n: (("chain", "draw", *known[n].named(n)), a) for n, a in fixed.items()})
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
        """``InferenceData`` (ArviZ 0.x) or ``xarray.DataTree`` (1.x), draws and statistics of the steps."""
        groups = {"posterior": self.posterior}
        return convergence.to_arviz(groups | ({"sample_stats": self.sample_stats} if self.sample_stats else {}))

    def summary(self, var_names: Sequence[str] | str | None = None) -> Summary:
        """Mean, sd, Monte Carlo error, ESS and R-hat by coordinate, and the bias report.

        Of variables with very many coordinates an even selection is shown.
        """

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
        columns, labels = [], []
        for name in map(str, chosen):
            values = selected[name].values
            columns.append(values.reshape(*values.shape[:2], -1).astype(np.float64))
            labels += [_label(selected, name, index) for index in np.ndindex(values.shape[2:])]
        return table_of(np.concatenate(columns, axis=2), labels, self.bias, note, self.tuning)

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
        if folder.exists() and any(folder.iterdir()) and not (folder / NAME).is_file():
            raise FileExistsError(f"{folder} exists and is not a scirocco trace; it is left alone")
        if has_state(folder):
            raise FileExistsError(f"{folder} holds a run that can be resumed; save the trace to another folder")
        draws: Draws = {str(n): v.values for n, v in self._dataset.data_vars.items()} | self.ragged
        fixed = {n: Variable(a.shape[2:], a.dtype) for n, a in draws.items() if not isinstance(a, Ragged)}
        variables = self._variables or fixed
        chains = next((v.shape[0] for v in draws.values()), len(next(iter(self.moments.mean.values()), ())))
        fresh = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        store.make_arrays(fresh, variables, chains, max(1, chains), max(1, self.count))
        kept = store.ZarrStore(fresh, variables, range(chains))
        kept.append({name: draws[name] for name in variables})
        kept.finish()
        arrays = {f"mean/{name}": a for name, a in self.moments.mean.items()}
        arrays |= {f"square/{name}": a for name, a in self.moments.square.items()}
        facts = {
            "chains": chains, "draws": self.count, "written": self.count, "moment_count": self.moments.count,
            "seconds": self.seconds, "stopped": self.stopped, "finished": True,
        }  # fmt: skip
        checkpoint.write(group_folder(fresh, 0), arrays, facts)
        if self.bias is not None:
            checkpoint.write(fresh / REPORT, self.bias.to_arrays(), {"type": name_of(type(self.bias))})
        meta = {**self.meta, "variables": store.described(variables), "chains": chains, "saved": True}
        checkpoint.write_json(fresh / NAME, meta)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """A trace saved by ``save``, or what a run with ``path=`` has made so far, even if it was killed.

        Files that are missing or damaged are an error that names them. Draws up to 256 MB are read and compared with
        the streaming moments; of more, every chunk is checked when it is read.
        """
        folder = Path(path)
        meta = read_meta(folder)
        variables = store.undescribed(meta.get("variables", {}))
        groups = {first: checkpoint.read(place) for first, place in group_folders(folder).items()}
        begun = {first: found for first, found in groups.items() if found[1]["draws"]}
        if not begun:
            empty = {name: v.empty(meta.get("chains", 0)) for name, v in variables.items()}
            return cls(empty, 0, Moments(), stopped="nothing was sampled yet", meta=meta, variables=variables)
        count = min(facts["draws"] for _, facts in begun.values())
        moments = Moments.joined([_moments(variables, arrays, facts) for arrays, facts in begun.values()])
        known = [facts for _, facts in begun.values()]
        draws: Draws | Path = folder
        streaming = not any("half/facts" in arrays for arrays, _ in begun.values())
        whole = all(f["finished"] for _, f in groups.values())  # and then all draws are in one place
        whole = whole and (not streaming or (len(begun) == len(groups) and all(f["draws"] == count for f in known)))
        for first, (_, facts) in begun.items():
            chains = range(first, first + facts["chains"])
            written = facts["written"] if not whole else facts["draws"] if streaming else count
            store.verify(folder, variables, written, chains)
        if not whole:
            parts = [_sampled(folder, variables, first, *found) for first, found in begun.items()]
            draws = {
                name: concatenated([draws_of(part[name], 0, count) for part in parts], chains=True)
                for name in variables
            }
        report = None
        if whole and checkpoint.exists(folder / REPORT):
            arrays, facts = checkpoint.read(folder / REPORT)
            report = part_named(facts["type"]).from_arrays(arrays)  # type: ignore[attr-defined]
        trace = cls(
            draws, count, moments, bias=report, stopped=next((f["stopped"] for f in known if f["stopped"]), None),
            seconds=max(f["seconds"] for f in known), meta=meta, variables=variables,
        )  # fmt: skip
        if whole and streaming:
            trace._compare(folder)
        return trace

    def _compare(self, folder: Path) -> None:
        """Draws against the streaming moments, which never were on the same page of the disk."""
        stored = self.posterior
        if stored.nbytes > CHECKED_BYTES or self.count != self.moments.count:
            return
        for name, mean in self.moments.mean.items():
            if name not in stored or stored[name].shape[2:] != mean.shape[1:]:
                continue
            values = stored[name].values.astype(np.float64)
            spread = np.sqrt(self.moments.variance()[name])
            slack = 1e-3 * spread + 1e-4 * np.abs(mean) + np.finfo(np.float32).tiny
            if not np.all(np.abs(values.mean(axis=1) - mean) <= slack):
                raise checkpoint.DamagedError(
                    f"{folder / store.DRAWS / name} does not agree with the moments that were kept while it was "
                    "written: restore it from a copy, or delete the run and start it again"
                )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}{list(v.shape[2:])}" for n, v in self.posterior.data_vars.items()) or "no variables"
        chains = self.posterior.sizes.get("chain", 0)
        end = f", {self.stopped}" if self.stopped else ""
        return f"<Trace: {chains} chains, {self.count:,} draws of {shapes}{end}>"


def _second_half(variables: Variables, arrays: checkpoint.Arrays, facts: dict[str, Any]) -> SecondHalf | None:
    half = checkpoint.part(arrays, "half")
    if not half:
        return None
    kept = SecondHalf(facts["draws"], store.ragged_names(variables))
    kept.unpack(half)
    return kept


def _moments(variables: Variables, arrays: checkpoint.Arrays, facts: dict[str, Any]) -> Moments:
    kept = _second_half(variables, arrays, facts)
    if kept is not None and not facts["finished"]:
        return kept.moments()
    return Moments(facts["moment_count"], checkpoint.part(arrays, "mean"), checkpoint.part(arrays, "square"))


def _sampled(folder: Path, variables: Variables, first: int, arrays: checkpoint.Arrays, facts: dict[str, Any]) -> Draws:
    """The draws of a group: chunks on disk, then the tail in the checkpoint."""
    kept = _second_half(variables, arrays, facts)
    if kept is not None:
        return kept.draws()
    chains = range(first, first + facts["chains"])
    done = store.read_draws(folder, variables, facts["written"], chains)
    tail = store.unpacked(checkpoint.part(arrays, "tail"), variables)
    return {name: concatenated([done[name], tail[name]]) for name in variables}


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
