"""``scirocco sample module:target``: the posterior of a target of the user's own."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from scirocco.command_line.job import HIDDEN, PAGE, Job, begin, free_name
from scirocco.command_line.objects import module_named, object_named
from scirocco.command_line.options import Json, MaxSeconds, Out, Quiet, Seed, examples
from scirocco.command_line.outcome import WrongCall, say, show_table
from scirocco.run.calls import part_code
from scirocco.run.describe import describe
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict

EXAMPLES = examples(
    "sample model:target",
    "sample model:make_target --initial model:start --sampler SGHMC --draws 5000 --out run",
    "sample model:target --max-seconds 60 --json > result.json",
)
INITIAL = "initial"
NUMBERS = ("mean", "sd", "mcse", "ess_bulk", "r_hat")


@dataclass(frozen=True, kw_only=True)
class Sample(Job):
    """What ``scirocco sample`` was asked."""

    name: ClassVar[str] = "sample"
    options: ClassVar[dict[str, str]] = {
        "num_samples": "draws", "burn_in": "burn_in", "thin": "thin", "chains": "chains", "seed": "seed",
        "batch_size": "batch_size", "max_seconds": "max_seconds",
    }  # fmt: skip

    target: str = dataclasses.field(metadata=HIDDEN)
    directory: str = dataclasses.field(metadata=HIDDEN)
    initial: str | None = None
    sampler: str | None = None
    draws: int = 1000
    burn_in: int = 1000
    thin: int | None = None
    batch_size: int | None = None
    max_seconds: float | None = None
    chains: int = 4
    seed: int = 0

    def source(self) -> tuple[str, ...]:
        """The name of the target."""
        return (self.target,)

    def read(self, folder: Path) -> Any:
        """The target, imported from the folder where the command was first given, which must be the current one."""
        from scirocco.target import Target

        del folder
        if Path.cwd() != Path(self.directory):
            raise WrongCall(f"{self.target} is imported from {self.directory}: change to that folder first")
        target = object_named(self.target)
        if callable(target) and not isinstance(target, Target):
            target = target()
        if not isinstance(target, Target):
            raise WrongCall(f"{self.target} must be an sc.Target, or a function that makes one; it is {target!r:.80}")
        return target

    def check(self) -> None:
        """Reject what cannot be run, before a folder is made."""
        self._sampler()
        self._initial(self.read(Path()))

    def begin(self, data: Any, path: Path, progress: bool) -> Any:
        """Sample the posterior."""
        import scirocco as sc

        return sc.sample(
            data, self._sampler(), self._initial(data), num_samples=self.draws, burn_in=self.burn_in, thin=self.thin,
            batch_size=self.batch_size, chains=self.chains, seed=self.seed, max_seconds=self.max_seconds, path=path,
            progress=progress,
        )  # fmt: skip

    def _sampler(self) -> Any:
        """A sampler with automatic settings by its name, or one of the user's own."""
        from scirocco import samplers

        if self.sampler is None or ":" in self.sampler:
            return None if self.sampler is None else object_named(self.sampler)
        known = {name.lower(): kind for name in samplers.__all__ if isinstance(kind := getattr(samplers, name), type)
                 and issubclass(kind, samplers.Sampler) and kind is not samplers.Sampler
                 and _needed(kind) <= {"step_size"}}  # fmt: skip
        chosen: Any = known.get(self.sampler.lower())
        if chosen is None:
            names = ", ".join(sorted(kind.__name__ for kind in known.values()))
            raise WrongCall(f"--sampler {self.sampler} is none of {names}, nor module:name of one of your own")
        return chosen(step_size="auto") if _needed(chosen) else chosen()

    def _initial(self, target: Any) -> Any:
        """Where chains start: what was named, the name ``initial`` of the target's module, or what the target knows."""
        if self.initial is not None:
            return object_named(self.initial)
        start = getattr(module_named(self.target), INITIAL, None)
        if start is None and target.change.start is None:
            module = self.target.partition(":")[0]
            raise WrongCall(
                f"{module} has no {INITIAL!r}, where chains start: define it, or give --initial module:name"
            )
        return start

    def next_command(self, code: str, folder: Path) -> str:
        """With the sampler that the code has, where that is the one there was, or has a name."""
        if not code:
            return code
        call: Any = ast.parse(code, mode="eval").body
        sampler = call.args[1]
        for name in (self.sampler, getattr(getattr(sampler, "func", None), "attr", None)):
            asked = dataclasses.replace(self, sampler=name)
            try:
                same = ast.parse(part_code(describe(asked._sampler())), mode="eval").body
            except WrongCall:
                continue
            if ast.dump(same) == ast.dump(sampler):
                return Job.next_command(asked, code, folder)
        return code

    def verdict(self, result: Any) -> Verdict:
        """Of the trace."""
        verdict: Verdict = result.verdict()
        return verdict

    def trace(self, result: Any) -> Trace:
        """The trace is the result."""
        trace: Trace = result
        return trace

    def write(self, result: Any, data: Any, folder: Path) -> dict[str, str]:
        """The table and the page."""
        result.summary().table.to_csv(folder / "summary.csv", index_label="parameter")
        result.report(folder / PAGE)
        return {
            PAGE: "the page to look at: verdict, estimates, draws, cost",
            "summary.csv": "mean, sd, Monte Carlo error, ESS and R-hat of each parameter",
            "run": "the draws, for sc.Trace.load",
        }  # fmt: skip

    def facts(self, result: Any) -> dict[str, Any]:
        """The parameters."""
        return {"parameters": parameters(result)}

    def show(self, result: Any) -> None:
        """The parameters, and what there is to know of them."""
        show_parameters(result)


def _needed(sampler: Any) -> set[str]:
    """The settings of a sampler that have no default."""
    return {field.name for field in dataclasses.fields(sampler) if field.default is dataclasses.MISSING}


def parameters(trace: Trace) -> list[dict[str, Any]]:
    """Means and the like, parameter by parameter."""
    return [{"name": str(name)} | {str(k): v for k, v in row.items()}
            for name, row in trace.summary().table.to_dict("index").items()]  # fmt: skip


def show_parameters(trace: Trace) -> None:
    """The same as a table."""
    summary = trace.summary()
    columns = [name for name in NUMBERS if name in summary.table]
    rows = [
        [name, *map(float, row)] for name, row in zip(summary.table.index, summary.table[columns].values, strict=True)
    ]
    show_table(["parameter", *columns], rows)
    if summary.note:
        say(summary.note)
    if trace.stopped is not None:
        say(trace.stopped)


def sample(
    target: Annotated[str, typer.Argument(help="module:target: an sc.Target, or a function that makes one, of a "
                                               "module in the current folder.", show_default=False)],
    out: Out = None,
    initial: Annotated[str | None, typer.Option(help="module:name of where chains start; by default the name "
                                                     "'initial' of the target's module.", metavar="NAME")] = None,
    sampler: Annotated[str | None, typer.Option(help="SGLD, SGHMC, NUTS, ... with automatic settings, or module:name "
                                                     "of one of your own. By default the cost of gradients decides.",
                                                metavar="NAME")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws to keep of each chain.")] = 1000,
    burn_in: Annotated[int, typer.Option(min=0, help="Steps before the first of them.")] = 1000,
    thin: Annotated[int | None, typer.Option(min=1, help="Steps from draw to draw.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows of a minibatch.")] = None,
    max_seconds: MaxSeconds = None,
    chains: Annotated[int, typer.Option(min=1, help="Chains; with several it is known whether they agree.")] = 4,
    seed: Seed = 0, json: Json = False, quiet: Quiet = False,
) -> int:  # fmt: skip
    """The posterior of your own model, from minibatches.

    The module is Python code of yours, imported from the current folder: it writes the log prior and the log likelihood
    and makes the target.
    """
    job = Sample(
        target=target, directory=str(Path.cwd()), initial=initial, sampler=sampler, draws=draws, burn_in=burn_in,
        thin=thin, batch_size=batch_size, max_seconds=max_seconds, chains=chains, seed=seed,
    )  # fmt: skip
    job.check()
    return begin(job, out or free_name(target.partition(":")[0].rpartition(".")[2], "run"), as_json=json, quiet=quiet)
