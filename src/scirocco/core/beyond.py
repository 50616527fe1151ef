"""Values that come from beyond the end of an array: JAX takes its last entry in place of one that is not there.

    p[row["group"]]    with groups 1, ..., J counted from one: group J has the entry of group J - 1, in silence

A function is evaluated twice, the second time with another number in place of entries that are not there: where the two
differ, the value depends on one. What is read and then masked away does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jax.extend.core.primitives import gather_p
from jax.lax import GatherScatterMode

from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Data

STRANGE = 1e4  # in place of a number that is not there; of an index, one that is beyond the end as well
NEAR = 1e-3  # relative difference of values that is rounding
CLAMPED = GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS
MOST = 10  # whole numbers of a row in a message
BEYOND = (
    "depends on an entry beyond the end of an array, for which JAX takes the last one in silence: codes of n groups "
    "are 0, ..., n - 1; if that is meant, write jnp.clip"
)


def beyond(function: Callable[..., Array], *arguments: Any) -> tuple[Array, Array]:
    """The values of a function, and which of them depend on entries beyond the end of an array."""
    values = function(*arguments)
    plain = jax.make_jaxpr(function)(*arguments)
    marked = _marked(plain.jaxpr)
    if marked is plain.jaxpr:
        return values, jnp.zeros(values.shape, bool)
    (others,) = jaxpr_as_fun(ClosedJaxpr(marked, plain.consts))(*jax.tree.leaves(arguments))
    return values, ~jnp.isclose(values, others, rtol=NEAR, atol=NEAR, equal_nan=True)


def extremes(rows: Data) -> dict[str, tuple[int, int]]:
    """The rows that have the least and the largest number, by column."""
    found = {}
    for name, column in named_leaves(rows, bare="data").items():
        flat = np.asarray(column).reshape(len(column), -1)
        if flat.size:
            width = flat.shape[1]
            found[name] = (int(np.argmin(flat)) // width, int(np.argmax(flat)) // width)
    return found


def codes_in(row: Data, labels: Mapping[str, Sequence[Any]]) -> str:
    """The whole numbers of a row, or the labels they stand for, in words."""
    numbers = {name: np.asarray(value) for name, value in named_leaves(row, bare="it").items()}
    codes = {name: int(value) for name, value in numbers.items() if value.dtype.kind in "iu" and value.ndim == 0}
    words = [f"{name} = {labels[name][code] if name in labels else code}" for name, code in codes.items()]
    return f", where {', '.join(words[:MOST])}," if words else ""


def _marked(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, with a strange number in place of entries that are not there; itself if it asks for none."""
    equations = [_equation(equation) for equation in jaxpr.eqns]
    same = all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=equations)


def _equation(equation: Any) -> Any:
    params = equation.params
    if equation.primitive is gather_p:
        kind = np.dtype(equation.invars[0].aval.dtype).kind
        if params["mode"] not in CLAMPED or kind not in "fiu":
            return equation
        strange = STRANGE if kind == "f" else np.iinfo(equation.invars[0].aval.dtype).max
        return equation.replace(params={**params, "mode": GatherScatterMode.FILL_OR_DROP, "fill_value": strange})
    inner = {name: _inside(value) for name, value in params.items()}
    return equation if all(inner[name] is params[name] for name in params) else equation.replace(params=inner)


def _inside(value: Any) -> Any:
    """What a program has inside: other programs, as they are or in tuples."""
    if isinstance(value, Jaxpr):
        return _marked(value)
    if isinstance(value, ClosedJaxpr):
        marked = _marked(value.jaxpr)
        return value if marked is value.jaxpr else ClosedJaxpr(marked, value.consts)
    if isinstance(value, tuple):
        parts = [_inside(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return value
