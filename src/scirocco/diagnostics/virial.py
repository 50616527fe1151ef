"""The virial identity: how wide a sampled law is, without a reference and without a Gaussian.

    E (x_i - c) dU/dx_i = T    for any constant c, if x has the density exp(-U/T) with tails that let borders vanish

(integration by parts). For a law q that is sampled instead, E_q (x_i - mean) dU/dx_i / T is 1 if q is right, close to
zero for chains that stand still and large for those that are too hot; on a Gaussian with independent coordinates it is
sampled over true variance. Gradients may be estimates from minibatches, as long as these had no part in bringing the
chain where it is. Modes that no chain has seen are not seen here either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCKS = 8  # of a chain, whose means tell the standard error


class Virial(NamedTuple):
    """The virial over the temperature, 1 for the right law, of each coordinate and of all together."""

    ratio: np.ndarray
    error: np.ndarray  # standard errors, from blocks of the chains
    overall: float
    overall_error: float


def virial(draws: np.ndarray, gradients: np.ndarray, temperature: float = 1.0) -> Virial:
    """The virial of ``draws`` and grad U there, both (chain, draw, coordinate), around the mean of all chains.

    >>> x = np.random.default_rng(0).normal(size=(4, 1000, 2)) * [1, 3]
    >>> right = virial(x, x / [1, 9])
    >>> wide = virial(1.5 * x, 1.5 * x / [1, 9])
    >>> print(np.abs(right.ratio - 1).max() < 0.1, np.round(wide.overall, 1))
    True 2.3
    """
    draws, gradients = (np.asarray(a, np.float64) for a in (draws, gradients))
    if draws.ndim != 3 or draws.shape != gradients.shape:
        raise ValueError(
            f"draws and gradients must have the same shape (chain, draw, coordinate); got {draws.shape} and "
            f"{gradients.shape}"
        )
    if not (np.all(np.isfinite(draws)) and np.all(np.isfinite(gradients))):
        raise ValueError("draws and gradients must be finite")
    products = (draws - draws.mean(axis=(0, 1))) * gradients / temperature
    chains, count, size = products.shape
    blocks = max(1, min(BLOCKS, count // 2))
    kept = products[:, count - count // blocks * blocks :]
    means = kept.reshape(chains * blocks, -1, size).mean(axis=1)
    whole = means.mean(axis=1) if size else np.ones(len(means))

    def error(values: np.ndarray) -> np.ndarray:
        return (
            values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(values.shape[1:], np.inf)
        )

    return Virial(products.mean(axis=(0, 1)), error(means), float(whole.mean()), float(error(whole)))
