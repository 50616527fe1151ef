"""The Lipschitz constants of the examples' gradients, from their curvature at a point.

    L_i ~ || Hessian of - log p(x_i | theta) ||_2  at the centre, by power iteration

Minibatches drawn with p_i proportional to L_i give control variates their smallest bound on the variance (Baker et
al. 2019). The curvature at one point is not a global bound; it is what matters where the chain is. Generalised linear
models have global bounds, by their features alone (``glm_bounds``).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from scirocco.batches import Batch, Weighted
from scirocco.core.checks import real_array
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.density import merge
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Target


def lipschitz_constants(
    target: Target, centre: Params, *, held: Params = None, steps: int = 20, floor: float = 0.01, seed: int = 0
) -> np.ndarray:
    """One L_i per example, by ``steps`` power iterations.

    None is below ``floor`` times their mean, so that every row can be drawn.
    """
    flat, unravel = ravel_pytree(centre)
    start = generator(seed, Purpose.LIPSCHITZ_START).standard_normal(flat.shape).astype(flat.dtype)

    def curvature(row: Params) -> Float[Array, ""]:
        def gradient(point: Float[Array, " d"]) -> Float[Array, " d"]:
            return jax.grad(
                lambda x: target.log_likelihoods(merge(unravel(x), held), jax.tree.map(lambda a: a[None], row))[0]
            )(point)

        def iterate(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            vector, _norm = carry
            product = jax.jvp(gradient, (flat,), (vector,))[1]
            length = jnp.linalg.norm(product)
            return product / jnp.maximum(length, np.finfo(flat.dtype).tiny), length

        unit = start / jnp.linalg.norm(start)
        return jax.lax.fori_loop(0, steps, iterate, (unit, jnp.zeros((), flat.dtype)))[1]

    @jax.jit
    def constants(batch: Batch) -> Float[Array, " n"]:
        return jax.vmap(curvature)(batch.data)

    found = np.concatenate([np.asarray(constants(batch), dtype=np.float64) for batch in target.passes()])[: target.size]
    return np.maximum(found, floor * max(float(found.mean()), np.finfo(float).tiny))


def glm_row_bounds(features: Any, curvature: Any, scale: Scale | None = None) -> np.ndarray:
    """b_j = kappa_j max_i |z_ji| |z_j|_2, z_j = L' x_j: minibatches that draw row j in proportion to it have the least
    bounds."""
    z = _transformed(features, scale)
    return np.broadcast_to(curvature, len(z)) * np.max(np.abs(z), axis=1) * np.linalg.norm(z, axis=1)


def glm_bounds(
    features: Any,
    *,
    curvature: Any,
    prior_precision: Any,
    scale: Scale | None = None,
    batching: Weighted | None = None,
) -> np.ndarray:
    """The ``lipschitz`` of ``ZigZag`` for a generalised linear model, whatever the minibatches.

    For log likelihoods l(x_j'w, y_j) with |l''| <= kappa_j in their first argument and z_j = L' x_j

        C_i = max_j kappa_j |z_ji| |z_j|_2 / p_j + that of the prior,    p_j = 1/N, or those of ``batching``

    Parameters
    ----------
    features
        The x_j, one row for each example; columns in the order of the flattened parameters, a column of ones for an
        intercept.
    curvature
        The bounds kappa, one number or one for each row: 1/4 for logistic regression, 1/sigma^2 for linear regression,
        1 for probit. There is none for Poisson regression, whose l'' = -exp(x'w) has no bound.
    prior_precision
        The largest |second derivative| of the log prior in each coefficient, which has no cross terms: the
        precision of a normal prior.
    scale : Scale, optional
        L, as in ``ZigZag``; the identity by default.
    batching : Weighted, optional
        ``Weighted`` draws of rows; uniform by default.

    Examples
    --------
    >>> glm_bounds(np.array([[1.0, 2.0], [1.0, 0.0]]), curvature=0.25, prior_precision=1.0).round(3)
    array([2.118, 3.236])
    """
    kappa = real_array("curvature", curvature, least=0.0)
    z = _transformed(features, scale)
    if kappa.shape not in ((), (len(z),)):
        raise ValueError(f"curvature must be a number or one for each of the {len(z)} rows; got {kappa.shape}")
    precision = real_array("prior_precision", prior_precision, least=0.0)
    if precision.shape not in ((), (z.shape[1],)):
        raise ValueError(f"prior_precision must be a number or one for each of the {z.shape[1]} columns of features")
    inverse = len(z) if batching is None else batching.inverse_probabilities(len(z))
    change = np.max(np.abs(z) * (inverse * kappa * np.linalg.norm(z, axis=1))[:, None], axis=0)
    root = np.sqrt(np.broadcast_to(precision, z.shape[1]))[:, None] * _matrix(scale, z.shape[1])
    return np.asarray(change + np.linalg.norm(root, axis=0) * np.linalg.norm(root, 2))


def _transformed(features: Any, scale: Scale | None) -> np.ndarray:
    """Features of the coordinates phi."""
    x = real_array("features", features)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be a matrix with one row for each example; got the shape {x.shape}")
    return x if scale is None else x @ _matrix(scale, x.shape[1])


def _matrix(scale: Scale | None, size: int) -> np.ndarray:
    identity = np.eye(size)
    return identity if scale is None else np.stack([scale.forward(e) for e in identity], axis=1)
