"""The stationary law of every sampler x estimator x integrator, at T = 1 and T = 2, against closed forms.

Each case runs 64 chains and compares the mean and the variance of each coordinate with the law that the method is known
to have, its discretisation bias and minibatch noise included. The error is measured in the standard error over the
chains; the limit of 4.75 of them fails a right sampler with probability 2e-6 per comparison, about 1e-3 for the whole
file, and seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gaussian as g
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

import scirocco as sc
from scirocco.gradient.engine import GradientEngine
from scirocco.integrators.law import euler_variance
from scirocco.run.recording import Recording

LIMIT = 4.75
CHAINS = 48
H_SGLD, H_MOMENTUM, FRICTION = 1e-4, 0.008, 20.0


def moments(sampler, estimator, *, problem=g.SMALL, batch=10, batching=None, steps=1500, burn_in=500, seed=1):
    """Per chain: mean of each coordinate, and mean squared deviation from the true mean."""
    kernel = sc.kernel(problem.target, sampler, batch_size=batch, estimator=estimator, batching=batching, seed=seed)
    engine = GradientEngine(kernel, problem.initial, chains=CHAINS, recording=Recording(burn_in, 1))
    engine.start()
    draws = []
    while engine.step < burn_in + steps:
        chunk = engine.advance(burn_in + steps)
        assert chunk.finite
        draws.append(np.concatenate([chunk.draws["a"], chunk.draws["b"][..., None]], axis=-1))
    x = np.concatenate(draws, axis=1).astype(np.float64)
    return x.mean(1), np.mean((x - problem.mean) ** 2, axis=1)


def check_law(sampler, estimator, variance, *, slack=0.0, problem=g.SMALL, **options):
    """Mean at the posterior mean; variance at the law's, within standard errors plus a relative ``slack``."""
    means, squares = moments(sampler, estimator, problem=problem, **options)
    error = (means.mean(0) - problem.mean) / (means.std(0, ddof=1) / np.sqrt(CHAINS))
    assert np.all(np.abs(error) < LIMIT), f"mean is off by {error} standard errors"
    gap, se = squares.mean(0) - variance, squares.std(0, ddof=1) / np.sqrt(CHAINS)
    ratio = squares.mean(0) / variance
    assert np.all(se / variance < 0.04), f"too noisy to decide: {se / variance}"
    assert np.all(np.abs(gap) < LIMIT * se + slack * variance), f"variance / law = {ratio}, se {se / variance}"


def sgld_law(variance, temperature, h=H_SGLD, epoch=None):
    return np.array(
        [g.sgld_variance(lam, v, h, temperature, epoch) for lam, v in zip(g.PRECISION, variance, strict=True)]
    )


def langevin_law(scheme, variance, temperature, *, friction=FRICTION, estimate=0.0, epoch=None):
    return np.array(
        [
            g.langevin_variance(scheme, lam, v, H_MOMENTUM, friction, friction * temperature - estimate, epoch)
            for lam, v in zip(g.PRECISION, variance, strict=True)
        ]
    )


def barker_law(increments):
    def law(variance, temperature):
        coordinates = zip(g.PRECISION, variance, strict=True)
        return np.array([g.barker_variance(lam, v, H_SGLD, temperature, increments)[0] for lam, v in coordinates])

    return law


def refreshed_law(variance, temperature):
    return np.array(
        [
            g.refreshed_variance("euler", lam, v, H_MOMENTUM, FRICTION, FRICTION * temperature, temperature, 4)
            for lam, v in zip(g.PRECISION, variance, strict=True)
        ]
    )


def exact(variance, temperature):
    return temperature / g.PRECISION


@dataclass(frozen=True)
class Case:
    """A sampler as a function of the temperature, the law it has given the gradient's variance, and run lengths."""

    make: Any
    law: Any
    slack: float = 0.0  # of laws that are known only to the order of the method
    options: dict[str, Any] = field(default_factory=dict)


def momentum(**settings):
    return lambda t: sc.SGHMC(H_MOMENTUM, friction=FRICTION, temperature=t, **settings)


REGISTRY = {
    "SGLD": Case(lambda t: sc.SGLD(H_SGLD, temperature=t), sgld_law),
    "SGLD, a step size per leaf": Case(
        lambda t: sc.SGLD({"a": np.full(2, H_SGLD, np.float32), "b": H_SGLD}, temperature=t), sgld_law
    ),
    "Barker": Case(lambda t: sc.Barker(H_SGLD, temperature=t), barker_law("bimodal")),
    "Barker, normal increments": Case(
        lambda t: sc.Barker(H_SGLD, temperature=t, increments="normal"), barker_law("normal")
    ),
    "SGHMC euler": Case(momentum(), lambda v, t: langevin_law("euler", v, t)),
    "SGHMC baoab": Case(momentum(integrator="baoab"), lambda v, t: langevin_law("baoab", v, t)),
    "SGHMC aboba": Case(momentum(integrator="aboba"), lambda v, t: langevin_law("aboba", v, t)),
    "SGHMC with B": Case(momentum(noise_estimate=8.0), lambda v, t: langevin_law("euler", v, t, estimate=8.0)),
    "SGHMC, 4 inner steps": Case(
        momentum(inner_steps=4), lambda v, t: langevin_law("euler", v, t), options={"steps": 500, "burn_in": 200}
    ),
    "SGHMC, 4 inner steps, new momenta": Case(
        momentum(inner_steps=4, resample_momentum=True), refreshed_law, options={"steps": 500, "burn_in": 200}
    ),
    "underdamped Langevin": Case(
        lambda t: sc.UnderdampedLangevin(H_MOMENTUM, friction=FRICTION, temperature=t),
        lambda v, t: langevin_law("baoab", v, t),
    ),
    "SMSUBU": Case(
        lambda t: sc.SMSUBU(H_MOMENTUM, friction=FRICTION, temperature=t), lambda v, t: langevin_law("ubu", v, t)
    ),
}


@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
@pytest.mark.parametrize("name", REGISTRY)
def test_plain_gradient_batch_10_of_100(name, temperature):
    """Independent minibatches: every law includes h V/2."""
    case = REGISTRY[name]
    law = case.law(g.SMALL.gradient_variance(10, replacement=True), temperature)
    check_law(
        case.make(temperature),
        sc.Plain(),
        law,
        slack=case.slack,
        batch=10,
        batching=sc.batches.WithReplacement(),
        **case.options,
    )


# Examples of this target have the same constant Hessian, so control variates remove all of the noise: what is left is
# the law of the integrator with exact gradients. SAGA's table lags behind by a few steps, which leaves a little.
ESTIMATORS = {
    "full": (sc.Plain(), 1.0),
    "cv": (sc.ControlVariate(centre=g.SMALL.initial), 10),
    "svrg": (sc.SVRG(1000), 10),
    "saga": (sc.SAGA(), 10),
}


def estimator_cases(names, thorough, once=()):
    """All combinations. At T = 1 those of ``thorough`` run every time, those of ``once`` too with control variates."""
    for name in names:
        for estimator in ESTIMATORS:
            for temperature in (1.0, 2.0):
                always = temperature == 1.0 and (name in thorough or (name in once and estimator == "cv"))
                marks = () if always else pytest.mark.slow
                yield pytest.param(name, estimator, temperature, marks=marks)


@pytest.mark.parametrize(
    ("name", "estimator", "temperature"),
    list(estimator_cases(REGISTRY, ["SGLD", "SGHMC euler"], once=["SGHMC, 4 inner steps, new momenta"])),
)
def test_exact_and_variance_reduced_gradients(name, estimator, temperature):
    case = REGISTRY[name]
    law = case.law(np.zeros(3), temperature)
    made, batch = ESTIMATORS[estimator]
    check_law(
        case.make(temperature),
        made,
        law,
        slack=0.03 if estimator == "saga" else 0.0,
        batch=batch,
        batching=None if batch == 1.0 else sc.batches.WithReplacement(),
        **case.options,
    )


@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["SGLD", "SGHMC euler", pytest.param("SGHMC baoab", marks=pytest.mark.slow)])
def test_shuffled_epochs(name, temperature):
    """Without replacement the noise of an epoch sums to zero, which the law knows."""
    variance = g.SMALL.gradient_variance(10, replacement=False)
    if name == "SGLD":
        law = sgld_law(variance, temperature, epoch=10)
    else:
        law = langevin_law(name.split()[1], variance, temperature, epoch=10)
    white = REGISTRY[name].law(variance, temperature)
    assert np.all(law < 0.93 * white)  # the case tells the two laws apart
    check_law(REGISTRY[name].make(temperature), sc.Plain(), law, batch=10, batching=sc.batches.Shuffled())


@pytest.mark.parametrize(
    ("name", "scheme", "temperature", "batch"),
    [
        ("SMSUBU", "ubu", 2.0, 10), ("SMSUBU", "ubu", 1.0, 40),
        pytest.param("SMSUBU", "ubu", 1.0, 10, marks=pytest.mark.slow),
        pytest.param("SGLD", "sgld", 1.0, 10, marks=pytest.mark.slow),
        pytest.param("underdamped Langevin", "baoab", 2.0, 10, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_sweeps(name, scheme, temperature, batch):
    """Forwards and backwards through the minibatches of an epoch: 10, or 2 with a fifth of the rows left out."""
    variance = g.SMALL.gradient_variance(batch, replacement=False)
    h, diffusion = (H_SGLD, temperature) if name == "SGLD" else (H_MOMENTUM, FRICTION * temperature)
    law = np.array(
        [
            g.swept_variance(scheme, lam, v, h, FRICTION, diffusion, g.SMALL.size, batch, g.SMALL.size // batch)
            for lam, v in zip(g.PRECISION, variance, strict=True)
        ]
    )
    white = REGISTRY[name].law(variance, temperature)
    assert np.all(law < 0.97 * white)
    batching = None if name == "SMSUBU" else sc.batches.Sweeps()
    check_law(REGISTRY[name].make(temperature), sc.Plain(), law, batch=batch, batching=batching)


@pytest.mark.parametrize("batch", [40, 70])
def test_shuffled_epochs_that_do_not_fill_the_data(batch):
    """N/n = 2.5 has two batches an epoch, N/n = 1.43 one, so that the noise is white."""
    variance = g.SMALL.gradient_variance(batch, replacement=False)
    per_coordinate = zip(g.PRECISION, variance, strict=True)
    h, lag = H_SGLD, 1 - H_SGLD * g.PRECISION
    factor = 1 - lag / (g.SMALL.size / batch - 1) if batch == 40 else np.ones(3)
    law = np.array([g.sgld_variance(lam, v * f, h, 1.0) for (lam, v), f in zip(per_coordinate, factor, strict=True)])
    check_law(REGISTRY["SGLD"].make(1.0), sc.Plain(), law, batch=batch)
    reported = euler_variance(g.PRECISION, variance, np.array(h), 1.0, g.SMALL.size / batch)
    np.testing.assert_allclose(reported, law, rtol=1e-6)


def test_weighted_draws():
    """Row i with probability p_i: the variance of the gradient is sum g_i^2/p_i - (sum g_i)^2, over n."""
    weights = 0.5 + np.random.default_rng(3).random(g.SMALL.size)
    p = weights / weights.sum()
    gradients = g.SMALL.tau * (g.SMALL.mean - g.SMALL.data)
    variance = (np.sum(gradients**2 / p[:, None], axis=0) - gradients.sum(0) ** 2) / 10
    law = sgld_law(variance, 1.0)
    check_law(REGISTRY["SGLD"].make(1.0), sc.Plain(), law, batching=sc.batches.Weighted(weights))


# The thermostat has no closed-form law with a step size; its aim is the posterior itself.
THERMOSTATS = {
    "euler": ({"integrator": "euler"}, 0.05),
    "badodab": ({"integrator": "badodab"}, 0.02),
    "euler per coordinate": ({"integrator": "euler", "thermostats": "coordinate"}, 0.05),
    "badodab per coordinate": ({"integrator": "badodab", "thermostats": "coordinate"}, 0.02),
    "badodab per leaf": ({"integrator": "badodab", "thermostats": "leaf"}, 0.02),
}


@pytest.mark.parametrize(("name", "estimator", "temperature"), list(estimator_cases(THERMOSTATS, ["euler"])))
def test_thermostats_without_noise(name, estimator, temperature):
    settings, slack = THERMOSTATS[name]
    made, batch = ESTIMATORS[estimator]
    sampler = sc.SGNHT(H_MOMENTUM / 2, diffusion=FRICTION, temperature=temperature, **settings)
    check_law(
        sampler,
        made,
        exact(None, temperature),
        slack=slack,
        batch=batch,
        steps=3000,
        batching=None if batch == 1.0 else sc.batches.WithReplacement(),
    )


@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
@pytest.mark.parametrize("name", THERMOSTATS)
def test_thermostats_absorb_minibatch_noise(name, temperature):
    """Batch 10 of 100, where SGHMC with the same settings is off by a factor."""
    settings, slack = THERMOSTATS[name]
    h, friction, problem = 0.04, 2.0, g.WARM
    sampler = sc.SGNHT(h, diffusion=friction, temperature=temperature, **settings)
    noise = problem.gradient_variance(10, replacement=True)
    heated = [
        g.langevin_variance("euler", lam, v, h, friction, friction * temperature) * lam / temperature
        for lam, v in zip(problem.precision, noise, strict=True)
    ]
    assert max(heated) > 1.8
    # A thermostat for several coordinates absorbs the mean of their noises: exact only if these are equal.
    heat = friction + h * noise / (2 * temperature)
    settled = np.full(3, heat.mean())
    if "per coordinate" in name:
        settled = heat
    elif "per leaf" in name:
        settled = np.append(np.full(2, heat[:2].mean()), heat[2])
    wanted = temperature / problem.precision * heat / settled
    if "euler" in name:
        # Euler's friction step removes xi (1 - h xi/2) instead of xi: the thermostat settles higher, positions colder.
        xi = (1 - np.sqrt(1 - 2 * h * settled)) / h
        wanted = wanted * (1 - h * xi / 2)
    check_law(sampler, sc.Plain(), wanted, slack=slack + 0.02, steps=6000, burn_in=1500, problem=problem, batch=10)


def correlated(thermostats, temperature, *, h=0.04, friction=2.0, rows=100, batch=10):
    """Means over draws of x x' by chain, the law that is wanted, and that of a thermostat for each coordinate, where
    minibatches are noisy along (1, 1, 0) more than elsewhere."""
    precision, v = np.array([10.0, 5.0, 20.0]), np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    wanted = 50.0 * np.eye(3) + 350.0 * np.outer(v, v)  # the variance of the gradient of a minibatch
    tau = precision / rows
    z = np.random.default_rng(4).normal(size=(rows, 3))
    z = (z - z.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True))).T
    data = z @ np.linalg.cholesky(batch / rows**2 * wanted / np.outer(tau, tau)).T
    target = sc.Target(None, lambda p, x: -0.5 * jnp.sum(tau * (x - p["m"]) ** 2), data.astype(np.float32))
    start = {"m": jnp.zeros(3)}
    kind = sc.samplers.AlongDirections(sc.optimise.noise_directions(target, start, 1))
    sampler = sc.SGNHT(
        h, diffusion=friction, temperature=temperature, integrator="badodab",
        thermostats=kind if thermostats == "along" else thermostats,
    )  # fmt: skip
    kernel = sc.kernel(target, sampler, batch_size=batch, seed=1)
    engine = GradientEngine(kernel, start, chains=CHAINS, recording=Recording(1500, 1))
    engine.start()
    total = np.zeros((CHAINS, 3, 3))
    while engine.step < 7500:
        x = engine.advance(7500).draws["m"]
        total += np.einsum("cti,ctj->cij", x, x, dtype=np.float64)
    heat = friction * np.eye(3) + h * wanted / (2 * temperature)
    rest, one = np.zeros((3, 3)), np.eye(3)
    pull = np.block([[rest, one], [-np.diag(precision), -np.diag(np.diag(heat))]])
    cold = solve_continuous_lyapunov(pull, -np.block([[rest, rest], [rest, 2 * temperature * heat]]))[:3, :3]
    return total / 6000, np.diag(temperature / precision), cold


@pytest.mark.parametrize(
    ("thermostats", "temperature"),
    [
        ("matrix", 2.0), ("along", 1.0), ("coordinate", 2.0), pytest.param("matrix", 1.0, marks=pytest.mark.slow),
        pytest.param("along", 2.0, marks=pytest.mark.slow), pytest.param("coordinate", 1.0, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_matrix_absorbs_correlated_noise(thermostats, temperature):
    """Where a thermostat for each coordinate leaves the correlation in, by as much as the linear SDE says."""
    squares, posterior, uncorrelated = correlated(thermostats, temperature)
    scale = np.sqrt(np.outer(*2 * [np.diag(posterior)]))
    assert (uncorrelated / scale)[0, 1] > 0.2
    law = uncorrelated if thermostats == "coordinate" else posterior
    se = squares.std(0, ddof=1) / np.sqrt(CHAINS)
    assert np.all(se < 0.03 * scale)
    gap = np.abs(squares.mean(0) - law)
    assert np.all(gap < LIMIT * se + 0.03 * scale), (squares.mean(0) / scale, law / scale, se / scale)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_preconditioned_sgld(temperature):
    """After the adaptation: SGLD with the step sizes h G that it settled at."""
    sampler = sc.PSGLD(2e-3, adaptation_steps=1000, temperature=temperature)
    kernel = sc.kernel(g.SMALL.target, sampler, batch_size=1.0, seed=3)
    engine = GradientEngine(kernel, g.SMALL.initial, chains=CHAINS, recording=Recording(1800, 1))
    engine.start()
    total = squares = 0
    while engine.step < 4500:
        chunk = engine.advance(4500)
        x = np.concatenate([chunk.draws["a"], chunk.draws["b"][..., None]], axis=-1).astype(np.float64)
        total, squares = total + x.shape[1], squares + np.sum((x - g.SMALL.mean) ** 2, axis=1)
    found = engine.state.sampler.square
    square = np.concatenate([np.asarray(found["a"]), np.asarray(found["b"])[:, None]], 1)
    h = 2e-3 / (1e-5 + np.sqrt(square))
    law = temperature / (g.PRECISION * (1 - h * g.PRECISION / 2))
    ratio = squares / total / law  # every chain against the law of its own preconditioner
    z = (ratio.mean(0) - 1) / (ratio.std(0, ddof=1) / np.sqrt(CHAINS))
    assert np.all(h * g.PRECISION > 0.01)  # a step size worth the name
    assert np.all(np.abs(z) < LIMIT), f"ratio {ratio.mean(0)}, z {z}"


def test_decreasing_steps_lose_their_bias():
    """SGLD at a step size that falls: late draws have the posterior's variance, a constant one does not."""
    constant = sc.SGLD(6e-4)
    decreasing = sc.SGLD(sc.Decreasing(6e-4, tau=20.0, kappa=0.6))
    check_law(constant, sc.Plain(), sgld_law(np.zeros(3), 1.0, h=6e-4), batch=1.0)
    law = sgld_law(np.zeros(3), 1.0, h=float(decreasing.step_size(8000)))
    assert np.all(law < 1.03 / g.PRECISION)
    check_law(decreasing, sc.Plain(), law, batch=1.0, burn_in=3000, steps=15_000, slack=0.01)


def test_the_limit_tells_a_wrong_friction():
    """The same machinery rejects a sampler whose noise does not match its friction."""
    with pytest.raises(AssertionError, match="variance / law"):
        check_law(momentum(noise_estimate=2.0)(1.0), sc.Plain(), langevin_law("euler", np.zeros(3), 1.0), batch=1.0)
