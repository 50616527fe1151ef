"""Consensus Monte Carlo: weighted averages of the shards' draws.

    theta_i = (sum_s W_s)^-1 sum_s W_s theta_si,    W_s the inverse covariance of shard s

With diagonal weights each coordinate has its own inverse variance.

Exact for normal subposteriors. Otherwise an average of draws from the ends of subposteriors lies in their middle: two
modes become one, and what is bent becomes straight. Scott et al. (2016, section 3); thesis 2.4.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.combine.shards import Shards
from scirocco.core.checks import require_choice


def consensus(draws: Iterable[Any], weights: str = "full") -> Any:
    """As many draws as the shard with the fewest has; ``weights`` are "full" matrices or "diagonal" ones.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = consensus([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.mean().round(1), found.std().round(1))
    1.5 0.5
    """
    require_choice("weights", weights, ("full", "diagonal"))
    shards = Shards.of(draws)
    if weights == "diagonal":
        shards.require_spread()
        own = 1 / shards.values.var(axis=1)
        return shards.restore(np.einsum("sni,si->ni", shards.values, own / own.sum(axis=0)))
    shares = np.linalg.inv(shards.precisions.sum(axis=0)) @ shards.precisions
    return shards.restore(np.sum(shards.values @ np.swapaxes(shares, 1, 2), axis=0))
