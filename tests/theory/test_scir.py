"""SCIR with and without control variates: exact moments and generating functions against simulation and the sources."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from scirocco import theory
from scirocco.theory import (
    EstimateLaw,
    approximate_bias,
    asymptotic_bias,
    conditional_variance,
    largest_step_size,
    mgf,
    mgf_given_path,
    moments,
    prefers_control_variate,
    scir_step_size,
    stationary_moments,
    variance_inflation,
)

# The setting of Figure 3 of Barile and Nemeth: N, count, n, alpha.
FIGURE = EstimateLaw.hypergeometric(1000, 150, 100, 0.1)
START, STEP = 7.67, 0.1
SMALL = EstimateLaw([0.4, 2.0, 7.0], [0.2, 0.5, 0.3])


def move(rng, theta, estimate, step_size, form, centre):
    """One step by numpy's gamma and Poisson draws, the coefficients written out as in the sources."""
    b = 1.0 if form == "scir" else (estimate - 1) / (centre - 1)
    kept = np.exp(-step_size * b) if form == "alternative" else np.exp(-step_size) * np.ones_like(theta)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(b == 0, step_size, (1 - kept) / b)
    return scale * rng.gamma(estimate + rng.poisson(theta * kept / scale))


def simulate(law, step_size, steps, start, form, *, chains=300_000, seed=0):
    rng = np.random.default_rng(seed)
    theta = np.full(chains, start)
    for _ in range(steps):
        theta = move(rng, theta, rng.choice(law.values, chains, p=law.probabilities), step_size, form, law.mean)
    return theta


def assert_same_moments(draws, exact, errors=4.5):
    n, mean, variance = len(draws), draws.mean(), draws.var()
    assert abs(mean - exact.mean) < errors * np.sqrt(variance / n)
    spread = np.sqrt((np.mean((draws - mean) ** 4) - variance**2) / n)
    assert abs(variance - exact.variance) < errors * spread


@pytest.mark.parametrize(
    ("form", "steps", "batch_size", "prior"),
    [
        ("scir", 1, 100, 0.1),
        ("scir", 10, 10, 0.1),
        ("main", 10, 100, 0.1),
        ("main", 4, 10, 3.0),
        ("alternative", 1, 100, 0.1),
        ("alternative", 10, 10, 0.1),
        ("alternative", 1, 10, 1.0),  # b_hat = 0 at times
    ],
)
def test_moments_by_simulation(form, steps, batch_size, prior):
    law = EstimateLaw.hypergeometric(1000, 150, batch_size, prior)
    # The law is drawn from by numpy's hypergeometric, which knows nothing of the enumeration.
    rng = np.random.default_rng(5)
    theta = np.full(200_000, START)
    for _ in range(steps):
        counts = rng.hypergeometric(150, 850, batch_size, theta.size)
        theta = move(rng, theta, prior + 1000 / batch_size * counts, STEP, form, 150 + prior)
    assert_same_moments(theta, moments(law, STEP, steps, START, form))


@pytest.mark.parametrize("form", ["scir", "alternative"])
def test_stationary_moments_by_simulation(form):
    law = EstimateLaw.hypergeometric(1000, 100, 10, 0.1)
    draws = simulate(law, 0.5, 25, 100.0, form, chains=100_000)
    np.testing.assert_allclose(moments(law, 0.5, 25, 100.0, form), stationary_moments(law, 0.5, form), rtol=1e-4)
    assert_same_moments(draws, stationary_moments(law, 0.5, form))


@pytest.mark.parametrize(
    ("batch_size", "form", "steps", "printed", "right"),
    [
        (100, "main", 1, 2.840, 2.841),
        (100, "main", 60, 158.303, 158.307),
        (100, "alternative", 1, 2.675, 11.105),
        (100, "alternative", 10, 63.600, 77.501),
        (100, "alternative", 60, 150.133, 150.136),
        (50, "alternative", 10, 63.662, 93.121),
        (10, "alternative", 1, 2.619, 92.137),
        (10, "alternative", 10, 64.127, 222.145),
        (10, "alternative", 60, 157.691, 157.738),
    ],
)
def test_the_variance_and_what_is_printed(batch_size, form, steps, printed, right):
    law = EstimateLaw.hypergeometric(1000, 150, batch_size, 0.1)
    assert round(conditional_variance(law, STEP, steps, START, form), 3) == pytest.approx(printed, abs=1.1e-3)
    assert round(moments(law, STEP, steps, START, form).variance, 3) == pytest.approx(right, abs=1.1e-3)


def printed_main(law, h, M, theta0):
    """(9) of Barile and Nemeth."""
    a, r = law.mean, np.exp(-h)
    C1 = np.exp(-M * h) - np.exp(-2 * M * h)
    C2 = (1 - r) ** 2 * (1 - np.exp(-2 * M * h)) / (1 - np.exp(-2 * h))
    C3 = (1 - r) ** 2 * (
        (np.exp(-M * h) - r) / ((1 - r) * (r - 1)) - (np.exp(-2 * M * h) - r**2) / ((1 - r) * (r**2 - 1))
    )
    inverse, ratio = law.expect(lambda x: 1 / (x - 1)), law.expect(lambda x: x / (x - 1))
    first = 2 * (a - 1) * inverse * (theta0 * C1 + C3 * (a - 1) * ratio)
    return first + C2 * (a - 1) ** 2 * law.expect(lambda x: x / (x - 1) ** 2)


def printed_alternative(law, h, M, theta0):
    """(21) of Barile and Nemeth."""
    a = law.mean
    p, q = (law.expect(lambda x, k=k: np.exp(-k * h * (x - 1) / (a - 1))) for k in (1, 2))
    C1, C2 = (p**M - q**M) / (p - q), (1 - q**M) / (1 - q)
    C3 = 1 + p + q + (p**M - p**3) / ((p - q) * (p - 1)) - (q**M - q**3) / ((p - q) * (q - 1))

    def G(x):
        b = (x - 1) / (a - 1)
        return (1 - np.exp(-h * b)) / b

    def b(x):
        return (x - 1) / (a - 1)

    kappa = law.expect(lambda x: (np.exp(-h * b(x)) - np.exp(-2 * h * b(x))) / b(x))
    total = 2 * kappa * (theta0 * C1 + law.expect(lambda x: x * G(x)) * C3)
    return total + law.expect(lambda x: x * G(x) ** 2) * C2


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 10, 60])
@pytest.mark.parametrize("step_size", [0.1, 0.7])
def test_conditional_variance_is_the_printed_formula(steps, step_size):
    above = FIGURE.above(1)
    given = (step_size, steps, START)
    np.testing.assert_allclose(conditional_variance(above, *given, "main"), printed_main(above, *given), rtol=1e-11)
    np.testing.assert_allclose(
        conditional_variance(FIGURE, *given, "alternative"), printed_alternative(FIGURE, *given), rtol=1e-11
    )
    # What (9) leaves out has a closed form.
    C2 = np.tanh(step_size / 2) * (1 - np.exp(-2 * steps * step_size))
    spread = above.expect(lambda x: 1 / (x - 1) ** 2) - above.expect(lambda x: 1 / (x - 1)) ** 2
    np.testing.assert_allclose(
        moments(above, *given, "main").variance - conditional_variance(above, *given, "main"),
        C2 * (above.mean - 1) ** 2 * spread,
        rtol=1e-9,
    )


def test_conditional_variance_by_simulation_of_paths():
    # Moments given the path are a linear recursion; the average of the variances over paths needs no gamma draws.
    law, rng = EstimateLaw.hypergeometric(1000, 150, 100, 0.1), np.random.default_rng(3)
    m, v = np.full(100_000, START), np.zeros(100_000)
    for _ in range(10):
        a = rng.choice(law.values, m.size, p=law.probabilities)
        b = (a - 1) / (law.mean - 1)
        R, c = np.exp(-STEP * b), (1 - np.exp(-STEP * b)) / b
        m, v = R * m + c * a, R**2 * v + 2 * R * c * m + c**2 * a
    given = (law, STEP, 10, START, "alternative")
    assert abs(v.mean() - conditional_variance(*given)) < 4.5 * v.std() / np.sqrt(v.size)
    total = moments(*given).variance
    assert abs(m.var() - (total - conditional_variance(*given))) < 4.5 * m.var() * np.sqrt(2 / m.size)


def test_scir_closed_form_of_corollary_3_2():
    a, noise, steps = FIGURE.mean, FIGURE.variance, np.array([0, 1, 5, 300])
    r = np.exp(-STEP * steps)
    found = moments(FIGURE, STEP, steps, START)
    np.testing.assert_allclose(found.mean, START * r + a * (1 - r), rtol=1e-13)
    exact = 2 * START * (r - r**2) + a * (1 - r) ** 2
    np.testing.assert_allclose(found.variance, exact + (1 - r**2) * np.tanh(STEP / 2) * noise, rtol=1e-12)
    np.testing.assert_allclose(conditional_variance(FIGURE, STEP, steps, START), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("step_size", "steps"), [(1e-9, 10**9), (1e-12, 3 * 10**11), (0.1, 10**18), (60.0, 2)])
def test_tiny_and_huge_steps(step_size, steps):
    a, time = FIGURE.mean, step_size * steps
    r, done = np.exp(-time), -np.expm1(-time)
    variance = 2 * START * r * done + a * done**2 - np.expm1(-2 * time) * np.tanh(step_size / 2) * FIGURE.variance
    found = moments(FIGURE, step_size, steps, START)
    np.testing.assert_allclose(found, (START * r + a * done, variance), rtol=1e-13)


def test_the_closed_form_with_two_geometric_sums():
    # S = E theta^2 and its roots rho_1, rho_2, as one would write it down; m* and the differences cancel, hence rtol.
    law, h, M = EstimateLaw.hypergeometric(1000, 50, 10, 0.1), 0.5, np.arange(1, 40)
    b = (law.values - 1) / (law.mean - 1)
    R, c, a, p = np.exp(-h * b), (1 - np.exp(-h * b)) / b, law.values, law.probabilities
    rho1, rho2, mu, kappa, nu = p @ R, p @ R**2, p @ (a * c), 2 * p @ (R * c * (1 + a)), p @ (a * (1 + a) * c**2)
    m = mu / (1 - rho1)
    mean = m + (START - m) * rho1**M
    S = rho2**M * START**2 + (kappa * m + nu) * (1 - rho2**M) / (1 - rho2)
    S += kappa * (START - m) * (rho1**M - rho2**M) / (rho1 - rho2)
    found = moments(law, h, M, START, "alternative")
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, S - mean**2, rtol=1e-9)


def test_without_noise_all_forms_are_the_exact_process():
    law = EstimateLaw.exact(4.2)
    for form in ("scir", "main", "alternative"):
        r = np.exp(-0.3 * np.arange(5))
        found = moments(law, 0.3, np.arange(5), 1.5, form)
        np.testing.assert_allclose(found.mean, 1.5 * r + 4.2 * (1 - r), rtol=1e-13)
        np.testing.assert_allclose(found.variance, 3.0 * (r - r**2) + 4.2 * (1 - r) ** 2, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(stationary_moments(law, 0.3, form), (4.2, 4.2), rtol=1e-13)


@pytest.mark.parametrize(
    ("count", "mean", "variance", "scir"),
    [(20, 22.0, 145, 496), (50, 50.64, 111.8, 1203), (100, 100.33, 147.3, 2284.5), (800, 800.1, 808.7, 4683.5)],
)
def test_stationary_table(count, mean, variance, scir):
    law = EstimateLaw.hypergeometric(1000, count, 10, 0.1)
    assert stationary_moments(law, 0.5, "alternative") == pytest.approx((mean, variance), rel=2e-3)
    assert stationary_moments(law, 0.5).mean == pytest.approx(law.mean)
    assert stationary_moments(law, 0.5).variance == pytest.approx(scir, rel=1e-3)
    assert variance_inflation(law, 0.5) == pytest.approx(scir / law.mean, rel=1e-3)
    assert prefers_control_variate(law, 0.5)


def test_explosive_components():
    sparse = EstimateLaw.hypergeometric(1000, 5, 10, 0.1)
    assert stationary_moments(sparse, 0.5, "alternative") == (np.inf, np.inf)
    assert asymptotic_bias(sparse, 0.5, "alternative") == np.inf
    assert variance_inflation(sparse, 0.5, "alternative") == np.inf
    grown = moments(sparse, 0.5, [0, 1, 100, 10**6], 3.0, "alternative")
    assert (grown.mean[0], grown.variance[0]) == (3.0, 0.0)
    assert np.all(np.diff(grown.mean[:3]) > 0)
    assert np.all(np.isfinite(grown.variance[:3]))
    assert (grown.mean[3], grown.variance[3]) == (np.inf, np.inf)
    # A mean without a variance: E R < 1 < E R^2.
    law = EstimateLaw([0.1, 12.0], [0.55, 0.45])
    b = (law.values - 1) / (law.mean - 1)
    h = 2.0
    assert law.probabilities @ np.exp(-h * b) < 1 < law.probabilities @ np.exp(-2 * h * b)
    found = stationary_moments(law, h, "alternative")
    assert np.isfinite(found.mean)
    assert found.variance == np.inf
    late = moments(law, h, 10**7, 3.0, "alternative")
    assert late == (pytest.approx(found.mean), np.inf)
    # e^(-h b_hat) beyond float64
    assert stationary_moments(EstimateLaw([0.1, 1.91], [0.5, 0.5]), 10.0, "alternative") == (np.inf, np.inf)


@pytest.mark.parametrize(("form", "step_size"), [("main", 0.1), ("alternative", 0.1), ("alternative", 1.0)])
def test_approximate_bias_for_little_noise(form, step_size):
    # sigma^2 = 8e-4 here, and what the approximation leaves out is of this relative order.
    law = EstimateLaw.hypergeometric(10**5, 10**4, 10**4, 0.1)
    exact = asymptotic_bias(law, step_size, form)
    assert approximate_bias(law.mean, law.variance, step_size, form) == pytest.approx(exact, rel=3e-3)
    assert exact > 0


def test_approximate_bias_of_arrays_and_scir():
    np.testing.assert_allclose(approximate_bias([3.0, 5.0], 2.0, 0.1, "main"), [0.5, 0.125])
    np.testing.assert_array_equal(approximate_bias([3.0, 0.5], 2.0, 0.1), [0.0, 0.0])
    assert approximate_bias(1.01, 100.0, 1.0, "alternative") == np.inf
    assert asymptotic_bias(FIGURE, 0.5) == pytest.approx(0.0, abs=1e-9)
    # h^2/2 sigma^2 / h for a small step, without loss of digits
    assert approximate_bias(3.0, 4.0, 1e-9, "alternative") == pytest.approx(0.5e-9, rel=1e-6)


def test_centre_that_is_not_the_parameter():
    found = moments(FIGURE, STEP, 3, START, "alternative", centre=120.0)
    b = (FIGURE.values - 1) / 119.0
    p, R, c = FIGURE.probabilities, np.exp(-STEP * b), (1 - np.exp(-STEP * b)) / b
    m = START
    for _ in range(3):
        m = p @ (R * m + c * FIGURE.values)
    assert found.mean == pytest.approx(m, rel=1e-13)
    # as h goes to zero the mean is E a_hat / E b_hat
    expected = FIGURE.mean * 119.0 / (FIGURE.mean - 1) - FIGURE.mean
    assert asymptotic_bias(FIGURE, 1e-7, "alternative", 120.0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", ["scir", "alternative"])
@pytest.mark.parametrize("inflation", [0.01, 0.3, 2.0])
def test_largest_step_size_is_where_the_inflation_is_reached(form, inflation):
    law = EstimateLaw.hypergeometric(1000, 100, 10, 0.1)
    h = largest_step_size(law, inflation, form)
    assert variance_inflation(law, h, form) == pytest.approx(1 + inflation, rel=1e-9)
    assert variance_inflation(law, 1.001 * h, form) > 1 + inflation
    assert all(variance_inflation(law, h * share, form) < 1 + inflation for share in np.geomspace(1e-6, 0.999, 50))


def test_largest_step_size_at_the_ends():
    assert largest_step_size(EstimateLaw.exact(3.0), 0.01) == np.inf
    assert largest_step_size(EstimateLaw.exact(3.0), 0.01, "alternative") == np.inf
    assert largest_step_size(FIGURE, FIGURE.variance / FIGURE.mean + 0.1) == np.inf
    assert largest_step_size(FIGURE, 1e-3, "main") == 0.0  # the bias of main does not go away with h
    assert largest_step_size(FIGURE, 0.5, "main") == np.inf
    assert 0 < largest_step_size(FIGURE, 1e-9, "alternative") < 1e-6


def test_scir_step_size_of_arrays():
    laws = [EstimateLaw.hypergeometric(1000, count, 10, 0.1) for count in (0, 1, 100, 800)]
    a, noise = (np.array([getattr(law, name) for law in laws]) for name in ("mean", "variance"))
    found = scir_step_size(a, noise, 0.1)
    assert found[0] == np.inf  # no noise in a component without counts
    np.testing.assert_allclose([variance_inflation(law, h) for law, h in zip(laws[1:], found[1:], strict=True)], 1.1)
    np.testing.assert_array_equal(found, [largest_step_size(law, 0.1) for law in laws])


def test_preference():
    def law(count, batch_size=10, prior=0.1):
        return EstimateLaw.hypergeometric(1000, count, batch_size, prior)

    chosen = [prefers_control_variate(law(count), 0.5) for count in (0, 1, 5, 10, 20, 100)]
    assert chosen == [False, False, False, False, True, True]
    assert not prefers_control_variate(law(1, prior=1e-4), 0.5)  # a just above one
    assert not prefers_control_variate(law(100), 0.5, centre=0.9)
    assert not prefers_control_variate(law(100), 0.5, centre=30.0)  # too far from the parameter to be of use
    assert not prefers_control_variate(EstimateLaw.exact(50.0), 0.5)  # nothing to gain
    assert prefers_control_variate(EstimateLaw.exact(50.0), 0.5) is False


def theorem(s, estimates, h, start, form, a):
    """Theorem 3.1 of Baker et al., index put right; Theorems 1 and 2 of Barile and Nemeth, as printed."""
    M = len(estimates)
    if form == "scir":
        base = (1 - s * (1 - np.exp(-M * h))) ** -a
        base *= np.exp(start * s * np.exp(-M * h) / (1 - s * (1 - np.exp(-M * h))))
        for m in range(1, M + 1):
            factor = (1 - s * (1 - np.exp(-m * h))) / (1 - s * (1 - np.exp(-(m - 1) * h)))
            base *= factor ** -(estimates[M - m] - a)
        return base
    b = (estimates - 1) / (a - 1)
    # b[j-1] is b_hat_j of the theorems
    if form == "main":

        def D(terms):
            return 1 - s * (1 - np.exp(-h)) * sum(np.exp(-(k - 1) * h) / b[M - k] for k in range(1, terms + 1))

        value = np.exp(start * s * np.exp(-M * h) / D(M)) * (1 - s * (1 - np.exp(-h)) / b[-1]) ** -estimates[-1]
        for m in range(1, M):
            value *= (D(M - m + 1) / D(M - m)) ** -estimates[m - 1]
        return value

    def E(m, terms):
        inner = sum(
            (1 - np.exp(-h * b[M - k])) / b[M - k] * np.exp(h * b[m - 1 : M - k + 1].sum()) for k in range(1, terms + 1)
        )
        return 1 - s * np.exp(-h * b[m - 1 :].sum()) * inner

    value = np.exp(start * s * np.exp(-h * b.sum()) / E(1, M))
    value *= (1 - s * (1 - np.exp(-h * b[-1])) / b[-1]) ** -estimates[-1]
    for m in range(1, M):
        value *= (E(m, M - m + 1) / E(m, M - m)) ** -estimates[m - 1]
    return value


PATHS = {"scir": [0.4, 7.0, 2.0, 3.5], "main": [1.4, 7.0, 2.0, 3.5], "alternative": [0.4, 7.0, 2.0, 3.5]}


@pytest.mark.parametrize("form", list(PATHS))
@pytest.mark.parametrize("s", [-2.0, -0.3, 0.1])
def test_mgf_given_path_is_the_theorem(form, s):
    path = np.array(PATHS[form])
    found = mgf_given_path(s, path, 0.4, 2.5, form, 3.4)
    np.testing.assert_allclose(found, theorem(s, path, 0.4, 2.5, form, 3.4), rtol=1e-12)


def test_mgf_given_path_by_simulation():
    s, h, start, a = 0.25, 0.4, 2.5, 3.4
    for form, path in PATHS.items():
        rng = np.random.default_rng(7)
        theta = np.full(300_000, start)
        for estimate in path:
            theta = move(rng, theta, np.full(theta.shape, estimate), h, form, a)
        draws = np.exp(s * theta)
        error = draws.std() / np.sqrt(draws.size)
        assert abs(draws.mean() - mgf_given_path(s, path, h, start, form, a)) < 4.5 * error
        if form == "scir":  # the order as printed in Theorem 3.1 is the reversed path, and is seen to be wrong
            assert abs(draws.mean() - mgf_given_path(s, path[::-1], h, start)) > 50 * error


def test_mgf_given_path_derivatives():
    path, h, e = np.array(PATHS["alternative"]), 0.4, 1e-4
    b = (path - 1) / 2.4
    R, c, m, v = np.exp(-h * b), (1 - np.exp(-h * b)) / b, 2.5, 0.0
    for k in range(4):
        m, v = R[k] * m + c[k] * path[k], R[k] ** 2 * v + 2 * R[k] * c[k] * m + c[k] ** 2 * path[k]
    low, mid, high = mgf_given_path([-e, 0.0, e], path, h, 2.5, "alternative", 3.4, log=True)
    assert mid == 0.0
    assert (high - low) / (2 * e) == pytest.approx(m, rel=1e-6)
    assert (high + low) / e**2 == pytest.approx(v, rel=1e-5)


@pytest.mark.parametrize("form", ["scir", "main", "alternative"])
def test_mgf_is_the_average_over_all_paths(form):
    law = SMALL if form != "main" else EstimateLaw([1.4, 2.0, 7.0], [0.2, 0.5, 0.3])
    s = np.array([-40.0, -3.0, -0.2, 0.0, 0.05, 0.12])
    total = np.zeros(s.shape)
    for path in product(range(3), repeat=5):
        weight = np.prod(law.probabilities[list(path)])
        total += weight * mgf_given_path(s, law.values[list(path)], 0.3, 2.5, form, law.mean)
    np.testing.assert_allclose(mgf(s, law, 0.3, 5, 2.5, form), total, rtol=1e-9)
    np.testing.assert_allclose(mgf(s[:, None], law, 0.3, 5, 2.5, form, log=True)[:, 0], np.log(total), atol=1e-9)


@pytest.mark.parametrize("form", ["scir", "main", "alternative"])
def test_mgf_derivatives_are_the_moments(form):
    e = 1e-4
    low, mid, high = mgf([-e, 0.0, e], FIGURE, STEP, 10, START, form, log=True)
    exact = moments(FIGURE, STEP, 10, START, form)
    assert mid == pytest.approx(0.0, abs=1e-12)
    assert (high - low) / (2 * e) == pytest.approx(exact.mean, rel=1e-7)
    assert (high - 2 * mid + low) / e**2 == pytest.approx(exact.variance, rel=1e-5)


@pytest.mark.parametrize("form", ["scir", "main", "alternative"])
def test_mgf_by_simulation(form):
    draws = simulate(FIGURE.above(1), STEP, 8, START, form, chains=200_000, seed=4)  # 3e-8 are below, unseen here
    s = np.array([-0.1, -0.02, 0.02])
    values = np.exp(s[:, None] * draws)
    error = values.std(axis=1) / np.sqrt(draws.size)
    assert np.all(np.abs(values.mean(axis=1) - mgf(s, FIGURE, STEP, 8, START, form)) < 4.5 * error)


def test_mgf_that_is_infinite():
    r = np.exp(-0.3)
    limit = 1 / (1 - r**5)  # of scir after five steps
    found = mgf([limit - 1e-6, limit + 1e-6, 5.0], SMALL, 0.3, 5, 2.5, log=True)
    np.testing.assert_array_equal(np.isinf(found), [False, True, True])
    # b_hat < 0 pushes s up at each step: finite after a few steps, infinite after many, and never for s <= 0
    few, many = (mgf([-0.5, 0.05], SMALL, 0.3, steps, 2.5, "alternative") for steps in (5, 60))
    np.testing.assert_array_equal(np.isinf(few), [False, False])
    np.testing.assert_array_equal(np.isinf(many), [False, True])
    assert mgf_given_path([0.1, 9.0], [2.0], 0.3, 1.0)[1] == np.inf
    assert mgf(0.3, SMALL, 0.3, 0, 2.5, "alternative") == pytest.approx(np.exp(0.75))


def test_mgf_far_below_zero_and_for_many_steps():
    value = mgf([-3000.0, -100.0, -5.0], FIGURE, STEP, 60, START, "alternative", log=True)
    assert np.all(np.diff(value) > 0)
    # The same from tables on narrower intervals
    np.testing.assert_allclose(value[1:], mgf([-100.0, -5.0], FIGURE, STEP, 60, START, "alternative", log=True))
    late = [mgf(-0.01, FIGURE, 0.5, steps, START, "alternative", log=True) for steps in (60, 90)]
    assert late[0] == pytest.approx(late[1], rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: moments(FIGURE, 0.0, 1, 1.0), "step_size must be finite and greater than 0; got 0"),
        (lambda: moments(FIGURE, [0.1, 0.2], 1, 1.0), "step_size must be one number"),
        (lambda: moments(FIGURE, 0.1, -1, 1.0), "steps must be whole numbers of at least 0; got -1"),
        (lambda: moments(FIGURE, 0.1, 1.5, 1.0), "steps must be whole numbers of at least 0; got 1.5"),
        (lambda: moments(FIGURE, 0.1, 1, -1.0), "start must be finite and at least 0; got -1"),
        (lambda: moments(FIGURE, 0.1, 1, 1.0, "other"), "form must be one of .*; got 'other'"),
        (lambda: moments(EstimateLaw.exact(0.5), 0.1, 1, 1.0, "alternative"), "centre must be finite and above 1"),
        (lambda: moments(FIGURE, 0.1, 1, 1.0, "alternative", 1.0), "centre must be finite and above 1 .* got 1.0"),
        (
            lambda: moments(EstimateLaw.hypergeometric(1000, 150, 10, 0.1), 0.1, 1, 1.0, "main"),
            "law must have estimates above 1 for the form 'main', .* 0.195 at or below",
        ),
        (lambda: approximate_bias(0.9, 1.0, 0.1, "main"), "parameter must be above 1"),
        (lambda: approximate_bias(2.0, -1.0, 0.1, "main"), "variance must be finite and at least 0; got -1"),
        (lambda: scir_step_size(0.0, 1.0, 0.1), "parameter must be finite and greater than 0"),
        (lambda: largest_step_size(FIGURE, 0.0), "inflation must be finite and greater than 0; got 0"),
        (lambda: mgf(np.nan, FIGURE, 0.1, 1, 1.0), "s must be finite; got nan"),
        (lambda: mgf(0.0, FIGURE, 0.1, [1, 2], 1.0), "steps must be one whole number"),
        (lambda: mgf(-1.0, EstimateLaw([0.1, 1.91], [0.5, 0.5]), 10.0, 1, 1.0, "alternative"), "must be smaller here"),
        (lambda: mgf_given_path(0.1, [[2.0]], 0.1, 1.0), r"estimates must have shape \(steps,\)"),
        (lambda: mgf_given_path(0.1, [2.0, 0.0], 0.1, 1.0), "estimates must be positive and finite; got"),
        (lambda: mgf_given_path(0.1, [2.0], 0.1, 1.0, "main"), "centre must be given for the form 'main'"),
        (lambda: mgf_given_path(0.1, [2.0, 0.5], 0.1, 1.0, "main", 3.0), "estimates must be above 1"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_moments_too_large_for_a_float_are_infinite():
    law = EstimateLaw.hypergeometric(6, 1, 1, 0.0141)
    assert moments(law, 9.93, 7, 1.0, "alternative").variance == np.inf


LAW = EstimateLaw.exact(4.0)
CALLS = {
    "moments": lambda law, **k: theory.moments(law, 0.1, 3, 1.0, **k),
    "conditional_variance": lambda law, **k: theory.conditional_variance(law, 0.1, 3, 1.0, **k),
    "stationary_moments": lambda law, **k: theory.stationary_moments(law, 0.1, **k),
    "asymptotic_bias": lambda law, **k: theory.asymptotic_bias(law, 0.1, **k),
    "variance_inflation": lambda law, **k: theory.variance_inflation(law, 0.1, **k),
    "largest_step_size": lambda law, **k: theory.largest_step_size(law, 0.1, **k),
    "prefers_control_variate": lambda law, **k: theory.prefers_control_variate(law, 0.1, **k),
    "mgf": lambda law, **k: theory.mgf(0.1, law, 0.1, 3, 1.0, **k),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_law_is_a_law_and_a_centre_a_number(name):
    with pytest.raises(TypeError, match=r"law must be an EstimateLaw, such as .*; got float"):
        CALLS[name](1.0)
    with pytest.raises(TypeError, match="centre must be a number or an array of numbers, not text"):
        CALLS[name](LAW, centre=b"x")
    with pytest.raises(ValueError, match="centre must be one number"):
        CALLS[name](LAW, centre=[2.0, 3.0])


def test_a_path_takes_a_centre_that_is_a_number():
    with pytest.raises(TypeError, match="centre must be a number"):
        theory.mgf_given_path(0.5, [2.0, 1.0], 0.7, 1.5, centre=b"x")


def test_steps_beyond_what_is_counted():
    for steps in (2**63, np.array([3, 2**63], np.uint64)):
        with pytest.raises(ValueError, match=r"steps must be at most 2\^63 - 1"):
            theory.moments(LAW, 0.1, steps, 1.0)
    assert theory.moments(LAW, 0.1, 2**62, 1.0).mean == pytest.approx(4.0)
    for form in ("scir", "main", "alternative"):
        with pytest.raises(ValueError, match="steps must be at most 10,000,000, as the function is found step by step"):
            theory.mgf(0.1, LAW, 0.1, 2**62, 1.0, form)
