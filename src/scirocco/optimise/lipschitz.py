"""The Lipschitz constants of the examples' gradients, from their curvature at a point.

    L_i ~ || Hessian of - log p(x_i | theta) ||_2  at the centre, by power iteration

Minibatches drawn with p_i proportional to L_i give control variates their smallest bound on the variance (Baker et
al. 2019). The curvature at one point is not a global bound; it is what matters where the chain is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from scirocco.batches import Batch
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.target import Target, merge


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
