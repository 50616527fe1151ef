"""What a command that runs long is asked to do, kept in its folder, and how it is carried out from wherever it stands.

    command.json   what was asked, written before anything else
    run/           draws and checkpoints, a run of the library
    corpus/        of ``topics``, the documents as counts
    results        tables, the page, the fitted model

``resume`` does what is left: it reads what was asked and goes the same way, past what is there.
"""

from __future__ import annotations

import ast
import dataclasses
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from scirocco.command_line.outcome import (
    INTERRUPTED,
    Stopped,
    WrongCall,
    code_of,
    print_json,
    remark,
    say,
    verdict_facts,
    was_stopped,
)
from scirocco.core.interrupt import Interrupt
from scirocco.run.checkpoint import DamagedError, read_json, write_json
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict

HIDDEN = {"shown": False}
"""Of a field that is an argument of the command, or none of its options."""

ASKED, RUN, PAGE, MODEL = "command.json", "run", "report.html", "model.npz"


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """What was asked: the fields of a subclass are values for JSON, and the options of its command by their names."""

    name: ClassVar[str]
    """Of the command."""

    options: ClassVar[dict[str, str]] = {}
    """How the library's settings are called here, for advice."""

    seed: int
    max_seconds: float | None

    @abstractmethod
    def source(self) -> tuple[str, ...]:
        """The arguments of the command."""

    @abstractmethod
    def read(self, folder: Path) -> Any:
        """The data; what is made of them once and for all goes to ``folder``."""

    @abstractmethod
    def begin(self, data: Any, path: Path, progress: bool) -> Any:
        """A new run in ``path``."""

    @abstractmethod
    def verdict(self, result: Any) -> Verdict:
        """Whether to use what came out."""

    @abstractmethod
    def trace(self, result: Any) -> Trace:
        """Its draws."""

    def keep(self, result: Any, folder: Path) -> dict[str, str]:
        """Write what the run does not hold, also of a run that was interrupted; the names of the files."""
        del result, folder
        return {}

    @abstractmethod
    def write(self, result: Any, data: Any, folder: Path) -> dict[str, str]:
        """Write the results, and say what the files are."""

    @abstractmethod
    def facts(self, result: Any) -> dict[str, Any]:
        """The result for a script."""

    @abstractmethod
    def show(self, result: Any) -> None:
        """The result for people."""

    def command(self, out: Path | None = None, **changed: object) -> str:
        """What to type for the same again; with options of the library ``changed``."""
        words = ["scirocco", self.name, *self.source()]
        changed = {self.options[name]: value for name, value in changed.items()}
        for field in dataclasses.fields(self):
            value = changed.get(field.name, getattr(self, field.name))
            if field.metadata.get("shown", True) and value != field.default and value is not None:
                for one in value if isinstance(value, list) else [value]:
                    words += [f"--{field.name.replace('_', '-')}", str(one)]
        return shlex.join([*words, *(() if out is None else ("--out", str(out)))])

    def next_command(self, code: str, folder: Path) -> str:
        """The step that a verdict names as code, as a command; the code itself where there is none."""
        changed = _settings_in(code)
        if not changed or not set(changed) <= set(self.options):
            return code
        if set(changed) == {"max_seconds"}:
            return resume_command(folder, max_seconds=changed["max_seconds"])
        kept = {name: value for name, value in changed.items() if value != getattr(self, self.options[name])}
        return self.command(_another(folder), **kept)


def resume_command(folder: Path, **options: object) -> str:
    """What to type to go on."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(["scirocco", "resume", str(folder), *words])


def _another(folder: Path) -> Path:
    """A folder that is free."""
    return next(place for k in range(2, 1000) if not (place := folder.with_name(f"{folder.name}-{k}")).exists())


def _settings_in(code: str) -> dict[str, Any] | None:
    """The settings that an action gives by name, as values; None where it has others."""
    try:
        found: list[ast.Call] = []
        node: ast.AST = ast.parse(code, mode="eval").body
        while isinstance(node, ast.Call | ast.Attribute):  # model.set_params(...).fit(X), but no sampler's settings
            found += [node] if isinstance(node, ast.Call) else []
            node = node.func if isinstance(node, ast.Call) else node.value
        return {k.arg or "": ast.literal_eval(k.value) for call in found for k in call.keywords}
    except (SyntaxError, ValueError):
        return None


# The folder.


def begin(job: Job, folder: Path, *, as_json: bool, quiet: bool) -> int:
    """Carry out what was asked, in a new folder; what fails before the run has begun leaves nothing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        goes_on = f", or go on with it: {resume_command(folder)}" if (folder / ASKED).is_file() else ""
        raise WrongCall(f"{folder} is not empty: give another folder with --out{goes_on}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / ASKED, {"command": job.name, **dataclasses.asdict(job)})
    try:
        return carry_out(job, folder, as_json=as_json, quiet=quiet)
    except Exception as error:
        if not isinstance(error, Stopped) and not (folder / RUN / "run.json").is_file():
            shutil.rmtree(folder)
        raise


def asked(folder: Path, kinds: dict[str, type[Job]]) -> Job | None:
    """What the folder of a command was asked; None if it is none."""
    place = folder / ASKED
    if not place.is_file():
        return None
    content = read_json(place)
    kind = kinds.get(content.pop("command", ""))
    try:
        if kind is not None:
            return kind(**content)
    except TypeError:
        pass
    raise DamagedError(f"{place} is not of a command that this version of scirocco knows: start it again")


def carry_out(
    job: Job, folder: Path, *, as_json: bool, quiet: bool, max_seconds: float | None = None
) -> int:  # fmt: skip
    """Do what is left to do; the exit code."""
    try:
        data = job.read(folder)
        # SIGTERM takes its course at the end of this block: what is to be said then is said in it.
        with Interrupt():
            result = attempt(lambda: _run(job, data, folder / RUN, max_seconds, progress=not quiet))
            files = job.keep(result, folder)
            if was_stopped(job.trace(result)):
                return _stopped(folder, job.trace(result), as_json=as_json)
        files |= job.write(result, data, folder)
    except KeyboardInterrupt:
        raise Stopped(how_to_go_on(folder)) from None
    verdict = job.verdict(result)
    verdict = dataclasses.replace(verdict, action=job.next_command(verdict.action, folder))
    facts = {"command": job.name, "folder": folder, **verdict_facts(verdict), **ending(job.trace(result))}
    if as_json:
        print_json(facts | job.facts(result) | {"files": {name: folder / name for name in files}})
    else:
        say(verdict, "")
        job.show(result)
        say("", f"{folder}:", *(f"  {name:14} {what}" for name, what in files.items()))
    return code_of(verdict)


def attempt(run: Callable[[], Any]) -> Any:
    """A run; of one that diverged what it had made."""
    from scirocco.run import DivergenceError

    try:
        return run()
    except DivergenceError as error:
        remark(f"error: {error}")
        return error.trace


def _run(job: Job, data: Any, path: Path, max_seconds: float | None, *, progress: bool) -> Any:
    import scirocco as sc

    if (path / "run.json").is_file():
        return sc.resume(path, data, max_seconds=max_seconds, progress=progress)
    begun = job if max_seconds is None else dataclasses.replace(job, max_seconds=max_seconds)
    return begun.begin(data, path, progress)


def ending(trace: Trace) -> dict[str, Any]:
    """How a run ended, for a script."""
    stopped = trace.stopped
    return {
        "chains": len(trace.chains), "draws": trace.count, "seconds": round(trace.seconds, 3),
        "stopped": None if stopped is None else {"kind": stopped.kind, "text": stopped.text},
    }  # fmt: skip


def how_to_go_on(folder: Path) -> str:
    """The words after Ctrl-C."""
    return f"stopped, and nothing is lost; to go on: {resume_command(folder)}"


def _stopped(folder: Path, trace: Trace, *, as_json: bool) -> int:
    if as_json:
        print_json({"folder": folder, **ending(trace), "resume": resume_command(folder)})
    remark(f"{trace.stopped}; {trace.count:,} draws of each chain so far")
    remark(how_to_go_on(folder))
    return INTERRUPTED


def free_name(stem: str, kind: str) -> Path:
    """A folder in the current one for what was given no other: numbered where there is one of that name."""
    first = Path(f"{stem}-{kind}")
    return first if not first.exists() else _another(first)
