"""The product of kernel density estimates of the subposteriors, sampled by a Markov chain.

    p(theta) ~ prod_s (1/M) sum_t K_h(theta - theta_st)

Nothing is assumed of the subposteriors, and as draws grow the answer converges to the truth; in more than a few
dimensions so slowly that it is of no use, and where subposteriors hardly overlap there are no draws to go by. How the
chain moves: ``combine.kernels``. Neiswanger, Wang and Xing (2014, section 3.2); thesis 2.4.2, where it says that the
product has O(S M) components: it has M^S.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scirocco.combine.kernels import sample_product
from scirocco.combine.shards import Shards


def kdemc(draws: Iterable[Any], num_samples: int | None = None, *, thin: int = 100, seed: int = 0) -> Any:
    """``num_samples`` draws, ``thin`` sweeps over the shards apart; without it as many as a shard has.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = kdemc([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.mean().round(1), found.std().round(1))
    1.5 0.5
    """
    shards = Shards.of(draws)
    return shards.restore(sample_product(shards, shards.wanted(num_samples), thin, None, seed))
