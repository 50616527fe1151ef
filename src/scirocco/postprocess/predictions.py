"""What draws say of rows: predictions, simulated outcomes and log likelihoods, in bounded memory.

Rows come in pieces, all draws are evaluated on a piece at once, and what is kept of it are means, sds and quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import as_source
from scirocco.core.beyond import BEYOND, beyond, codes_in, extremes
from scirocco.core.checks import require_count, require_seed
from scirocco.core.interrupt import poll
from scirocco.core.keys import as_key
from scirocco.core.parts import part
from scirocco.core.program import QUICK, Given
from scirocco.core.seeds import Purpose, key_words
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Data, Params
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.trace import Trace
from scirocco.target import Target, require_target, said

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

PIECE_BYTES = 64 * 2**20  # of values of all draws on the rows of a piece
LARGEST_BYTES = 4 * 2**30  # of log likelihoods that are kept


@dataclass(frozen=True)
class Prediction:
    """Mean, sd and quantiles over draws, a row of data each; ``draws`` of them, (draw, row, ...), if they were kept."""

    mean: np.ndarray
    sd: np.ndarray
    quantiles: dict[float, np.ndarray]
    draws: np.ndarray | None = field(default=None, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """A table with a line for each row, for predictions that are one number each."""
        import pandas as pd

        if self.mean.ndim != 1:
            raise ValueError(f"a row has predictions of the shape {self.mean.shape[1:]}: use mean, sd and quantiles")
        levels = {f"{level:.1%}".replace(".0%", "%"): values for level, values in self.quantiles.items()}
        return pd.DataFrame({"mean": self.mean, "sd": self.sd, **levels})


@part
class Predictor:
    """The draws of a trace as parameters of functions."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def parameters(self, most: int | None = None) -> Params:
        """The draws of all chains along a leading axis, in the form of the parameters; evenly thinned to ``most``."""
        known = self.trace.description.parts.parameters if self.trace.description is not None else None
        stored = self.trace.posterior
        if known is None or is_opaque(known) or not self.trace.count:
            raise ValueError("the trace has no draws of parameters, of which predictions could be made")
        like = rebuild(known)
        names = list(named_leaves(like))
        missing = [name for name in names if name not in stored]
        if missing:
            raise ValueError(f"draws of {', '.join(missing)} were not stored: run without collect=")
        total = stored.sizes["chain"] * stored.sizes["draw"]
        chosen = np.linspace(0, total - 1, total if most is None else min(most, total)).round().astype(int)
        arrays = {str(n): v.values.reshape(total, *v.shape[2:])[chosen] for n, v in stored.data_vars.items()}
        params = jax.tree.unflatten(jax.tree.structure(like), [arrays.pop(name) for name in names])
        return {**params, **arrays} if isinstance(params, dict) else params  # what follows from them, as in a model

    def predict(
        self, function: Callable[[Params, Data], Any], data: Any, quantiles: Sequence[float], draws: int | None,
        keep: bool,
    ) -> Prediction:  # fmt: skip
        """Of a function of parameters and a row."""
        _require_function(function)
        return self._over_rows(Given(_ignoring_key, function), data, quantiles, draws, keep, 0)

    def simulate(
        self, function: Callable[[Any, Params, Data], Any], data: Any, quantiles: Sequence[float], draws: int | None,
        keep: bool, seed: int,
    ) -> Prediction:  # fmt: skip
        """Of a random function of a key, parameters and a row."""
        _require_function(function)
        return self._over_rows(function, data, quantiles, draws, keep, require_seed(seed))

    def _over_rows(
        self, function: Callable[..., Any], data: Any, quantiles: Sequence[float], draws: int | None, keep: bool,
        seed: int,
    ) -> Prediction:  # fmt: skip
        levels = np.asarray(quantiles, np.float64)
        if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"quantiles must lie between 0 and 1; got {quantiles!r}")
        if draws is not None:
            require_count("draws", draws)
        source, params = as_source(data, self._coords), self.parameters(draws)
        count = jax.tree.leaves(params)[0].shape[0]
        words = key_words(seed, Purpose.PREDICTIONS)
        try:
            one = jax.eval_shape(_values, function, params, source.first(1), words, 0)
        except Exception as error:
            error.add_note(f"scirocco: this happened on the first row of the data, which has {said(source.example)}")
            raise
        if not hasattr(one, "shape"):
            raise TypeError("the function must return one array for a row; it returned several")
        rows = max(1, min(source.size, PIECE_BYTES // max(1, 4 * int(np.prod(one.shape, dtype=int)))))
        found: list[list[np.ndarray]] = []
        for start, piece in zip(range(0, source.size, rows), source.in_order(rows), strict=False):
            poll()
            _require_entries(function, jax.tree.map(lambda a: a[:1], params), piece, words, start, source.labels)
            values = _values(function, params, piece, words, start)
            summary = [np.asarray(part) for part in _summary(values, levels.astype(np.float32))]
            found.append([*summary, np.asarray(values)] if keep else summary)
        mean, sd = (np.concatenate([part[k] for part in found]) for k in (0, 1))
        bounds = np.concatenate([part[2] for part in found], axis=1)
        kept = np.concatenate([part[3] for part in found], axis=1) if keep else None
        assert kept is None or len(kept) == count
        return Prediction(mean, sd, dict(zip(map(float, levels), bounds, strict=True)), kept)

    @property
    def _coords(self) -> dict[str, tuple[Any, ...]]:
        """The names of entries along axes, in the order of the codes that the run had."""
        return {} if self.trace.description is None else self.trace.description.coords

    def log_likelihood(self, target: Target, rows: Sequence[int] | None) -> xr.DataArray:
        """Of each draw and each row, (chain, draw, row)."""
        import xarray as xr

        require_target(target)
        target.axes.require_same(self._coords)
        stored = self.trace.posterior
        shape = stored.sizes["chain"], stored.sizes["draw"]
        which = np.arange(target.size) if rows is None else np.asarray(rows)
        needed = 4 * shape[0] * shape[1] * which.size
        if needed > LARGEST_BYTES:
            raise ValueError(
                f"log likelihoods of {which.size:,} rows would take {needed / 2**30:.0f} GB: give rows= a random part"
            )
        params = self.parameters()
        found = [
            np.asarray(_log_likelihoods(target.density, params, piece))
            for piece in (target.source.in_order(target.pass_rows) if rows is None else [target.source.rows(which)])
        ]
        values = np.concatenate(found, axis=1).reshape(*shape, -1)
        return xr.DataArray(values, dims=("chain", "draw", "row"), coords={"row": which})


def _require_function(function: object) -> None:
    if not callable(function):
        raise TypeError(f"the first argument must be a function; got {type(function).__name__}")


def _require_entries(
    function: Callable[..., Any], params: Params, piece: Data, words: Any, start: int,
    labels: Mapping[str, Sequence[Any]],
) -> None:  # fmt: skip
    """Refuse rows that ask for entries that parameters do not have, such as categories that the run has not seen."""
    if not any(np.asarray(leaf).dtype.kind in "iu" for leaf in jax.tree.leaves(piece)):
        return
    which = np.unique(list(extremes(piece).values()))
    rows = jax.tree.map(lambda a: a[which], piece)
    strange = np.asarray(_strange(function, params, rows, words))
    if strange.any():
        worst = int(np.argmax(strange))
        codes = codes_in(jax.tree.map(lambda a: a[worst], rows), labels)
        raise ValueError(f"the prediction of row {start + which[worst]}{codes} {BEYOND}")


def _ignoring_key(function: Callable[[Params, Data], Any], key: Any, params: Params, row: Data) -> Any:
    del key
    return function(params, row)


@partial(jax.jit, static_argnums=0)
def _values(function: Callable[..., Any], params: Params, data: Data, words: Any, start: int) -> Array:
    """The function of each draw and each row, (draw, row, ...); keys are those of (draw, number of the row)."""
    rows = jax.tree.leaves(data)[0].shape[0]
    count = jax.tree.leaves(params)[0].shape[0]
    key = as_key(words)

    def one(number: Array, params: Params) -> Array:
        own = jax.random.fold_in(key, number)
        keys = jax.vmap(lambda k: jax.random.fold_in(own, k))(start + jnp.arange(rows))
        return jax.vmap(function, in_axes=(0, None, 0))(keys, params, data)

    return jax.vmap(one)(jnp.arange(count), params)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _strange(function: Callable[..., Any], params: Params, rows: Data, words: Any) -> Array:
    """Rows whose values, of the first of these draws, depend on entries that are not there."""
    _, strange = beyond(lambda p, piece: _values(function, p, piece, words, 0), params, rows)
    return jnp.any(strange, axis=(0, *range(2, strange.ndim)))


@jax.jit
def _summary(values: Array, levels: Array) -> tuple[Array, Array, Array]:
    values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    return jnp.mean(values, axis=0), jnp.std(values, axis=0), jnp.quantile(values, levels, axis=0)


@partial(jax.jit, static_argnums=0)
def _log_likelihoods(density: Any, params: Params, data: Data) -> Array:
    return jax.lax.map(lambda p: density.log_likelihoods(p, data), params)
