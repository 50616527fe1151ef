"""What a run leaves: draws, what the steps said of themselves, streaming moments, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.credible import quantiles
from scirocco.core.parts import part_named
from scirocco.run import convergence, store
from scirocco.run.describe import rebuild
from scirocco.run.description import Description, Stop
from scirocco.run.moments import Moments
from scirocco.run.ragged import Ragged
from scirocco.run.store import GRADIENT, STATS, Draws, Variable, Variables
from scirocco.run.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    import xarray as xr

MAX_ROWS = 200
LEAST_DRAWS = convergence.LEAST_DRAWS
FEW = "draws are too few for ESS and R-hat"
LEVELS = (0.05, 0.5, 0.95)  # quantiles of predictions
PICKED = "picked"  # the attribute of a selected variable that has the places of its coordinates
PREDICTOR = "scirocco.postprocess.predictions:Predictor"
"""What knows functions of draws and rows; this package knows no functions."""
REPORT = "scirocco.report.report:Report"
"""What makes pages of results; this package knows no pages."""


@dataclass(frozen=True)
class Summary:
    """A table by coordinate and what is to be said of it, printed together.

    Of a run of gradients or of codes that is the bias report and what the tuning chose, of a model of counts whether
    its chains agree.
    """

    table: pd.DataFrame
    note: str = ""
    bias: Any = None
    tuning: Any = None
    agreement: Any = None
    verdict: Verdict | None = None
    choice: str = ""

    def __str__(self) -> str:
        import pandas as pd

        with pd.option_context("display.width", 120, "display.max_rows", MAX_ROWS):
            table = self.table.to_string(float_format=lambda x: f"{x:.4g}")
        choice = f"sampler: {self.choice}" if self.choice else ""
        said = [self.verdict, table, self.note, choice, self.tuning, self.bias, self.agreement]
        if self.bias is None and self.agreement is None:
            said.append("bias report: not available for this sampler or this unfinished run, or left out")
        return "\n".join(str(part) for part in said if part)

    __repr__ = __str__


def table_of(values: np.ndarray, labels: list[str]) -> Summary:
    """Mean, sd, Monte Carlo error, ESS and R-hat of the columns of (chain, draw, column)."""
    import pandas as pd

    if values.shape[1] < LEAST_DRAWS:
        table = {"mean": values.mean(axis=(0, 1)), "sd": values.std(axis=(0, 1))}
        return Summary(pd.DataFrame(table, index=labels), f"{values.shape[1]} {FEW}")
    sd = values.std(axis=(0, 1), ddof=1)
    table = {
        "mean": values.mean(axis=(0, 1)), "sd": sd, "mcse": sd / np.sqrt(convergence.ess(values, "mean")),
        "ess_bulk": convergence.ess(values), "ess_tail": convergence.ess(values, "tail"),
        "r_hat": convergence.rhat(values),
    }  # fmt: skip
    return Summary(pd.DataFrame(table, index=labels))


def intervals_of(values: np.ndarray, labels: list[str], level: float) -> pd.DataFrame:
    """Mean and credible interval of the columns of (chain, draw, column)."""
    import pandas as pd

    draws = values.reshape(-1, len(labels))
    low, high = quantiles(draws, level)
    return pd.DataFrame({"mean": draws.mean(axis=0), "lower": low, "upper": high}, index=labels)


class Trace:
    """The result of ``sample``.

    ``posterior`` is an ``xarray.Dataset`` with dimensions (chain, draw, ...); variables are named by their path in the
    parameters, and chains have their numbers in the run: one that stopped early may lack some. ``ragged`` has the draws
    whose size changes, ``sample_stats`` what the step that made each draw said of itself. ``mean`` and ``variance`` are
    streaming moments of all parameters, kept even when draws are not. ``bias`` is the report on how far the sampled law
    is from the posterior. ``stopped`` says why a run ended early, by its ``kind`` and in words, or is None.
    ``description`` says what ran.
    """

    def __init__(
        self, draws: Draws | Path, count: int, moments: Moments, *, bias: Any = None, stopped: Stop | None = None,
        seconds: float = 0.0, description: Description | None = None, variables: Variables | None = None,
        chains: Sequence[int] | None = None, rows: Sequence[int] | None = None,
        leaves: dict[int, dict[str, np.ndarray]] | None = None,
    ) -> None:  # fmt: skip
        self._draws, self.count, self.moments = draws, count, moments
        self.bias, self.stopped, self.seconds = bias, stopped, seconds
        self.description, self.leaves = description, leaves or {}
        if variables is None:
            arrays = {} if isinstance(draws, Path) else draws
            variables = {name: Variable(a.shape[2:], a.dtype) for name, a in arrays.items()}
        self.variables = variables
        if chains is None:
            chains = range(0 if isinstance(draws, Path) else next((v.shape[0] for v in draws.values()), 0))
        self.chains = list(chains)
        self._rows = self.chains if rows is None else list(rows)  # of the chains in the arrays on disk
        self._stored: xr.Dataset | None = None

    @property
    def tuning(self) -> Any:
        """What ``step_size="auto"`` chose, and why; None if the step size was given."""
        tuned = self.description.tuned if self.description is not None else ()
        return rebuild(tuned[0].report) if len(tuned) == 1 else None

    @property
    def posterior(self) -> xr.Dataset:
        """The draws; those on disk are read when used."""
        return self._of_role("draw")

    @property
    def ragged(self) -> dict[str, Ragged]:
        """The draws whose size changes from draw to draw, by name."""
        names = store.ragged_names(self.variables)
        if isinstance(self._draws, Path):
            wanted = {name: self.variables[name] for name in names}
            return store.read_draws(self._draws, wanted, self.count, self._rows) if wanted else {}
        return {name: self._draws[name] for name in names}

    @property
    def sample_stats(self) -> xr.Dataset:
        """What the last step before each draw said of itself: step size, gradient norm, kinetic energy, ..."""
        return self._of_role("stats", STATS)

    @property
    def gradients(self) -> xr.Dataset | None:
        """Estimates of grad U at the draws, named like the parameters, if the run kept them."""
        found = self._of_role("gradient", GRADIENT)
        return found if found.data_vars else None

    def _of_role(self, role: str, prefix: str = "") -> xr.Dataset:
        """What was stored in a role, without the prefix of its names."""
        names = {n: n.removeprefix(prefix) for n, v in self.variables.items() if v.role == role and not v.ragged}
        found = self._dataset[list(names)]
        return found.rename(names) if prefix else found

    @property
    def _dataset(self) -> xr.Dataset:
        """Everything that was stored with a fixed size; the coordinate ``chain`` has the numbers of the chains."""
        if self._stored is None:
            import xarray as xr

            fixed = {name: variable for name, variable in self.variables.items() if not variable.ragged}
            named = store.dimensions(self.variables)
            if isinstance(self._draws, Path):
                found = store.open_draws(self._draws, fixed, self._rows, self.count)
            else:
                held = self._draws
                found = xr.Dataset({name: (("chain", "draw", *named[name]), held[name]) for name in fixed})
            coordinates = {"chain": self.chains, "draw": np.arange(self.count)} if fixed else {"chain": [], "draw": []}
            named_axes = {} if self.description is None else self.description.coords
            sizes = {dim: int(n) for dim, n in found.sizes.items()}
            coordinates |= {d: list(v) for d, v in named_axes.items() if sizes.get(d) == len(v)}
            self._stored = found.assign_coords(coordinates).assign_attrs(inference_library="scirocco")
        return self._stored

    @property
    def mean(self) -> dict[str, np.ndarray]:
        """The posterior mean of every parameter over all chains, from streaming moments."""
        return self.moments.shown().pooled()[0]

    @property
    def variance(self) -> dict[str, np.ndarray]:
        """The posterior variance of every parameter over all chains, from streaming moments."""
        return self.moments.shown().pooled()[1]

    def predict(
        self, function: Callable[[Any, Any], Any], data: Any, *, quantiles: Sequence[float] = LEVELS,
        draws: int | None = 1000, keep: bool = False,
    ) -> Any:  # fmt: skip
        """Mean, sd and quantiles over draws of ``function(params, row)``, for each row of ``data``.

        Rows come in pieces, from disk too, so that memory is bounded; of more than ``draws`` an even selection is used,
        of all for None. ``keep`` keeps the values of all draws, (draw, row, ...), as well.
        """
        return part_named(PREDICTOR)(self).predict(function, data, quantiles, draws, keep)

    def posterior_predictive(
        self, simulate: Callable[[Any, Any, Any], Any], data: Any, *, quantiles: Sequence[float] = LEVELS,
        draws: int | None = 1000, keep: bool = False, seed: int = 0,
    ) -> Any:  # fmt: skip
        """The same of simulated outcomes: ``simulate(key, params, row)`` draws one for a row."""
        return part_named(PREDICTOR)(self).simulate(simulate, data, quantiles, draws, keep, seed)

    def log_likelihood(self, target: Any, rows: Sequence[int] | None = None) -> xr.DataArray:
        """The log likelihood of each draw and each row, (chain, draw, row), of some ``rows`` or of all."""
        return part_named(PREDICTOR)(self).log_likelihood(target, rows)

    def to_arviz(self, log_likelihood: Any = None, rows: Sequence[int] | None = None) -> Any:
        """``InferenceData`` (ArviZ 0.x) or ``xarray.DataTree`` (1.x), draws and statistics of the steps.

        With a target as ``log_likelihood`` also those of each row, for ``arviz.loo`` (or of some ``rows``).
        """
        groups = {"posterior": self.posterior}
        if log_likelihood is not None:
            groups["log_likelihood"] = self.log_likelihood(log_likelihood, rows).to_dataset(name="row_likelihood")
        return convergence.to_arviz(groups | ({"sample_stats": self.sample_stats} if self.sample_stats else {}))

    def summary(self, var_names: Sequence[str] | str | None = None) -> Summary:
        """Mean, sd, Monte Carlo error, ESS and R-hat by coordinate, and the bias report.

        Of variables with very many coordinates an even selection is shown.
        """

        chosen = self._chosen(var_names)
        if not chosen:
            note = "no draws were stored: moments only"
            return Summary(self.moment_table(), self._noted(note), self.bias, self.tuning, verdict=self.verdict())
        if self.count < LEAST_DRAWS:
            note = f"{self.count} {FEW}"
            return Summary(self.moment_table(), self._noted(note), self.bias, self.tuning, verdict=self.verdict())
        values, labels, note = coordinates(self.posterior[chosen], MAX_ROWS)
        table = table_of(values, labels).table
        choice = "" if self.description is None else self.description.choice
        return Summary(table, self._noted(note), self.bias, self.tuning, verdict=self.verdict(), choice=choice)

    def intervals(self, level: float = 0.9, var_names: Sequence[str] | str | None = None) -> pd.DataFrame:
        """Mean and credible interval by coordinate, of the same coordinates as ``summary``."""
        chosen = self._chosen(var_names)
        if not chosen or not self.count:
            raise ValueError("no draws were stored: there are no intervals")
        return intervals_of(*coordinates(self.posterior[chosen], MAX_ROWS)[:2], level)

    def _chosen(self, var_names: Sequence[str] | str | None) -> list[str]:
        """The names of variables that were asked for; those of all for None."""
        known = [str(name) for name in self.posterior.data_vars]
        chosen = known if var_names is None else [var_names] if isinstance(var_names, str) else list(var_names)
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise ValueError(f"var_names {unknown} are not in the trace; it has {known}")
        return chosen

    def _noted(self, note: str) -> str:
        """A note on a table, with what there is to know of the posterior."""
        known = () if self.description is None else self.description.notes
        return "\n".join(line for line in (note, *known) if line)

    def verdict(self) -> Verdict:
        """Whether to use the result, why, and what to do next.

        It weighs how the run ended, R-hat, the Monte Carlo error of means and of sds, and the bias report. Of variables
        with very many coordinates an even selection is looked at.
        """
        from scirocco.run.trace_verdict import verdict_of

        return verdict_of(self)

    def showing(self, draws: xr.Dataset) -> Trace:
        """The same run with draws, and moments, that a model made of the chains' own: these are shown and judged."""
        made = {str(name): values for name, values in draws.data_vars.items()}
        variables = {name: Variable(v.shape[2:], v.dtype, tuple(map(str, v.dims[2:]))) for name, v in made.items()}
        arrays = {name: v.values for name, v in made.items()}
        said = {name: variable for name, variable in self.variables.items() if variable.role == "stats"}
        return Trace(
            arrays | {name: self._dataset[name].values for name in said}, self.count, Moments.of(arrays),
            bias=self.bias, stopped=self.stopped, seconds=self.seconds, description=self.description,
            variables=variables | said, chains=self.chains, leaves=self.leaves,
        )  # fmt: skip

    def moment_table(self) -> pd.DataFrame:
        """Mean and sd by coordinate from streaming moments, of an even selection where there are very many."""
        import pandas as pd

        mean, variance = self.moments.shown().pooled()
        rows = {}
        for name, values in mean.items():
            step = -(-values.size // MAX_ROWS) or 1
            for k in range(0, values.size, step):
                index = np.unravel_index(k, values.shape)
                rows[self._label(name, index)] = {"mean": values[index], "sd": np.sqrt(variance[name][index])}
        return pd.DataFrame.from_dict(rows, orient="index")

    def _label(self, name: str, index: Any) -> str:
        """The name of a coordinate of a parameter, by the names of entries where axes have any."""
        known = {} if self.description is None else self.description.coords
        dims = store.dimensions(self.variables)[name] if name in self.variables else ()
        if len(dims) != len(index):
            return coordinate(name, index)
        entries = zip(dims, index, self.variables[name].shape, strict=True)
        return coordinate(name, [known[d][k] if len(known.get(d, ())) == n else k for d, k, n in entries])

    def moved(self, before: Trace) -> pd.DataFrame:
        """How far the posterior is from that of an earlier run, parameter by parameter, the farthest first.

        ``moved`` is the difference of the means in sds of ``before``, ``sd_ratio`` the sd over that of then. Both have
        the Monte Carlo error of two runs.
        """
        both = before.moment_table().add_suffix("_before").join(self.moment_table(), how="inner")
        if both.empty:
            raise ValueError("the traces have no parameters in common")
        moved = (both["mean"] - both["mean_before"]) / both["sd_before"]
        table = both[["mean_before", "mean"]].assign(moved=moved, sd_ratio=both["sd"] / both["sd_before"])
        return table.sort_values("moved", key=np.abs, ascending=False)

    def report(self, path: str | Path, *, title: str = "") -> Path:
        """Write a page to look at and to pass on, one file that needs no network; returns its path.

        The verdict and what to do next, what ran, estimates with their errors, draws of the parameters that are known
        worst, the bias report, the cost.
        """
        return part_named(REPORT)(self).write(path, title)

    def _repr_html_(self) -> str:
        return part_named(REPORT)(self).notebook()

    def save(self, path: str | Path) -> None:
        """Write the trace to a folder, as arrays and JSON. A trace that was saved there before is replaced.

        A folder that holds anything else is left alone.
        """
        from scirocco.run.files import save_trace

        save_trace(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """A trace saved by ``save``, or what a run with ``path=`` has made so far, even if it was killed.

        Files that are missing or damaged are an error that names them. Draws up to 256 MB are read and compared with
        the streaming moments; of more, every chunk is checked when it is read.
        """
        from scirocco.run.files import load_trace

        return load_trace(Path(path))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}{list(v.shape[2:])}" for n, v in self.posterior.data_vars.items()) or "no variables"
        end = f", {self.stopped}" if self.stopped else ""
        return f"<Trace: {len(self.chains)} chains, {self.count:,} draws of {shapes}{end}>"


def thinned(posterior: xr.Dataset, limit: int) -> tuple[xr.Dataset, str]:
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
        indices = (np.unravel_index(k, variable.shape[2:]) for k in picks)
        labels = [label_of(posterior, str(name), i).removeprefix(f"{name}[").removesuffix("]") for i in indices]
        chosen[name] = xr.DataArray(
            values, dims=("chain", "draw", f"{name}_at"), coords={f"{name}_at": labels}, attrs={PICKED: picks}
        )
    total, shown = sum(sizes.values()), sum(c.shape[2] for c in chosen.values())
    return xr.Dataset(chosen), f"({shown:,} of {total:,} coordinates shown, evenly spread)"


def coordinates(posterior: xr.Dataset, limit: int) -> tuple[np.ndarray, list[str], str]:
    """Draws of an even selection of coordinates, (chain, draw, coordinate), their names, and what was left out."""
    selected, note = thinned(posterior, limit)
    columns, labels = [], []
    for name, variable in selected.data_vars.items():
        values = variable.transpose("chain", "draw", ...).values
        columns.append(values.reshape(*values.shape[:2], -1).astype(np.float64))
        labels += [label_of(selected, str(name), index) for index in np.ndindex(values.shape[2:])]
    return np.concatenate(columns, axis=2), labels, note


def label_of(posterior: xr.Dataset, name: str, index: tuple[int, ...]) -> str:
    """The name of a coordinate in tables: by the names of entries where axes have any."""
    axes = zip(posterior[name].dims[2:], index, strict=True)
    return coordinate(name, [posterior.coords[dim].values[k] if dim in posterior.coords else k for dim, k in axes])


def coordinate(name: str, index: Sequence[Any]) -> str:
    """The name of a coordinate of a variable: ``w[0, 2]``, or ``w`` alone if it is a number."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
