"""Eight models that people write in Stan, PyMC or NumPyro, written here, with data made on the spot.

    python examples/eight_models.py [--rows 20000] [--only weibull ...]

A model is a prior, a likelihood of one row, where its parameters may lie, and where to start. Prints for each the
verdict, the seconds, and how many true parameters lie in the central 90 % interval of their posterior.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm, t

import scirocco as sc
from scirocco.constraints import positive

COLUMNS, GROUPS, ITEMS = 4, 20, 15
RNG = np.random.Generator

Params = dict[str, Any]


class Model(NamedTuple):
    """A posterior, a start, and the parameters that data were made with."""

    target: sc.Target
    start: Params
    truth: Params


def features(rng: RNG, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, coefficients, linear predictor."""
    x, beta = rng.normal(size=(rows, COLUMNS)).astype(np.float32), rng.normal(0, 0.5, COLUMNS)
    return x, beta, x @ beta


def hierarchical(rng: RNG, rows: int) -> Model:
    """y ~ Bernoulli(logit = alpha[group] + x beta), alpha ~ N(mu, tau)."""
    x, beta, eta = features(rng, rows)
    group, alpha = rng.integers(GROUPS, size=rows), rng.normal(-0.5, 0.7, GROUPS)
    y = rng.random(rows) < 1 / (1 + np.exp(-eta - alpha[group]))

    def log_prior(p: Params) -> Any:
        spread = norm.logpdf(p["alpha"], p["mu"], p["tau"]).sum()
        return norm.logpdf(p["mu"], 0, 2) - p["tau"] ** 2 / 2 + spread + norm.logpdf(p["beta"]).sum()

    def log_likelihood(p: Params, row: Params) -> Any:
        logit = p["alpha"][row["group"]] + row["x"] @ p["beta"]
        return row["y"] * logit - jax.nn.softplus(logit)

    data = {"x": x, "group": group.astype(np.int32), "y": y.astype(np.float32)}
    start = {"mu": 0.0, "tau": 1.0, "alpha": jnp.zeros(GROUPS), "beta": jnp.zeros(COLUMNS)}
    target = sc.Target(log_prior, log_likelihood, data, constraints={"tau": positive})
    return Model(target, start, {"alpha": alpha, "beta": beta})


def horseshoe(rng: RNG, rows: int) -> Model:
    """y ~ N(x beta, sigma), beta ~ N(0, tau lambda), tau and lambda half-Cauchy; centred, as much data want it."""
    x, beta, eta = features(rng, rows)
    y = (eta + rng.normal(size=rows)).astype(np.float32)

    def log_prior(p: Params) -> Any:
        scales = -jnp.log1p(p["tau"] ** 2) - jnp.log1p(p["local"] ** 2).sum()
        return scales + norm.logpdf(p["beta"], 0, p["tau"] * p["local"]).sum() - p["sigma"] ** 2 / 8

    def log_likelihood(p: Params, row: Params) -> Any:
        return norm.logpdf(row["y"], row["x"] @ p["beta"], p["sigma"])

    start = {"tau": 1.0, "local": jnp.ones(COLUMNS), "beta": jnp.zeros(COLUMNS), "sigma": 1.0}
    bounds = {"tau": positive, "local": positive, "sigma": positive}
    target = sc.Target(log_prior, log_likelihood, {"x": x, "y": y}, constraints=bounds)
    return Model(target, start, {"beta": beta, "sigma": 1.0})


def student_t(rng: RNG, rows: int) -> Model:
    """y ~ t(nu, x beta, sigma), nu ~ Gamma(2, 0.1)."""
    x, beta, eta = features(rng, rows)
    y = (eta + 0.5 * rng.standard_t(4, size=rows)).astype(np.float32)

    def log_prior(p: Params) -> Any:
        return norm.logpdf(p["beta"]).sum() + jnp.log(p["nu"]) - 0.1 * p["nu"] - p["sigma"] ** 2 / 2

    def log_likelihood(p: Params, row: Params) -> Any:
        return t.logpdf(row["y"], p["nu"], row["x"] @ p["beta"], p["sigma"])

    start = {"beta": jnp.zeros(COLUMNS), "nu": 10.0, "sigma": 1.0}
    target = sc.Target(log_prior, log_likelihood, {"x": x, "y": y}, constraints={"nu": positive, "sigma": positive})
    return Model(target, start, {"beta": beta, "nu": 4.0, "sigma": 0.5})


def negative_binomial(rng: RNG, rows: int) -> Model:
    """y ~ NB(exposure exp(a + x beta), phi)."""
    x, beta, eta = features(rng, rows)
    exposure = rng.uniform(0.5, 2, rows).astype(np.float32)
    y = rng.poisson(exposure * np.exp(0.3 + eta) * rng.gamma(2, 1 / 2, rows)).astype(np.float32)

    def log_prior(p: Params) -> Any:
        return norm.logpdf(p["a"], 0, 2) + norm.logpdf(p["beta"]).sum() + jnp.log(p["phi"]) - p["phi"]

    def log_likelihood(p: Params, row: Params) -> Any:
        log_mean, phi, y = jnp.log(row["exposure"]) + p["a"] + row["x"] @ p["beta"], p["phi"], row["y"]
        total = jnp.logaddexp(log_mean, jnp.log(phi))
        choose = gammaln(y + phi) - gammaln(phi) - gammaln(y + 1)
        return choose + phi * (jnp.log(phi) - total) + y * (log_mean - total)

    start = {"a": 0.0, "beta": jnp.zeros(COLUMNS), "phi": 1.0}
    data = {"x": x, "exposure": exposure, "y": y}
    target = sc.Target(log_prior, log_likelihood, data, constraints={"phi": positive})
    return Model(target, start, {"a": 0.3, "beta": beta, "phi": 2.0})


def ordered_logit(rng: RNG, rows: int) -> Model:
    """y in 0..4, P(y > k) = logit^-1(x beta - c_k), cuts in order."""
    x, beta, eta = features(rng, rows)
    cuts = np.array([-1.5, -0.5, 0.5, 1.5])
    y = np.searchsorted(cuts, eta + rng.logistic(size=rows)).astype(np.int32)

    def log_prior(p: Params) -> Any:
        return norm.logpdf(p["beta"]).sum() + norm.logpdf(p["cuts"], 0, 2).sum()

    def log_likelihood(p: Params, row: Params) -> Any:
        above = jax.nn.sigmoid(row["x"] @ p["beta"] - p["cuts"])
        chances = jnp.concatenate([jnp.ones(1), above]) - jnp.concatenate([above, jnp.zeros(1)])
        return jnp.log(jnp.maximum(chances[row["y"]], 1e-30))

    start = {"beta": jnp.zeros(COLUMNS), "cuts": jnp.array([-1.0, 0.0, 1.0, 2.0])}
    target = sc.Target(log_prior, log_likelihood, {"x": x, "y": y}, constraints={"cuts": sc.constraints.ordered})
    return Model(target, start, {"beta": beta, "cuts": cuts})


def weibull(rng: RNG, rows: int) -> Model:
    """Survival times with shape k and scale exp(a + x beta), some of them censored."""
    x, beta, eta = features(rng, rows)
    times, ends = np.exp(1 + eta) * rng.weibull(1.5, rows), rng.exponential(8, rows)
    data = {"x": x, "time": np.minimum(times, ends).astype(np.float32), "seen": (times <= ends).astype(np.float32)}

    def log_prior(p: Params) -> Any:
        return norm.logpdf(p["a"], 0, 2) + norm.logpdf(p["beta"]).sum() + jnp.log(p["k"]) - p["k"]

    def log_likelihood(p: Params, row: Params) -> Any:
        z = jnp.log(row["time"]) - p["a"] - row["x"] @ p["beta"]
        return row["seen"] * (jnp.log(p["k"]) + p["k"] * z - jnp.log(row["time"])) - jnp.exp(p["k"] * z)

    start = {"a": 0.0, "beta": jnp.zeros(COLUMNS), "k": 1.0}
    target = sc.Target(log_prior, log_likelihood, data, constraints={"k": positive})
    return Model(target, start, {"a": 1.0, "beta": beta, "k": 1.5})


def mixture_of_experts(rng: RNG, rows: int) -> Model:
    """y ~ w N(a_1 + b_1 x, s) + (1 - w) N(a_2 + b_2 x, s) with logit w = g x, the intercepts in order."""
    x = rng.normal(size=rows).astype(np.float32)
    first = rng.random(rows) < 1 / (1 + np.exp(-2 * x))
    y = np.where(first, -2 + 0.5 * x, 2 - x) + 0.5 * rng.normal(size=rows)

    def log_prior(p: Params) -> Any:
        parts = (p["a"], p["b"], p["gate"])
        return sum(norm.logpdf(part, 0, 3).sum() for part in parts) - p["s"] ** 2 / 2

    def log_likelihood(p: Params, row: Params) -> Any:
        gate = p["gate"] * row["x"]
        shares = jnp.stack([jax.nn.log_sigmoid(gate), jax.nn.log_sigmoid(-gate)])
        return jax.nn.logsumexp(shares + norm.logpdf(row["y"], p["a"] + p["b"] * row["x"], p["s"]))

    start = {"a": jnp.array([-1.0, 1.0]), "b": jnp.zeros(2), "gate": 0.5, "s": 1.0}
    bounds = {"a": sc.constraints.ordered, "s": positive}
    target = sc.Target(log_prior, log_likelihood, {"x": x, "y": y.astype(np.float32)}, constraints=bounds)
    return Model(target, start, {"a": np.array([-2.0, 2.0]), "b": np.array([0.5, -1.0]), "gate": 2.0, "s": 0.5})


def item_response(rng: RNG, rows: int) -> Model:
    """P(right) = logit^-1(slope_j (ability_i - difficulty_j)): persons, items, and answers as rows."""
    persons = max(5, rows // 100)
    ability, difficulty = rng.normal(size=persons), rng.normal(size=ITEMS)
    slope = np.exp(rng.normal(0, 0.3, ITEMS))
    person, item = rng.integers(persons, size=rows), rng.integers(ITEMS, size=rows)
    right = rng.random(rows) < 1 / (1 + np.exp(-slope[item] * (ability[person] - difficulty[item])))
    data = {"person": person.astype(np.int32), "item": item.astype(np.int32), "right": right.astype(np.float32)}

    def log_prior(p: Params) -> Any:
        slopes = norm.logpdf(jnp.log(p["slope"]), 0, 0.5).sum() - jnp.log(p["slope"]).sum()
        return norm.logpdf(p["ability"]).sum() + norm.logpdf(p["difficulty"]).sum() + slopes

    def log_likelihood(p: Params, row: Params) -> Any:
        logit = p["slope"][row["item"]] * (p["ability"][row["person"]] - p["difficulty"][row["item"]])
        return row["right"] * logit - jax.nn.softplus(logit)

    start = {"ability": jnp.zeros(persons), "difficulty": jnp.zeros(ITEMS), "slope": jnp.ones(ITEMS)}
    target = sc.Target(log_prior, log_likelihood, data, constraints={"slope": positive})
    return Model(target, start, {"ability": ability, "difficulty": difficulty, "slope": slope})


MODELS: dict[str, Callable[[RNG, int], Model]] = {
    f.__name__: f
    for f in (
        hierarchical, horseshoe, student_t, negative_binomial, ordered_logit, weibull, mixture_of_experts,
        item_response,
    )
}  # fmt: skip


def covered(trace: sc.Trace, truth: Params) -> tuple[int, int]:
    """How many true parameters lie in their central 90 % intervals, of how many."""
    inside, total = 0, 0
    for name, value in truth.items():
        low, high = np.quantile(trace.posterior[name].values, (0.05, 0.95), axis=(0, 1))
        inside, total = inside + int(np.sum((low <= value) & (value <= high))), total + np.size(value)
    return inside, total


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    given = parser.parse_args(arguments)
    for name in given.only:
        model = MODELS[name](np.random.default_rng(0), given.rows)
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), model.start)
        began = time.perf_counter()
        trace = sc.sample(model.target, sc.UnderdampedLangevin(step_size="auto"), start, progress=False)
        inside, total = covered(trace, model.truth)
        seconds = time.perf_counter() - began
        print(f"{name:20}{seconds:7.1f} s  {inside:4} of {total:4} inside  {trace.verdict().kind}", flush=True)


if __name__ == "__main__":
    main()
