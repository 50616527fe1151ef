"""The Weierstrass rejection sampler: pairs of draws that are close, averaged, shards two by two.

Smooth two laws f_1 and f_2 with kernels N(0, w^2 C_1) and N(0, w^2 C_2), C_s their covariances. The product of the two
is the law of theta when t_1 ~ f_1 and t_2 ~ f_2 are kept

    with probability exp(-(t_1 - t_2)'(C_1 + C_2)^-1 (t_1 - t_2) / 2w^2)
    and theta ~ N(m, w^2 C),    C^-1 = C_1^-1 + C_2^-1,    m = C (C_1^-1 t_1 + C_2^-1 t_2)

For normal laws theta has the covariance (1 + w^2) C, too wide by w^2 C, which is what the last draw adds: m alone has
the covariance C, whatever w. So m is what is returned. With w infinite it is the consensus of the two, with w -> 0 it
has the law of the product, and in between it goes from one to the other; for normal laws it is exact all the way.

Shards are joined two by two, and what comes of it again. A small w takes long, because few pairs are kept, and is
noisy: on 20 normal laws in the plane with 2,000 draws each and one of 44 pairs kept, the mean was off by 0.33 sds. So w
is what is best for a kernel density estimate of a normal law (Silverman), which goes to 0 as draws grow, unless fewer
than one of sqrt(M) pairs would be kept; or the one at which one of ``proposals`` is. After Wang and Dunson (2013,
section 3; thesis 2.4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scirocco.combine.kernels import bandwidth
from scirocco.combine.shards import Shards
from scirocco.core.checks import require_count, require_seed
from scirocco.core.seeds import Purpose, generator

MORE = 4  # times the draws of a shard: what is kept on the way, because drawing again and again adds noise
FEWEST = 20  # pairs for one that is kept, at which w is still made smaller
PILOT = 20_000  # pairs by which w is set
AT_ONCE = 2**22  # numbers of proposed pairs


def weierstrass(
    draws: Iterable[Any], num_samples: int | None = None, *, proposals: int | None = None, seed: int = 0
) -> Any:
    """``num_samples`` draws, without it as many as a shard has; of ``proposals`` pairs one is kept, if that is given.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = weierstrass([rng.normal(0.0, 1.0, 5000), rng.normal(2.0, 3**-0.5, 5000)])  # product: N(1.5, 1/4)
    >>> print(found.mean().round(1), found.std().round(1))
    1.5 0.5
    """
    shards = Shards.of(draws)
    count = shards.wanted(num_samples)
    if proposals is not None:
        require_count("proposals", proposals)
    most = max(FEWEST, int(np.sqrt(shards.draws))) if proposals is None else proposals
    least = 0.0 if proposals is not None else bandwidth(shards) ** 2
    _ = shards.precisions  # must not be singular
    rng = generator(require_seed(seed), Purpose.COMBINE)
    left = list(shards.values)
    while len(left) > 1:
        wanted = count if len(left) == 2 else MORE * shards.draws
        joined = [_joined(left[i], left[i + 1], wanted, most, least, rng) for i in range(0, len(left) - 1, 2)]
        left = joined + left[2 * len(joined) :]
    return shards.restore(left[0])


def _joined(
    first: np.ndarray, second: np.ndarray, count: int, proposals: int, least: float, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the product of two laws from draws of each; w^2 is ``least`` or more."""
    one, two = (np.atleast_2d(np.cov(values.T)) for values in (first, second))
    weight = np.linalg.solve(one + two, one).T  # of the second: C C_2^-1 = C_1 (C_1 + C_2)^-1
    whiten = np.linalg.inv(np.linalg.cholesky(one + two))
    # In these coordinates the distance is |a - b|, and a pair is two rows.
    a, b = first @ whiten.T, second @ whiten.T

    def pairs(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        i, j = rng.integers(len(a), size=size), rng.integers(len(b), size=size)
        return i, j, np.sum((a[i] - b[j]) ** 2, axis=1) / 2

    width = max(least, _width(pairs(max(PILOT, 100 * proposals))[2], 1 / proposals))
    found: list[np.ndarray] = []
    made = 0
    while made < count:
        i, j, distance = pairs(int(np.clip((count - made) * proposals * 1.1, 1000, max(1000, AT_ONCE // a.shape[1]))))
        kept = np.log(rng.random(len(i))) < -distance / width
        found.append(first[i[kept]] + (second[j[kept]] - first[i[kept]]) @ weight.T)
        made += int(kept.sum())
    return np.concatenate(found)[:count]


def _width(distance: np.ndarray, share: float) -> float:
    """The w^2 at which so many pairs are kept on average; infinite if all are to be."""
    if share >= 1:
        return np.inf
    low, high = np.log(max(distance.min(), np.finfo(float).tiny)) - 10, np.log(distance.max()) + 40
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(np.exp(-distance / np.exp(middle))) < share else (low, middle)
    return float(np.exp(high))
