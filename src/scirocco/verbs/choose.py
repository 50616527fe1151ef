"""The sampler of a run that names none: exact on all data where minibatches save next to nothing.

The gradient of all data and that of a minibatch are compiled and timed. What ``NUTS`` would take for its usual number
of gradients, and ``UnderdampedLangevin`` for its steps and for tuning, follows from that, and so does what their
programs take to be compiled, next to nothing where they are kept from an earlier run, as then the gradients are too;
the reason goes into the description. Once tuning knows how many steps make an effective draw, the choice is looked at
again: where chains from minibatches crawl, as in a funnel, gradients of all data may be cheaper after all.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Arrays, Batch
from scirocco.core.checks import require_seed
from scirocco.core.clock import compile_seconds
from scirocco.core.types import Data, Params
from scirocco.density import Density
from scirocco.gradient.engine import is_function
from scirocco.run.description import StepSettings
from scirocco.samplers import NUTS, UnderdampedLangevin
from scirocco.samplers.base import Sampler
from scirocco.target import Target, require_target
from scirocco.verbs.tune import default_batch_size

SAVES = 2.0  # times as dear as that of a minibatch: a gradient of all data that is not worth being approximated
LEAPFROGS = 7  # gradients of a step of NUTS, as it is on most posteriors that are near Gaussian
TREES = 8  # times as many, for an effective draw of NUTS where chains from minibatches crawl
TUNING = 40  # gradients of all data that tuning takes
COMPILED = {"exact": 17, "minibatches": 25}  # times as long as both gradients: all programs of a run, tuning included
TIMES = 7
LARGEST = 10**6  # rows: beyond, nothing need be timed


class Choice(NamedTuple):
    """A sampler and why it was taken; the seconds of a gradient, of all data and of a minibatch, if they were timed."""

    sampler: Sampler
    reason: str
    whole: float = np.inf
    part: float = 0.0

    def reconsidered(self, pace: float) -> Choice | None:
        """NUTS after all, if an effective draw from minibatches takes so many steps that it costs more."""
        minibatches, exact = pace * self.part, TREES * LEAPFROGS * self.whole
        if isinstance(self.sampler, NUTS) or not minibatches > exact:
            return None
        reason = (
            f"exact, because chains from minibatches take {pace:.0f} steps for an effective draw, about "
            f"{1e3 * minibatches:.0f} ms, and NUTS about {1e3 * exact:.0f} ms"
        )
        return Choice(NUTS(), reason)


def choose(target: Target, initial: Params, settings: StepSettings, *, open_: bool) -> Choice:
    """The sampler for a target, by what its gradients cost; ``open_`` if nothing else was said of minibatches."""
    require_target(target)
    automatic = UnderdampedLangevin(step_size="auto")
    if not open_:
        return Choice(automatic, "from minibatches, as was asked for")
    if not target.geometry.flat:
        return Choice(automatic, "parameters live on a manifold")
    if target.random:
        return Choice(automatic, "the likelihood is random")
    if not isinstance(target.source, Arrays) or target.size > LARGEST:
        return Choice(automatic, "the data are too many for gradients of all of them")
    if importlib.util.find_spec("blackjax") is None:
        return Choice(automatic, "NUTS is not installed (extra nuts)")
    if settings.burn_in < NUTS().warm_up:
        return Choice(automatic, "the burn-in is too short for NUTS")
    if is_function(initial):
        initial = initial(jax.random.key(require_seed(settings.seed)))
    rows, free = default_batch_size(target), target.free()
    (whole, part), compiled = _seconds(free, free.freed(initial), (target.size, rows))
    steps = settings.chains * (settings.burn_in + settings.num_samples * (settings.thin or 1))
    exact = steps * LEAPFROGS * whole + COMPILED["exact"] * compiled
    minibatches = steps * part + TUNING * whole + COMPILED["minibatches"] * compiled
    costs = (
        f"a gradient of all {target.size:,} rows takes {1e6 * whole:.0f} us, of a minibatch of {rows:,} "
        f"{1e6 * part:.0f} us: about {exact:.2g} s for NUTS, {minibatches:.2g} s from minibatches, with "
        "what compiling takes"
    )
    if whole < SAVES * part:
        return Choice(NUTS(), f"exact, because minibatches would save next to nothing: {costs}")
    if exact < minibatches:
        return Choice(NUTS(), f"exact, because tuning for minibatches would take longer than they save: {costs}")
    return Choice(automatic, f"from minibatches: {costs}", whole, part)


def _seconds(target: Target, initial: Params, sizes: Sequence[int]) -> tuple[list[float], float]:
    """The time of a gradient from so many rows, the least of a few, in turns, so that load meets all of them; and what
    compiling them took."""
    batches = [jax.device_put(target.source.first(rows)) for rows in sizes]
    before, computed = compile_seconds(), time.process_time()
    for data in batches:
        jax.block_until_ready(_gradient(target.density, initial, data))
    # On a machine that is busy elsewhere compiling takes longer, and so would all that is compared with it.
    compiled = min(compile_seconds() - before, time.process_time() - computed)
    least = [np.inf for _ in sizes]
    for _ in range(TIMES):
        for number, data in enumerate(batches):
            began = time.perf_counter()
            jax.block_until_ready(_gradient(target.density, initial, data))
            least[number] = min(least[number], time.perf_counter() - began)
    return least, compiled


@partial(jax.jit, static_argnums=0)
def _gradient(density: Density, position: Params, data: Data) -> Params:
    rows = jax.tree.leaves(data)[0].shape[0]
    batch = Batch(data, jnp.float32(density.size / rows), jnp.arange(rows, dtype=jnp.int32))
    return density.potential_gradient(position, None, batch)
