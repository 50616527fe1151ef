"""Blocks: a user's own update for some of the parameters, between the gradient steps on the others.

A Gibbs step for precisions, say: the gradient sampler moves ``{"w": ...}`` given ``tau``, then ``update`` draws ``tau``
given ``w`` on the same minibatch, all inside the same jitted step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.batches import Batch
from scirocco.core.types import Key, Params
from scirocco.density import merge


@dataclass(frozen=True)
class Block:
    """The parameters ``names`` are updated by ``update(key, params, batch)``, which returns ``{name: new value}``.

    ``params`` holds all parameters (a dict), ``batch.data`` the rows of the minibatch, ``batch.weights`` the numbers
    with which a sum over it estimates the sum over all data.

    >>> def gibbs(key, params, batch):
    ...     return {"tau": jax.random.gamma(key, 2.0) / (1.0 + jnp.sum(params["w"] ** 2) / 2)}
    >>> Block("tau", gibbs).names
    ('tau',)
    """

    names: Any
    update: Callable[[Key, Params, Batch], Params]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", (self.names,) if isinstance(self.names, str) else tuple(self.names))
        if not self.names or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"names must be one or more keys of the parameter dict; got {self.names!r}")
        if not callable(self.update):
            raise TypeError(f"update must be a function (key, params, batch) -> dict; got {type(self.update).__name__}")


def split(params: Params, blocks: Sequence[Block]) -> tuple[Params, Params]:
    """The parameters that the gradient sampler moves and those that the blocks hold."""
    if not blocks:
        return params, None
    if not isinstance(params, dict):
        raise TypeError(f"blocks name keys of the parameters, which must then be a dict; got {type(params).__name__}")
    names = [name for block in blocks for name in block.names]
    unknown = [name for name in names if name not in params]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"blocks must name different keys of {sorted(params)}; got {names}")
    if len(names) == len(params):
        raise ValueError("blocks hold all parameters: leave at least one to the gradient sampler")
    return {k: v for k, v in params.items() if k not in names}, {k: params[k] for k in names}


def apply(blocks: Sequence[Block], key: Key, position: Params, held: Params, batch: Batch) -> Params:
    """The held parameters after one round of updates, each seeing the newest values of the others."""
    for number, block in enumerate(blocks):
        new = block.update(jax.random.fold_in(key, number), merge(position, held), batch)
        if not isinstance(new, dict) or set(new) != set(block.names):
            raise ValueError(f"a block's update must return a dict with the keys {list(block.names)}; got {new!r}")
        for name in block.names:
            want, got = jnp.shape(held[name]), jnp.shape(new[name])
            if want != got:
                raise ValueError(f"the block's update changed the shape of {name} from {want} to {got}")
        held = {**held, **{name: jnp.asarray(new[name], held[name].dtype) for name in block.names}}
    return held
