"""The laws of the simplex samplers: against theory with hypergeometric minibatches, and lazy against eager.

Rows of one ``Weights`` serve as independent chains. Limits are 4.5 standard errors (two-sided failure rate 7e-6 each).
"""

import numpy as np
import pytest
from scipy import stats

from scirocco.simplex import SCIR, SCIRCV, SGRLD, Counts, Exact, Weights
from scirocco.theory import EstimateLaw, mgf, moments, stationary_moments

LIMIT = 4.5
CHAINS = 40_000
SIZE, PRIOR = 1000, 0.1


def simulated(sampler, count, n, steps, start, seed=0):
    """theta of a category with ``count`` of 1000 observations, after some steps from ``start``, in many chains."""
    rng = np.random.default_rng(seed)
    weights = Weights(PRIOR, rows=CHAINS, categories=2, initial=[start, 1.0], seed=seed)
    centre = None
    if isinstance(sampler, SCIRCV):
        centre = sampler.centre_at(weights, np.tile([count, SIZE - count], (CHAINS, 1)), n / SIZE)
        assert np.all(centre.parameter[0] > 1)
    for _ in range(steps):
        seen = rng.hypergeometric(count, SIZE - count, n, CHAINS)
        counts = SIZE / n * np.stack([seen, n - seen], axis=1)
        sampler.step(weights, Counts(counts, fraction=n / SIZE, centre=centre))
    return weights.theta[0]


def assert_moments(draws, mean, variance):
    assert abs(draws.mean() - mean) < LIMIT * draws.std() / np.sqrt(draws.size)
    squares = (draws - mean) ** 2
    assert abs(squares.mean() - variance) < LIMIT * squares.std() / np.sqrt(draws.size)


@pytest.mark.parametrize(
    ("sampler", "form", "count", "n"),
    [
        (SCIR(0.5), "scir", 100, 10),
        (SCIR(0.1), "scir", 0, 10),
        (SCIR(0.1), "scir", 3, 100),
        (SCIRCV(0.1), "alternative", 150, 100),
        (SCIRCV(0.5), "alternative", 100, 10),  # every third minibatch has b_hat < 0
        (SCIRCV(0.1, form="main"), "main", 150, 100),
        (SCIRCV(0.5, form="main"), "main", 900, 50),
    ],
)
@pytest.mark.parametrize("steps", [1, 12])
def test_moments_after_some_steps(sampler, form, count, n, steps):
    law = EstimateLaw.hypergeometric(SIZE, count, n, PRIOR)
    known = moments(law, sampler.step_size, steps, 7.67, form)
    draws = simulated(sampler, count, n, steps, 7.67)
    assert_moments(draws, known.mean, known.variance)
    s = -1 / (1 + known.mean)
    found = np.exp(s * draws)
    assert abs(found.mean() - mgf(s, law, sampler.step_size, steps, 7.67, form)) < LIMIT * found.std() / np.sqrt(CHAINS)


def test_the_variance_of_the_mean_is_there():
    # The variance printed for the alternative form, 2.68, leaves it out; the right one is 11.1.
    assert 10.9 < simulated(SCIRCV(0.1), 150, 100, 1, 7.67).var() < 11.3


def test_stationary_variance():
    law = EstimateLaw.hypergeometric(SIZE, 100, 10, PRIOR)
    for sampler, form in ((SCIR(0.5), "scir"), (SCIRCV(0.5), "alternative")):
        known = stationary_moments(law, 0.5, form)
        assert_moments(simulated(sampler, 100, 10, 40, 100.0, seed=1), known.mean, known.variance)


def test_limit_of_a_vanishing_rate():
    # a_hat = 1 is b_hat = 0: theta' = h Gamma(1 + Poisson(theta / h)).
    sampler = SCIRCV(0.3, choose="always")
    weights = Weights(1.0, rows=CHAINS, categories=2, initial=[2.0, 1.0])
    centre = sampler.centre_at(weights, np.tile([50.0, 50.0], (CHAINS, 1)), 0.1)
    sampler.step(weights, Counts(np.tile([0.0, 100.0], (CHAINS, 1)), fraction=0.1, centre=centre))
    rng = np.random.default_rng(0)
    direct = 0.3 * rng.gamma(1 + rng.poisson(2.0 / 0.3, CHAINS))
    assert stats.ks_2samp(weights.theta[0], direct).pvalue > 1e-4


@pytest.mark.parametrize("sampler", [SCIR(0.3), SCIRCV(0.3)], ids=["SCIR", "SCIRCV"])
def test_lazy_is_eager_in_law(sampler):
    # Given the same minibatches, the rows of both are independent draws of one law.
    rng, rows, categories = np.random.default_rng(2), 8000, 12
    probability = np.r_[0.6, 0.39, np.full(10, 0.001)]
    prior = np.linspace(0.05, 1.5, categories)
    start, centre = np.full(categories, 5.0), None
    lazy, eager = (Weights(prior, rows=rows, categories=categories, initial=start, seed=s) for s in (1, 2))
    untouched = 0
    for step in range(25):
        if isinstance(sampler, SCIRCV) and step in (0, 12):  # a rare category gains its control variate, then loses it
            known = np.r_[600.0, 390.0, 200.0 if step else 1.0, 1.0 if step else 200.0, np.full(8, 1.0)]
            centre = sampler.centre_at(lazy, np.tile(known, (rows, 1)), 0.02)
            assert list(centre.controlled) == [0, 1, 2 if step else 3]
        seen = rng.multinomial(20, probability)
        columns = np.flatnonzero(seen)
        untouched += categories - len(columns)
        sampler.step(lazy, Counts(np.tile(50.0 * seen[columns], (rows, 1)), columns, 0.02, centre=centre))
        sampler.step(eager, Counts(np.tile(50.0 * seen, (rows, 1)), None, 0.02, centre=centre))
    assert untouched > 150
    expected = lazy.totals
    for ours, theirs in zip(lazy.catch_up(), eager.catch_up(), strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4
    # The total, too, and what was expected of it before catching up.
    total = lazy.theta.sum(axis=0)
    assert stats.ks_2samp(total, eager.theta.sum(axis=0)).pvalue > 1e-4
    error = total - expected
    assert abs(error.mean()) < LIMIT * error.std() / np.sqrt(rows)
    assert np.mean((error / expected) ** 2) < np.mean(1 / expected)


def test_lazy_with_a_schedule_and_readers_in_between():
    rng, rows, categories = np.random.default_rng(3), 8000, 6
    sampler = SCIR(lambda t: 0.5 / (1 + t))
    lazy, eager = (Weights(0.3, rows=rows, categories=categories, initial=np.ones(categories), seed=s) for s in (3, 4))
    for step in range(15):
        columns = rng.choice(categories, 2, replace=False)
        values = rng.integers(1, 9, 2).astype(float)
        full = np.zeros(categories)
        full[columns] = values
        if step % 4 == 1:
            read = lazy.read(np.array([0, 5]))
            assert read.shape == (rows, 2)
        sampler.step(lazy, Counts(np.tile(values, (rows, 1)), columns, 0.1))
        sampler.step(eager, Counts(np.tile(full, (rows, 1)), None, 0.1))
    assert lazy.time == pytest.approx(sum(0.5 / (1 + t) for t in range(15)))
    assert eager.time == pytest.approx(lazy.time)
    for ours, theirs in zip(lazy.proportions().T, eager.proportions().T, strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4


def test_expected_totals_are_kept_up():
    rng, rows, categories = np.random.default_rng(4), 3, 20
    weights, sampler = Weights(0.3, rows=rows, categories=categories, seed=5), SCIR(0.2)
    for step in range(12):
        columns = rng.choice(categories, 4, replace=False)
        sampler.step(weights, Counts(rng.integers(1, 9, (rows, 4)).astype(float), columns, 0.1))
        if step % 3 == 1:
            weights.read(np.array([0, 7, 19]))
        decay = np.exp(-(weights.time - weights.clock))[:, None]
        np.testing.assert_allclose(weights.totals, (0.3 + (weights.theta - 0.3) * decay).sum(axis=0))
    assert weights.behind


def test_gibbs_steps_redraw_the_totals():
    rows = 5000
    weights = Weights(0.5, rows=rows, categories=3, initial=[0.2, 0.3, 0.5])
    SCIR(1e-9).step(weights, Counts(np.tile([3.0, 1.0, 0.0], (rows, 1)), exact=True))
    total = weights.theta.sum(axis=0)
    assert stats.kstest(total, stats.gamma(5.5).cdf).pvalue > 1e-4
    np.testing.assert_allclose(weights.proportions(), np.tile([0.2, 0.3, 0.5], (rows, 1)), atol=2e-3)


@pytest.mark.parametrize("sampler", [SCIR(0.1), SGRLD(0.1), Exact(), SCIRCV(0.1)])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(np.ones((2, 4))), "counts must have shape"),
        (Counts(np.ones((3, 5))), "counts must have shape"),
        (Counts(np.ones((3, 2)), np.array([1, 4])), "columns must be categories from 0 to 3"),
        (Counts(np.ones((3, 2)), np.array([-1, 2])), "columns must be categories from 0 to 3"),
        (Counts(np.ones((3, 2)), np.array([1, 1])), "columns must be distinct"),
    ],
)
def test_counts_must_fit_the_weights(sampler, counts, words):
    with pytest.raises(ValueError, match=words):
        sampler.step(Weights(0.1, rows=3, categories=4), counts)


def test_rows_of_different_totals_have_their_own_centres():
    weights = Weights(0.1, rows=2, categories=3)
    centre = SCIRCV(0.1).centre_at(weights, [[100.0, 50.0, 20.0], [5.0, 5.0, 3.0]], 0.1)
    assert centre.parameter[0, 0] == pytest.approx(100.1)
    assert centre.parameter[2, 1] == 0
    with pytest.raises(ValueError, match="counts must have shape"):
        SCIRCV(0.1).centre_at(weights, [[100.0, 50.0, 20.0]], 0.1)
    with pytest.raises(ValueError, match="fraction must lie"):
        SCIRCV(0.1).centre_at(weights, np.ones((2, 3)), 2.0)


def test_the_total_of_scir_is_exact():
    # Minibatches share their size, so the estimates of all categories sum to a constant.
    rng, rows = np.random.default_rng(5), 20_000
    weights = Weights(PRIOR, rows=rows, categories=3, initial=[800.0, 100.0, 100.0])
    sampler = SCIR(0.5)
    for _ in range(20):
        seen = rng.multinomial(10, [0.8, 0.1, 0.1], rows)
        sampler.step(weights, Counts(100.0 * seen, fraction=0.01))
    total = weights.theta.sum(axis=0)
    assert total.var() == pytest.approx(1000.3, rel=LIMIT * np.sqrt(2 / rows))
    assert weights.theta[1].var() > 10 * 100.1


def test_exact_draws():
    weights = Weights(0.5, rows=20_000, categories=3)
    Exact().step(weights, Counts(np.tile([3.0, 1.0, 0.0], (20_000, 1)), exact=True))
    for draws, a in zip(weights.proportions().T, (3.5, 1.5, 0.5), strict=True):
        assert stats.kstest(draws, stats.beta(a, 5.5 - a).cdf).pvalue > 1e-4


# SGRLD.


def sgrld_rows(parametrization, h, steps, counts, prior, rows=20_000):
    weights = Weights(prior, rows=rows, categories=len(counts), initial=np.asarray(counts, float) + prior)
    sampler = SGRLD(h, parametrization=parametrization)
    sampler.start(weights)
    full = Counts(np.tile(np.asarray(counts, float), (rows, 1)))
    for _ in range(steps):
        sampler.step(weights, full)
    return weights


@pytest.mark.parametrize("parametrization", ["expanded_mean", "expanded_natural", "reduced_mean", "reduced_natural"])
def test_sgrld_samples_a_dense_posterior_at_small_steps(parametrization):
    counts, prior = np.array([30.0, 20.0, 10.0]), 2.0
    weights = sgrld_rows(parametrization, 0.004, 400, counts, prior, rows=4000)
    parameter = prior + counts
    omega = weights.proportions()
    for draws, a in zip(omega.T, parameter, strict=True):
        law = stats.beta(a, parameter.sum() - a)
        # Euler's own bias at this step is below 0.03 in d_KS; a wrong drift gives far more.
        assert stats.kstest(draws, law.cdf).statistic < 0.05
    if parametrization.startswith("expanded"):
        assert weights.theta.sum(axis=0).mean() == pytest.approx(6.0, rel=0.05)


def test_sgrld_is_biased_where_the_posterior_is_sparse():
    # Converging, slowly: the mean total of three weights with prior 0.5 goes to 1.5 as the step goes to 0.
    totals = [
        sgrld_rows("expanded_mean", h / 2, round(30 / h), [8.0, 2.0, 0.0], 0.5, rows=4000).theta.sum(axis=0).mean()
        for h in (0.1, 0.01)
    ]
    assert totals[0] == pytest.approx(1.924, abs=0.1)
    assert totals[1] == pytest.approx(1.602, abs=0.1)


def test_sgrld_steps_without_noise():
    from scirocco.simplex import sgrld

    theta, prior, counts, h = np.array([[2.0], [1.0], [5.0]]), 0.5, np.array([[4.0], [0.0], [6.0]]), 0.01
    omega, zero = theta / 8, np.zeros((3, 1))
    found = sgrld._expanded_mean(theta, prior, counts, h, zero)
    np.testing.assert_allclose(found, theta + h * (prior + counts - theta - 10 * omega))
    found = sgrld._expanded_natural(theta, prior, counts, h, zero)
    np.testing.assert_allclose(np.log(found), np.log(theta) + h * ((prior + counts - 1 - 10 * omega) / theta - 1))
    found = sgrld._reduced_mean(omega, prior, counts, h, zero)
    np.testing.assert_allclose(found, omega + h * ((prior + counts) / 11.5 - omega))
    found = sgrld._reduced_natural(omega, prior, counts, h, zero)
    moved = np.log(omega) + h / 11.5 * (prior + counts - 1) / omega
    np.testing.assert_allclose(found, np.exp(moved) / np.exp(moved).sum())


@pytest.mark.parametrize("parametrization", ["expanded_mean", "expanded_natural", "reduced_mean", "reduced_natural"])
def test_sdes_of_sgrld_keep_the_posterior(parametrization):
    """The drift and diffusion of each form, written out for two or three coordinates, leave exp(-H) invariant."""
    import jax.numpy as jnp

    from scirocco.recipe import check_invariance

    a, alpha, n = jnp.array([3.5, 1.5, 2.5]), 0.5, 6.0  # prior + counts
    total = a.sum()

    def expanded(theta):
        return -jnp.sum((alpha - 1) * jnp.log(theta) - theta) - jnp.sum((a - alpha) * jnp.log(theta / theta.sum()))

    def reduced(omega):
        full = jnp.append(omega, 1 - omega.sum())
        return -jnp.sum((a - 1) * jnp.log(full))

    def full_omega(phi):
        return jnp.exp(jnp.append(phi, 0.0)) / (1 + jnp.exp(phi).sum())

    forms = {
        "expanded_mean": (
            expanded,
            lambda x: a - x - n * x / x.sum(),
            jnp.diag,
            jnp.array([[1.0, 2.0, 0.5], [0.3, 0.4, 2.0]]),
        ),
        "expanded_natural": (
            lambda p: expanded(jnp.exp(p)) - p.sum(),
            lambda p: (a - 1 - n * jnp.exp(p) / jnp.exp(p).sum()) / jnp.exp(p) - 1,
            lambda p: jnp.diag(jnp.exp(-p)),
            jnp.array([[0.1, 0.7, -0.5], [-0.3, 0.4, 0.2]]),
        ),
        "reduced_mean": (
            reduced,
            lambda w: a[:2] / total - w,
            lambda w: (jnp.diag(w) - jnp.outer(w, w)) / total,
            jnp.array([[0.2, 0.5], [0.4, 0.1]]),
        ),
        "reduced_natural": (
            lambda p: -jnp.sum(a[:2] * p) + total * jnp.log(1 + jnp.exp(p).sum()),
            lambda p: ((a[:2] - 1) / full_omega(p)[:2] - (a[2] - 1) / full_omega(p)[2]) / total,
            lambda p: (jnp.diag(1 / full_omega(p)[:2]) + 1 / full_omega(p)[2]) / total,
            jnp.array([[0.2, -0.5], [0.4, 0.1]]),
        ),
    }
    energy, drift, diffusion, points = forms[parametrization]
    report = check_invariance(drift, diffusion, energy, dimension=points.shape[1], points=points)
    assert report, report
