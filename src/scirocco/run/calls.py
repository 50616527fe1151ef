"""Runs as code: the call that made one, and the call to make next."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from scirocco.core.parts import public_name
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.description import Description, StepSettings

PART = "sampler"  # the name of what only the caller can write


def part_code(described: Any, otherwise: str = PART) -> str:
    """A part as a user would write it; ``otherwise``, its usual name, for one that only the caller can write."""
    known: Any = None if is_opaque(described) else rebuild(described)
    if type(known).__name__ == "Exact":
        return '"exact"'
    return (None if public_name(known) is None else _written(known)) or otherwise


def _written(value: Any) -> str | None:
    """A setting as code, if it is a plain value or a part with such settings."""
    if isinstance(value, str):
        return json.dumps(value)
    if value is None or isinstance(value, int | float | bool):
        return repr(value)
    name = public_name(value)
    if name is None:
        return None
    given = {}
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        given[field.name] = _written(own)
        if given[field.name] is None:
            return None
        if own == field.default:
            del given[field.name]
    return f"sc.{name}({', '.join(f'{name}={code}' for name, code in given.items())})"


def sampled_again(
    known: Description, changes: Mapping[str, str] | None = None, target: str = "target", initial: str = "initial"
) -> str:  # fmt: skip
    """The call that repeats a run of ``sample``, with these settings changed, where the pieces have their usual names.

    With another sampler its own defaults are the better start: what was set for the old one goes.
    """
    steps, parts, changes = known.settings, known.parts, dict(changes or {})
    assert isinstance(steps, StepSettings), "a run of sample is counted in steps"
    sampler = changes.pop("sampler", None)
    settings = {"num_samples": steps.num_samples, "chains": steps.chains, "seed": steps.seed}
    given = {name: str(value) for name, value in settings.items()}
    if sampler is None:
        exact = not is_opaque(parts.sampler) and getattr(rebuild(parts.sampler), "full_data", False)
        # What tuning has found it finds again, and better with more time.
        left = {"batch_size"} if exact or known.tuned else set()
        left |= {"thin"} if known.tuned and "max_seconds" in changes else set()
        kept = {name: getattr(steps, name) for name in ("burn_in", "thin", "batch_size") if name not in left}
        given |= {name: repr(value) for name, value in kept.items() if value is not None}
        named = {"estimator": parts.estimator, "batching": parts.batching}
        given |= {name: part_code(part, name) for name, part in named.items() if part is not None}
    given |= {"blocks": "blocks"} if parts.blocks else {}
    given |= {"collect": "collect" if parts.collect == "function" else "False"} if parts.collect is not None else {}
    given |= {"gradients": "True"} if parts.gradients else {}
    said = ", ".join(f"{name}={code}" for name, code in (given | changes).items())
    return f"sc.sample({target}, {sampler or part_code(parts.sampler)}, {initial}, {said})"
