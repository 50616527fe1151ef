"""Successive halving over step size, batch size and friction, for posteriors that no Gaussian law describes.

Every setting runs a short chain; the better half goes on for twice as long, and so forth. A setting is judged by the
bias that the sampler's law foretells for the variance and the noise that it shows, and by the kernel Stein discrepancy
of its draws. The discrepancy alone would prefer large steps: it rewards a chain that has spread out and hardly sees
that it has spread too far. So among settings within the limit the smallest discrepancy wins (of equals, the largest
step), and where none is within it, the smallest bias. Halving as in Coullon, South and Nemeth (2023), who score by the
discrepancy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.interrupt import poll
from scirocco.core.keys import Use, as_key, fold
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, key_words
from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Data, Params
from scirocco.diagnostics.ksd import ksd
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.program import ChainState, Program
from scirocco.samplers.base import at, has_law
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.tuning.report import Trial

STEPS = tuple(3.0**-k for k in range(-1, 5))  # times the step size to start from
FRICTIONS = (1 / 3, 1.0, 3.0)  # times the sampler's own
BATCHES = (1, 4)  # times the batch size
ROUNDS, FIRST = 3, 500  # halvings, and gradient steps of the first round, twice as many in each that follows
EQUAL = 1.25  # ratio of discrepancies that so few draws cannot tell from 1
FARTHEST = 1e8  # no parameter is so large: the chain is lost, if not yet infinite
DRAWS, SCORES, PROBES = 100, 8, 16  # recorded of a round; minibatches for each score; minibatches for the noise


class _Arm(NamedTuple):
    kernel: Kernel
    step_size: float
    friction: float | None
    state: Any


def search(
    kernel: Kernel, scale: Scale | None, mode: Params, held: Params, limit: float, step_size: float,
    make: Callable[[int], Kernel] | None,
) -> tuple[Kernel, Trial, list[Trial]]:  # fmt: skip
    """The kernel with the batch size that won, the setting that won, and all settings, the best first."""
    own = _friction(kernel.sampler)
    kernels = [kernel]
    for multiple in BATCHES[1:]:
        rows = multiple * kernel.batch_size
        if make is not None and 2 * rows <= kernel.target.size:
            kernels.append(make(rows).replaced(kernel.sampler, kernel.estimator))
    estimator = kernel.estimator.init(kernel.target, mode, held)
    words = key_words(kernel.seed, Purpose.SEARCH_CHAINS)
    arms = []
    for k, factor, share in product(kernels, STEPS, FRICTIONS if own is not None else (None,)):
        friction = None if share is None or own is None else share * own
        arms.append(_Arm(k, factor * step_size, friction, None))
    judged: list[tuple[Trial, _Arm]] = []
    ranked: list[tuple[Trial, _Arm]] = []
    for number in range(ROUNDS):
        judged = []
        for arm in arms:
            poll()
            program = _set(arm.kernel, scale, arm.step_size, arm.friction).program
            state = arm.state or _begin(program, words, mode, held, estimator)
            gap = max(1, FIRST * 2**number // DRAWS)
            fields = _chain(program, words, 1 + number, state, arm.kernel.data_at(0), gap)
            judged.append((_judge(arm, scale, fields), arm._replace(state=fields["state"])))
        judged.sort(key=lambda pair: _rank(pair[0], limit))
        ranked = judged + ranked[len(judged) :]
        arms = [arm for _, arm in judged[: max(1, len(judged) // 2)]]
    best, arm = _quickest(judged, limit)
    if not np.isfinite(best.ksd):
        raise FloatingPointError(
            'no step size keeps a chain finite: step_size="auto" found nothing. Look at the model at the mode '
            "(scirocco.find_mode), rescale its parameters, or give a step size"
        )
    return arm.kernel, best, [best, *(trial for trial, _ in ranked if trial is not best)]


def _rank(trial: Trial, limit: float) -> tuple[int, float]:
    if not np.isfinite(trial.ksd):
        return 2, 0.0
    if trial.sd_error is None or abs(trial.sd_error) <= limit:
        return 0, trial.ksd
    return 1, abs(trial.sd_error)


def _quickest(judged: list[tuple[Trial, _Arm]], limit: float) -> tuple[Trial, _Arm]:
    """Of settings as good as the best, as far as so few draws tell, the one that goes farthest for its rows."""
    first = judged[0][0]
    if _rank(first, limit)[0] > 0:
        return judged[0]
    equal = [pair for pair in judged if _rank(pair[0], limit)[0] == 0 and pair[0].ksd <= EQUAL * first.ksd]
    return max(equal, key=lambda pair: pair[0].step_size / pair[0].batch_size)


def _friction(sampler: Any) -> float | None:
    """The friction, or the diffusion of a thermostat, if it is a number that may be changed."""
    value = getattr(sampler, "friction", getattr(sampler, "diffusion", None))
    return float(value) if isinstance(value, int | float) and value > 0 and sampler.scalable else None


def with_settings(sampler: Any, step_size: Any, friction: Any) -> Any:
    """The sampler with another step size and, if it has one, another friction."""
    changes = {"step_size": step_size}
    if friction is not None:
        changes["friction" if hasattr(sampler, "friction") else "diffusion"] = friction
    return replace(sampler, **changes)


def _set(kernel: Kernel, scale: Scale | None, step_size: Any, friction: Any) -> Kernel:
    changed = with_settings(kernel.sampler, step_size, friction)
    return kernel.replaced(changed if scale is None else Preconditioned(changed, scale))


@partial(jax.jit, compiler_options=QUICK)
def _begin(program: Program, words: Array, mode: Params, held: Params, estimator: Any) -> ChainState:
    return program.state(as_key(words), mode, held, estimator)


@jax.jit
def _chain(
    program: Program, words: Array, number: Array, state: ChainState, data: Data, gap: Array
) -> dict[str, Any]:  # fmt: skip
    """Draws ``gap`` steps apart with their scores, and noise and curvature at the end; one program for all settings."""
    words = jnp.asarray(words) + jnp.stack([jnp.uint32(number), jnp.uint32(0)])

    def score(place: Array, state: ChainState) -> Params:
        keys = place * SCORES + jnp.arange(SCORES, dtype=jnp.int32)
        slopes = jax.lax.map(lambda n: program.fresh_gradient(fold(as_key(words), Use.GRADIENT, n), state, data), keys)
        return jax.tree.map(lambda g: -jnp.mean(g, axis=0), slopes)

    def draw(state: ChainState, place: Array) -> tuple[ChainState, tuple[Params, Params]]:
        state = jax.lax.fori_loop(0, gap, lambda _, s: program.transition(as_key(words), s, data)[0], state)
        return state, (state.sampler.position, score(place, state))

    state, (positions, scores) = jax.lax.scan(draw, state, jnp.arange(DRAWS, dtype=jnp.int32))
    noise, curved, *_ = program.probe(fold(as_key(words), Use.START), state, data, PROBES)
    return {"state": state, "positions": positions, "scores": scores, "noise": noise, "curvature": curved}


def _judge(arm: _Arm, scale: Scale | None, fields: dict[str, Any]) -> Trial:
    """The discrepancy in units of the scale, and the bias that the sampler's law foretells for what the chain shows."""
    lost = Trial(arm.step_size, arm.friction, arm.kernel.batch_size, np.inf, np.inf)
    theta, scores = (_rows(fields[name]) for name in ("positions", "scores"))
    if not (all_finite((theta, scores, fields["noise"], fields["state"].sampler)) and np.max(np.abs(theta)) < FARTHEST):
        return lost
    unit = np.ones(theta.shape[1]) if scale is None else np.sqrt(scale.variance)
    with np.errstate(all="ignore"):
        discrepancy = ksd(theta / unit, scores * unit, scale=np.sqrt(theta.shape[1]))
        error = _foretold(_set(arm.kernel, scale, arm.step_size, arm.friction), fields)
    return replace(lost, ksd=discrepancy if np.isfinite(discrepancy) else np.inf, sd_error=error)


def _foretold(kernel: Kernel, fields: dict[str, Any]) -> float | None:
    """The typical error of the sds of the worst variable, by the law at the variance and the noise that were seen.

    Typical is the median over its coordinates: single ones of a short chain say little.
    """
    sampler, state = kernel.sampler, fields["state"].sampler
    if not has_law(sampler):
        return None
    temperature = float(at(sampler.temperature, state.step))
    tiny = np.finfo(np.float32).tiny
    precision = jax.tree.map(
        lambda x: temperature / np.maximum(np.var(np.asarray(x, np.float64), axis=0), tiny), fields["positions"]
    )
    noise = jax.tree.map(lambda v: np.asarray(v, np.float64), fields["noise"])
    variance = sampler.stationary_variance(state, precision, noise, kernel.epoch)
    errors = jax.tree.map(lambda v, lam: np.median(np.sqrt(v * lam / temperature) - 1), variance, precision)
    return float(max(jax.tree.leaves(errors), key=abs))


def _rows(tree: Params) -> np.ndarray:
    """The draws as rows of one matrix."""
    return np.concatenate([np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], 1)
