"""Posteriors of the kinds that people have, for ``benchmarks/uncertainty.py``: each with data made on the spot.

Names say the kind: hierarchical and funnel-shaped ones, heavy tails, several modes, and fewer than 100 rows. Densities
are of unconstrained parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import scirocco as sc


class Posterior(NamedTuple):
    """A target and where to begin; ``truth`` is its mean and sd where a formula gives them."""

    title: str
    target: sc.Target
    initial: Any
    truth: tuple[np.ndarray, np.ndarray] | None = None
    one_mode: bool = True


def _bernoulli(logit: Any, y: Any) -> Any:
    return y * logit - jax.nn.softplus(logit)


def _half_cauchy(log_scale: Any) -> Any:
    """The density of the log of a scale whose prior is half-Cauchy."""
    return log_scale - jnp.log1p(jnp.exp(2 * log_scale))


def _draw(rng: np.random.Generator, logit: np.ndarray) -> np.ndarray:
    return (rng.random(len(logit)) < special.expit(logit)).astype(np.float32)


def _single(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(a.astype(np.int32 if a.dtype.kind in "iu" else np.float32) for a in arrays)


# Near Gaussian.


def ordered_logit() -> Posterior:
    """Four answers, two cut points as increments."""
    rng = np.random.default_rng(10)
    x, w = rng.normal(size=(5000, 4)), rng.normal(size=4)
    y = np.digitize(x @ w + rng.logistic(size=5000), [-1.0, 0.5, 2.0])

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        cuts = jnp.cumsum(jnp.concatenate([p["first"][None], jnp.exp(p["gaps"])]))
        above = jnp.concatenate([jnp.ones(1), jax.nn.sigmoid(x @ p["w"] - cuts), jnp.zeros(1)])
        return jnp.log(jnp.maximum(above[y] - above[y + 1], 1e-12))

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["first"] ** 2 / 4 + jnp.sum(p["gaps"] ** 2))

    initial = {"w": jnp.zeros(4), "first": jnp.array(-1.0), "gaps": jnp.zeros(2)}
    return Posterior("ordered logit", sc.Target(prior, likelihood, _single(x, y)), initial)


def negative_binomial() -> Posterior:
    """Counts with an unknown overdispersion."""
    rng = np.random.default_rng(11)
    x, w = rng.normal(size=(5000, 4)), 0.3 * rng.normal(size=4)
    y = rng.poisson(np.exp(1 + x @ w) * rng.gamma(2.0, 0.5, 5000))

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        r, log_rate = jnp.exp(p["log_r"]), p["b"] + x @ p["w"]
        gammas = jax.scipy.special.gammaln(y + r) - jax.scipy.special.gammaln(r)
        return gammas + r * p["log_r"] + y * log_rate - (y + r) * jnp.logaddexp(p["log_r"], log_rate)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2 + p["log_r"] ** 2)

    initial = {"w": jnp.zeros(4), "b": jnp.zeros(()), "log_r": jnp.zeros(())}
    return Posterior("negative binomial", sc.Target(prior, likelihood, _single(x, y.astype(float))), initial)


def censored_weibull() -> Posterior:
    """Times to an event, a third of them censored."""
    rng = np.random.default_rng(12)
    x, w = rng.normal(size=(5000, 4)), 0.4 * rng.normal(size=4)
    time, end = rng.weibull(1.5, 5000) * np.exp(x @ w), rng.exponential(1.5, 5000)
    seen = time < end

    def likelihood(p: Any, row: Any) -> Any:
        x, log_time, seen = row
        shape = jnp.exp(p["log_shape"])
        z = shape * (log_time - p["b"] - x @ p["w"])
        return seen * (p["log_shape"] + z - log_time) - jnp.exp(z)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2 + p["log_shape"] ** 2)

    data = _single(x, np.log(np.minimum(time, end)), seen.astype(float))
    initial = {"w": jnp.zeros(4), "b": jnp.zeros(()), "log_shape": jnp.zeros(())}
    return Posterior("Weibull, censored", sc.Target(prior, likelihood, data), initial)


def large_logistic() -> Posterior:
    """A million rows."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=(1_000_000, 8)).astype(np.float32)
    y = _draw(rng, x @ (rng.normal(size=8) / 2) - 1)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), lambda w, row: _bernoulli(row[0] @ w, row[1]), (x, y))
    return Posterior("logistic, 10^6 rows", target, jnp.zeros(8))


# Hierarchical and funnel-shaped.


def item_response() -> Posterior:
    """150 persons, 20 items: abilities, slopes and difficulties."""
    rng = np.random.default_rng(20)
    person, item = np.divmod(np.arange(3000), 20)
    ability, slope, difficulty = rng.normal(size=150), np.exp(0.3 * rng.normal(size=20)), rng.normal(size=20)
    y = _draw(rng, slope[item] * (ability[person] - difficulty[item]))

    def likelihood(p: Any, row: Any) -> Any:
        i, j, y = row
        return _bernoulli(jnp.exp(p["log_slope"][j]) * (p["ability"][i] - p["difficulty"][j]), y)

    def prior(p: Any) -> Any:
        return -0.5 * (
            jnp.sum(p["ability"] ** 2) + 4 * jnp.sum(p["log_slope"] ** 2) + jnp.sum(p["difficulty"] ** 2) / 4
        )

    initial = {"ability": jnp.zeros(150), "log_slope": jnp.zeros(20), "difficulty": jnp.zeros(20)}
    return Posterior("item response", sc.Target(prior, likelihood, _single(person, item, y)), initial)


def _grouped_logit(rows: int, groups: int, seed: int) -> tuple[sc.Target, Any]:
    rng = np.random.default_rng(seed)
    g = rng.choice(groups, rows, p=rng.dirichlet(np.full(groups, 0.5)))
    x = rng.normal(size=(rows, 3))
    y = _draw(rng, 0.3 + 0.8 * rng.normal(size=groups)[g] + x @ (0.5 * rng.normal(size=3)))

    def likelihood(p: Any, row: Any) -> Any:
        g, x, y = row
        return _bernoulli(p["mu"] + jnp.exp(p["log_tau"]) * p["z"][g] + x @ p["w"], y)

    def prior(p: Any) -> Any:
        normal = jnp.sum(p["z"] ** 2) + p["mu"] ** 2 / 4 + jnp.sum(p["w"] ** 2)
        return -0.5 * (normal + jnp.exp(2 * p["log_tau"])) + p["log_tau"]

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(groups), "w": jnp.zeros(3)}
    return sc.Target(prior, likelihood, _single(g, x, y)), initial


def grouped_logit() -> Posterior:
    """Fifty groups of unequal size, not centred."""
    return Posterior("hierarchical logit", *_grouped_logit(5000, 50, 21))


def large_grouped_logit() -> Posterior:
    """The same with 100,000 rows and 100 groups."""
    return Posterior("hierarchical, 10^5 rows", *_grouped_logit(100_000, 100, 22))


def centred_groups() -> Posterior:
    """Means of forty groups, centred: the density has no bound where their spread is zero."""
    rng = np.random.default_rng(23)
    g = rng.integers(40, size=1200)
    y = (1 + 0.7 * rng.normal(size=40))[g] + 1.5 * rng.normal(size=1200)

    def likelihood(p: Any, row: Any) -> Any:
        g, y = row
        return -p["log_sigma"] - 0.5 * ((y - p["a"][g]) * jnp.exp(-p["log_sigma"])) ** 2

    def prior(p: Any) -> Any:
        spread = jnp.sum((p["a"] - p["mu"]) ** 2) * jnp.exp(-2 * p["log_tau"]) / 2 + 40 * p["log_tau"]
        rest = jnp.exp(2 * p["log_tau"]) / 2 - p["log_tau"] + p["mu"] ** 2 / 50 + p["log_sigma"] ** 2 / 2
        return -spread - rest

    zero = jnp.zeros(())
    initial = {"a": jnp.zeros(40), "mu": zero, "log_tau": zero, "log_sigma": zero}
    return Posterior("hierarchical, centred", sc.Target(prior, likelihood, _single(g, y)), initial)


def crossed_effects() -> Posterior:
    """Ratings: effects of 100 users and of 40 items, whose spreads are unknown."""
    rng = np.random.default_rng(24)
    i, j = rng.integers(100, size=8000), rng.integers(40, size=8000)
    y = 1 + 0.5 * rng.normal(size=100)[i] + 0.3 * rng.normal(size=40)[j] + rng.normal(size=8000)

    def likelihood(p: Any, row: Any) -> Any:
        i, j, y = row
        a, b = p["a"][i] * jnp.exp(p["log_a"]), p["b"][j] * jnp.exp(p["log_b"])
        return -p["log_s"] - 0.5 * ((y - p["mu"] - a - b) * jnp.exp(-p["log_s"])) ** 2

    def prior(p: Any) -> Any:
        normal = jnp.sum(p["a"] ** 2) + jnp.sum(p["b"] ** 2) + p["mu"] ** 2 / 25 + p["log_s"] ** 2
        scales = sum(p[n] - jnp.exp(2 * p[n]) / 2 for n in ("log_a", "log_b"))
        return scales - 0.5 * normal

    zero = jnp.zeros(())
    initial = {"a": jnp.zeros(100), "b": jnp.zeros(40), "mu": zero, "log_a": zero, "log_b": zero, "log_s": zero}
    return Posterior("crossed effects", sc.Target(prior, likelihood, _single(i, j, y)), initial)


def random_features() -> Posterior:
    """A Gaussian process by 30 random features, with unknown length, amplitude and noise."""
    rng = np.random.default_rng(25)
    x = rng.uniform(-3, 3, size=2000)
    y = np.sin(2 * x) + 0.3 * x + 0.4 * rng.normal(size=2000)
    rate, phase = (jnp.asarray(a, jnp.float32) for a in (rng.normal(size=30), rng.uniform(0, 2 * np.pi, 30)))

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        waves = jnp.cos(rate * x * jnp.exp(-p["log_length"]) + phase) * np.sqrt(2 / 30)
        f = jnp.exp(p["log_amplitude"]) * (waves @ p["z"])
        return -p["log_noise"] - 0.5 * ((y - f) * jnp.exp(-p["log_noise"])) ** 2

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["z"] ** 2) + 4 * p["log_length"] ** 2 + p["log_amplitude"] ** 2 + p["log_noise"] ** 2)

    zero = jnp.zeros(())
    initial = {"z": jnp.zeros(30), "log_length": zero, "log_amplitude": zero, "log_noise": zero}
    return Posterior("Gaussian process", sc.Target(prior, likelihood, _single(x, y)), initial)


def horseshoe() -> Posterior:
    """Twenty coefficients, three of them not zero, with a horseshoe prior."""
    rng = np.random.default_rng(26)
    x, w = rng.normal(size=(1000, 20)), np.zeros(20)
    w[:3] = [1.0, -0.5, 0.3]
    y = x @ w + rng.normal(size=1000)

    def likelihood(p: Any, row: Any) -> Any:
        x, y = row
        return -0.5 * (y - x @ (p["z"] * jnp.exp(p["log_local"] + p["log_tau"]))) ** 2

    def prior(p: Any) -> Any:
        scales = jnp.sum(_half_cauchy(p["log_local"])) + _half_cauchy(p["log_tau"] - jnp.log(0.1))
        return scales - 0.5 * jnp.sum(p["z"] ** 2)

    initial = {"z": jnp.zeros(20), "log_local": jnp.zeros(20), "log_tau": jnp.zeros(())}
    return Posterior("horseshoe", sc.Target(prior, likelihood, _single(x, y)), initial)


def _nothing(p: Any, row: Any) -> Any:
    return 0.0 * row * jnp.sum(jax.tree.leaves(p)[0])


NO_DATA = np.ones(1000, np.float32)


def funnel() -> Posterior:
    """Neal's, mild: v ~ N(0, 1), x ~ N(0, e^v) in nine dimensions."""
    target = sc.Target(
        lambda p: -0.5 * p["v"] ** 2 - 0.5 * jnp.sum(p["x"] ** 2) * jnp.exp(-p["v"]) - 4.5 * p["v"], _nothing, NO_DATA
    )
    truth = np.zeros(10), np.concatenate([[1.0], np.full(9, np.exp(0.25))])
    return Posterior("funnel", target, {"v": jnp.zeros(()), "x": jnp.zeros(9)}, truth)


# Heavy tails.


def _student(dof: float) -> Posterior:
    target = sc.Target(lambda x: -(dof + 1) / 2 * jnp.sum(jnp.log1p(x**2 / dof)), lambda x, r: 0.0 * r * x[0], NO_DATA)
    truth = np.zeros(5), np.full(5, np.sqrt(dof / (dof - 2)))
    return Posterior(f"Student t, {dof:g}", target, jnp.ones(5), truth)


def cauchy_prior() -> Posterior:
    """Logistic regression on classes that hardly overlap, with Cauchy priors."""
    rng = np.random.default_rng(30)
    x = rng.normal(size=(400, 5))
    y = (x[:, 0] + 0.3 * x[:, 1] + 0.3 * rng.logistic(size=400) > 0).astype(float)
    target = sc.Target(
        lambda w: -jnp.sum(jnp.log1p((w / 2.5) ** 2)), lambda w, row: _bernoulli(row[0] @ w, row[1]), _single(x, y)
    )
    return Posterior("logistic, Cauchy prior", target, jnp.zeros(5))


def few_groups() -> Posterior:
    """Five groups: a half-Cauchy scale that the data say little of."""
    rng = np.random.default_rng(31)
    g = rng.integers(5, size=200)
    y = (0.6 * rng.normal(size=5))[g] + rng.normal(size=200)

    def likelihood(p: Any, row: Any) -> Any:
        g, y = row
        return -0.5 * (y - p["mu"] - jnp.exp(p["log_tau"]) * p["z"][g]) ** 2

    def prior(p: Any) -> Any:
        return _half_cauchy(p["log_tau"]) - 0.5 * (jnp.sum(p["z"] ** 2) + p["mu"] ** 2 / 25)

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(5)}
    return Posterior("half-Cauchy, five groups", sc.Target(prior, likelihood, _single(g, y)), initial)


# Several modes.


def two_modes() -> Posterior:
    """A third of the mass four sds away."""
    target = sc.Target(
        lambda x: jnp.logaddexp(jnp.log(2.0) - 0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 8.0) ** 2)),
        lambda x, r: 0.0 * r * x[0],
        NO_DATA,
    )
    mean, variance = 8 / 3, 1 + 64 * 2 / 9
    return Posterior("two modes", target, jnp.zeros(2), (np.full(2, mean), np.full(2, np.sqrt(variance))), False)


def sign() -> Posterior:
    """A parameter that the data know up to its sign."""
    rng = np.random.default_rng(40)
    x = rng.normal(size=2000)
    y = 2.25 * x + rng.normal(size=2000)
    target = sc.Target(lambda w: -0.5 * w**2, lambda w, row: -0.5 * (row[1] - w**2 * row[0]) ** 2, _single(x, y))
    sd = 1.5  # of the two signs together; each mode is a hundredth as wide
    return Posterior("sign unknown", target, jnp.array(0.5), (np.zeros(1), np.full(1, sd)), False)


def labels() -> Posterior:
    """Two components that may change their names."""
    rng = np.random.default_rng(41)
    x = np.concatenate([rng.normal(-2, 1, 500), rng.normal(2, 1, 500)])

    def likelihood(m: Any, row: Any) -> Any:
        return jnp.logaddexp(-0.5 * (row - m[0]) ** 2, -0.5 * (row - m[1]) ** 2)

    target = sc.Target(lambda m: -0.5 * jnp.sum((m / 5) ** 2), likelihood, x.astype(np.float32))
    return Posterior("labels of a mixture", target, jnp.array([-0.5, 0.5]), (np.zeros(2), np.full(2, 2.0)), False)


# Fewer than 100 rows.


def eight_schools() -> Posterior:
    """Not centred."""
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def likelihood(p: Any, row: Any) -> Any:
        i, y, s = row
        return -0.5 * ((y - p["mu"] - jnp.exp(p["log_tau"]) * p["z"][i]) / s) ** 2

    def prior(p: Any) -> Any:
        return _half_cauchy(p["log_tau"] - jnp.log(5.0)) - 0.5 * (jnp.sum(p["z"] ** 2) + (p["mu"] / 10) ** 2)

    initial = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "z": jnp.zeros(8)}
    return Posterior("eight schools", sc.Target(prior, likelihood, _single(np.arange(8), effect, error)), initial)


def small_logistic() -> Posterior:
    """Fifty rows, four columns."""
    rng = np.random.default_rng(50)
    x = rng.normal(size=(50, 4))
    y = _draw(rng, x @ np.array([1.0, -1.0, 0.5, 0.0]))
    target = sc.Target(
        lambda w: -0.5 * jnp.sum((w / 2.5) ** 2), lambda w, row: _bernoulli(row[0] @ w, row[1]), _single(x, y)
    )
    return Posterior("logistic, 50 rows", target, jnp.zeros(4))


def small_poisson() -> Posterior:
    """Thirty counts."""
    rng = np.random.default_rng(51)
    x = rng.normal(size=(30, 3))
    y = rng.poisson(np.exp(0.5 + 0.4 * x[:, 0]))

    def likelihood(w: Any, row: Any) -> Any:
        log_rate = w[0] + row[0] @ w[1:]
        return row[1] * log_rate - jnp.exp(log_rate)

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, _single(x, y.astype(float)))
    return Posterior("Poisson, 30 rows", target, jnp.zeros(4))


KINDS: dict[str, dict[str, Callable[[], Posterior]]] = {
    "near Gaussian": {
        "ordered": ordered_logit, "negative-binomial": negative_binomial, "weibull": censored_weibull,
        "large-logistic": large_logistic,
    },
    "hierarchical": {
        "item-response": item_response, "grouped": grouped_logit, "large-grouped": large_grouped_logit,
        "centred": centred_groups, "crossed": crossed_effects, "gaussian-process": random_features,
        "horseshoe": horseshoe, "funnel": funnel,
    },
    "heavy tails": {
        "student-8": lambda: _student(8.0), "student-4": lambda: _student(4.0), "cauchy-prior": cauchy_prior,
        "few-groups": few_groups,
    },
    "several modes": {"two-modes": two_modes, "sign": sign, "labels": labels},
    "few rows": {"schools": eight_schools, "small-logistic": small_logistic, "small-poisson": small_poisson},
}  # fmt: skip
