"""Directions in which minibatch gradients are noisiest: the leading singular vectors of those of single rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.types import Data, Params
from scirocco.density import Density
from scirocco.target import Target


def noise_directions(target: Target, position: Params, rank: int, *, rows: int = 1000, seed: int = 0) -> Params:
    """The ``rank`` noisiest directions of each array of parameters, from a sample of the rows.

    Parameters
    ----------
    target:
        The posterior, in flat space.
    position:
        Where gradients are taken: a mode, say. With constraints, the free numbers that chains move.
    rank:
        Directions for each array, fewer than it has entries.
    rows:
        Size of the sample; the whole data where there are fewer.
    seed:
        For the sample.

    Returns
    -------
    A tree like ``position`` of arrays (n, rank) with orthonormal columns, for ``samplers.AlongDirections``.

    Examples
    --------
    >>> import scirocco as sc
    >>> data = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 5.0, 1.0]
    >>> target = sc.Target(None, lambda m, x: -((x - m) @ (x - m)) / 2, data.astype(np.float32))
    >>> bool(abs(noise_directions(target, np.zeros(3, np.float32), 1)[1, 0]) > 0.99)
    True
    """
    require_count("rank", rank)
    require_count("rows", rows)
    most = min(np.size(leaf) for leaf in jax.tree.leaves(position)) - 1
    if rank > most:
        raise ValueError(f"rank must be less than the entries of each array of parameters, {most} at most; got {rank}")
    data = next(iter(target.shuffled(min(rows, target.size), seed)))

    def leading(slopes: Any) -> np.ndarray:
        x = np.asarray(slopes, np.float64).reshape(len(slopes), -1)
        return np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:rank].T

    return jax.tree.map(leading, _slopes_of_rows(target.density, position, data))


@partial(jax.jit, static_argnums=0)
def _slopes_of_rows(density: Density, position: Params, data: Data) -> Params:
    return density.example_gradients(position, None, data)
