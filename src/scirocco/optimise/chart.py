"""A target on a manifold in normal coordinates around a point, as a target in flat space.

    theta(u) = end of the geodesic of time 1 from x with velocity Lambda u
    U(u) = U(theta(u)) - change(theta(u)) + w |u - Lambda u|^2 / 2

At u = 0 its gradient and Hessian are the Riemannian ones, so what optimises or measures curvature in flat space serves
on manifolds too. The last term holds the directions that are not tangent, along which theta does not move.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from scirocco.core.trees import inner, zeros_like
from scirocco.core.types import Array, Data, Params
from scirocco.target import Target


def chart(target: Target, origin: Params, *, weight: float | None = None) -> tuple[Target, Params]:
    """The target around ``origin``, a point without held parameters, and its coordinates there; ``weight`` is w, N by
    default.
    """
    geometry = target.geometry
    w = float(target.size if weight is None else weight)

    def moved(params: Any) -> tuple[Params, Any]:
        """The parameters at coordinates, and these; what is held stays as it is."""
        if isinstance(origin, dict):
            u = {name: params[name] for name in origin}
            return {**params, **geometry.exponential(origin, u)}, u
        return geometry.exponential(origin, params), params

    def log_prior(params: Params) -> Array:
        theta, u = moved(params)
        own = {name: theta[name] for name in origin} if isinstance(origin, dict) else theta
        off = jax.tree.map(jnp.subtract, u, geometry.project(origin, u))
        return target.log_prior(theta) + geometry.change(own) - w * inner(off, off) / 2

    def log_likelihood(params: Params, data: Data) -> Array:
        return target.log_likelihood(moved(params)[0], data)

    return Target(log_prior, log_likelihood, target.source, batched=target.batched), zeros_like(origin)
