"""``step_size="auto"``: a step size from the mode, the curvature there, the gradient noise and the sampler's own law.

1. The mode, and the curvature there: coordinates phi in which the posterior is near N(0, I) (``optimise.curvature``).
2. Strata, so that rows without their like are drawn often enough (``tuning.strata``; data in memory, unless an
   estimator or a batching is given).
3. Gradient noise, measured with the run's own estimator at draws of that normal law. Control variates are exact at the
   mode and noisy elsewhere, so it must not be measured at the mode.
4. The sampler's law on a Gaussian (``stationary_variance``) with this noise: the largest h at which it predicts no
   error of a posterior sd beyond the limit, and at which the chain is stable even where curvature is ``MARGIN`` times
   that at the mode.
5. At the same draws, how far grad U is from that of the normal law. Where that is far, chains leave the mode, and what
   was said of it is found anew in the typical set (``tuning.warm_up``); the step is then tried out, as it is for
   samplers that do not know their law (``tuning.trial``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Strata, Sweeps
from scirocco.bias.strain import largest, predicted_error
from scirocco.core.clock import OutOfTimeError, time_is_over
from scirocco.core.interrupt import poll
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.types import Array, Data, Key, Params
from scirocco.density import Density, merge
from scirocco.estimators import SAGA, SVRG, ControlVariate, Estimator, Plain
from scirocco.estimators.control_variate import anchor
from scirocco.gradient.blocks import split
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.program import Program
from scirocco.optimise.curvature import Curvature, curvature, top_curvatures
from scirocco.optimise.mode import find_mode
from scirocco.samplers.base import Auto, at, automatic, has_law
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.samplers.rescaled import Rescaled
from scirocco.samplers.underdamped import UnderdampedLangevin
from scirocco.target import Target
from scirocco.tuning import manifold
from scirocco.tuning.elsewhere import other_modes
from scirocco.tuning.mixing import steps_per_draw, steps_per_normal_draw
from scirocco.tuning.report import FAR, OVERFLOW, Trial, Tuning, WarmUpRound
from scirocco.tuning.rounds import CHAINS, Round, Rounds
from scirocco.tuning.rounds import DRAWS as DRAWS_OF_ROUND
from scirocco.tuning.strata import stratify
from scirocco.tuning.trial import try_steps
from scirocco.tuning.warm_up import Warmed, warm_up

MARGIN = 9.0  # curvature elsewhere over that at the mode: sds a third as large
AIM = 0.6  # of the limit: the prediction has errors of its own, and a run has Monte Carlo error
DOUBT = 2.0  # times the departure from a Gaussian: by so much less is aimed at
STIFF = 0.5  # error of the sd that is allowed along the stiffest directions that no scaling has met
DRAWS, REPEATS = 16, 16  # points at which noise is measured, and minibatches at each
QUANTILES = 101  # of the noise; the law need not be solved for every one of 10^5 coordinates
FIRST = 0.5  # over the largest curvature: where trials begin that no law guides
GENTLE = 20.0  # departure from a Gaussian, up to which chains are let go around the mode
LOOKS = 4  # draws of each chain at which the largest curvature is looked for
STEPS = 1e-8, 10.0  # between them lies a step size, in units of the posterior sds
STARTS = 32  # draws of the warm-up that chains start from
QUIET = 0.5  # times the curvature: noise so small that no other estimator need be tried
WIDE, RESTLESS = 5.0, 0.1  # sds from the mode, and noise there, in units of that distance, that is worth a second look
END = "at the point that the search for the mode ended at"
AROUND = "within a few posterior sds of the mode"
WORTH = 0.5  # of the plain noise: control variates cost a second gradient and must save this


class Tuned(NamedTuple):
    """A kernel ready to run from ``position``, and the report on how it was made."""

    kernel: Kernel
    position: Params  # of the free numbers that chains move
    report: Tuning

    @property
    def initial(self) -> Params:
        """The parameters there."""
        return self.kernel.target.to_parameters.parameters(self.position)

    @property
    def sampler(self) -> Any:
        """The sampler with its step size, in the coordinates of the curvature."""
        return self.kernel.sampler

    @property
    def estimator(self) -> Estimator:
        """The one given, or the better of ``Plain`` and ``ControlVariate``."""
        return self.kernel.estimator

    @property
    def batch_size(self) -> int:
        """The number of rows of a minibatch."""
        return self.kernel.batch_size


Make = Callable[..., Kernel]
"""(batch size, batching) -> the kernel with everything else as the user wants it."""


def tune_kernel(
    make: Make, rows: int, initial: Params, *, free: bool, free_batch: bool, look_elsewhere: bool,
    starts: Callable[[Key], Params] | None, making: Rounds, near: bool = False,
) -> Tuned:  # fmt: skip
    """Find the step size of a kernel whose sampler leaves it open.

    ``near`` says that ``initial`` is among the draws or near the mode, as the mean of an earlier run is.
    ``free`` leaves the estimator and the batching open too, ``free_batch`` the batch size; other modes are looked for
    if ``look_elsewhere``, from ``starts`` if there are any. ``making`` has the rounds of the warm-up.
    """
    began = time.perf_counter()
    kernel = make(rows)
    sampler: Any = kernel.sampler
    wishes = automatic(sampler.step_size)
    assert wishes is not None
    temperature = float(at(sampler.temperature, 0))
    if not temperature > 0:
        raise ValueError(f'step_size="auto" needs a positive temperature; got {sampler.temperature!r}')
    position, held = split(jax.tree.map(jnp.asarray, initial), kernel.blocks)
    if not kernel.target.geometry.flat:
        return _tune_on_manifold(kernel, position, held, temperature, wishes, free, began, near)
    here = _at_mode(kernel, make, rows, position, held, temperature, free=free, near=near)
    departure, others, unfinished = here.noise.departure, [], ""
    if here.overflows and wishes.search is False:
        raise ValueError(OVERFLOW)
    lost = here.overflows or here.found.flat > 0  # the search ran off where the density has no maximum, or hardly one
    if look_elsewhere and not held and not lost:
        others = other_modes(kernel.target, here.centre, here.found.scale, kernel.seed, starts)
        unfinished = _late("the search for other modes")
    if wishes.search or (wishes.search is None and (lost or not departure < FAR)):
        # Lost as in a hierarchy whose spread goes to zero, where nothing is like the typical set.
        first = _at(kernel, make, rows, position, held, temperature, free=free) if lost or near else here
        here = _in_typical_set(
            first._replace(overflows=here.overflows),
            others,
            make,
            held,
            temperature,
            wishes,
            making,
            free=free,
            free_batch=free_batch,
        )
        others = []  # chains started there, too: whether they came back is for R-hat to say
        unfinished = _late(f"the warm-up, after {len(here.rounds)} rounds")
    kernel, found, noise, known = here.kernel, here.found, here.noise, has_law(sampler)
    # A sampler that has no law here may depend on where it is, as a Recipe does, and is left in its own coordinates.
    scale = found.scale if sampler.scalable else None
    if known:
        step_size, why = _step_size(sampler, noise, found, temperature, kernel.epoch, wishes, here.stiff)
    else:
        unit = 1 / found.largest if scale else float(np.min(found.scale.diagonal)) ** 2 / found.top
        step_size, why = FIRST * unit, "the sampler does not know its own law: trials decided"
    trials: list[Trial] = []
    tried: Round | None = None
    if (here.rounds or not known) and not unfinished:
        places = _places(here, kernel.seed, temperature)
        trials, step_size, tried = try_steps(
            kernel, scale, here.centre, places, held, temperature, wishes.sd_error, step_size, making
        )
        why = "the law's step was too long: trials decided" if known and len(trials) > 1 else why
        unfinished = _late("the trial of the step")
    sampler = _with_step(sampler, _borne(sampler, step_size, here.rounds) if unfinished else step_size)
    error = predicted_error(sampler, noise.values, 1.0, temperature, kernel.epoch) if known else None
    smallest = found.largest / found.condition if found.kind == "diagonal" else 1.0
    size, draws = found.scale.diagonal.size, tried or here.draws
    if scale is not None:
        sampler = sampler.tuned(size, smallest, found.largest)
    law = (sampler, size, smallest, noise.median, temperature, kernel.seed)
    pace = steps_per_normal_draw(*law) if draws is None else steps_per_draw(draws)
    if scale is not None:
        sampler = Preconditioned(sampler, scale, dispersion=float(np.sqrt(temperature)), starts=here.starts)
    report = Tuning(
        sampler.step_size, wishes.sd_error, error, kernel.batch_size, _named(kernel.estimator), found.kind,
        size, found.condition, found.flat, noise.median, departure, why, time.perf_counter() - began, pace,
        _strata(kernel), here.rounds, tuple(tuple(map(float, p)) for p in others),
        tuple(trials), unfinished, here.overflows,
    )  # fmt: skip
    return Tuned(kernel.replaced(sampler), {**here.centre, **held} if held else here.centre, report)


def _borne(sampler: Any, step_size: float, rounds: Sequence[WarmUpRound]) -> float:
    """A step that was not tried out: no longer than that of the last round, which held its chains."""
    held = [made.step_size for made in rounds if np.isfinite(made.r_hat)]
    return min(step_size, held[-1]) if held and isinstance(sampler, UnderdampedLangevin) else step_size


def _late(where: str) -> str:
    """The place where the time for tuning was over, if it is."""
    return where if time_is_over() else ""


class Place(NamedTuple):
    """Where chains will be, and what the posterior is like there."""

    kernel: Kernel
    centre: Params
    found: Curvature
    noise: Noise
    stiff: float  # error of the sd that is allowed along the stiffest direction
    starts: np.ndarray | None = None  # as phi; None for the normal law
    rounds: tuple[WarmUpRound, ...] = ()
    draws: Round | None = None  # of the last of these
    overflows: bool = False  # within a few sds there is no density in single precision


def _at_mode(
    kernel: Kernel, make: Make, rows: int, position: Params, held: Params, temperature: float, *, free: bool,
    near: bool,
) -> Place:  # fmt: skip
    """The same at the mode."""
    mode, found, overflows = _located(kernel, position, held, near)
    place = _at(kernel, make, rows, mode, held, temperature, free=free, found=found)
    return place._replace(overflows=overflows)


def _at(
    kernel: Kernel, make: Make, rows: int, mode: Params, held: Params, temperature: float, *, free: bool,
    found: Curvature | None = None,
) -> Place:  # fmt: skip
    """The curvature at a place, strata and an estimator by the normal law that these make."""
    if found is None:
        found = curvature(kernel.target, mode, held, seed=kernel.seed)
    if free and not kernel.sampler.full_data:
        if not isinstance(kernel.batching, Sweeps):  # whose order a sampler that asks for it needs more
            strata = stratify(kernel.target, found.scale, mode, held, kernel.seed, rows)
            kernel = make(rows, strata) if strata else kernel
        kernel, noise = _quietest(kernel, found, mode, held, temperature)
    else:
        if isinstance(kernel.estimator, ControlVariate):
            kernel = kernel.replaced(kernel.sampler, kernel.estimator.around(mode))
        noise = measure(kernel, kernel.estimator, found.scale, mode, held, temperature)
    return Place(kernel, mode, found, noise, STIFF)


def _in_typical_set(
    here: Place, others: list[np.ndarray], make: Make, held: Params, temperature: float, wishes: Auto,
    making: Rounds, *, free: bool, free_batch: bool,
) -> Place:  # fmt: skip
    """The same by draws and gradients of a warm-up from the mode, and from ``others`` if there are any."""
    if time_is_over():  # before there was anything else to go by
        raise OutOfTimeError
    kernel = here.kernel
    if isinstance(kernel.batching, Strata) and free:  # they are those of the law at the mode
        kernel = make(kernel.batch_size)
    scale, spread, noise = _gentle(kernel, here, held, temperature)
    try:
        warmed = warm_up(
            kernel, scale, spread, here.centre, others, held, temperature, noise.values, make if free_batch else None,
            making, free=free,
        )  # fmt: skip
    except FloatingPointError:
        if here.overflows:
            raise FloatingPointError(OVERFLOW) from None
        raise
    phi = warmed.phi
    return Place(
        warmed.kernel, warmed.mean, _around(warmed, held, kernel.seed), Noise(warmed.noise, warmed.departure),
        wishes.sd_error, phi[np.linspace(0, len(phi) - 1, STARTS).astype(int)], warmed.rounds,
        warmed.draws, here.overflows,
    )  # fmt: skip


def _gentle(kernel: Kernel, here: Place, held: Params, temperature: float) -> tuple[Scale, float, Noise]:
    """A scale around the mode, and how far to go in it, where gradients are still of the size that it foretells.

    Directions that look wide at the mode may not be: then sds given all other parameters are safer.
    """
    diagonal = Scale(here.found.scale.diagonal)
    tried = []
    for scale, spread in product((here.found.scale, diagonal), (1.0, 0.25, 0.06)):
        noise = measure(kernel, kernel.estimator, scale, here.centre, held, temperature * spread**2)
        tried.append((scale, spread * float(np.sqrt(temperature)), noise))
        if noise.departure < GENTLE:
            return tried[-1]
    return min(tried, key=lambda found: found[2].departure)


def _around(warmed: Warmed, held: Params, seed: int) -> Curvature:
    """The curvature that is left in the coordinates of the warm-up, where the chains are."""
    flat, unravel = ravel_pytree(warmed.mean)
    target, scale = warmed.kernel.target, warmed.scale
    beside = "" if scale.vectors is None else f", with {scale.vectors.shape[1]} directions of their own"
    kind = "of draws and gradients" + (beside if scale.matrix is None else ", with correlations")
    draws = warmed.draws.draws[:, :: DRAWS_OF_ROUND // LOOKS].reshape(-1, flat.size)
    places = [unravel(jnp.asarray(place, flat.dtype)) for place in draws]
    top = max(1.0, float(np.max(top_curvatures(target, places, held, scale, seed))))
    return Curvature(scale, kind, top, top, top, 0)


def _places(here: Place, seed: int, temperature: float) -> np.ndarray:
    """Where chains on trial start: at draws, or around the mode."""
    flat = np.asarray(ravel_pytree(here.centre)[0], np.float64)
    rng = generator(seed, Purpose.TRIAL_STARTS)
    if here.starts is None:
        phi = np.sqrt(temperature) * rng.standard_normal((CHAINS, flat.size))
    else:
        phi = here.starts[rng.choice(len(here.starts), CHAINS, replace=False)]
    return flat + np.stack([np.asarray(here.found.scale.forward(z)) for z in phi])


def _tune_on_manifold(
    kernel: Kernel, position: Params, held: Params, temperature: float, wishes: Auto, free: bool, began: float,
    near: bool,
) -> Tuned:  # fmt: skip
    """The same in the tangent space at the mode: see ``tuning.manifold``."""
    sampler: Any = kernel.sampler
    target = kernel.target
    if wishes.search:
        raise ValueError("search=True: there is no warm-up on manifolds, it takes the linear coordinates of flat space")
    if not has_law(sampler):
        raise ValueError(
            f'step_size="auto" on a manifold needs a sampler that knows its law, and {sampler!r} does not: give a step '
            "size, or leave out matrices and resample_momentum"
        )
    target.check(position, held)
    _with_step(sampler, 1.0).check(position, target.geometry)
    position = target.geometry.nearest(position)
    search = _search(kernel.seed, near)
    start = kernel.estimator.start(target, position, held, search)
    own = isinstance(kernel.estimator, ControlVariate)
    mode = start if own else search(target, position, held=held)
    _overflows(target, mode, held, END)
    units = manifold.units(target, mode, held, kernel.seed)
    if free and not sampler.full_data:
        kernel, values, departure = manifold.quietest(kernel, units.scale, mode, held, temperature, QUIET, WORTH)
    else:
        kernel = manifold.centred(kernel, mode)
        values, departure = manifold.measure(kernel, kernel.estimator, units.scale, mode, held, temperature)
    noise = Noise(values, departure)
    found = Curvature(
        Scale(np.ones(values.size)), units.kind, units.largest, units.condition, units.largest, units.flat
    )
    step_size, why = _step_size(sampler, noise, found, temperature, kernel.epoch, wishes)
    top = units.largest
    sampler = _with_step(sampler, step_size).tuned(target.geometry.dimension(mode), top / units.condition, top)
    error = predicted_error(sampler, noise.values, 1.0, temperature, kernel.epoch)
    pace = steps_per_normal_draw(sampler, values.size, top / units.condition, noise.median, temperature, kernel.seed)
    report = Tuning(
        sampler.step_size, wishes.sd_error, error, kernel.batch_size, _named(kernel.estimator), found.kind,
        values.size, found.condition, found.flat, noise.median, departure, why, time.perf_counter() - began, pace,
    )  # fmt: skip
    rescaled = Rescaled(sampler, units.scale, dispersion=float(np.sqrt(temperature)))
    return Tuned(kernel.replaced(rescaled), {**mode, **held} if held else mode, report)


def _search(seed: int, near: bool) -> Callable[..., Params]:
    """The search for the mode; from ``near`` it there is no descent, only the polish."""
    return partial(find_mode, seed=seed, steps=0) if near else partial(find_mode, seed=seed)


def _located(kernel: Kernel, position: Params, held: Params, near: bool) -> tuple[Params, Curvature, bool]:
    """The mode, which a control variate may bring along, the curvature there, and whether the density overflows."""
    target, estimator, seed = kernel.target, kernel.estimator, kernel.seed
    target.check(position, held)
    search = _search(seed, near)
    start = estimator.start(target, position, held, search)  # the mode, or the estimator's own checks
    mode = start if isinstance(estimator, ControlVariate) else search(target, position, held=held)
    _overflows(target, mode, held, END)
    try:
        found = curvature(target, mode, held, seed=seed)
        flat, unravel = ravel_pytree(mode)
        rng = generator(seed, Purpose.BOUNDARY_DRAWS)
        draws = rng.standard_normal((DRAWS, flat.size)).astype(flat.dtype)
        places = [unravel(np.asarray(flat) + found.scale.forward(phi)) for phi in draws]
        return mode, found, any([_overflows(target, place, held, AROUND) for place in places])
    except FloatingPointError:
        raise FloatingPointError(
            'the curvature at the mode is not finite, so step_size="auto" has nothing to start from: give a better '
            "initial position, or a step size"
        ) from None


def _overflows(target: Target, position: Params, held: Params, place: str) -> bool:
    """Whether only double precision has a density there; rejects one that ends where a chain would go."""
    value = float(_log_prior(target.density, position, held))
    if not (np.isnan(value) or value == -np.inf):
        return False
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), position)
        if np.isfinite(float(_log_prior(target.density, double, held))):
            return True
    raise ValueError(
        f"log_prior is {value} {place}: the density has a hard boundary there, which no gradient sampler respects. "
        "Say so with constraints={'sigma': scirocco.constraints.positive}, or reparametrise so that every real "
        "number is allowed"
    )


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _log_prior(density: Density, position: Params, held: Params) -> Array:
    return jnp.asarray(density.log_prior(merge(position, held)))


def _quietest(kernel: Kernel, found: Curvature, mode: Params, held: Params, temperature: float) -> tuple[Kernel, Noise]:
    """Control variates, of second order if the Hessian is at hand; the plain gradient where they are no better.

    Far from the mode, as in networks, control variates may be noisier than what they control.
    """
    first = ControlVariate().around(mode)
    estimator: Estimator = replace(first, order=2) if found.kind == "full" else first
    if estimator is not first:
        # The Hessian goes on growing where gradients of single rows do not: far out, its noise may throw a chain out.
        wide = [measure(kernel, estimator, found.scale, mode, held, temperature * WIDE**2)]
        if not wide[0].mean < RESTLESS * temperature * WIDE**2:
            wide.append(measure(kernel, first, found.scale, mode, held, temperature * WIDE**2))
            estimator = estimator if wide[0].mean < wide[1].mean else first
    noise = measure(kernel, estimator, found.scale, mode, held, temperature)
    if not noise.median < QUIET:
        plain = measure(kernel, Plain(), found.scale, mode, held, temperature)
        if not noise.median < WORTH * plain.median:
            estimator, noise = Plain(), plain
    return kernel.replaced(kernel.sampler, estimator), noise


def _strata(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """(rows, rows of them in each minibatch) of each stratum."""
    if not isinstance(kernel.batching, Strata):
        return ()
    sizes = np.bincount(kernel.batching.labels)
    return tuple((int(size), n) for size, n in zip(sizes, kernel.batching.allocated(kernel.batch_size), strict=True))


def _named(estimator: Estimator) -> str:
    second = isinstance(estimator, ControlVariate) and estimator.order == 2
    return f"{type(estimator).__name__}{' of second order' if second else ''}"


# Gradient noise.


class Noise(NamedTuple):
    """Gradient noise along each parameter's direction in phi, and how far the posterior is from the normal law."""

    values: np.ndarray
    departure: float

    @property
    def mean(self) -> float:
        """The mean over the parameters."""
        return float(np.mean(self.values))

    @property
    def median(self) -> float:
        """The median over the parameters, a typical value."""
        return float(np.median(self.values))


def measure(
    kernel: Kernel, estimator: Estimator, scale: Scale, mode: Params, held: Params, temperature: float
) -> Noise:
    """The variance over minibatches of (L L' g)_j, over P_jj, averaged over draws of the normal law.

    And how far gradients there are from those of the normal law, free of where the search for the mode ended: the
    gradient at the mode, which should be zero, is taken off, minibatch by minibatch.
    """
    flat, unravel = ravel_pytree(mode)
    target, rng = kernel.target, generator(kernel.seed, Purpose.NOISE_DRAWS)
    phi = (np.sqrt(temperature) * rng.standard_normal((DRAWS + 1, flat.size))).astype(flat.dtype)
    if isinstance(estimator, SAGA | SVRG):  # they remember gradients of other draws: one such draw stands for them
        state, estimator = anchor(target, unravel(flat + scale.forward(phi[-1])), held), ControlVariate()
    else:
        state = estimator.init(target, mode, held)
    program = kernel.replaced(kernel.sampler, estimator).program
    words = key_words(kernel.seed, Purpose.NOISE_BATCHES)
    found = []
    for number, draw in enumerate(phi[:-1]):
        poll()
        data = kernel.data_at(0, end=1)
        found.append(_slopes(program, scale, state, mode, held, draw, words, number * REPEATS, data))
    spread, white, noise = (np.array(part, np.float64) for part in zip(*found, strict=True))
    away = np.mean((white - phi[:-1]) ** 2) - np.mean(noise) / REPEATS
    departure = max(0.0, float(away / np.mean(phi[:-1].astype(np.float64) ** 2))) if np.isfinite(away) else np.inf
    return Noise(spread.mean(axis=0) / scale.variance, departure)


@partial(jax.jit, compiler_options=QUICK)
def _slopes(
    program: Program, scale: Scale, state: Any, mode: Params, held: Params, phi: Array, words: Array, first: Array,
    data: Data,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """At one draw: the variance of L L' g over minibatches; of L' g less that at the mode the mean and its variance."""
    flat, unravel = ravel_pytree(mode)
    theta, key = unravel(flat + scale.forward(phi)), as_key(words)

    def once(number: Array) -> tuple[Array, Array]:
        own = fold(key, Use.MINIBATCH, number)
        batch = program.draw.fresh(own, data)
        here, there = (
            scale.transposed(ravel_pytree(program.estimate(own, state, place, held, batch)[0])[0])
            for place in (theta, mode)
        )
        return here, here - there

    white, change = jax.lax.map(once, first + jnp.arange(REPEATS, dtype=jnp.int32))
    along = jax.vmap(scale.forward)(white)
    return jnp.var(along, axis=0, ddof=1), jnp.mean(change, axis=0), jnp.mean(jnp.var(change, axis=0, ddof=1))


# The step size.


def _step_size(
    sampler: Any, noise: Noise, found: Curvature, temperature: float, epoch: float, wishes: Auto, most: float = STIFF
) -> tuple[float, str]:
    """The largest h within the limit, by halving on a log scale, and what it was that set it."""
    values = noise.values
    if not np.all(np.isfinite(values)):
        return FIRST / found.largest, "gradient noise is not finite around the mode"
    if values.size > QUANTILES:
        values = np.quantile(values, np.linspace(0, 1, QUANTILES))
    # The law is that of a Gaussian: the farther the posterior is from one, the less its prediction is relied on.
    aim = AIM * wishes.sd_error / (1 + DOUBT * noise.departure)

    def stable(h: float) -> bool:
        candidate = _with_step(sampler, h)
        worst = predicted_error(candidate, values * found.largest, MARGIN * found.largest, temperature, epoch)
        return bool(np.isfinite(worst))

    def accurate(h: float) -> bool:
        candidate = _with_step(sampler, h)
        good = predicted_error(candidate, values, 1.0, temperature, epoch) <= aim
        if found.largest > 1:
            stiff = predicted_error(candidate, values * found.largest, found.largest, temperature, epoch)
            good = good and stiff <= most
        return bool(good)

    steady = min(largest(stable, *STEPS), sampler.longest_step())
    h = min(steady, largest(accurate, *STEPS))
    if h < steady:
        return h, f"the largest step that keeps every posterior sd within {wishes.sd_error:.0%}, by the sampler's law"
    return h, f"the largest step that is stable, with a margin for {MARGIN:g} times the curvature found"


def _with_step(sampler: Any, step_size: float) -> Any:
    return replace(sampler, step_size=step_size)
