"""Draws of the product of normal laws with the moments of the shards.

    N(mu, C),    C^-1 = sum_s C_s^-1,    mu = C sum_s C_s^-1 mu_s

The inverse of a covariance of n draws in d dimensions is too large by (n - 1)/(n - d - 2) on average, which is taken
off. Exact for normal subposteriors as draws grow. Neiswanger, Wang and Xing (2014, section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.combine.shards import Shards
from scirocco.core.checks import require_seed
from scirocco.core.seeds import Purpose, generator


def parametric(draws: Iterable[Any], num_samples: int | None = None, *, seed: int = 0) -> Any:
    """``num_samples`` independent draws; without it as many as a shard has.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = parametric([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.mean().round(1), found.std().round(1))
    1.5 0.5
    """
    shards = Shards.of(draws)
    count = shards.wanted(num_samples)
    mean, covariance = shards.product
    n, d = shards.draws, shards.dimension
    if n <= d + 2:
        raise ValueError(f"{n} draws of a shard are too few for a covariance in {d} dimensions: {d + 3} are needed")
    root = np.linalg.cholesky(covariance * (n - 1) / (n - d - 2))
    rng = generator(require_seed(seed), Purpose.COMBINE)
    return shards.restore(mean + rng.standard_normal((count, d)) @ root.T)
