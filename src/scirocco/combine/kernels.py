"""Products of kernel density estimates, by independent Metropolis within Gibbs.

In coordinates z in which the normal approximation of the product is N(0, I), shard s has the covariance C_s and the
precision P_s, sum_s P_s = I. With kernels N(z; z_st, h^2 C_s) on draw t of shard s the product over shards is a mixture
of M^S normal laws, one for each choice t = (t_1, ..., t_S), with m = sum_s P_s z_st:

    weight  exp(-(sum_s z_st'P_s z_st - m'm) / 2h^2),   centre m,   variance h^2                      (``kdemc``)

If each estimate is a normal law times a correction by kernels, r_st = -log N(z_st; mu_s, C_s), they become

    weight  exp(-(sum_s z_st'P_s z_st - m'm) / 2h^2 + sum_s r_st) N(m; 0, 1 + h^2)
    centre  m / (1 + h^2),   variance h^2 / (1 + h^2)                                         (``semiparametric``)

The chain changes one t_s at a time, to one of the shard's draws at random, and accepts by the ratio of the weights,
which needs d numbers. In the burn-in h falls from 1, a single normal law's, to Silverman's (4 / ((d + 2) M))^(1/(d+4));
from then on it stays, so that all draws have one law. Neiswanger, Wang and Xing (2014, algorithms 1 and 2), whose
kernels are as wide for all shards, which moves the product where shards are not, and whose h falls for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.combine.shards import Shards
from scirocco.core.checks import require_count, require_seed
from scirocco.core.compiled import jit, over_blocks
from scirocco.core.interrupt import poll
from scirocco.core.random import below, normal, open_stream, uniform
from scirocco.core.seeds import Purpose, stream_key

CHAINS = 16  # they start at random choices; threads share them
BURN_IN = 0.5  # sweeps of the burn-in over all others
AT_ONCE = 10_000_000  # changes of t between two looks at Ctrl-C


def bandwidth(shards: Shards) -> float:
    """Silverman's h, in units of the covariances."""
    d, n = shards.dimension, shards.draws
    return float((4 / ((d + 2) * n)) ** (1 / (d + 4)))


def sample_product(shards: Shards, count: int, thin: int, corrections: np.ndarray | None, seed: int) -> np.ndarray:
    """``count`` draws of the product, ``thin`` sweeps apart, in the coordinates of the shards."""
    require_count("thin", thin)
    require_seed(seed)
    z, precisions, back = shards.whitened()
    pulled = np.einsum("sij,snj->sni", precisions, z)  # P z, whose sum over the chosen is the centre
    squares = np.sum(pulled * z, axis=2)
    plain = corrections is None
    r = np.zeros(z.shape[:2]) if corrections is None else corrections
    chains = min(CHAINS, count)
    each = -(-count // chains)
    burn_in = max(20, int(BURN_IN * each * thin))
    h = bandwidth(shards)
    widths = np.concatenate([h ** np.linspace(0, 1, burn_in), np.full(each * thin, h)])
    found = np.empty((chains, each, shards.dimension))
    chosen, centres = np.zeros((chains, shards.count), np.int64), np.zeros((chains, shards.dimension))
    key = stream_key(seed, Purpose.COMBINE)
    piece = max(1, AT_ONCE // (chains * shards.count))
    for start in range(0, len(widths), piece):
        poll()
        stop = min(start + piece, len(widths))

        def work(low: int, high: int, start: int = start, stop: int = stop) -> None:
            _sweeps(
                low, high, start, stop, pulled, squares, r, widths, burn_in, thin, plain, key, chosen, centres, found
            )

        over_blocks(work, chains)
    return back(found.reshape(-1, shards.dimension)[:count])


@jit
def _sweeps(
    low: int, high: int, start: int, stop: int, pulled: Any, squares: Any, r: Any, widths: Any, burn_in: int, thin: int,
    plain: bool, key: Any, chosen: Any, centres: Any, found: Any,
) -> None:  # fmt: skip
    """Sweeps ``start`` to ``stop`` of some chains."""
    shards, draws, d = pulled.shape
    for chain in range(low, high):
        s, t, centre = open_stream(key, start, chain), chosen[chain], centres[chain]
        if start == 0:
            for k in range(shards):
                t[k] = below(s, draws)
                for j in range(d):
                    centre[j] += pulled[k, t[k], j]
        for sweep in range(start, stop):
            h2 = widths[sweep] ** 2
            for k in range(shards):
                old, new = t[k], below(s, draws)
                longer = 0.0  # |m|^2 after less before
                for j in range(d):
                    step = pulled[k, new, j] - pulled[k, old, j]
                    longer += step * (2 * centre[j] + step)
                change = (longer - squares[k, new] + squares[k, old]) / (2 * h2) + r[k, new] - r[k, old]
                if not plain:
                    change -= longer / (2 * (1 + h2))
                if change >= 0 or uniform(s) < np.exp(change):
                    for j in range(d):
                        centre[j] += pulled[k, new, j] - pulled[k, old, j]
                    t[k] = new
            after = sweep - burn_in
            if after >= 0 and after % thin == thin - 1:
                shrink = 1.0 if plain else 1 / (1 + h2)
                width = np.sqrt(h2 * shrink)
                for j in range(d):
                    found[chain, after // thin, j] = centre[j] * shrink + width * normal(s)
