"""Traces on disk: what a run has written so far, or what ``Trace.save`` wrote."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.core.parts import name_of, part_named
from scirocco.run import checkpoint, store
from scirocco.run.description import Description, PassSettings, Settings, ShardSettings, Stop
from scirocco.run.folder import FILES, NAME, REPORT, group_folder, group_folders, read_description
from scirocco.run.group import FACTS, SAVED_FACTS
from scirocco.run.moments import Moments
from scirocco.run.ragged import concatenated
from scirocco.run.result import GroupResult, trace_of
from scirocco.run.second_half import SecondHalf
from scirocco.run.store import Draws
from scirocco.run.trace import Trace

CHECKED_BYTES = 2**28  # of draws that ``load`` reads to compare them with the streaming moments
UNFINISHED = Stop("unfinished", "the run is not at its end: it goes on, or scirocco.resume goes on with it")


def load_trace(folder: Path) -> Trace:
    """What a folder holds of one posterior."""
    description = read_description(folder)
    if isinstance(description.settings, ShardSettings):
        raise ValueError(
            f"{folder} holds posteriors of shards of the data, not draws of one posterior: use scirocco.Sharded.load"
        )
    return read_trace(folder, description)


def read_trace(folder: Path, description: Description) -> Trace:
    """The trace of all groups of chains in a folder."""
    if description.saved_chains is not None:
        return _read_saved(folder, description)
    found = {first: checkpoint.read(place, FACTS) for first, place in group_folders(folder).items()}
    groups = [_group(folder, description, first, *read) for first, read in found.items()]
    facts = [facts for _, facts in found.values()]
    finished = bool(facts) and all(f["finished"] for f in facts)
    stopped = next((Stop(*f["stopped"]) for f in facts if f["stopped"]), None) if finished else UNFINISHED
    trace = trace_of(
        groups, description, folder, bias=_report(folder) if finished else None, stopped=stopped,
        seconds=max((f["seconds"] for f in facts), default=0.0),
    )  # fmt: skip
    if finished and all(group.on_disk and group.count == trace.count for group in groups):
        _compare(trace, folder)
    return trace


def _group(
    folder: Path, description: Description, first: int, arrays: checkpoint.Arrays, facts: dict[str, Any]
) -> GroupResult:
    """What the checkpoint of a group and the folder hold of its draws."""
    variables, chains = description.variables, range(first, first + facts["chains"])
    moments = Moments(facts["moment_count"], checkpoint.part(arrays, "mean"), checkpoint.part(arrays, "square"))
    common = {"leaves": checkpoint.part(arrays, "leaves"), "newest": facts["newest"]}
    if facts["finished"]:
        count = facts["stored"]
        store.verify(folder, variables, count, chains)
        read = partial(store.read_draws, folder, variables, count, chains)
        return GroupResult(chains, count, moments, read, on_disk=True, **common)
    waiting = checkpoint.part(arrays, "store")
    if facts["newest"]:
        half = SecondHalf(facts["draws"], variables)
        half.unpack(waiting)
        return GroupResult(chains, facts["draws"], half.moments(), half.draws, **common)
    store.verify(folder, variables, facts["written"], chains)

    def together() -> Draws:
        done = store.read_draws(folder, variables, facts["written"], chains)
        tail = store.unpacked(waiting, variables)
        return {name: concatenated([done[name], tail[name]]) for name in variables}

    return GroupResult(chains, facts["draws"], moments, together, **common)


def _read_saved(folder: Path, description: Description) -> Trace:
    arrays, facts = checkpoint.read(group_folder(folder, 0), SAVED_FACTS)
    variables, rows = description.variables, range(facts["chains"])
    store.verify(folder, variables, facts["draws"], rows)
    moments = Moments(facts["moment_count"], checkpoint.part(arrays, "mean"), checkpoint.part(arrays, "square"))
    stopped = Stop(*facts["stopped"]) if facts["stopped"] else None
    trace = Trace(
        folder, facts["draws"], moments, bias=_report(folder), stopped=stopped, seconds=facts["seconds"],
        description=description, variables=variables, chains=description.saved_chains, rows=rows,
    )  # fmt: skip
    _compare(trace, folder)
    return trace


def _report(folder: Path) -> Any:
    if not checkpoint.exists(folder / REPORT):
        return None
    arrays, facts = checkpoint.read(folder / REPORT, {"type": str})
    return part_named(facts["type"]).from_arrays(arrays)  # type: ignore[attr-defined]


def write_report(folder: Path, report: Any) -> None:
    """Keep what an engine says of a run."""
    checkpoint.write(folder / REPORT, report.to_arrays(), {"type": name_of(type(report))})


def _compare(trace: Trace, folder: Path) -> None:
    """Draws against the streaming moments, which never were on the same page of the disk.

    What a function collected is another quantity, whatever its name, and so are the expectations of a run of passes.
    """
    stored, known = trace.posterior, trace.description
    other = known is not None and (known.parts.collect == "function" or isinstance(known.settings, PassSettings))
    if other or stored.nbytes > CHECKED_BYTES or trace.count != trace.moments.count:
        return
    for name, mean in trace.moments.mean.items():
        if name not in stored or stored[name].shape[2:] != mean.shape[1:]:
            continue
        values = stored[name].values.astype(np.float64)
        spread = np.sqrt(trace.moments.variance()[name])
        slack = 1e-3 * spread + 1e-4 * np.abs(mean) + np.finfo(np.float32).tiny
        if not np.all(np.abs(values.mean(axis=1) - mean) <= slack):
            raise checkpoint.DamagedError(
                f"{folder / store.DRAWS / name} does not agree with the moments that were kept while it was "
                "written: restore it from a copy, or delete the run and start it again"
            )


def save_trace(trace: Trace, folder: Path) -> None:
    """Write a trace to a folder that is empty or holds nothing but a trace that was saved before."""
    _require_replaceable(folder)
    store.require_storable(trace.variables)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))  # nobody else's
    try:
        _write_saved(trace, aside / "new")
        if folder.exists():
            folder.rename(aside / "old")
        (aside / "new").rename(folder)
    finally:
        if (aside / "old").exists() and not folder.exists():  # the new trace did not get there
            (aside / "old").rename(folder)
        shutil.rmtree(aside, ignore_errors=True)


def _write_saved(trace: Trace, folder: Path) -> None:
    variables, chains = trace.variables, len(trace.chains) or len(next(iter(trace.moments.mean.values()), ()))
    held: Draws = {name: trace._dataset[name].values for name, v in variables.items() if not v.ragged}
    store.make_arrays(folder, variables, chains, max(1, chains), max(1, trace.count))
    kept = store.ZarrStore(folder, variables, range(chains))
    kept.append({**held, **trace.ragged})
    kept.finish()
    arrays = {f"mean/{name}": a for name, a in trace.moments.mean.items()}
    arrays |= {f"square/{name}": a for name, a in trace.moments.square.items()}
    facts = {
        "chains": chains, "draws": trace.count, "moment_count": trace.moments.count, "seconds": trace.seconds,
        "stopped": trace.stopped and [trace.stopped.kind, trace.stopped.text],
    }  # fmt: skip
    checkpoint.write(group_folder(folder, 0), arrays, facts)
    if trace.bias is not None:
        write_report(folder, trace.bias)
    known = trace.description or Description("", Settings(0, max(1, chains)))
    numbers = tuple(trace.chains) or tuple(range(chains))
    described = replace(known, variables=variables, saved_chains=numbers)
    checkpoint.write_json(folder / NAME, described.to_json())


def _require_replaceable(folder: Path) -> None:
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise FileExistsError(f"{folder} is not a folder; it is left alone")
    names = sorted(p.name for p in folder.iterdir())
    if not names:
        return
    if NAME not in names:
        raise FileExistsError(f"{folder} exists and is not a scirocco trace; it is left alone")
    if read_description(folder).saved_chains is None:
        raise FileExistsError(f"{folder} holds a run that can be resumed; save the trace to another folder")
    strange = [name for name in names if not re.fullmatch(FILES, name)]
    if strange:
        raise FileExistsError(
            f"{folder} holds {strange[0]!r}, which is no part of a trace; it is left alone: save the trace to another "
            "folder"
        )
