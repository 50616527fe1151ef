"""Exact transitions: their laws against scipy, their moments against their formulas, and what is special about CIR."""

import numpy as np
import pytest
from scipy import stats

from scirocco.diffusions import CIR, GBM, OU, GeneralizedGamma, Minibatch, simulate

LIMIT = 1e-4
DRAWS = 200_000


def ncx2_cdf(process, x, time):
    """The transition law as scipy's noncentral chi-squared, written from eq. (2) of Barile and Nemeth."""
    a, b, sigma = float(process.a), float(process.b), float(process.sigma)
    scale = (1 - np.exp(-b * time)) * sigma**2 / (4 * b)
    centre = 4 * b / sigma**2 * x * np.exp(-b * time) / (1 - np.exp(-b * time))
    return lambda y: stats.ncx2.cdf(y / scale, 4 * a * b / sigma**2, centre)


CASES = [
    (CIR.gamma(0.1), 1e-6, 0.1),
    (CIR.gamma(0.1), 0.8, 0.1),
    (CIR.gamma(0.1), 30.0, 0.1),
    (CIR.gamma(0.49), 2.0, 0.01),
    (CIR.gamma(0.51), 2.0, 0.01),
    (CIR.gamma(1.0), 0.0, 1.0),
    (CIR.gamma(5.1), 3.0, 0.5),
    (CIR.gamma(800.1), 700.0, 0.5),
    (CIR(a=2.0, b=3.0, sigma=0.7), 1.0, 0.2),
    (CIR(a=0.2, b=0.5, sigma=2.0), 1.0, 0.7),
    (CIR.gamma(3.0, rate=0.01), 100.0, 1.0),
    (CIR.gamma(0.3, rate=-2.0, speed=-2.0), 1.0, 0.4),
]


@pytest.mark.parametrize(("process", "x", "time"), CASES)
def test_law_of_cir(process, x, time):
    draws = process.transition(np.full(DRAWS, x), time, seed=1)
    assert stats.kstest(draws, ncx2_cdf(process, x, time)).statistic < 0.005
    for order, (found, expected) in enumerate(
        [
            (draws, process.transition_mean(x, time)),
            ((draws - draws.mean()) ** 2, process.transition_variance(x, time)),
            (np.exp(-draws / (1 + x)), process.transition_mgf(-1 / (1 + x), x, time)),
        ]
    ):
        error = found.std() / np.sqrt(DRAWS)
        assert abs(found.mean() - expected) < 4.5 * error, order


def test_steps_compose_and_only_with_the_same_parameters():
    x = np.full(DRAWS, 0.7)
    process, other = CIR.gamma(0.3), CIR.gamma(2.3)
    twice = process.transition(process.transition(x, 0.2, seed=1), 0.5, seed=2)
    assert stats.ks_2samp(twice, process.transition(x, 0.7, seed=3)).pvalue > LIMIT
    mixed = other.transition(process.transition(x, 0.35, seed=1), 0.35, seed=2)
    assert stats.ks_2samp(mixed, CIR.gamma(1.3).transition(x, 0.7, seed=3)).pvalue < 1e-10


def test_independent_processes_add():
    a, x = np.array([0.05, 0.4, 1.2]), np.array([0.001, 0.3, 2.0])
    total = CIR.gamma(a).transition(np.tile(x, (DRAWS, 1)), 0.3, seed=4).sum(axis=1)
    assert stats.ks_2samp(total, CIR.gamma(a.sum()).transition(np.full(DRAWS, x.sum()), 0.3, seed=5)).pvalue > LIMIT


@pytest.mark.parametrize(
    "process",
    [
        CIR.gamma(0.05),
        CIR(a=2.0, b=3.0, sigma=0.7),
        OU.normal(1.0, 0.3, speed=2.0),
        GBM.lognormal(0.5, 0.3),
        GeneralizedGamma(CIR.gamma(1.5, rate=2.0), power=0.5),
        GeneralizedGamma(CIR.gamma(3.5), power=-1.0),
    ],
)
@pytest.mark.parametrize("time", [1e-8, 0.3, 50.0])
def test_stationary_law_stays(process, time):
    law = process.stationary()
    start = law.rvs(DRAWS, random_state=np.random.default_rng(6))
    assert stats.kstest(process.transition(start, time, seed=7), law.cdf).pvalue > LIMIT


@pytest.mark.parametrize(
    ("process", "x"),
    [
        (OU(mean=1.0, b=2.0, sigma=0.5), -1.0),
        (OU(mean=1.0, b=-0.5, sigma=0.5), 1.3),
        (GBM(mu=0.3, sigma=0.4), 2.0),
        (GBM(mu=0.3, sigma=0.4, b=1.5), 2.0),
        (GeneralizedGamma(CIR.gamma(1.5, rate=2.0), power=0.5), 1.2),
        (GeneralizedGamma(CIR.gamma(6.0), power=-1.0), 0.2),
    ],
)
def test_moments(process, x):
    draws = process.transition(np.full(DRAWS, x), 0.7, seed=8)
    for found, expected in [
        (draws, process.transition_mean(x, 0.7)),
        ((draws - draws.mean()) ** 2, process.transition_variance(x, 0.7)),
        (np.exp(-0.5 * draws), process.transition_mgf(-0.5, x, 0.7)),
    ]:
        assert abs(found.mean() - expected) < 4.5 * found.std() / np.sqrt(DRAWS)


def test_the_variance_of_a_power_survives_cancellation():
    process = GeneralizedGamma(CIR.gamma(1.0), power=0.5)
    draws = process.transition(np.full(DRAWS, 31_622.0), 1e-8, seed=3)
    assert process.transition_variance(31_622.0, 1e-8) == pytest.approx(draws.var(), rel=0.02)


def test_moment_generating_functions_at_positive_arguments():
    process = CIR.gamma(2.0)
    draws = process.transition(np.full(DRAWS, 1.0), 0.5, seed=9)
    found = np.exp(0.4 * draws)
    assert abs(found.mean() - process.transition_mgf(0.4, 1.0, 0.5)) < 4.5 * found.std() / np.sqrt(DRAWS)
    assert process.transition_mgf(3.0, 1.0, 0.5) == np.inf  # beyond 1/c
    assert GBM.lognormal().transition_mgf(0.1, 1.0, 0.5) == np.inf
    assert GBM.lognormal().transition_mgf(0.0, 1.0, 0.5) == pytest.approx(1)


def test_square_root_is_a_langevin_diffusion():
    # U = 2 sqrt(X) has drift (2a - 1)/U - U/2 and noise sqrt(2) dW (Theorem 2.1 of Baker et al.).
    a, u, time = 1.7, 2.4, 1e-3
    steps = 2 * np.sqrt(CIR.gamma(a).transition(np.full(2_000_000, u**2 / 4), time, seed=10)) - u
    drift = (2 * a - 1) / u - u / 2
    assert abs(steps.mean() / time - drift) < 4.5 * steps.std() / np.sqrt(steps.size) / time
    assert steps.var() / time == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("time", [1e-8, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize(
    ("shape", "x"), [(1e-3, 0.0), (0.01, 1e-300), (0.1, 1e9), (1e9, 1e9), (3.0, 0.0), (0.5, 1e-12)]
)
def test_extremes_stay_finite_with_the_right_mean(shape, x, time):
    process = CIR.gamma(shape)
    draws = process.transition(np.full(20_000, x), time, seed=11)
    assert np.all(np.isfinite(draws))
    assert np.all(draws >= 0)
    error = np.sqrt(process.transition_variance(x, time) / draws.size)
    # Small shapes are so skewed that 20,000 draws say little: a wide margin, which a wrong scale would still break.
    assert abs(draws.mean() - process.transition_mean(x, time)) < (4.5 if shape * draws.size > 1000 else 12) * error


def test_results_depend_on_the_seed_and_not_on_threads():
    x = np.linspace(0, 3, 50_000)
    process = CIR.gamma(np.where(np.arange(x.size) % 2, 0.1, 7.0))
    one = process.transition(x, 0.1, seed=5, step=2, threads=1)
    assert np.array_equal(one, process.transition(x, 0.1, seed=5, step=2, threads=7))
    assert not np.any(one == process.transition(x, 0.1, seed=6, step=2))
    assert not np.any(one == process.transition(x, 0.1, seed=5, step=3))


def test_broadcasting():
    process = CIR.gamma(np.array([[0.5], [2.0]]))
    assert process.transition(np.ones(3), np.array([0.1, 0.2, 0.3])).shape == (2, 3)
    assert process.transition_mean(np.ones(3), 0.1).shape == (2, 3)
    assert OU().transition(0.0, 1.0).shape == ()


@pytest.mark.parametrize(
    ("build", "posterior"),
    [
        (  # Poisson counts with a Gamma(1, 1) prior: Gamma(1 + sum, 1 + N)
            lambda rows, scale, size: CIR.gamma(1 + scale * rows.sum(), 1 + size),
            lambda x: stats.gamma(1 + x.sum(), scale=1 / (1 + x.size)),
        ),
        (  # normal data with variance 4 and a flat prior
            lambda rows, scale, size: OU.normal(rows.mean(), 2 / np.sqrt(size)),
            lambda x: stats.norm(x.mean(), 2 / np.sqrt(x.size)),
        ),
        (  # the same for the logarithm of a positive parameter
            lambda rows, scale, size: GBM.lognormal(rows.mean(), 2 / np.sqrt(size)),
            lambda x: stats.lognorm(2 / np.sqrt(x.size), scale=np.exp(x.mean())),
        ),
    ],
    ids=["CIR", "OU", "GBM"],
)
def test_minibatch_versions(build, posterior):
    data = np.random.default_rng(0).poisson(4.0, 400)
    n, h = 100, 0.02
    process = Minibatch(lambda rows, scale: build(rows, scale, data.size), data, n)
    law = posterior(data)
    chains = simulate(process, np.full(400, law.mean()), h, 30, burn_in=200, thin=20, seed=3)
    # Inflated by tanh(h/2) times the variance of the estimated level, in units of the posterior variance.
    level = data.var() / n * (data.size - n) / (data.size - 1)
    known = law.var() + np.tanh(h / 2) * level * (law.mean() ** 2 if "lognorm" in str(law.dist.name) else 1.0)
    # All chains of a call see the same minibatches: time supplies the independent pieces.
    assert chains.mean() == pytest.approx(law.mean(), abs=4.5 * np.sqrt(known / 8))
    assert chains.var() == pytest.approx(known, rel=0.25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CIR(a=-1.0), "a b must be positive"),
        (lambda: CIR(a=1.0, b=0.0), "b must not be 0"),
        (lambda: CIR(a=1.0, sigma=0.0), "sigma must be finite and greater than 0"),
        (lambda: CIR.gamma(np.nan), "shape must be finite"),
        (lambda: CIR.gamma(1.0).transition(-1.0, 0.1), "x must be finite and at least 0"),
        (lambda: CIR.gamma(1.0).transition([1.0, np.nan], 0.1), r"got nan at \[1\]"),
        (lambda: CIR.gamma(1.0).transition(1.0, 0.0), "time must be finite and greater than 0"),
        (lambda: CIR.gamma(1.0).transition(1.0, 0.1, seed=-1), "seed must be"),
        (lambda: CIR.gamma(1.0, rate=-1.0), "rate must be positive"),
        (lambda: CIR.gamma(1.0, rate=-1.0, speed=-1.0).stationary(), "no stationary law"),
        (lambda: OU(b=0.0), "b must not be 0"),
        (lambda: GBM().stationary(), "has no stationary law"),
        (lambda: GBM().transition(0.0, 1.0), "x must be finite and greater than 0"),
        (lambda: GeneralizedGamma(CIR.gamma(1.0), power=0.0), "power must be"),
        (lambda: Minibatch(lambda r, s: OU(), np.ones(3), 4), "at least batch_size = 4 rows"),
        (lambda: simulate(OU(), 0.0, 0.1, 0), "num_samples must be"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_shapes_that_do_not_fit_are_named():
    for process in (OU(), CIR(2.0), GBM(), GeneralizedGamma(CIR(2.0))):
        for call in (process.transition, process.transition_mean, process.transition_variance):
            with pytest.raises(
                ValueError, match=r"must broadcast with each other; got the shapes x \(3,\), time \(2,\)"
            ):
                call(np.ones(3), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"got the shapes time \(2,\), mean \(3,\)"):
        OU(mean=np.zeros(3)).transition(1.0, time=[1, 2])
    assert OU().transition(np.ones((3, 1)), time=[1, 2]).shape == (3, 2)


def test_a_path_needs_a_process_and_an_end():
    for process in (1j, None, OU):
        with pytest.raises(TypeError, match="process must be a diffusion, such as CIR or OU, or a Minibatch"):
            simulate(process, 1.0, 0.1, 3)
    for size in ({"num_samples": 2**63}, {"num_samples": 2, "burn_in": 2**63}, {"num_samples": 2**40, "thin": 2**40}):
        with pytest.raises(ValueError, match=r"must be a whole number of at most 2\^63 - 1"):
            simulate(OU(), 1.0, 0.1, **size)
