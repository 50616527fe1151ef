"""Whether the posterior has other modes than the one that was found.

Quasi-Newton searches from a few places as wide as the prior is around the mode, or from the user's own starts. Of many
rows a random sample leads the way, and from each of the places where it ends all rows go on: most searches end at one.
Another mode counts if the normal law there has a mass to speak of, if it lies many posterior sds away, and if the
density is lower between the two. What is not found may still be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Arrays
from scirocco.core.clock import OutOfTimeError
from scirocco.core.interrupt import poll
from scirocco.core.keys import as_key
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Key, Params
from scirocco.density import Density
from scirocco.optimise.curvature import FULL, hessian
from scirocco.optimise.mode import quasi_newton
from scirocco.samplers.preconditioned import Scale
from scirocco.target import Sample, Target

SEARCHES = 8  # half of them on the other side of the mode
WORK = 5e7  # rows times parameters, up to which searches are made
ROWS, ROWS_EACH = 50_000, 1000  # of a sample, at least, and for each parameter,
FEWER = 4  # where all are so many times more
WIDE = 3.0  # sds of the prior, as far as searches begin from the mode
BOUNDS = 10.0, 1e3  # posterior sds: between them lies how far that is
APART = 5.0  # posterior sds, in some coordinate, between two modes
LESS_LIKELY = 5.0  # log of the mass, by the normal laws at both, that another mode may have less and count
FLATTEST = 1e-6  # of the largest curvature
ASTRAY = 5.0  # posterior sds that a Newton step has from the end of a search which is no mode
ON_THE_WAY, DEEPER = 17, 3.0  # points between two modes, and by how much the log density is lower at one of them


def other_modes(
    target: Target, mode: Params, scale: Scale, seed: int, starts: Callable[[Key], Params] | None
) -> list[np.ndarray]:
    """Places of other modes, as vectors; none are looked for where that would take long, or when the time is over."""
    flat, unravel = ravel_pytree(mode)
    if not isinstance(target.source, Arrays) or flat.size > FULL or target.size * flat.size > WORK:
        return []
    here, sd = np.asarray(flat, np.float64), np.sqrt(scale.variance)
    found: list[np.ndarray] = []
    with suppress(OutOfTimeError):
        volume = _log_volume(target, mode)
        for there in _ends(target, mode, sd, seed, starts):
            place = np.asarray(ravel_pytree(there)[0], np.float64)
            known = [here, *found]
            if all(np.max(np.abs(place - other) / sd) > APART for other in known):
                way = here + np.linspace(0, 1, ON_THE_WAY)[:, None] * (place - here)
                lower = -target.log_posteriors(jax.vmap(unravel)(jnp.asarray(way, flat.dtype)), mode)
                # Between two modes lies a pass; without one the search stopped on the slope of the first.
                apart = np.max(lower) > max(lower[-1], 0.0) + DEEPER
                if apart and lower[-1] - _log_volume(target, there) + volume < LESS_LIKELY:
                    found.append(place)
    return found


def _ends(
    target: Target, mode: Params, sd: np.ndarray, seed: int, starts: Callable[[Key], Params] | None
) -> Iterator[Params]:
    """Where searches end; those that a sample of the rows leads to the same place are one."""
    flat, unravel = ravel_pytree(mode)
    rows = -(-max(ROWS, ROWS_EACH * flat.size) // target.pass_rows) * target.pass_rows
    sample = Sample.of(target, rows, seed) if target.size >= FEWER * rows else None
    known: list[np.ndarray] = []
    for start in _places(target, mode, sd, seed, starts):
        poll()
        there = quasi_newton(sample or target, unravel(jnp.asarray(start, flat.dtype)))
        if not all_finite(there):
            continue
        if sample is not None:
            place = np.asarray(ravel_pytree(there)[0], np.float64)
            wider = sd * np.sqrt(target.size / rows)  # the sds that the sample has
            if any(np.max(np.abs(place - other) / wider) < 1 for other in known):
                continue
            known.append(place)
            there = quasi_newton(target, there)
        if all_finite(there):
            yield there


def _log_volume(target: Target, mode: Params) -> float:
    """Of the normal law at a mode; none where the density goes on rising, as a search that ran off ends.

    As where a scale is next to zero: there nothing depends on its logarithm, and all looks like a wide mode.
    """
    bent = hessian(target, mode)
    if not np.all(np.isfinite(bent)):
        return -np.inf
    values, vectors = np.linalg.eigh(bent)
    if values[0] <= -FLATTEST * values[-1]:
        return -np.inf
    values = np.maximum(values, FLATTEST * values[-1])
    slope = vectors.T @ ravel_pytree(target.full_gradient(mode))[0]
    if np.sum(slope**2 / values) > ASTRAY**2:
        return -np.inf
    return -0.5 * float(np.sum(np.log(values)))


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
    away = wide * generator(seed, Purpose.OTHER_MODES).standard_normal((SEARCHES // 2, flat.size))
    return flat + np.concatenate([away, -away])  # on both sides


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_curvature(density: Density, mode: Params) -> Array:
    """The diagonal of the Hessian of - log prior."""
    flat, unravel = ravel_pytree(mode)
    return jnp.diag(jax.hessian(lambda x: -density.log_prior(unravel(x)))(flat))
