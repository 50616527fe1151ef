"""Ratings and the chains that the experiments on matrix factorisation share: data, SGLD with scaled steps, sparse SAGA.

    theta <- theta - h/sqrt(S) g + sqrt(2 h/sqrt(S) T) xi,    S the running mean of the squared gradient of a parameter

Precisions are drawn between two stretches of ``THIN`` iterations, as in the programs of Baker's thesis (2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc
from scirocco.batches import WithReplacement
from scirocco.core.trees import normal_like
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import split
from scirocco.samplers import Sampler
from scirocco.samplers.base import Info, info

TAU = 3.0
THIN = 10  # iterations from one evaluation to the next
FALLING = sc.Decreasing(1.0, tau=1000.0, kappa=0.33)

# The data and the model.


class Ratings(NamedTuple):
    """Pairs (user, item) with their ratings, to learn from and to be predicted; how many users and items."""

    train: tuple[np.ndarray, np.ndarray]
    held_out: tuple[np.ndarray, np.ndarray]
    users: int
    items: int

    def first(self, users: int) -> Ratings:
        """Only the first users; all items."""

        def some(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            kept = part[0][:, 0] < users
            return part[0][kept], part[1][kept]

        return self._replace(train=some(self.train), held_out=some(self.held_out), users=users)

    def model(self, factors: int) -> sc.MatrixFactorization:
        """The library's model with the source's tau and Gamma law."""
        model = sc.MatrixFactorization(factors, noise_precision=TAU, precision_shape=1.0, precision_rate=300.0)
        model.n_users_, model.n_items_ = self.users, self.items
        model.mean_ = float(self.train[1].mean(dtype=np.float64))
        return model


def ratings(mode: str) -> Ratings:
    """MovieLens-100k, or ratings drawn from the model; a fifth held out by chance."""
    rng = np.random.default_rng(0)
    if mode != "full":
        users, items, count = 40, 60, 3000
        pairs = np.stack([rng.integers(users, size=count), rng.integers(items, size=count)], axis=1)
        p, q = rng.normal(size=(users, 2)), rng.normal(size=(items, 2))
        given = 3 + 0.7 * np.sum(p[pairs[:, 0]] * q[pairs[:, 1]], axis=1) + rng.normal(0, 0.6, count)
    else:
        found = common.data_set(sc.datasets.load_movielens)
        pairs, given = found.pairs, found.rating
        users, items = (int(n) for n in pairs.max(axis=0) + 1)
    order = rng.permutation(len(given))
    border = 4 * len(given) // 5
    (train, held_out), (known, asked) = (
        np.split(a[order], [border]) for a in (pairs.astype(np.int32), given.astype(np.float32))
    )
    return Ratings((train, known), (held_out, asked), users, items)


def predictions(params: Any, pairs: Any) -> Any:
    """Ratings of pairs, the mean taken off."""
    user, item = pairs[:, 0], pairs[:, 1]
    products = jnp.sum(params["user_factors"][user] * params["item_factors"][item], axis=1)
    return products + params["user_biases"][user] + params["item_biases"][item]


def log_predictive(predicted: Any, ratings: Any) -> Any:
    """The mean log density of ratings at one draw."""
    return jnp.log(TAU / (2 * jnp.pi)) / 2 - TAU / 2 * jnp.mean((ratings - predicted) ** 2)


# Chains.


class Settings(NamedTuple):
    """The step size of ``sc.SGLD`` before it is scaled, whether it falls, and the temperature, 0 for SGD."""

    step_size: Any
    falls: Any = False
    temperature: Any = 1.0


class State(NamedTuple):
    """A state of SGLD with the mean squared gradient of each parameter, and its settings."""

    position: Any
    step: Any
    square: Any
    settings: Settings


@dataclass(frozen=True)
class Scaled(Sampler):
    """SGLD with step sizes h/sqrt(S); settings are part of the state, so that one compiled program serves them all."""

    step_size: ClassVar[None] = None  # every sampler has these two
    temperature: ClassVar[None] = None

    def init(self, key: Any, position: Any) -> State:
        """Start at ``position``; settings are still to come."""
        return State(position, jnp.int32(0), jax.tree.map(lambda _: jnp.zeros(()), position), Settings(0.0))

    def step(self, key: Any, state: State, gradient: Any) -> tuple[State, Info]:
        """The step of ``sc.SGLD`` with the source's scaling."""
        h, falls, temperature = state.settings
        h = h * jnp.where(falls, FALLING(state.step), 1.0)
        g = gradient(state.position)
        square = jax.tree.map(lambda s, g: s + (jnp.mean(g**2) - s) / (state.step + 1.0), state.square, g)
        steps = jax.tree.map(lambda s: h / jnp.sqrt(s), square)
        position = jax.tree.map(
            lambda x, g, h, z: x - h * g + jnp.sqrt(2 * h * temperature) * z,
            state.position, g, steps, normal_like(key, state.position),
        )  # fmt: skip
        return State(position, state.step + 1, square, state.settings), info(steps, g)


class Rows(NamedTuple):
    """Gradients of single ratings: (row, D) for its user and its item, (row,) for both biases."""

    user: Any
    item: Any
    bias: Any


class Table(NamedTuple):
    """The last gradient of each rating, their sum, and a scratch vector that finds rows drawn twice."""

    rows: Rows
    total: Any
    last: Any


@dataclass(frozen=True)
class SparseSAGA(Estimator):
    """SAGA as in ``sc.SAGA``, with a table of what is not zero in the gradient of a rating."""

    independent_draws: ClassVar[bool] = True
    tau: float = TAU

    def blank(self, target: Any, position: Any, held: Any) -> Table:
        """Zeros."""
        n, d = target.size, position["user_factors"].shape[1]
        rows = Rows(jnp.zeros((n, d)), jnp.zeros((n, d)), jnp.zeros(n))
        return Table(rows, jax.tree.map(jnp.zeros_like, position), jnp.zeros(n, jnp.int32))

    def init(self, target: Any, position: Any, held: Any) -> Table:
        """All gradients at the start."""
        rows, total = EVERYTHING(self, position, target.data)
        return Table(rows, total, jnp.zeros(target.size, jnp.int32))

    def everything(self, position: Any, data: Any) -> tuple[Rows, Any]:
        """The gradients of all ratings and their sum."""
        rows = self.rows(position, data)
        return rows, self.total(position, rows, data[0])

    def rows(self, position: Any, data: Any) -> Rows:
        """The gradients of minus the log likelihood of ratings, one by one."""
        pairs, rating = data
        error = self.tau * (predictions(position, pairs) - rating)
        return Rows(error[:, None] * position["item_factors"][pairs[:, 1]],
                    error[:, None] * position["user_factors"][pairs[:, 0]], error)  # fmt: skip

    def total(self, like: Any, rows: Rows, pairs: Any) -> Any:
        """Their sum, in the shape of the parameters."""
        user, item = pairs[:, 0], pairs[:, 1]
        zero = jax.tree.map(jnp.zeros_like, like)
        return {
            "user_factors": zero["user_factors"].at[user].add(rows.user),
            "item_factors": zero["item_factors"].at[item].add(rows.item),
            "user_biases": zero["user_biases"].at[user].add(rows.bias),
            "item_biases": zero["item_biases"].at[item].add(rows.bias),
        }

    def estimate(self, target: Any, state: Table, position: Any, held: Any, batch: Any) -> tuple[Any, Table]:
        """The gradient, and the table with the new rows; a row drawn twice enters the sum once."""
        at, pairs = batch.indices, batch.data[0]
        slots = jnp.arange(at.shape[0], dtype=jnp.int32)
        last = state.last.at[at].set(slots)
        once = last[at] == slots
        new = self.rows(position, batch.data)
        change = jax.tree.map(lambda a, b: a - b[at], new, state.rows)
        first = jax.tree.map(lambda c: jnp.where(once.reshape(-1, *(1,) * (c.ndim - 1)), c, 0.0), change)
        noisy, fresh = (self.total(position, rows, pairs) for rows in (change, first))
        gradient = jax.tree.map(
            lambda p, t, c: p + t + batch.weights * c, target.prior_gradient(position, held), state.total, noisy
        )
        rows = jax.tree.map(lambda a, c: a.at[at].add(c), state.rows, first)
        return gradient, Table(rows, jax.tree.map(jnp.add, state.total, fresh), last)


EVERYTHING = jax.jit(SparseSAGA.everything)


class Program:
    """Chains of an estimator on a data set, compiled for one stretch of ``THIN`` iterations.

    Precisions are drawn between two stretches, as in the source's programs, and so not by the kernel.
    """

    def __init__(self, found: Ratings, factors: int, estimator: Any, batch: int) -> None:
        model = found.model(factors)
        self.kernel = sc.kernel(
            model.target(*found.train), Scaled(), batch_size=batch, estimator=estimator, batching=WithReplacement()
        )
        self.block = model.precision_block()
        self._advance = jax.jit(self._stretch, donate_argnums=1)

    def start(self, seed: int, params: Any, settings: Settings) -> Any:
        """The state of a chain that starts at ``params``."""
        kernel = self.kernel
        position, held = split(params, [self.block])
        prepared = kernel.estimator.init(kernel.target, position, held)
        state = kernel.program.state(jax.random.key(seed), position, held, prepared)
        typed = Settings(*(jnp.asarray(v, t) for v, t in zip(settings, ("float32", bool, "float32"), strict=True)))
        return jax.tree.map(jnp.array, state._replace(sampler=state.sampler._replace(settings=typed)))

    def advance(self, key: Any, state: Any) -> Any:
        """The state after a stretch."""
        return self._advance(key, state, self.kernel.data_at(0))

    def _stretch(self, key: Any, state: Any, data: Any) -> Any:
        def once(_: Any, state: Any) -> Any:
            return self.kernel.program.transition(jax.random.fold_in(key, state.step), state, data)[0]

        return jax.lax.fori_loop(0, THIN, once, state)


class Chains:
    """Runs chains on a data set: what all estimators share."""

    def __init__(self, found: Ratings, factors: int) -> None:
        model = found.model(factors)
        self.held_out = found.held_out[0], found.held_out[1] - np.float32(model.mean_)
        block = model.precision_block()
        self.precisions = jax.jit(lambda key, params: block.update(key, params, None))

        @jax.jit
        def evaluate(params: Any, held_out: Any) -> tuple[Any, Any]:
            predicted = predictions(params, held_out[0])
            return predicted, log_predictive(predicted, held_out[1])

        self.evaluate = evaluate

    def advance(self, program: Program, key: Any, state: Any) -> Any:
        """The state after a stretch, with new precisions."""
        state = program.advance(key, state)
        return state._replace(held=self.precisions(jax.random.fold_in(key, 10**9 + state.step), state.position))

    def run(self, program: Program, seed: int, params: Any, settings: Settings, marks: int) -> Any:
        """From ``params`` on: the last parameters, log predictive densities, and how far predictions roam."""
        state, key = program.start(seed, params, settings), jax.random.key(1000 + seed)
        found, late = np.empty(marks), marks // 2
        total, square = np.zeros(len(self.held_out[1])), np.zeros(len(self.held_out[1]))
        for mark in range(marks):
            state = self.advance(program, key, state)
            predicted, found[mark] = self.evaluate(state.position, self.held_out)
            if mark >= late:
                total += np.asarray(predicted)
                square += np.asarray(predicted, np.float64) ** 2
        variance = square / (marks - late) - (total / (marks - late)) ** 2
        return state.position, np.where(np.isfinite(found), found, -np.inf), float(np.sqrt(np.mean(variance)))
