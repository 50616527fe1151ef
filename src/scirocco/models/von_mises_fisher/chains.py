"""The steps of the chains, and the components of their draws in one order."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from scirocco.constraints import zero_sum
from scirocco.models.von_mises_fisher.laws import Mixture, Prior, change_of, excess, length_and_slope
from scirocco.samplers import SGGMC
from scirocco.samplers.base import Sampler

STEP = 0.3  # in posterior sds: h^2/4 of the variance is the error of the integrator


def scaled_sampler(start: Mixture, prior: Prior, rows: int) -> Sampler:
    """Steps in sds of the posterior that a component has if its rows are known: with unknown ones they are larger."""
    sizes, kappas = rows * start.weights, start.kappas
    ratio, slope = length_and_slope(prior.dimension, kappas)
    informed = sizes * change_of(kappas) ** 2 * slope
    _, pull, held = prior.of_concentrations(start.log_kappas)
    precisions = {
        "weights": precisions_of_weights(sizes + prior.alpha),
        "means": (sizes * kappas * ratio + prior.dimension)[:, None],  # a uniform direction has entries of 1/d
        # Where the rows pull a concentration, they hold it.
        "concentrations": (informed.sum(keepdims=True) if prior.shared else informed) + (held + np.abs(pull)),
    }
    return SGGMC(
        {name: np.float32(STEP / np.sqrt(value)) for name, value in precisions.items()},
        friction={name: np.float32(np.sqrt(value)) for name, value in precisions.items()},
    )


def precisions_of_weights(counts: np.ndarray) -> np.ndarray:
    """Of the free numbers of a Dirichlet law with these parameters: e'(diag n - n n' / sum n) e."""
    directions = np.asarray(zero_sum.constrained(jnp.eye(len(counts) - 1)), np.float64)
    return directions**2 @ counts - (directions @ counts) ** 2 / counts.sum()


def orders(weights: np.ndarray, means: np.ndarray, kappas: np.ndarray, places: Mixture | None) -> np.ndarray:
    """The component of each draw, (chain, draw, component), that is nearest to those of ``places``.

    Without them to those of one draw, and then the largest first. Near by the Kullback-Leibler divergence of the
    components: means alone cannot tell concentric ones.
    """
    dimension = means.shape[-1]
    fixed, strengths = (means[0, -1], kappas[0, -1]) if places is None else (places.means, places.kappas)
    ratio = length_and_slope(dimension, strengths.astype(np.float64))[0]
    order = np.empty(kappas.shape, np.intp)
    heights = excess(dimension, kappas)
    for at in np.ndindex(*kappas.shape[:2]):
        order[at] = linear_sum_assignment(heights[at] - kappas[at] * ratio[:, None] * (fixed @ means[at].T))[1]
    if places is not None:
        return order
    largest = np.argsort(-np.take_along_axis(weights, order, axis=2).mean(axis=(0, 1)), kind="stable")
    return order[..., largest]
