"""Normal laws times a correction by kernels, multiplied over shards and sampled by a Markov chain.

    p_s(theta) ~ N(theta; mu_s, C_s) (1/M) sum_t K_h(theta - theta_st) / N(theta_st; mu_s, C_s)

Where subposteriors are nearly normal this is nearly ``parametric``, also in more dimensions; where they are not, the
kernels correct it as far as draws reach. How the chain moves: ``combine.kernels``. Neiswanger, Wang and Xing (2014,
section 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.combine.kernels import sample_product
from scirocco.combine.shards import Shards


def semiparametric(draws: Iterable[Any], num_samples: int | None = None, *, thin: int = 100, seed: int = 0) -> Any:
    """``num_samples`` draws, ``thin`` sweeps over the shards apart; without it as many as a shard has.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = semiparametric([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.mean().round(1), found.std().round(1))
    1.5 0.5
    """
    shards = Shards.of(draws)
    away = shards.values - shards.means[:, None]
    corrections = np.einsum("sni,sij,snj->sn", away, shards.precisions, away, optimize=True) / 2
    return shards.restore(sample_product(shards, shards.wanted(num_samples), thin, corrections, seed))
