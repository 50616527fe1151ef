"""The law of omega for vectors of counts: against enumeration, simulation, its limits and single weights."""

import numpy as np
import pytest
from scipy import integrate, stats

from scirocco.theory import EstimateLaw, OmegaLaw, omega, omega_law, stationary_moments

COUNTS, PRIOR, ROWS = np.array([4, 2, 1, 0]), np.array([0.5, 0.5, 0.3, 0.2]), 2


def estimates(rng, counts, prior, n, chains, *, replaced=False):
    """Estimates of the parameter from one minibatch for each chain."""
    size = counts.sum()
    if replaced:
        return prior + size / n * rng.multinomial(n, counts / size, size=chains)
    return prior + size / n * rng.multivariate_hypergeometric(counts, n, size=chains)


def simulated(counts, prior, n, h, *, controlled=None, chains=40_000, time=8.0, seed=0):
    """Omega of many independent chains after a while, by the transition as it is written."""
    rng = np.random.default_rng(seed)
    a = prior + counts
    theta = rng.gamma(a, size=(chains, len(a)))
    for _ in range(int(np.ceil(time / h))):
        a_hat = estimates(rng, counts, prior, n, chains)
        b = np.ones(a_hat.shape)
        if controlled is not None:
            b[:, controlled] = ((a_hat - 1) / (a - 1))[:, controlled]
        kept, scale = np.exp(-h * b), np.where(b == 0, h, -np.expm1(-h * b) / np.where(b == 0, 1, b))
        theta = scale * rng.gamma(a_hat + rng.poisson(theta * kept / scale))
    return theta / theta.sum(axis=1, keepdims=True)


def off(draws, law):
    """Standard errors by which draws differ from a law in their means and in their squared deviations."""
    square = np.square(draws - law.mean)
    root = np.sqrt(len(draws))
    means = (draws.mean(axis=0) - law.mean) / (draws.std(axis=0) / root)
    return means, (square.mean(axis=0) - law.sd**2) / (square.std(axis=0) / root)


@pytest.mark.parametrize("replaced", [False, True])
def test_without_memory_it_is_a_mixture_of_dirichlet_laws(replaced):
    """A step of infinite length draws from Dirichlet(a_hat): its moments are sums over all minibatches."""
    make = EstimateLaw.with_replacement if replaced else EstimateLaw.hypergeometric
    way = "with_replacement" if replaced else "independent"
    law = omega_law(COUNTS, PRIOR, ROWS, 60.0, batching=way)
    total = (COUNTS + PRIOR).sum()
    for k, (count, prior) in enumerate(zip(COUNTS, PRIOR, strict=True)):
        found = make(int(COUNTS.sum()), int(count), ROWS, float(prior))
        mean = found.expect(lambda a: a / total)
        second = found.expect(lambda a: a * (a + 1) / (total * (total + 1)))
        assert law.mean[k] == pytest.approx(mean)
        assert law.sd[k] == pytest.approx(np.sqrt(second - mean**2), rel=1e-5)


@pytest.mark.parametrize("h", [0.3, 0.7])
def test_scir_is_exact_for_seven_observations(h):
    law = omega_law(COUNTS, PRIOR, ROWS, h)
    draws = simulated(COUNTS, PRIOR, ROWS, h)
    means, squares = off(draws, law)
    assert np.all(np.abs(means) < 4.5)
    assert np.all(np.abs(squares) < 4.5)
    # What holds for large totals alone is far off here: the check is sharp.
    extra = (law.sd**2 - law.posterior_sd**2) * np.tanh(h / 2) / omega.noise_gain(h, (COUNTS + PRIOR).sum())
    rough = OmegaLaw(law.mean, np.sqrt(law.posterior_sd**2 + extra), *[law.mean] * 4)
    assert np.max(off(draws, rough)[1]) > 4.5


@pytest.mark.parametrize("controlled", [[True, True, True, False], [True, False, True, False]])
def test_control_variates_beside_plain_steps(controlled):
    counts, prior, n, h = np.array([300, 120, 60, 0]), np.array([0.5, 0.5, 2.0, 0.2]), 30, 0.6
    law = omega_law(counts, prior, n, h, "alternative", controlled=controlled)
    assert law.controlled.tolist() == controlled
    draws = simulated(counts, prior, n, h, controlled=np.flatnonzero(controlled))
    # To first order in 1/A: a part in 480 of each variance is left to it.
    np.testing.assert_allclose(draws.mean(axis=0), law.mean, atol=4.5 * np.max(law.sd) / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.var(axis=0)[:3], law.sd[:3] ** 2, rtol=4.5 * np.sqrt(2.5 / len(draws)) + 1 / 480)
    assert np.max(np.abs(law.sd / law.posterior_sd - 1)) > 0.03  # minibatches do something


def test_the_posterior_beside_it():
    law = omega_law(COUNTS, PRIOR, ROWS, 0.5)
    exact = stats.dirichlet(COUNTS + PRIOR)
    np.testing.assert_allclose(law.posterior_mean, exact.mean())
    np.testing.assert_allclose(law.posterior_sd, np.sqrt(exact.var()))
    full = omega_law(COUNTS, PRIOR, 7, 0.5)
    np.testing.assert_allclose(full.sd_error, 0, atol=1e-12)
    assert law.sd_error[3] == pytest.approx(0, abs=1e-12)  # an empty category is exact
    assert np.all(law.sd_error[:3] > 0.1)


@pytest.mark.parametrize("total", [3.0, 30.0, 2e4])
def test_the_gain_of_noise_has_no_jumps(total):
    edge = omega.SMALL_STEP
    assert omega.noise_gain(0.999 * edge, total) == pytest.approx(omega.noise_gain(1.001 * edge, total), rel=5e-3)
    assert omega.noise_gain(30.0, total) == pytest.approx(1, rel=1e-3)
    large = omega.LARGE_TOTAL
    assert omega.noise_gain(1.0, 0.99 * large) == pytest.approx(omega.noise_gain(1.0, 1.01 * large), rel=1e-3)


@pytest.mark.parametrize("total", [1.1, 1.9, 2.05, 2.5, 3.05])
@pytest.mark.parametrize("h", [0.009, 0.01, 0.011, 0.3])
def test_the_gain_of_noise_is_that_integral_for_few_observations_too(total, h):
    kept = np.exp(-h * np.arange(np.ceil(40 / h) + 1))

    def integrand(rest):  # x = 1 - rest
        after = kept * np.exp(-h)
        terms = -np.expm1(-h) * kept * rest / ((1 - kept + rest * kept) * (1 - after + rest * after))
        return np.sum(np.square(terms)) * stats.beta.pdf(rest, total, 2)

    exact = integrate.quad(integrand, 0, 1, points=[h / 10, h, 10 * h], limit=500)[0]
    assert omega.noise_gain(h, total) == pytest.approx(exact, rel=1e-3)


def test_the_gain_of_noise_of_tiny_steps_and_few_observations_is_a_bound():
    gains = [omega.noise_gain(h, 1.5) for h in (1e-9, 1e-3, 2e-3)]
    assert gains[0] == gains[1] < gains[2]
    assert omega.noise_gain(0.00099, 2.01) == pytest.approx(omega.noise_gain(0.001, 2.01) * 0.99, rel=2e-3)


def test_a_centre_that_is_off_moves_the_mean():
    counts, centre = np.array([600, 400]), np.array([660.0, 400.5])
    law = omega_law(counts, 0.5, 100, 0.3, "alternative", controlled=True, centre=centre)
    laws = [EstimateLaw.hypergeometric(1000, int(c), 100, 0.5) for c in counts]
    theta = np.array(
        [stationary_moments(one, 0.3, "alternative", float(c)).mean for one, c in zip(laws, centre, strict=True)]
    )
    np.testing.assert_allclose(law.mean, theta / theta.sum(), rtol=2e-3)
    moved = omega_law(counts, 0.5, 100, 0.3, "alternative", controlled=True, centre_variance=np.array([400.0, 400.0]))
    still = omega_law(counts, 0.5, 100, 0.3, "alternative", controlled=True)
    np.testing.assert_allclose(moved.sd**2 - still.sd**2, 2 * 400 * 0.24 / 1001**2, rtol=0.1)


def test_many_counts_are_interpolated(monkeypatch):
    counts = np.arange(20, 60)
    every = omega_law(counts, 0.1, 160, 0.2, "alternative")
    monkeypatch.setattr(omega, "LAWS", 8)
    some = omega_law(counts, 0.1, 160, 0.2, "alternative")
    assert every.controlled.sum() > 8
    np.testing.assert_array_equal(some.controlled, every.controlled)
    np.testing.assert_allclose(some.sd_error, every.sd_error, rtol=0.02)


def test_what_explodes_is_infinite():
    law = omega_law([997, 3], 0.1, 10, 2.0, "alternative", controlled=True)
    assert np.all(np.isinf(law.sd_error))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": [3.0, -1.0]}, "counts must be finite and at least 0"),
        ({"counts": [3.0]}, "counts must be a vector"),
        ({"prior": [0.1, 0.1, 0.1]}, "prior must be a number or one for each of 2"),
        ({"batch_size": 11}, "batch_size must be at most the number of observations, 10"),
        ({"step_size": 0.0}, "step_size must be"),
        ({"form": "other"}, "form must be one of"),
        ({"batching": "sorted"}, "batching must be one of"),
        ({"form": "alternative", "controlled": [True]}, "controlled must be a number or one for each"),
        ({"form": "alternative", "centre": [2.0, 3.0, 4.0]}, "centre must be a number or one for each"),
    ],
)
def test_bad_input(change, words):
    arguments = {"counts": [7, 3], "prior": 0.5, "batch_size": 2, "step_size": 0.1} | change
    with pytest.raises(ValueError, match=words):
        omega_law(**arguments)
