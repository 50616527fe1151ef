"""``scirocco resume``, ``info`` and ``report``: what became of a run, of the command line or of the library."""

from __future__ import annotations

import dataclasses
import json as json_of_python
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from scirocco.command_line.cluster import Cluster
from scirocco.command_line.job import (
    ASKED,
    MODEL,
    PAGE,
    RUN,
    Job,
    asked,
    attempt,
    carry_out,
    ending,
    resume_command,
)
from scirocco.command_line.objects import object_named
from scirocco.command_line.options import Folder, Json, Quiet, examples, positive
from scirocco.command_line.outcome import (
    INTERRUPTED,
    WrongCall,
    code_of,
    print_json,
    remark,
    say,
    verdict_facts,
    was_stopped,
)
from scirocco.command_line.sample import Sample
from scirocco.command_line.topics import Topics
from scirocco.core.interrupt import Interrupt
from scirocco.run.description import CodeSettings, Description, PassSettings, ShardSettings, StepSettings
from scirocco.run.folder import read_description
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict

RESUME_EXAMPLES = examples(
    "resume articles-topics", "resume articles-topics --max-seconds 600",
    "resume run my_model:target      # a run that was started from Python",
)  # fmt: skip
INFO_EXAMPLES = examples("info articles-topics", "info run --json", "info model.npz")
REPORT_EXAMPLES = examples("report articles-topics", "report run --to run.html")
JOBS: dict[str, type[Job]] = {job.name: job for job in (Topics, Cluster, Sample)}
MODELS = {Topics: "LDA", Cluster: "DirichletProcessMixture"}


@dataclass(frozen=True)
class Place:
    """What a folder (or the file of a model) holds."""

    path: Path
    job: Job | None
    """What was asked on the command line."""

    @classmethod
    def of(cls, path: Path) -> Place:
        """Look at it; anything else than a run, a saved trace or a model is a wrong call."""
        if not path.exists():
            raise WrongCall(f"there is no {path}")
        if path.is_file():
            if path.suffix != ".npz":
                raise WrongCall(f"{path} is no run, and no saved model")
            return cls(path, None)
        job = asked(path, JOBS)
        if job is None and not (path / "run.json").is_file():
            raise WrongCall(f"{path} holds no run of scirocco: it has neither {ASKED} nor run.json")
        return cls(path, job)

    @property
    def run(self) -> Path:
        """The folder of the run itself."""
        return self.path / RUN if self.job is not None else self.path

    @property
    def description(self) -> Description | None:
        """What ran; None if nothing did yet."""
        if self.path.is_file() or not (self.run / "run.json").is_file():
            return None
        return read_description(self.run)

    def told(self, verdict: Verdict | None) -> Verdict | None:
        """A verdict whose next step is a command, where the run was begun by one."""
        if verdict is None or self.job is None:
            return verdict
        return dataclasses.replace(verdict, action=self.job.next_command(verdict.action, self.path))

    def trace(self) -> Trace | None:
        """What there is so far; None if nothing is."""
        known = self.description
        return None if known is None or isinstance(known.settings, ShardSettings) else Trace.load(self.run)

    def model(self) -> Any:
        """The fitted model, where one was kept."""
        from scirocco import models

        if self.path.is_file():
            return getattr(models, _model_in(self.path)).load(self.path)
        if self.job is None or not (self.path / MODEL).is_file():
            return None
        return getattr(models, MODELS[type(self.job)]).load(self.path / MODEL)


def _model_in(path: Path) -> str:
    """The class of a saved model."""
    import numpy as np

    from scirocco import models

    try:
        with np.load(path, allow_pickle=False) as stored:
            name = json_of_python.loads(stored["meta"].tobytes())["model"]
    except Exception:  # of the archive, of JSON: whatever it is, it is no model
        raise WrongCall(f"{path} is no saved model") from None
    if name not in models.__all__:
        raise WrongCall(f"{path} is of a model {name!r} that this version of scirocco does not have")
    return str(name)


def resume(
    folder: Folder,
    data: Annotated[str | None, typer.Argument(help="module:name of the target or the data, for a run that was started "
                                                    "from Python.", show_default=False)] = None,
    outcomes: Annotated[str | None, typer.Option("--y", help="module:name of the outcomes, of a model that has any.",
                                                 metavar="NAME")] = None,
    max_seconds: Annotated[float | None, typer.Option(callback=positive, metavar="S", help="A new budget of time, "
                                                      "counted from the beginning of the run.")] = None,
    json: Json = False, quiet: Quiet = False,
) -> int:  # fmt: skip
    """Go on with what was interrupted or killed.

    Bit for bit as if it had never stopped. With a larger budget of time also with what has ended.
    """
    place = Place.of(folder)
    if place.job is not None:
        if data is not None or outcomes is not None:
            raise WrongCall(f"{folder} knows its data: leave {data or outcomes} out")
        return carry_out(place.job, folder, as_json=json, quiet=quiet, max_seconds=max_seconds)
    known = place.description
    if known is None or known.saved_chains is not None:
        raise WrongCall(f"{folder} is a result, not a run that can go on")
    if data is None:
        what = "target" if not known.of_model else "X"
        raise WrongCall(
            f"{folder} was started from Python, and runs hold no data: scirocco resume {folder} module:{what}"
        )
    return _resume_library(place, object_named(data), outcomes, max_seconds, as_json=json, quiet=quiet)


def _resume_library(
    place: Place, data: Any, outcomes: str | None, max_seconds: float | None, *, as_json: bool, quiet: bool
) -> int:  # fmt: skip
    import scirocco as sc

    data = data() if callable(data) and not isinstance(data, sc.Target) else data
    y = None if outcomes is None else object_named(outcomes)
    with Interrupt():
        result = attempt(lambda: sc.resume(place.path, data, y, max_seconds=max_seconds, progress=not quiet))
        trace = result if isinstance(result, Trace) else getattr(result, "trace_", None)
        if trace is not None and was_stopped(trace):
            remark(f"{trace.stopped}; nothing is lost: the same command goes on")
            return INTERRUPTED
    verdict = result.verdict()
    if as_json:
        print_json({"folder": place.path, **verdict_facts(verdict), **({} if trace is None else ending(trace))})
    else:
        say(verdict, "", result.summary())
    return code_of(verdict)


def info(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or the file of a model.", metavar="DIR",
                                           show_default=False)],
    json: Json = False,
) -> int:  # fmt: skip
    """What a run is, how far it is, and its verdict."""
    place = Place.of(folder)
    known, trace, model = place.description, place.trace(), place.model()
    verdict = place.told(_verdict(known, trace, model))
    facts: dict[str, Any] = {"folder": folder, **_what(place, known, model), **_how_far(known, trace)}
    if json:
        print_json(facts | verdict_facts(verdict))
        return code_of(verdict)
    say(f"{folder}: {facts['what']}")
    for name, value in facts.items():
        if name not in ("folder", "what", "finished") and value not in (None, {}):
            say(f"  {name.replace('_', ' '):13} {_in_words(value)}")
    say(verdict if verdict is not None else "verdict: not yet known")
    if place.job is not None and (trace is None or trace.stopped is not None):
        say(f"to go on: {resume_command(folder)}")
    return code_of(verdict)


def _what(place: Place, known: Description | None, model: Any) -> dict[str, Any]:
    """What a run is."""
    from scirocco.report.posterior import sizes_of

    facts: dict[str, Any] = {"what": "a run"}
    if place.job is not None:
        facts = {"what": f"scirocco {place.job.name}", "command": place.job.command()}
    elif known is not None and known.saved_chains is not None:
        facts = {"what": "a saved trace"}
    elif known is None:
        facts = {"what": f"a fitted {type(model).__name__}"}
    if known is None:
        return facts
    settings = known.settings
    facts["kind"] = _kind(known)
    facts["sampler"] = settings.sampler if isinstance(settings, PassSettings) else _name(known.parts.sampler)
    facts["data"] = sizes_of(known.data)
    facts["seed"], facts["chains"] = settings.seed, settings.chains
    facts["software"] = {"scirocco": known.software.scirocco, "jax": known.software.jax, "numpy": known.software.numpy}
    return facts


def _kind(known: Description) -> str:
    if known.model is not None:
        return known.model.name
    if isinstance(known.settings, ShardSettings):
        return "sample_shards"
    return "sample_dirichlet" if isinstance(known.settings, CodeSettings) else "sample"


def _name(described: Any) -> str | None:
    """The name of a part, of its description."""
    from scirocco.run.describe import is_opaque, rebuild

    return None if described is None or is_opaque(described) else type(rebuild(described)).__name__


def _how_far(known: Description | None, trace: Trace | None) -> dict[str, Any]:
    """How far a run is, and why it ended."""
    if trace is None or known is None:
        return {}
    wanted = known.settings.num_samples if isinstance(known.settings, StepSettings) else None
    ended = "all done" if trace.stopped is None else str(trace.stopped)
    return {
        "draws": trace.count, "draws_wanted": wanted, "seconds": round(trace.seconds, 3),
        "max_seconds": known.options.max_seconds, "finished": trace.stopped is None, "ended": ended,
    }  # fmt: skip


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(v)}" for name, v in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _verdict(known: Description | None, trace: Trace | None, model: Any) -> Verdict | None:
    """That of the model, or of the draws where their numbers mean the same in all chains."""
    if model is not None:
        own: Verdict = model.verdict()
        return own
    labelled = known is None or isinstance(known.settings, PassSettings)  # topics and clusters have no order
    return None if trace is None or labelled else trace.verdict()


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or the file of a model.", metavar="DIR",
                                           show_default=False)],
    to: Annotated[Path | None, typer.Option(help="The file; by default report.html in the folder of a command, "
                                                 "otherwise NAME.html in the current one.", metavar="FILE")] = None,
    title: Annotated[str, typer.Option(help="Above the page.")] = "",
    json: Json = False,
) -> int:  # fmt: skip
    """Write the page of a result.

    One file to look at and to pass on, also of a run that is not at its end.
    """
    place = Place.of(folder)
    path = to or (folder / PAGE if place.job is not None else Path(f"{folder.resolve().stem}.html"))
    model, trace = place.model(), place.trace()
    if model is None and trace is None:
        raise WrongCall(f"{folder} has no draws yet: {resume_command(folder)} goes on with it")
    if model is not None:
        if trace is not None:
            model.trace_ = trace
        given = place.job.given(place.job.read(folder)) if isinstance(place.job, Topics) else {}
        model.report(path, title=title, **given)
        verdict = model.verdict()
    else:
        trace.report(path, title=title)  # type: ignore[union-attr]
        verdict = trace.verdict()  # type: ignore[union-attr]
    verdict = place.told(verdict)
    if json:
        print_json({"folder": folder, "report": path, **verdict_facts(verdict)})
    else:
        say(verdict, "", path)
    return code_of(verdict)
