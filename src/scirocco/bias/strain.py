"""Whether a step is too long for places where its chains have been.

    strain = the largest curvature at draws / the largest curvature that the step bears

Around a Gaussian, or wherever curvature is the same everywhere, it is that of a step well below its limit. In a funnel
curvature grows without end towards the neck: chains whose step is too long are turned away there, and what they leave
out no identity over their draws shows, whose noise the neck makes large. But they have been at its entrance. In
equilibrium E |grad U|^2 = T trace(Hessian), so the draws with the largest gradients are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.program import QUICK
from scirocco.core.types import Params
from scirocco.optimise.curvature import top_curvatures
from scirocco.samplers.preconditioned import Preconditioned
from scirocco.target import Target

STIFFEST = 16  # draws that are looked at
CURVATURES = 1e-4, 1e12  # in units of the coordinates of the sampler: between them lies what a step bears


def strain(
    target: Target, sampler: Preconditioned, places: np.ndarray, slopes: np.ndarray, like: Params, seed: int
) -> float:  # fmt: skip
    """Of draws with gradients, (chain, draw, coordinate), of parameters ``like``."""
    flat, unravel = ravel_pytree(like)
    x, g = (a.reshape(-1, flat.size).astype(np.float64) for a in (places, slopes))
    felt = np.sum(np.stack([np.asarray(sampler.scale.transposed(row)) for row in g]) ** 2, axis=1)
    chosen = [unravel(jnp.asarray(place, flat.dtype)) for place in x[np.argsort(felt)[-STIFFEST:]]]
    inner: Any = sampler.sampler

    def borne(curvature: float) -> bool:
        return bool(np.isfinite(predicted_error(inner, np.zeros(1), curvature, 1.0)))

    return float(np.max(top_curvatures(target, chosen, None, sampler.scale, seed))) / largest(borne, *CURVATURES)


def largest(good: Callable[[float], bool], least: float, most: float) -> float:
    """The largest number between these that is good, as all smaller ones are."""
    low, high = np.log(least), np.log(most)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if good(float(np.exp(middle))) else (low, middle)
    return float(np.exp(low))


def predicted_error(
    sampler: Any, noise: np.ndarray, precision: float, temperature: float, epoch: float = np.inf
) -> float:  # fmt: skip
    """The largest relative error of an sd that the sampler's law predicts where the curvature is ``precision``."""
    lam = np.full(noise.shape, float(precision))
    state = sampler.settled(_begun(sampler, noise.shape), lam, noise)
    variance = np.asarray(sampler.stationary_variance(state, lam, noise, epoch), np.float64)
    ratio = np.sqrt(np.maximum(variance, 0) * lam / temperature)
    return float(np.max(np.abs(ratio - 1))) if np.all(np.isfinite(ratio)) else np.inf


@partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def _begun(sampler: Any, shape: tuple[int, ...]) -> Any:
    """A state of the sampler: one program for all step sizes that are tried."""
    return sampler.init(jax.random.key(0), jnp.zeros(shape, jnp.float32))
