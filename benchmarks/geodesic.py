"""Samplers on manifolds: steps beside a hand-written XLA loop, scaling, and effective samples beside mici and geosss.

    python benchmarks/geodesic.py [steps|kinds|causes|scaling|effective|all] [--peers] [--turns 11]

The limit is a loop written by hand for exactly this problem: jit, scan, contiguous blocks of shuffled data, every
position stored, no library; one projection and one normalisation a step, constants folded. It makes the same step as
the library from the same noise, which is checked before it is timed. The engine may take 1.3 times as long. Pairs take
turns; the ratio is the median over turns. Ratios of processor time are given too: on a busy machine they are the
steadier ones. There one core to itself is better still, because XLA's threads wait for each other:

    XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 1 python benchmarks/geodesic.py

The target of the tables of steps is a mixture of von Mises-Fisher laws, log sum_k exp(kappa row'beta_k), beta an array
(topics, vocabulary) on the sphere; every draw is stored, as ``sample`` does by default. That of effective samples is
the centre of a spherical Cauchy law on S^(d-1) from 1,000 rows. Peers (pip install mici geosss) do without minibatches
and are left out where they are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc
from scirocco.core.trees import normal_like
from scirocco.gradient.engine import GradientEngine
from scirocco.integrators.langevin import INTEGRATORS
from scirocco.manifolds import Geometry
from scirocco.run.convergence import ess
from scirocco.run.recording import Recording

ROWS, KAPPA, STEP_SIZE, FRICTION = 10_000, 10.0, 1e-3, 1.0
SIZES, BATCHES, CHAINS = ((1, 3), (20, 500), (50, 3000)), (10, 100), (1, 4)
TOPICS, VOCABULARY, SCALING_BATCHES = (5, 20, 80), (125, 500, 2000), (10, 100, 1000)
LIMIT = 1.3
DIMENSIONS, EXAMPLES, RHO = (3, 10), 1000, 0.2
FEW, MANY = 5_000, 20_000  # draws on all rows and on minibatches

Run = Callable[[], int]
"""Make some steps and say how many, counting each chain."""


# Problems.


@dataclass(frozen=True)
class Problem:
    """A target on a manifold: log likelihoods of a batch of rows, the data and a start."""

    name: str
    log_likelihood: Callable[[Any, Any], Any]
    rows: np.ndarray
    initial: Any
    manifold: Any
    batch: int

    def target(self) -> sc.Target:
        """For the library."""
        return sc.Target(flat, self.log_likelihood, self.rows, batched=True, manifold=self.manifold)

    def potential(self, rows: Any) -> Callable[[Any], Any]:
        """U of a minibatch, for loops by hand."""
        scale = len(self.rows) / self.batch
        return lambda x: -scale * jnp.sum(self.log_likelihood(x, rows))


def flat(_: Any) -> float:
    """A uniform prior."""
    return 0.0


def directions(topics: Any, rows: Any) -> Any:
    """A mixture of von Mises-Fisher laws, up to constants."""
    return jax.nn.logsumexp(KAPPA * rows @ topics.T, axis=-1)


def subspace(x: Any, rows: Any) -> Any:
    """The part of each row that lies in the span of the columns."""
    return jnp.sum((rows @ x) ** 2, axis=-1)


def multinomials(probabilities: Any, rows: Any) -> Any:
    """A mixture of multinomial laws of counts."""
    return jax.nn.logsumexp(rows @ jnp.log(probabilities).T, axis=-1)


@cache
def unit_rows(count: int, width: int, seed: int) -> np.ndarray:
    """Uniform directions."""
    rows = np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)
    rows /= np.sqrt(np.sum(rows**2, axis=1, keepdims=True))
    return rows


def mixture(topics: int, vocabulary: int, batch: int) -> Problem:
    """Topics on the sphere."""
    return Problem(
        f"{topics} x {vocabulary}, batch {batch}", directions, unit_rows(ROWS, vocabulary, 0),
        unit_rows(topics, vocabulary, 1), sc.manifolds.Sphere(), batch,
    )  # fmt: skip


def orthonormal() -> Problem:
    """A matrix of 50 x 5 on the Stiefel manifold."""
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 5)))[0].astype(np.float32)
    return Problem("50 x 5, batch 100", subspace, unit_rows(ROWS, 50, 0), start, sc.manifolds.Stiefel(), 100)


def probabilities() -> Problem:
    """100 points of a simplex of 20 categories."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, (ROWS, 20)).astype(np.float32)
    start = rng.dirichlet(np.full(20, 10.0), 100).astype(np.float32)
    return Problem("100 x 20, batch 100", multinomials, counts, start, sc.manifolds.Simplex(), 100)


# The library.


def engine_run(
    problem: Problem, sampler: Any, chains: int = 1, thin: int = 1, steps: int | None = None, batching: Any = None,
) -> Run:  # fmt: skip
    """As ``sample`` runs it: draws and what steps say of themselves stored, streaming moments, chains side by side.

    A turn fills the engine's buffer of draws once, unless ``steps`` is given.
    """
    few = len(problem.rows) // problem.batch  # a minibatch is one contiguous block, as in the loop by hand
    drawn = sc.batches.RandomBlocks if sampler.independent_draws else sc.batches.Shuffled
    kernel = sc.kernel(problem.target(), sampler, batch_size=problem.batch, batching=batching or drawn(min_blocks=few))
    engine = GradientEngine(kernel, problem.initial, chains=chains, recording=Recording(0, thin))
    engine.start()
    engine.advance(2)
    length = steps or engine.capacity

    def run() -> int:
        start = engine.step
        while engine.step < start + length:
            assert engine.advance(start + length).finite, "the chain diverged: the times would mean nothing"
        return length * chains

    return run


def capacity(problem: Problem, chains: int) -> int:
    """Draws that the engine keeps before it hands them over: a turn of the loop by hand stores as many."""
    return int(np.clip(16 * 2**20 // (problem.initial.nbytes * chains), 1, 10_000))


# The limit.


class Hand(NamedTuple):
    """A step by hand: its state from what the library's has, the step, and the position to store."""

    enter: Callable[[Any, Any, Any], Any]
    step: Callable[[Any, Callable[[Any], Any], Any], Any]
    shown: Callable[[Any], Any]


def great_circle(x: Any, v: Any, t: float) -> Any:
    """The geodesic flow of the sphere."""
    speed = jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
    cosine, sine = jnp.cos(speed * t), jnp.sin(speed * t)
    return x * cosine + v * (sine / speed), v * cosine - x * (speed * sine)


def tangent(x: Any, u: Any) -> Any:
    """The tangent part on the sphere."""
    return u - jnp.sum(x * u, axis=-1, keepdims=True) * x


def unit(x: Any) -> Any:
    """Back to length 1."""
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True))


def on_the_sphere(scheme: str, shape: tuple[int, ...]) -> Hand:
    """SGGMC by three integrators, and the thermostat."""
    h, half = STEP_SIZE, float(np.exp(-FRICTION * STEP_SIZE / 2))
    kicked = float(np.sqrt(2 * FRICTION * h))  # noise that enters with the kick
    whole, relaxed = half**2, float(np.sqrt(-np.expm1(-2 * FRICTION * h)))  # exact friction and noise
    dimension = shape[0] * (shape[1] - 1)

    def split_friction(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v = great_circle(x, v, h / 2)
        v = half * tangent(x, half * v - h * jax.grad(potential)(x) + kicked * noise)
        x, v = great_circle(x, v, h / 2)
        return unit(x), v, xi

    def aboba(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v = great_circle(x, v, h / 2)
        v = tangent(x, whole * v - (1 + whole) * h / 2 * jax.grad(potential)(x) + relaxed * noise)
        x, v = great_circle(x, v, h / 2)
        return unit(x), v, xi

    def baoab(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v = great_circle(x, tangent(x, v - h * jax.grad(potential)(x)), h / 2)
        x, v = great_circle(x, tangent(x, whole * v + relaxed * noise), h / 2)
        return unit(x), v, xi

    def thermostat(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        xi = xi + h / 2 * (jnp.sum(v * v) / dimension - 1)
        damped = jnp.exp(-xi * h / 2)
        x, v = great_circle(x, v, h / 2)
        v = damped * tangent(x, damped * v - h * jax.grad(potential)(x) + kicked * noise)
        x, v = great_circle(x, v, h / 2)
        return unit(x), v, xi + h / 2 * (jnp.sum(v * v) / dimension - 1)

    steps = {"split_friction": split_friction, "aboba": aboba, "baoab": baoab, "thermostat": thermostat}
    return Hand(lambda x, v, xi: (x, v, xi), steps[scheme], lambda state: state[0])


def on_the_stiefel_manifold(scipy: bool) -> Hand:
    """SGGMC on orthonormal columns; exponentials by a short series, as the step is short, or by jax.scipy."""
    h, half, kicked = STEP_SIZE, float(np.exp(-FRICTION * STEP_SIZE / 2)), float(np.sqrt(2 * FRICTION * STEP_SIZE))

    def product(a: Any, b: Any) -> Any:
        return jnp.sum(a[:, :, None] * b[None, :, :], axis=1)  # faster than a library's product of matrices so small

    def series(m: Any) -> Any:
        one = jnp.eye(len(m))
        result = one + m / 8
        for k in range(7, 0, -1):
            result = one + product(m, result) / k
        return result

    exponential = jax.scipy.linalg.expm if scipy else series

    def geodesic(x: Any, v: Any, t: float) -> Any:
        p = x.shape[1]
        a, s = x.T @ v, v.T @ v
        mixed, back = exponential(t * jnp.block([[a, -s], [jnp.eye(p), a]])), exponential(-t * a)
        both = jnp.concatenate([x, v], axis=1) @ mixed
        return both[:, :p] @ back, both[:, p:] @ back

    def tangent(x: Any, u: Any) -> Any:
        inner = x.T @ u
        return u - x @ (inner + inner.T) / 2

    def step(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v = geodesic(x, v, h / 2)
        v = half * tangent(x, half * v - h * jax.grad(potential)(x) + kicked * noise)
        x, v = geodesic(x, v, h / 2)
        return 1.5 * x - 0.5 * x @ (x.T @ x), v, xi

    return Hand(lambda x, v, xi: (x, v, xi), step, lambda state: state[0])


def on_the_simplex() -> Hand:
    """SGGMC with the root of the probabilities as its state, reflected at the borders of the orthant."""
    h, half, kicked = STEP_SIZE, float(np.exp(-FRICTION * STEP_SIZE / 2)), float(np.sqrt(2 * FRICTION * STEP_SIZE))

    def inside(x: Any, v: Any) -> Any:
        return jnp.abs(x), jnp.where(x < 0, -v, v)

    def step(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v = inside(*great_circle(x, v, h / 2))
        slope = jax.grad(lambda root: potential(root * root) - jnp.sum(jnp.log(root)))(x)
        v = half * tangent(x, half * v - h * slope + kicked * noise)
        x, v = inside(*great_circle(x, v, h / 2))
        return unit(x), v, xi

    return Hand(lambda theta, v, xi: (jnp.sqrt(theta), v, xi), step, lambda state: state[0] ** 2)


def library_step(problem: Problem, sampler: Any) -> Hand:
    """The library's own step, in the loop by hand: what is left of a ratio then is the engine's."""
    geometry = Geometry.of(problem.manifold)

    def step(state: Any, potential: Any, noise: Any) -> Any:
        x, v, xi = state
        x, v, _ = INTEGRATORS[sampler.integrator](
            x, v, jax.grad(potential), noise, STEP_SIZE, FRICTION, FRICTION, geometry
        )
        return x, v, xi

    return Hand(lambda x, v, xi: (x, v, xi), step, lambda state: state[0])


def started(problem: Problem, sampler: Any, chains: int) -> Any:
    """Position, momentum and thermostat of the library's first states."""
    geometry = Geometry.of(problem.manifold)
    keys = jax.random.split(jax.random.key(1), chains)
    state = jax.vmap(lambda key: sampler.init(key, jnp.asarray(problem.initial), geometry))(keys)
    position = jnp.broadcast_to(problem.initial, state.momentum.shape)
    return position, state.momentum, getattr(state, "thermostat", jnp.zeros(chains))


def check_same(problem: Problem, sampler: Any, hand: Hand) -> None:
    """One step of the library and one by hand, from the same state with the same noise and rows."""
    geometry, key = Geometry.of(problem.manifold), jax.random.key(2)
    position, momentum, thermostat = (leaf[0] for leaf in started(problem, sampler, 1))
    potential = problem.potential(problem.rows[: problem.batch])
    state = sampler.init(key, position, geometry)._replace(momentum=momentum)
    if hasattr(state, "thermostat"):
        state = state._replace(thermostat=thermostat)
    expected = sampler.step(key, state, jax.grad(potential), geometry)[0]
    found = hand.step(hand.enter(position, momentum, thermostat), potential, normal_like(key, position))
    moved = float(jnp.max(jnp.abs(expected.position - position)))
    away = max(
        float(jnp.max(jnp.abs(hand.shown(found) - expected.position))) / moved,
        float(jnp.max(jnp.abs(found[1] - expected.momentum)) / jnp.max(jnp.abs(expected.momentum))),
    )
    assert away < 1e-3, f"{problem.name}: the step by hand is another one, by {away:.2g} of its length"


def by_hand(problem: Problem, sampler: Any, hand: Hand, chains: int = 1) -> Run:
    """One scan over contiguous blocks of shuffled rows, every position stored."""
    check_same(problem, sampler, hand)
    size, batch, steps = len(problem.rows), problem.batch, capacity(problem, chains)
    blocks, shape = size // batch, problem.initial.shape
    rows = jnp.asarray(problem.rows[np.random.default_rng(0).permutation(size)])

    def one(state: Any, key: Any, rows: Any) -> Any:
        schedule = jax.random.permutation(key, blocks)

        def step(state: Any, t: Any) -> Any:
            own = jax.random.fold_in(key, t)
            if sampler.independent_draws:
                first = jax.random.randint(jax.random.fold_in(own, 1), (), 0, size - batch + 1)
            else:
                first = schedule[t % blocks] * batch
            potential = problem.potential(jax.lax.dynamic_slice_in_dim(rows, first, batch))
            # One long vector: the generator is slow on arrays with short rows.
            noise = jax.random.normal(own, (int(np.prod(shape)),)).reshape(shape)
            state = hand.step(state, potential, noise)
            return state, hand.shown(state)

        return jax.lax.scan(step, state, jnp.arange(steps))

    @jax.jit
    def loop(state: Any, key: Any, rows: Any) -> Any:
        if chains == 1:
            return one(state, key, rows)
        return jax.vmap(one, in_axes=(0, 0, None))(state, jax.random.split(key, chains), rows)

    state = jax.vmap(hand.enter)(*started(problem, sampler, chains))
    if chains == 1:
        state = jax.tree.map(lambda leaf: leaf[0], state)
    state = jax.block_until_ready(loop(state, jax.random.key(0), rows))[0]

    def run() -> int:
        nonlocal state
        state, draws = jax.block_until_ready(loop(state, jax.random.key(0), rows))
        assert bool(jnp.isfinite(draws[-1]).all()), "the loop by hand diverged: the times would mean nothing"
        return steps * chains

    return run


def sggmc(integrator: str = "split_friction") -> Any:
    """The sampler of the tables."""
    return sc.SGGMC(STEP_SIZE, friction=FRICTION, integrator=integrator)


# Measuring.


class Times(NamedTuple):
    """Microseconds a chain-step, turn by turn."""

    wall: np.ndarray
    processor: np.ndarray


def timed(runs: dict[str, Run], turns: int) -> dict[str, Times]:
    """Let the contestants take turns: what slows the machine down slows all of them."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # compiled, and in the cache
    for _ in range(turns):
        for name, run in runs.items():
            wall, processor = time.perf_counter(), time.process_time()
            steps = run()
            seconds[name].append(
                ((time.perf_counter() - wall) / steps * 1e6, (time.process_time() - processor) / steps * 1e6)
            )
    return {name: Times(*np.array(values).T) for name, values in seconds.items()}


HEAD = f"  {'':40s} {'by hand':>9s} {'engine':>9s} {'steps/s':>9s}   ratio [quartiles]     of processor time"


def row(name: str, hand: Times, engine: Times) -> str:
    """A line of a table: medians, steps a second, and the ratios of the turns."""
    ratio, processor = engine.wall / hand.wall, engine.processor / hand.processor
    low, high = np.quantile(ratio, [0.25, 0.75])
    over = "   over the limit" if np.median(processor) > LIMIT and np.median(ratio) > LIMIT else ""
    return (
        f"  {name:40s} {np.median(hand.wall):9.2f} {np.median(engine.wall):9.2f} {1e6 / np.median(engine.wall):9,.0f}"
        f"   {np.median(ratio):5.2f} [{low:.2f}, {high:.2f}]    {np.median(processor):5.2f}{over}"
    )


def steps_table(turns: int) -> None:
    """SGGMC against the limit, at all sizes, batches and numbers of chains."""
    print(f"\nSGGMC on the sphere (topics x vocabulary): us a chain-step, median of {turns} turns, every draw stored")
    print(HEAD)
    for topics, vocabulary in SIZES:
        for batch in BATCHES:
            problem, sampler = mixture(topics, vocabulary, batch), sggmc()
            for chains in CHAINS:
                hand = by_hand(problem, sampler, on_the_sphere("split_friction", problem.initial.shape), chains)
                times = timed({"hand": hand, "engine": engine_run(problem, sampler, chains)}, turns)
                name = f"{problem.name}, {chains} chain{'s' * (chains > 1)}"
                print(row(name, times["hand"], times["engine"]), flush=True)


def kinds_table(turns: int) -> None:
    """Integrators, the thermostat and the other manifolds, at one size each."""
    print(f"\nKinds of steps, one chain: us a step, median of {turns} turns, every draw stored")
    print(HEAD)
    topics = mixture(20, 500, 100)
    shape = topics.initial.shape
    cases: list[tuple[str, Problem, Any, Hand]] = [
        (f"{scheme}, {topics.name}", topics, sggmc(scheme), on_the_sphere(scheme, shape))
        for scheme in ("split_friction", "aboba", "baoab")
    ]
    thermostat = sc.GeodesicSGNHT(STEP_SIZE, diffusion=FRICTION)
    cases.append((f"GeodesicSGNHT, {topics.name}", topics, thermostat, on_the_sphere("thermostat", shape)))
    matrix, points = orthonormal(), probabilities()
    cases.append((f"Stiefel {matrix.name}, short series", matrix, sggmc(), on_the_stiefel_manifold(scipy=False)))
    cases.append((f"Stiefel {matrix.name}, jax.scipy", matrix, sggmc(), on_the_stiefel_manifold(scipy=True)))
    cases.append((f"Simplex {points.name}", points, sggmc(), on_the_simplex()))
    for name, problem, sampler, hand in cases:
        times = timed({"hand": by_hand(problem, sampler, hand), "engine": engine_run(problem, sampler)}, turns)
        print(row(name, times["hand"], times["engine"]), flush=True)


def causes_table(turns: int) -> None:
    """Where the difference comes from: the library's step in the loop by hand, and the engine without draws."""
    print(f"\nWhere the time goes, batch 10, one chain: us of processor time a step, median of {turns}, and ratio")
    for topics, vocabulary in SIZES:
        problem, sampler = mixture(topics, vocabulary, 10), sggmc()
        steps = capacity(problem, 1)
        runs = {
            "by hand": by_hand(problem, sampler, on_the_sphere("split_friction", problem.initial.shape)),
            "by hand, with the library's step": by_hand(problem, sampler, library_step(problem, sampler)),
            "engine, no draws": engine_run(problem, sampler, thin=10**6, steps=10 * steps),
            "engine, every 10th draw": engine_run(problem, sampler, thin=10, steps=10 * steps),
            "engine, every draw": engine_run(problem, sampler),
        }
        times = timed(runs, turns)
        print(f"  {topics} x {vocabulary}")
        for name, values in times.items():
            ratio = np.median(values.processor / times["by hand"].processor)
            print(f"    {name:34s} {np.median(values.processor):9.2f}   {ratio:5.2f}", flush=True)


def scaling_table(turns: int) -> None:
    """Microseconds a step of the engine against topics, vocabulary and batch, one chain, every 10th draw stored."""
    print(f"\nScaling of SGGMC, one chain, every 10th draw stored: us a step, median of {turns} turns [quartiles]")
    sizes = {
        "topics": [(k, 500, 100) for k in TOPICS],
        "vocabulary": [(20, v, 100) for v in VOCABULARY],
        "batch": [(20, 500, n) for n in SCALING_BATCHES],
    }
    runs: dict[str, Run] = {}
    for size in dict.fromkeys(size for group in sizes.values() for size in group):
        problem = mixture(*size)
        runs[problem.name] = engine_run(problem, sggmc(), thin=10, steps=int(max(10, 1e6 // problem.initial.size)))
    times = timed(runs, turns)
    for varied, group in sizes.items():
        middle = [float(np.median(times[mixture(*size).name].wall)) for size in group]
        changing = [size[list(sizes).index(varied)] for size in group]
        power = np.polyfit(np.log(changing), np.log(middle), 1)[0]
        print(f"  {varied} (grows like its power {power:.2f})")
        for size in group:
            name = mixture(*size).name
            low, high = np.quantile(times[name].wall, [0.25, 0.75])
            print(
                f"    {name:26s} {np.median(times[name].wall):9.1f} [{low:.1f}, {high:.1f}]"
                f"   {np.median(times[name].wall) / (size[0] * size[1]) * 1e3:6.1f} ns an entry"
            )


# Effective samples.


@cache
def cauchy_rows(dimension: int) -> np.ndarray:
    """Draws of the spherical Cauchy law around the first axis: uniform directions, moved by a Moebius map."""
    pole = np.eye(dimension)[0]
    moved = np.asarray(unit_rows(EXAMPLES, dimension, 3), np.float64) + RHO * pole
    rows = (1 - RHO**2) * moved / np.sum(moved**2, axis=1, keepdims=True) + RHO * pole
    return rows.astype(np.float32)


def cauchy(dimension: int, x: Any, rows: Any) -> Any:
    """Log densities of the spherical Cauchy law around x (Kato and McCullagh 2020)."""
    return -(dimension - 1) * jnp.log(1 + RHO**2 - 2 * RHO * rows @ x)


class NumpyCauchy:
    """The same for peers: log posterior and gradient of all rows, in NumPy."""

    def __init__(self, dimension: int) -> None:
        self.rows, self.power = cauchy_rows(dimension).astype(np.float64), dimension - 1

    def log_prob(self, x: np.ndarray) -> float:
        """The log posterior."""
        return float(-self.power * np.sum(np.log(1 + RHO**2 - 2 * RHO * (self.rows @ x))))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Its gradient."""
        return 2 * RHO * self.power * ((1 / (1 + RHO**2 - 2 * RHO * (self.rows @ x))) @ self.rows)


class Found(NamedTuple):
    """Draws (chain, draw, coordinate), the seconds that they took and the seconds before."""

    draws: np.ndarray
    seconds: float
    before: float


def scirocco_draws(dimension: int, sampler: Any, num_samples: int, seed: int = 0) -> Callable[[], Found]:
    """Tuned once; then ``sample``, whole: its checks, its burn-in and its bias report are in the time."""
    target = sc.Target(flat, partial(cauchy, dimension), cauchy_rows(dimension), True, sc.manifolds.Sphere())
    start = jnp.asarray(np.eye(dimension, dtype=np.float32)[0])
    begun = time.perf_counter()
    tuned = sc.tune(target, sampler, start, seed=seed)
    before = 0.0

    def run() -> Found:
        now = time.perf_counter()
        trace = sc.sample(
            target, tuned.sampler, tuned.initial, num_samples=num_samples, burn_in=200, chains=4, seed=seed,
            batch_size=tuned.batch_size, estimator=tuned.estimator, batching=tuned.kernel.batching, progress=False,
        )  # fmt: skip
        return Found(trace.posterior.theta.values.astype(np.float64), time.perf_counter() - now, before)

    run()
    before = time.perf_counter() - begun  # with compiling
    return run


def mici_draws(dimension: int, num_samples: int) -> Callable[[], Found]:
    """mici: constrained HMC with dynamic trajectories, step size adapted in a warm-up that is not timed."""
    import mici

    posterior = NumpyCauchy(dimension)
    system = mici.systems.DenseConstrainedEuclideanMetricSystem(
        neg_log_dens=lambda x: -posterior.log_prob(x),
        grad_neg_log_dens=lambda x: -posterior.gradient(x),
        constr=lambda x: np.array([x @ x - 1]),
        jacob_constr=lambda x: 2 * x[None, :],
    )
    begun = time.perf_counter()
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    sampler = mici.samplers.DynamicMultinomialHMC(system, integrator, np.random.default_rng(0))
    starts = [np.eye(dimension)[0]] * 4
    warm = sampler.sample_chains(200, 1, starts, display_progress=False)
    states = warm.final_states
    before = time.perf_counter() - begun

    def run() -> Found:
        nonlocal states
        now = time.perf_counter()
        found = sampler.sample_chains(0, num_samples, states, adapters=[], display_progress=False)
        states = found.final_states
        return Found(np.stack(found.traces["pos"]), time.perf_counter() - now, before)

    return run


def geosss_draws(dimension: int, num_samples: int) -> Callable[[], Found]:
    """geosss: the geodesic slice sampler with shrinkage, which has nothing to tune."""
    import geosss

    posterior = NumpyCauchy(dimension)
    begun = time.perf_counter()
    samplers = [geosss.ShrinkageSphericalSliceSampler(posterior, np.eye(dimension)[0], seed=k) for k in range(4)]
    for sampler in samplers:
        sampler.sample(200)
    before = time.perf_counter() - begun

    def run() -> Found:
        now = time.perf_counter()
        draws = np.stack([sampler.sample(num_samples) for sampler in samplers])
        return Found(draws, time.perf_counter() - now, before)

    return run


def exact_moments(dimension: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Mean and standard deviations: by quadrature on S^2, from a long run of GMC elsewhere."""
    if dimension == 3:
        height, weights = np.polynomial.legendre.leggauss(400)
        angle = np.arange(800) * 2 * np.pi / 800
        z, a = (grid.ravel() for grid in np.meshgrid(height, angle, indexing="ij"))
        around = np.sqrt(1 - z**2)
        points = np.stack([z, around * np.cos(a), around * np.sin(a)], axis=1)
        value = np.zeros(len(points))
        for row in cauchy_rows(3).astype(np.float64):
            value -= 2 * np.log(1 + RHO**2 - 2 * RHO * points @ row)
        mass = np.exp(value - value.max()) * np.repeat(weights, len(angle))
        mass /= mass.sum()
        mean = mass @ points
        return mean, np.sqrt(mass @ (points - mean) ** 2), "quadrature"
    draws = scirocco_draws(dimension, sc.GMC("auto"), MANY, seed=1)().draws
    return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), f"{4 * MANY:,} draws of GMC"


def effective(draws: np.ndarray) -> np.ndarray:
    """Effective samples for the mean of each coordinate."""
    return ess(draws, "mean")


def effective_table(turns: int, peers: bool) -> None:
    """Effective samples a second, the worst coordinate, and how far means and deviations are from the truth."""
    contestants: dict[str, Callable[[int], Callable[[], Found]]] = {
        "GMC, all rows": lambda d: scirocco_draws(d, sc.GMC("auto"), FEW),
        "SGGMC": lambda d: scirocco_draws(d, sc.SGGMC("auto"), MANY),
        "UnderdampedLangevin": lambda d: scirocco_draws(d, sc.UnderdampedLangevin("auto"), MANY),
    }
    if peers:
        contestants |= {
            "mici, all rows": lambda d: mici_draws(d, 300),
            "geosss, all rows": lambda d: geosss_draws(d, 500),
        }
        print("\ngeomstats has geometry and laws to draw from, but no sampler of a posterior: not compared")
    for dimension in DIMENSIONS:
        mean, deviation, how = exact_moments(dimension)
        print(f"\nCentre of a spherical Cauchy law on S^{dimension - 1}, {EXAMPLES:,} rows, four chains; truth: {how}")
        print(
            f"  {'':22s} {'before':>7s} {'seconds':>8s} {'effective':>10s} {'a second':>10s}   means off by   "
            "(Monte Carlo)   deviations"
        )
        runs = {}
        for name, make in contestants.items():
            try:
                runs[name] = make(dimension)
            except ImportError as missing:
                print(f"  {name:22s} left out: {missing}")
        found: dict[str, list[Found]] = {name: [] for name in runs}
        for _ in range(turns):
            for name, run in runs.items():
                found[name].append(run())
        for name, each in found.items():
            counts = [float(effective(f.draws).min()) for f in each]
            rate = np.median([count / f.seconds for count, f in zip(counts, each, strict=True)])
            draws = each[-1].draws
            away = np.abs(draws.mean(axis=(0, 1)) - mean) / deviation
            expected = 1 / np.sqrt(effective(draws))
            share = draws.std(axis=(0, 1)) / deviation
            print(
                f"  {name:22s} {each[0].before:7.1f} {np.median([f.seconds for f in each]):8.2f} "
                f"{np.median(counts):10,.0f} {rate:10,.0f}   {away.max():7.4f} sd     {expected.max():7.4f} sd"
                f"      {share.min():.3f} to {share.max():.3f}",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["steps", "kinds", "causes", "scaling", "effective"]
    parser.add_argument("part", nargs="?", choices=[*parts, "all"], default="all")
    parser.add_argument("--peers", action="store_true", help="mici and geosss too (pip install mici geosss)")
    parser.add_argument("--turns", type=int, default=11)
    arguments = parser.parse_args(argv)
    tables: dict[str, Callable[[], None]] = {
        "steps": lambda: steps_table(arguments.turns),
        "kinds": lambda: kinds_table(arguments.turns),
        "causes": lambda: causes_table(arguments.turns),
        "scaling": lambda: scaling_table(arguments.turns),
        "effective": lambda: effective_table(min(3, arguments.turns), arguments.peers),
    }
    for name, table in tables.items():
        if arguments.part in (name, "all"):
            table()


if __name__ == "__main__":
    main()
