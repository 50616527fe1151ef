"""Whether the posterior has other modes than the one that was found.

Quasi-Newton searches from a few places as wide as the prior is around the mode, or from the user's own starts. Another
mode counts if it is as likely as the first, but for a factor that no width makes up for, and lies many posterior sds
away. What is not found may still be there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays
from scirocco.core.interrupt import poll
from scirocco.core.keys import as_key
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Key, Params
from scirocco.optimise.curvature import FULL
from scirocco.optimise.mode import climb
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Density, Target

SEARCHES = 4
WORK = 5e7  # rows times parameters, up to which searches are made
WIDE = 3.0  # sds of the prior, as far as searches begin from the mode
BOUNDS = 10.0, 1e3  # posterior sds: between them lies how far that is
APART = 5.0  # posterior sds, in some coordinate, between two modes
LESS_LIKELY = 10.0  # log density by which a mode may be lower and count


def other_modes(
    target: Target, mode: Params, scale: Scale, seed: int, starts: Callable[[Key], Params] | None
) -> list[np.ndarray]:
    """Places of other modes, as vectors; none are looked for where that would take long."""
    flat, unravel = ravel_pytree(mode)
    if not isinstance(target.source, Arrays) or flat.size > FULL or target.size * flat.size > WORK:
        return []
    here, sd = np.asarray(flat, np.float64), np.sqrt(scale.variance)
    found: list[np.ndarray] = []
    for start in _places(target, mode, sd, seed, starts):
        poll()
        there = climb(target, unravel(jnp.asarray(start, flat.dtype)))
        place = np.asarray(ravel_pytree(there)[0], np.float64)
        known = [here, *found]
        if all_finite(there) and all(np.max(np.abs(place - other) / sd) > APART for other in known):
            less = -float(target.log_posteriors(jax.tree.map(lambda leaf: leaf[None], there), mode)[0])
            if less < LESS_LIKELY:
                found.append(place)
    return found


def _places(
    target: Target, mode: Params, sd: np.ndarray, seed: int, starts: Callable[[Key], Params] | None
) -> np.ndarray:
    if starts is not None:
        keys = [as_key(key_words(seed, Purpose.CHAIN_START, number)) for number in range(SEARCHES)]
        return np.stack([np.asarray(ravel_pytree(starts(key))[0], np.float64) for key in keys])
    flat = np.asarray(ravel_pytree(mode)[0], np.float64)
    bent = np.asarray(_prior_curvature(target.density, mode), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = np.where(bent > 0, 1 / np.sqrt(bent), np.inf)
    wide = np.clip(WIDE * prior, BOUNDS[0] * sd, BOUNDS[1] * sd)
    return flat + wide * generator(seed, Purpose.OTHER_MODES).standard_normal((SEARCHES, flat.size))


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_curvature(density: Density, mode: Params) -> Array:
    """The diagonal of the Hessian of - log prior."""
    flat, unravel = ravel_pytree(mode)
    return jnp.diag(jax.hessian(lambda x: -density.log_prior(unravel(x)))(flat))
