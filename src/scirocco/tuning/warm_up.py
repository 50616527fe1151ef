"""A warm-up in the typical set, for posteriors that the law at the mode does not describe.

In a hierarchical model the mode is a place where no draw ever is: scales are near zero there, and curvature and
gradient noise are not those of where the mass lies. So a few chains of underdamped Langevin dynamics leave it, in
rounds that double. After each round

    scale    Sigma with Sigma Cov(grad U) Sigma = Cov(theta): the covariance and the inverse curvature if the posterior
             is Gaussian, between the two if not (its diagonal alone is nutpie's, sd theta / sd grad U); a diagonal and
             a few directions for more than 500 parameters
    noise    of the gradient, from two fresh minibatches at each draw: minibatches are as large as it takes to tame it
    centre   of control variates: the mean of the draws
    step     as long as the virial identity allows, E (theta - mean) . grad U = d T

The two gradients at a draw have independent errors, so that their products give Cov(grad U) without the noise. Rounds
end when the chains agree with each other and the scale has settled, after the last, or when the time for them is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.clock import OutOfTimeError
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Params
from scirocco.estimators import ControlVariate, Estimator, Plain
from scirocco.gradient.kernel import Kernel
from scirocco.optimise.curvature import FULL
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.samplers.underdamped import UnderdampedLangevin
from scirocco.tuning.report import WarmUpRound
from scirocco.tuning.rounds import CHAINS, Round, Rounds

FIRST = 512  # steps of the first round, which double
MOST_ROUNDS, LEAST_ROUNDS = 8, 3  # that count
TRIES = 12  # rounds in all, with those in which chains were lost
LONGEST = 0.5  # step, in units of the posterior sds
HOT, COLD, LOST = 1.3, 1.1, 5.0  # times the temperature: the step is halved, lengthened, and the round not used
TAME = 0.5  # times the curvature: minibatch noise that heats a chain by an eighth at the longest step
LARGER, SLOWLY = 64, 4  # times the batch size: so many rows are taken at most, and times that of the round before
FEW = 2000  # rows of data that cost no more than a step does without any
AGREED = 1.05  # R-hat of the chains of a round
SETTLED = 0.1  # relative change of a typical scale in a round
TINY = 1e-12  # times the curvature: noise that is next to none
FLOOR = 0.05  # of the variance of gradients: the least that is left of it when the noise is taken off
SMALLEST = 1e-3  # of the median eigenvalue
DIRECTIONS = 10  # along which draws are widest, and as many along which gradients are steepest
WORTHWHILE = 0.2  # log of the factor along a direction, from which it is part of the scale


class Warmed(NamedTuple):
    """Where the typical set is, and what the posterior is like there."""

    kernel: Kernel
    """With the batch size, the estimator and its centre that serve there."""
    mean: Params
    scale: Scale
    draws: Round
    noise: np.ndarray
    """Along each parameter's own direction, in units of its curvature."""
    rounds: tuple[WarmUpRound, ...]

    @property
    def phi(self) -> np.ndarray:
        """The draws of all chains in units of the scale."""
        return self.scale.backward(self.draws.pooled()[0])

    @property
    def departure(self) -> float:
        """How far grad U at the draws is from that of the normal law: 0 for a Gaussian, whatever the minibatches."""
        _, first, second = self.draws.pooled()
        phi = self.phi
        first, second = (
            np.stack([np.asarray(self.scale.transposed(g)) for g in part]) - phi for part in (first, second)
        )
        return max(0.0, float(np.mean(first * second) / np.mean(phi**2)))


def warm_up(
    kernel: Kernel, scale: Scale, spread: float, mode: Params, others: Sequence[np.ndarray], held: Params,
    temperature: float, noise: np.ndarray, make: Callable[[int], Kernel] | None, making: Rounds, *, free: bool,
) -> Warmed:  # fmt: skip
    """From around the mode and ``others``, as far as ``spread`` in units of the scale, into the typical set.

    ``noise`` is that of gradients there; ``make`` gives kernels of other batch sizes, ``free`` leaves the estimator
    open.
    """
    rows = kernel.batch_size
    kernel = _sized(kernel, noise, make, rows)
    flat, unravel = ravel_pytree(mode)
    rng = generator(kernel.seed, Purpose.SEARCH_CHAINS)
    phi = spread * rng.standard_normal((CHAINS, flat.size))
    modes = [np.asarray(flat, np.float64), *others]
    places = np.stack([modes[k % len(modes)] + np.asarray(scale.forward(z)) for k, z in enumerate(phi)])
    whole = flat.size <= FULL
    if whole and scale.matrix is None:
        scale = Scale(scale.diagonal, np.eye(flat.size))
    centre, step, steps, longest = mode, LONGEST / 8, FIRST, LONGEST
    warmed, before, rounds = None, None, []
    for number in range(TRIES):
        estimator = _estimator(kernel, free)
        sampler = Preconditioned(UnderdampedLangevin(step, temperature=temperature), scale)
        try:
            made = making.run(kernel.replaced(sampler, estimator), centre, places, held, steps, number)
        except OutOfTimeError:
            if warmed is None:
                raise
            break
        heat = np.inf if made is None else made.virial(temperature).overall
        if made is None or not heat < LOST:
            rounds.append(WarmUpRound(steps, step, kernel.batch_size, heat, np.inf))
            if warmed is not None:
                longest = step / 2
            step /= 4
            if warmed is not None and before is not None:  # it was the new scale that was too wide
                scale, before = before, None
            continue
        new, noise = _scale(made, whole)
        settled = float(np.median(np.abs(np.log(new.variance / scale.variance)))) / 2 < SETTLED
        rounds.append(WarmUpRound(steps, step, kernel.batch_size, heat, made.r_hat))
        scale, before, places, centre = new, scale, made.last, unravel(jnp.asarray(made.mean, flat.dtype))
        warmed = Warmed(kernel, centre, scale, made, noise, ())
        counted = sum(np.isfinite(r.r_hat) for r in rounds)
        other, kernel = kernel, _sized(kernel, noise, make, rows)
        done = kernel is other and counted >= LEAST_ROUNDS and settled and made.r_hat < AGREED
        if done or counted == MOST_ROUNDS:
            break
        step = step / 2 if heat > HOT else min(1.5 * step, longest) if heat < COLD else step
        steps *= 2
    if warmed is None:
        raise FloatingPointError(
            'no step size keeps a chain finite: step_size="auto" found nothing. Look at the model at the mode '
            "(scirocco.find_mode), rescale its parameters, or give a step size"
        )
    n, size = warmed.kernel.batch_size, kernel.target.size
    resized = 1.0 if kernel.batch_size == n else (1 / kernel.batch_size - 1 / size) / (1 / n - 1 / size)
    kernel = _settled(kernel, centre, free)
    return warmed._replace(kernel=kernel, noise=resized * warmed.noise, rounds=tuple(rounds))


def _estimator(kernel: Kernel, free: bool) -> Estimator:
    """Control variates around the centre of the round; the plain gradient if it is exact, or the user's choice."""
    plain = kernel.batch_size == kernel.target.size or (not free and isinstance(kernel.estimator, Plain))
    return Plain() if plain else ControlVariate()


def _settled(kernel: Kernel, centre: Params, free: bool) -> Kernel:
    """The kernel with the estimator that a run from the typical set has."""
    estimator = _estimator(kernel, free) if free else kernel.estimator
    if isinstance(estimator, ControlVariate):
        estimator = estimator.around(centre)
    return kernel.replaced(kernel.sampler, estimator)


def _sized(kernel: Kernel, noise: np.ndarray, make: Callable[[int], Kernel] | None, least: int) -> Kernel:
    """The kernel with minibatches whose noise, which falls as 1/n - 1/N, is tame, of ``least`` rows or more.

    Of large data they grow slowly: noise at the mode and on the way may say nothing of that in the typical set.
    """
    n, size = kernel.batch_size, kernel.target.size
    typical = float(np.quantile(noise, 0.9)) if np.all(np.isfinite(noise)) else np.inf
    if make is None or n == size:
        return kernel
    if size <= FEW:
        return make(size)
    most = min(LARGER * least, size, kernel.target.source.resident_rows)
    wanted = most if not np.isfinite(typical) else 1 / (1 / size + TAME / max(typical, TINY) * (1 / n - 1 / size))
    if typical > 2 * TAME:
        most = most if most == size else min(most, SLOWLY * n)
        rows = size if 2 * wanted > size and most == size else int(min(wanted, most))
        return make(rows) if rows > n else kernel
    rows = max(least, int(2 * wanted))
    return make(rows) if 2 * rows < n else kernel


def _scale(made: Round, whole: bool) -> tuple[Scale, np.ndarray]:
    """The scale by draws and gradients, a matrix if ``whole``; and the noise of a gradient in its units."""
    away, first, second = made.within()
    count, size = away.shape
    slope, error = (first + second) / 2, (first - second) / 2
    bent = np.mean(slope**2, axis=0)
    bent = np.maximum(bent - np.mean(error**2, axis=0), FLOOR * bent)
    tiny = np.finfo(np.float64).tiny
    diagonal = (np.maximum(np.mean(away**2, axis=0), tiny) / np.maximum(bent, tiny)) ** 0.25
    scale = Scale(diagonal)
    if whole:
        first, second = first * diagonal, second * diagonal
        covariance = (away / diagonal).T @ (away / diagonal) / count
        bent = (first.T @ second + second.T @ first) / (2 * count)
        scale = Scale(diagonal, _power(_between(*(_shrunk(c, size / count) for c in (covariance, bent))), 0.5))
    else:
        scale = _with_directions(scale, away, first, second)
    along = np.stack([np.asarray(scale.forward(scale.transposed(e))) for e in error])
    return scale, 2 * np.mean(along**2, axis=0) / scale.variance


def _with_directions(scale: Scale, away: np.ndarray, first: np.ndarray, second: np.ndarray) -> Scale:
    """The diagonal scale with factors along a few directions in which draws are much wider, or gradients steeper.

    Of more parameters than draws some direction always looks wide by chance: half of the draws propose directions, the
    other half says how wide and how steep they are.
    """
    x, g, f = away / scale.diagonal, first * scale.diagonal, second * scale.diagonal
    half = len(x) // 2  # of the chains
    proposed = [np.linalg.svd(part[:half], full_matrices=False)[2][:DIRECTIONS] for part in (x, g + f)]
    basis = np.linalg.qr(np.concatenate(proposed).T)[0]
    x, g, f = (part[half:] @ basis for part in (x, g, f))
    covariance, bent = x.T @ x / len(x), (g.T @ f + f.T @ g) / (2 * len(g))
    within = _between(*(_shrunk(c, basis.shape[1] / len(x)) for c in (covariance, bent)))
    values, vectors = np.linalg.eigh(within)
    stretches = np.sqrt(np.maximum(values, SMALLEST))
    counts = np.abs(np.log(stretches)) > WORTHWHILE
    return (
        Scale(scale.diagonal, vectors=basis @ vectors[:, counts], stretches=stretches[counts]) if any(counts) else scale
    )


def _between(covariance: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """Sigma with Sigma bent Sigma = covariance: the geometric mean of the covariance and the inverse of the other."""
    root, inverse = _power(bent, 0.5), _power(bent, -0.5)
    return inverse @ _power(root @ covariance @ root, 0.5) @ inverse


def _shrunk(matrix: np.ndarray, share: float) -> np.ndarray:
    """Towards its diagonal, as few draws as these need it, and positive definite."""
    values, vectors = np.linalg.eigh((matrix + share * np.diag(np.diag(matrix))) / (1 + share))
    return (vectors * np.maximum(values, SMALLEST * np.median(np.abs(values)))) @ vectors.T


def _power(matrix: np.ndarray, power: float) -> np.ndarray:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 1e-12 * values[-1]) ** power) @ vectors.T
