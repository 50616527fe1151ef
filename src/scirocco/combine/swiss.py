"""Every subposterior's draws, moved and stretched to the mean and the covariance of the product.

    theta' = mu + A_s (theta - mu_s),    A_s C_s A_s' = C,    mu and C of the product of normal laws (``parametric``)

All shards' draws are kept: S M of them, whose mean and covariance are those of the product exactly, and whose shape is
what the subposteriors have in common once their places and widths are taken off. Of the matrices A_s that do this the
one that is symmetric and positive moves draws least,

    A_s = C_s^-1/2 (C_s^1/2 C C_s^1/2)^1/2 C_s^-1/2

Exact for normal subposteriors. After Vyner, Nemeth and Sherlock (2023).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.combine.shards import Shards


def swiss(draws: Iterable[Any]) -> Any:
    """The draws of all shards, one shard after the other.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = swiss([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.shape, found.mean().round(1), found.std().round(1))
    (10000,) 1.5 0.5
    """
    shards = Shards.of(draws)
    mean, covariance = shards.product
    # In units of the product, in which the covariances are of order S: no scale of the parameters enters.
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(root)
    moved = []
    for values, own, spread in zip(shards.values, shards.means, shards.covariances, strict=True):
        size, vectors = np.linalg.eigh(inverse @ spread @ inverse.T)
        shrink = (vectors / np.sqrt(size)) @ vectors.T  # symmetric: the product is the unit matrix in these units
        moved.append(mean + (values - own) @ (root @ shrink @ inverse).T)
    return shards.restore(np.concatenate(moved))
