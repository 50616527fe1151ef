"""``scirocco cluster``: clusters of the rows of a table, from a file to a page."""

from __future__ import annotations

import csv
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from scirocco.command_line.job import HIDDEN, MODEL, PAGE, Job, begin, free_name
from scirocco.command_line.options import Chains, Jobs, Json, MaxSeconds, Out, Quiet, Seed, examples, require_one_of
from scirocco.command_line.outcome import WrongCall, remark, say, show_table
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict

EXAMPLES = examples(
    "cluster survey.csv --leave-out id",
    "cluster customers.parquet --column age --column region --max-seconds 60 --out customers",
    "cluster visits.npz --json > clusters.json",
)
TABLES = (".csv", ".tsv", ".parquet", ".npz")
FEATURES = 5  # of a cluster's profile


@dataclass(frozen=True, kw_only=True)
class Cluster(Job):
    """What ``scirocco cluster`` was asked."""

    name: ClassVar[str] = "cluster"
    options: ClassVar[dict[str, str]] = {"n_chains": "chains", "max_iter": "passes", "max_seconds": "max_seconds"}

    table: str = dataclasses.field(metadata=HIDDEN)
    column: list[str] | None = None
    leave_out: list[str] | None = None
    component: str = "auto"
    passes: int | None = None
    max_seconds: float | None = None
    chains: int = 2
    seed: int = 0
    jobs: int | None = None

    def source(self) -> tuple[str, ...]:
        """The path of the table."""
        return (self.table,)

    def read(self, folder: Path) -> Any:
        """The table, with the columns that are wanted."""
        del folder
        return read_table(Path(self.table), self.column, self.leave_out or [])

    def begin(self, data: Any, path: Path, progress: bool) -> Any:
        """Fit the mixture."""
        import scirocco as sc

        if progress:
            remark(f"{data.shape[0]:,} rows, {data.shape[1]:,} columns")
        counts = self.component == "auto" and not hasattr(data, "columns")
        model = sc.DirichletProcessMixture(
            "multinomial" if counts else self.component, max_iter=self.passes, max_seconds=self.max_seconds,
            n_chains=self.chains, n_jobs=self.jobs, random_state=self.seed, verbose=progress,
        )  # fmt: skip
        return model.fit(data, path=path)

    def verdict(self, result: Any) -> Verdict:
        """Of the clusters."""
        verdict: Verdict = result.verdict()
        return verdict

    def trace(self, result: Any) -> Trace:
        """Of the fit."""
        trace: Trace = result.trace_
        return trace

    def keep(self, result: Any, folder: Path) -> dict[str, str]:
        """The fitted model."""
        result.save(folder / MODEL)
        return {MODEL: "the model, for sc.DirichletProcessMixture.load"}

    def write(self, result: Any, data: Any, folder: Path) -> dict[str, str]:
        """Tables and the page."""
        import pandas as pd

        names = [f"cluster {k}" for k in range(result.membership_.shape[1] - 1)] + ["others"]
        rows = pd.DataFrame(result.membership_, columns=names)
        rows.insert(0, "cluster", result.labels_)
        rows.to_csv(folder / "rows.csv", index_label="row")
        result.cluster_sizes().to_csv(folder / "clusters.csv")
        result.profiles(FEATURES).to_csv(folder / "profiles.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
        result.report(folder / PAGE)
        return {
            PAGE: "the page to look at: how many clusters, what they are, how sure each row is",
            "rows.csv": "the cluster of each row, and its probabilities",
            "clusters.csv": "sizes, with intervals",
            "profiles.csv": "what tells clusters apart",
        }  # fmt: skip

    def facts(self, result: Any) -> dict[str, Any]:
        """Their number and sizes."""
        return {
            "clusters": result.n_clusters_,
            "numbers": {str(k): float(p) for k, p in result.cluster_numbers().items()},
            "sizes": result.cluster_sizes().reset_index().to_dict("records"),
            "labels": result.labels_,
        }  # fmt: skip

    def show(self, result: Any) -> None:
        """How many there are, and of each its size and what it is."""
        numbers = result.cluster_numbers()
        best = numbers.sort_values(ascending=False).head(5)
        say("number of clusters: " + ", ".join(f"{k} ({p:.0%})" for k, p in best.items()), "")
        sizes = result.cluster_sizes().reset_index()
        show_table(list(sizes.columns), sizes.itertuples(index=False))
        say("", result.looked_, result.ended_)


def read_table(path: Path, wanted: list[str] | None, left_out: list[str]) -> Any:
    """A table of a CSV or Parquet file, or a matrix of counts of an ``.npz`` file."""
    from scirocco.core.checks import import_pyarrow
    from scirocco.corpora.text import suffix_of

    if not path.is_file():
        raise WrongCall(f"there is no file {path}")
    kind = suffix_of(path)
    if kind not in TABLES:
        raise WrongCall(f"{path} is none of {', '.join(TABLES)}")
    if kind == ".npz":
        from scirocco.command_line.corpus import blocks_of

        if wanted or left_out:
            raise WrongCall("counts in an .npz file have no columns to choose: leave out --column and --leave-out")
        return next(blocks_of([path]))
    import pandas as pd

    try:
        if kind == ".parquet":
            table = import_pyarrow("pyarrow.parquet").read_table(path).to_pandas()
        else:
            table = pd.read_csv(path, sep="\t" if kind == ".tsv" else ",")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a table: {error}") from error
    table.columns = table.columns.map(str)
    unknown = [name for name in [*(wanted or []), *left_out] if name not in table]
    if unknown:
        raise WrongCall(f"{path} has no column {unknown[0]!r}: it has {', '.join(map(repr, table.columns[:20]))}")
    chosen = [name for name in wanted or table.columns if name not in left_out]
    if not chosen or not len(table):
        raise WrongCall(f"{path} has no {'columns' if not chosen else 'rows'} left")
    return table[chosen]


def cluster(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet, or counts in an .npz of SciPy.",
                                          show_default=False)],
    out: Out = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to look at; all by default. May be repeated.",
                                                     metavar="NAME")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A column to leave out, such as a number of the row. May "
                                                             "be repeated.", metavar="NAME")] = None,
    component: Annotated[str, typer.Option(help="What rows are made of: auto looks at the columns; multinomial, "
                                                "categorical, bernoulli, poisson, gaussian, mixed.")] = "auto",
    passes: Annotated[int | None, typer.Option(min=1, help="Passes over the rows; as many as chains need to agree.")]
    = None,
    max_seconds: MaxSeconds = None, chains: Chains = 2, seed: Seed = 0, jobs: Jobs = None, json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Clusters of the rows of a table.

    How many there are, who belongs where, and what tells them apart. Columns may be numbers, categories,
    yes and no, or counts; entries may be missing.
    """
    from scirocco.models.dp_mixture.mixed import COMPONENTS

    job = Cluster(
        table=str(table.resolve()), column=column or None, leave_out=leave_out or None, component=component,
        passes=passes, max_seconds=max_seconds, chains=chains, seed=seed, jobs=jobs,
    )  # fmt: skip
    require_one_of("component", component, ("auto", *COMPONENTS))
    job.read(Path())
    return begin(job, out or free_name(table.resolve().stem, "clusters"), as_json=json, quiet=quiet)
