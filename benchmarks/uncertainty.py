"""Are posterior means and sds right with automatic settings only? Eight posteriors with known truth.

    python benchmarks/uncertainty.py [--only poisson robust] [--samplers UnderdampedLangevin SGLD]

Each sampler has ``step_size="auto"`` and nothing else set: default batch size, 4 chains of 5,000 draws, every tenth
step, so that the Monte Carlo error of an sd is about half a percent; each posterior has a seed of its own. The aim: all
posterior sds within 5 % and all posterior means within 0.1 sd. Truth is a formula, or NUTS (BlackJAX, float64, in
coordinates whitened at the mode, window adaptation), whose moments are corrected by control variates from exact
gradients wherever these make them more accurate; its own standard error is part of the table. Runs that miss the aim
are looked at more closely below it: the worst coordinate, the standard error of what was estimated there (is it
chance?), and what the library itself had predicted.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import special, stats

import scirocco as sc
from scirocco.run.convergence import standard_error

CHAINS, DRAWS, BURN_IN, THIN = 4, 5000, 1000, 10
WARMUP, NUTS_DRAWS, PARTS = 300, 2000, 20
ENOUGH, MOST = 0.005, 16_000  # standard error of NUTS' sds at which it may end, and draws at which it does
MEAN_LIMIT, SD_LIMIT = 0.1, 0.05
SAMPLERS = {"UnderdampedLangevin": sc.UnderdampedLangevin, "SGLD": sc.SGLD, "SGHMC": sc.SGHMC, "SGNHT": sc.SGNHT}


class Truth(NamedTuple):
    """Posterior means and sds, and the largest standard errors of both in units of the sd; 0 if they are exact."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: float = 0.0
    sd_error: float = 0.0


class Posterior(NamedTuple):
    """A posterior, where to begin, and its truth, if a formula gives it."""

    title: str
    target: sc.Target
    initial: Any
    data: Any
    truth: Truth | None = None


# The posteriors.


def normal_mean() -> Posterior:
    """Conjugate."""
    n, noise, wide = 10_000, 2.0, 10.0
    x = (3 + noise * np.random.default_rng(1).normal(size=(n, 2))).astype(np.float32)
    precision = n / noise**2 + 1 / wide**2
    mean = x.astype(np.float64).sum(axis=0) / noise**2 / precision
    target = sc.Target(
        lambda m: -0.5 * jnp.sum((m / wide) ** 2), lambda m, x: -0.5 * jnp.sum(((x - m) / noise) ** 2), x
    )
    return Posterior("normal mean", target, jnp.zeros(2), x, Truth(mean, np.full(2, precision**-0.5)))


def correlated_columns() -> Posterior:
    """Linear regression with known noise; the Gram matrix of the columns has condition number 10^4."""
    n, d, noise, rng = 20_000, 10, 1.5, np.random.default_rng(2)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    orthogonal = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    x = (orthogonal * np.geomspace(1, 0.01, d) @ rotation).astype(np.float32)
    y = (x @ rng.normal(size=d) + noise * rng.normal(size=n)).astype(np.float32)
    exact = x.astype(np.float64)
    covariance = np.linalg.inv(exact.T @ exact / noise**2 + np.eye(d))
    mean = covariance @ (exact.T @ y.astype(np.float64)) / noise**2

    def likelihood(w: Any, row: Any) -> Any:
        return -0.5 * ((row[1] - row[0] @ w) / noise) ** 2

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, (x, y))
    truth = Truth(mean, np.sqrt(np.diag(covariance)))
    return Posterior("linear, correlated columns", target, jnp.zeros(d), (x, y), truth)


def normal_gamma() -> Posterior:
    """Mean and log precision of a normal law: mu | tau ~ N(0, 1/(k tau)), tau ~ Gamma(a, b)."""
    n, k, a, b = 1000, 0.1, 2.0, 2.0
    x = (1 + 0.5 * np.random.default_rng(3).normal(size=n)).astype(np.float32)

    def prior(p: Any) -> Any:
        tau = jnp.exp(p["log_tau"])
        of_mean = 0.5 * p["log_tau"] - 0.5 * k * tau * p["mu"] ** 2
        return of_mean + a * p["log_tau"] - b * tau  # with the Jacobian of the logarithm

    def likelihood(p: Any, x: Any) -> Any:
        return 0.5 * p["log_tau"] - 0.5 * jnp.exp(p["log_tau"]) * (x - p["mu"]) ** 2

    exact = x.astype(np.float64)
    shape = a + n / 2
    rate = b + 0.5 * np.sum((exact - exact.mean()) ** 2) + 0.5 * k * n / (k + n) * exact.mean() ** 2
    mu = stats.t(2 * shape, n * exact.mean() / (k + n), np.sqrt(rate / (shape * (k + n))))
    mean = np.array([special.digamma(shape) - np.log(rate), mu.mean()])
    sd = np.array([np.sqrt(special.polygamma(1, shape)), mu.std()])
    initial = {"log_tau": jnp.zeros(()), "mu": jnp.zeros(())}
    return Posterior("normal mean and precision", sc.Target(prior, likelihood, x), initial, x, Truth(mean, sd))


def _bernoulli(w: Any, row: Any) -> Any:
    logit = row[0] @ w
    return row[1] * logit - jax.nn.softplus(logit)


def _logistic_data(n: int, w: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((n, 1)), rng.normal(size=(n, len(w) - 1))]).astype(np.float32)
    return x, (rng.random(n) < special.expit(x @ w)).astype(np.float32)


def logistic() -> Posterior:
    """Logistic regression with an intercept, N(0, 1) prior."""
    data = _logistic_data(10_000, np.random.default_rng(4).normal(size=20) / 2, 5)
    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), _bernoulli, data)
    return Posterior("logistic", target, jnp.zeros(20), data)


def laplace_prior() -> Posterior:
    """Logistic regression with a prior that has a kink at 0, where ten of fifteen coefficients are."""
    w = np.concatenate([[-0.5, 1.0, -0.7, 0.4, 0.2], np.zeros(10)])
    data = _logistic_data(5000, w, 6)
    target = sc.Target(lambda w: -20.0 * jnp.sum(jnp.abs(w)), _bernoulli, data)
    return Posterior("logistic, Laplace prior", target, jnp.zeros(15), data)


def poisson() -> Posterior:
    """Counts over known exposures."""
    n, d, rng = 5000, 8, np.random.default_rng(7)
    x = np.hstack([np.ones((n, 1)), rng.normal(size=(n, d - 1))]).astype(np.float32)
    offset = np.log(rng.uniform(0.2, 5, n)).astype(np.float32)
    y = rng.poisson(np.exp(x @ (0.4 * rng.normal(size=d)) + offset)).astype(np.float32)

    def likelihood(w: Any, row: Any) -> Any:
        x, offset, y = row
        log_rate = x @ w + offset
        return y * log_rate - jnp.exp(log_rate)

    target = sc.Target(lambda w: -0.5 * jnp.sum(w**2), likelihood, (x, offset, y))
    return Posterior("Poisson with an offset", target, jnp.zeros(d), (x, offset, y))


def robust() -> Posterior:
    """Student t noise, 4 degrees of freedom, its scale unknown."""
    n, d, dof, rng = 5000, 6, 4.0, np.random.default_rng(8)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = (x @ rng.normal(size=d) + 0.7 * rng.standard_t(dof, size=n)).astype(np.float32)

    def prior(p: Any) -> Any:
        return -0.5 * jnp.sum((p["w"] / 5) ** 2) - 0.5 * p["log_scale"] ** 2

    def likelihood(p: Any, row: Any) -> Any:
        z = (row[1] - row[0] @ p["w"]) * jnp.exp(-p["log_scale"])
        return -p["log_scale"] - (dof + 1) / 2 * jnp.log1p(z**2 / dof)

    initial = {"log_scale": jnp.zeros(()), "w": jnp.zeros(d)}
    return Posterior("robust regression", sc.Target(prior, likelihood, (x, y)), initial, (x, y))


def mixture() -> Posterior:
    """Two components in the plane, well apart, from a start at their centres."""
    rng = np.random.default_rng(9)
    parts = [rng.normal((-2, 0), (0.6, 1.0), (600, 2)), rng.normal((2, 1), (1.0, 0.7), (1400, 2))]
    raw = rng.permutation(np.concatenate(parts))
    x = ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)
    centres = np.array([part.mean(axis=0) for part in parts])
    initial = {
        "log_scales": jnp.full((2, 2), np.log(0.5), jnp.float32),
        "logits": jnp.zeros(2),
        "means": jnp.asarray((centres - raw.mean(axis=0)) / raw.std(axis=0), jnp.float32),
    }
    return Posterior("mixture of two normals", sc.GaussianMixture(2).target(x), initial, x)


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "normal": normal_mean,
    "correlated": correlated_columns,
    "normal-gamma": normal_gamma,
    "logistic": logistic,
    "laplace": laplace_prior,
    "poisson": poisson,
    "robust": robust,
    "mixture": mixture,
}


# Truth by NUTS.


def by_nuts(posterior: Posterior) -> Truth:
    """A long chain around the mode that scirocco finds from the same start."""
    mode = sc.find_mode(posterior.target, posterior.initial)
    with jax.enable_x64(True):
        start, unravel = ravel_pytree(jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float64), mode))
        data = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float64), posterior.data)

        def potential(theta: Any, data: Any) -> Any:
            rows = jax.vmap(posterior.target.log_likelihood, (None, 0))(unravel(theta), data)
            return -posterior.target.log_prior(unravel(theta)) - jnp.sum(rows)

        values, vectors = np.linalg.eigh(np.asarray(jax.jit(jax.hessian(potential))(start, data)))
        scale = vectors / np.sqrt(np.abs(values))
        more = _chain(potential, start, jnp.asarray(scale), data)
        phi, slopes = np.zeros((2, 0, len(values)))
        truth = None
        while truth is None or (truth.sd_error > ENOUGH and len(phi) < MOST):
            new, slope = more()
            phi, slopes = np.concatenate([phi, new]), np.concatenate([slopes, slope])
            truth = _moments(np.asarray(start), phi @ scale.T, slopes @ scale.T, np.sum(scale**2, axis=1))
    return truth


def _chain(potential: Callable[..., Any], start: Any, scale: Any, data: Any) -> Callable[[], Any]:
    """A function that goes on with one chain: draws in whitened coordinates and grad U there."""
    import blackjax

    def density(data: Any) -> Callable[[Any], Any]:
        return lambda phi: -potential(start + scale @ phi, data)

    @jax.jit
    def warm_up(key: Any, data: Any) -> Any:
        return blackjax.window_adaptation(blackjax.nuts, density(data)).run(key, jnp.zeros_like(start), WARMUP)[0]

    @jax.jit
    def advance(key: Any, state: Any, parameters: Any, data: Any) -> Any:
        step = blackjax.nuts(density(data), **parameters).step

        def one(state: Any, key: Any) -> Any:
            state, _ = step(key, state)
            return state, (state.position, -state.logdensity_grad)

        return jax.lax.scan(one, state, jax.random.split(key, NUTS_DRAWS))

    state, parameters = warm_up(jax.random.key(0), data)
    numbers = itertools.count(1)

    def more() -> tuple[np.ndarray, np.ndarray]:
        nonlocal state
        state, (phi, slopes) = advance(jax.random.key(next(numbers)), state, parameters, data)
        return np.asarray(phi), np.asarray(slopes)

    return more


def _moments(centre: np.ndarray, deviation: np.ndarray, slope: np.ndarray, variance: np.ndarray) -> Truth:
    """Means and sds, each with control variates or without, by its standard error over parts of the chain.

    With t = L phi and s = L grad U(phi), Stein's identity gives E[s] = 0 and E[t s'] = L L'.
    """
    found = []
    for x, z in ((deviation, deviation**2), (deviation - slope, deviation**2 - deviation * slope + variance)):
        mean = x.mean(axis=0)
        sd = np.sqrt(z.mean(axis=0) - mean**2)
        found.append((mean, _error(x), sd, _error((z - 2 * mean * x) / (2 * sd))))
    (mean, e, sd, f), (mean_cv, e_cv, sd_cv, f_cv) = found
    sd = np.where(f_cv < f, sd_cv, sd)
    best = centre + np.where(e_cv < e, mean_cv, mean)
    return Truth(best, sd, float(np.max(np.minimum(e, e_cv) / sd)), float(np.max(np.minimum(f, f_cv) / sd)))


def _error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean of a chain, from means of its parts."""
    parts = values[: len(values) // PARTS * PARTS].reshape(PARTS, -1, values.shape[1]).mean(axis=1)
    return parts.std(axis=0, ddof=1) / np.sqrt(PARTS)


# What scirocco makes of them.


class Outcome(NamedTuple):
    """Errors of one run by coordinate: sd over true sd, and error of the mean in sds."""

    ratio: np.ndarray
    shift: np.ndarray
    trace: sc.Trace
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the aim is reached."""
        return bool(np.all(np.abs(self.ratio - 1) <= SD_LIMIT) and np.all(np.abs(self.shift) <= MEAN_LIMIT))


def attempt(posterior: Posterior, truth: Truth, name: str, seed: int) -> Outcome:
    """A run with automatic settings, judged."""
    began = time.perf_counter()
    trace = sc.sample(
        posterior.target, SAMPLERS[name](step_size="auto"), posterior.initial, num_samples=DRAWS, burn_in=BURN_IN,
        thin=THIN, chains=CHAINS, seed=seed, progress=False,
    )  # fmt: skip
    mean, variance = (np.concatenate([np.ravel(v) for v in m.values()]) for m in (trace.mean, trace.variance))
    seconds = time.perf_counter() - began
    return Outcome(np.sqrt(variance) / truth.sd, (mean - truth.mean) / truth.sd, trace, seconds)


def closer(title: str, name: str, outcome: Outcome, truth: Truth) -> str:
    """The worst coordinates of a run that missed the aim, and what was predicted."""
    trace, draws = outcome.trace, outcome.trace.posterior
    labels = [
        f"{variable}{list(index) if index else ''}"
        for variable, values in draws.data_vars.items()
        for index in np.ndindex(values.shape[2:])
    ]
    theta = np.concatenate(
        [values.values.reshape(*values.shape[:2], -1) for values in draws.data_vars.values()], axis=2, dtype=np.float64
    )
    j, k = int(np.argmax(np.abs(outcome.ratio - 1))), int(np.argmax(np.abs(outcome.shift)))
    centred = theta - theta.mean(axis=(0, 1))
    mean_error = standard_error(centred)[k] / truth.sd[k]
    sd_error = standard_error(centred**2)[j] / (2 * truth.sd[j] ** 2)
    report, tuning = trace.bias, trace.tuning
    assert tuning is not None
    estimated = "no bias report"
    if report is not None:
        errors = np.concatenate([np.ravel(e) for e in report.sd_error.values()])
        estimated = f"bias report {errors[j]:+.1%} there, {report.worst[1]:+.1%} at worst"
    predicted = "unknown" if tuning.sd_error is None else f"{tuning.sd_error:.1%}"
    off = f"off by {outcome.ratio[j] - 1:+.1%} (standard error {sd_error:.1%})"
    return "\n".join(
        [
            f"{title}, {name}:",
            f"  sd of {labels[j]} {off}; predicted {predicted} before the run; {estimated}",
            f"  mean of {labels[k]} off by {outcome.shift[k]:+.3f} sd (standard error {mean_error:.3f})",
            f"  step size {tuning.step_size:.3g} ({tuning.reason})",
            f"  {tuning.estimator}, batch {tuning.batch_size:,}, noise {tuning.noise:.2g}, departure "
            f"{tuning.departure:.2g}, curvature {tuning.curvature}, {tuning.flat} flat",
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(POSTERIORS), choices=list(POSTERIORS))
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--seed", type=int, default=0, help="of the first posterior; each has the next one")
    options = parser.parse_args(argv)
    began = time.process_time()
    print(
        f'step_size="auto", {CHAINS} chains of {DRAWS:,} draws: least and largest sd over the true one, largest error'
    )
    print(f"of a mean in sds, and whether all sds are within {SD_LIMIT:.0%} and all means within {MEAN_LIMIT} sd;")
    print("truth: its own standard errors, of sds and of means")
    print(f"  {'':26s} {'truth':12s}" + "".join(f"  {name:>22s}" for name in options.samplers), flush=True)
    missed, held = [], 0
    for number, key in enumerate(POSTERIORS):
        if key not in options.only:
            continue
        posterior = POSTERIORS[key]()
        truth = posterior.truth or by_nuts(posterior)
        accuracy = f"{truth.sd_error:.2%} {truth.mean_error:.3f}" if truth.sd_error else "exact"
        print(f"  {posterior.title:26s} {accuracy:12s}", end="", flush=True)
        for name in options.samplers:
            try:
                outcome = attempt(posterior, truth, name, options.seed + number)
            except FloatingPointError as error:  # a result, too
                print(f"  {'lost':>22s}", end="", flush=True)
                missed.append(f"{posterior.title}, {name}: {error}")
                continue
            ratio, shift = outcome.ratio, float(np.max(np.abs(outcome.shift)))
            answer = "yes" if outcome.holds else "NO"
            cell = f"{ratio.min():.3f}-{ratio.max():.3f} {shift:.3f} {answer:>3s}"
            print(f"  {cell:>22s}", end="", flush=True)
            held += outcome.holds
            if not outcome.holds:
                missed.append(closer(posterior.title, name, outcome, truth))
        print(flush=True)
    print(
        f"{held} of {len(options.only) * len(options.samplers)} hold; {time.process_time() - began:.0f} s of computing"
    )
    print("\n".join(missed))


if __name__ == "__main__":
    main()
