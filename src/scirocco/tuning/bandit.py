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
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.trees import all_finite
from scirocco.core.types import Array, Data, Key, Params
from scirocco.diagnostics.ksd import ksd
from scirocco.gradient.kernel import Kernel
from scirocco.gradient.program import ChainState
from scirocco.samplers.base import at, has_law
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.tuning.report import Trial

STEPS = tuple(3.0**-k for k in range(-1, 5))  # times the step size to start from
FRICTIONS = (1 / 3, 1.0, 3.0)  # times the sampler's own
BATCHES = (1, 4)  # times the batch size
ROUNDS, FIRST = 3, 500  # halvings, and gradient steps of the first round, twice as many in each that follows
EQUAL = 1.25  # ratio of discrepancies that so few draws cannot tell from 1
FARTHEST = 1e8  # no parameter is so large: the chain is lost, if not yet infinite
DRAWS, SCORES, PROBES = 100, 8, 16  # kept of a round; minibatches for each score; minibatches for the noise


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
    runners = {id(k): _runner(k, scale) for k in kernels}
    key = jax.random.fold_in(jax.random.key(kernel.seed), 8)
    arms = []
    for k, factor, share in product(kernels, STEPS, FRICTIONS if own is not None else (None,)):
        friction = None if share is None or own is None else share * own
        arms.append(_Arm(k, factor * step_size, friction, None))
    judged: list[tuple[Trial, _Arm]] = []
    ranked: list[tuple[Trial, _Arm]] = []
    for number in range(ROUNDS):
        judged = []
        for arm in arms:
            begin, run = runners[id(arm.kernel)]
            state = arm.state or begin(key, arm.step_size, arm.friction, mode, held, estimator)
            fields = run(
                jax.random.fold_in(key, 1 + number), arm.step_size, arm.friction, state, arm.kernel.data_at(0),
                jnp.int32(max(1, FIRST * 2**number // DRAWS)),
            )  # fmt: skip
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


def _runner(kernel: Kernel, scale: Scale | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled once for all settings of a batch size: the step size and the friction are arguments."""

    @jax.jit
    def begin(key: Key, step_size: Any, friction: Any, mode: Params, held: Params, estimator: Any) -> ChainState:
        return _set(kernel, scale, step_size, friction).program.state(key, mode, held, estimator)

    @jax.jit
    def run(key: Key, step_size: Any, friction: Any, state: ChainState, data: Data, gap: Array) -> dict[str, Any]:
        bound = _set(kernel, scale, step_size, friction).program

        def score(key: Key, state: ChainState) -> Params:
            slopes = jax.lax.map(lambda k: bound.fresh_gradient(k, state, data), jax.random.split(key, SCORES))
            return jax.tree.map(lambda g: -jnp.mean(g, axis=0), slopes)

        def draw(state: ChainState, number: Array) -> tuple[ChainState, tuple[Params, Params]]:
            inner = jax.random.fold_in(key, number)
            state = jax.lax.fori_loop(
                0, gap, lambda i, s: bound.transition(jax.random.fold_in(inner, i), s, data)[0], state
            )
            return state, (state.sampler.position, score(jax.random.fold_in(inner, 2**30), state))

        state, (positions, scores) = jax.lax.scan(draw, state, jnp.arange(DRAWS, dtype=jnp.int32))
        noise, curved, *_ = bound.probe(jax.random.fold_in(key, 2**30), state, data, PROBES)
        return {"state": state, "positions": positions, "scores": scores, "noise": noise, "curvature": curved}

    return begin, run


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
