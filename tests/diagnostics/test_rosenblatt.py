"""The Rosenblatt transform of a Dirichlet law: uniform and independent, to the last digit at the ends, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, kstest, kstwo

from scirocco.diagnostics import dirichlet_uniforms, ks_distance, ks_distances

SPARSE = np.array([800.1, 100.1, 100.1, *[0.1] * 7])
DENSE = np.array([112.1, 119.1, 92.1, 98.1, 95.1, 96.1, 102.1, 92.1, 91.1, 103.1])
TINY = np.full(10, 0.01)


@pytest.mark.parametrize("parameter", [SPARSE, DENSE, TINY, np.array([0.01, 30.0])])
def test_distance_of_exact_draws_follows_the_law_of_the_statistic(parameter):
    # The distance of 200 independent uniforms has scipy's kstwo law; a hundred runs of each coordinate.
    rng = np.random.default_rng(0)
    runs = np.array([ks_distances(rng.gamma(parameter, size=(200, len(parameter))), parameter) for _ in range(100)])
    law = kstwo(200)
    error = law.std() / np.sqrt(runs.size)
    assert abs(runs.mean() - law.mean()) < 4 * error + 3e-4  # 1e-3 of Gamma(0.01) underflows
    assert kstest(runs.ravel(), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("parameter", [SPARSE, TINY])
def test_uniform_and_independent(parameter):
    u = dirichlet_uniforms(np.random.default_rng(1).gamma(parameter, size=(40_000, 10)), parameter)
    assert u.shape == (40_000, 9)
    assert not np.any(np.isnan(u))
    assert all(kstest(column, "uniform").pvalue > 1e-4 for column in u.T)
    # Cells of a 4 x 4 table for each pair of coordinates; chi-squared with 9 degrees of freedom, 36 pairs.
    cells = np.minimum((4 * u).astype(int), 3)
    for i in range(9):
        for j in range(i):
            table = np.bincount(4 * cells[:, i] + cells[:, j], minlength=16)
            expected = np.outer(np.bincount(cells[:, i]), np.bincount(cells[:, j])).ravel() / len(u)
            assert np.sum((table - expected) ** 2 / expected) < 40  # p = 8e-6


def test_wrong_laws_are_seen():
    rng, n = np.random.default_rng(2), 1000
    right = ks_distance(rng.gamma(SPARSE, size=(n, 10)), SPARSE)
    assert right < 0.036  # 0.0271 on average, with a standard deviation of 0.0026
    for wrong in (SPARSE + np.eye(10)[3] * 0.1, SPARSE * 1.5, DENSE):
        assert ks_distance(rng.gamma(wrong, size=(n, 10)), SPARSE) > 1.5 * right
    # too wide: every gamma twice as far from its mean
    stretched = np.maximum(SPARSE + 2 * (rng.gamma(SPARSE, size=(n, 10)) - SPARSE), 1e-300)
    assert ks_distance(stretched, SPARSE) > 5 * right


def test_order_of_coordinates():
    # Only the law of the fourth category is wrong, and the coordinates before it barely notice.
    draws = np.random.default_rng(3).gamma(DENSE + 30 * np.eye(10)[3], size=(2000, 10))
    distances = ks_distances(draws, DENSE)
    assert np.argmax(distances) == 3
    assert np.all(distances[4:] < 0.05)
    assert ks_distance(draws, DENSE) == pytest.approx(distances.mean())


def test_two_categories_are_a_beta_law():
    x = np.random.default_rng(4).beta(2.5, 0.7, size=300)
    points = np.column_stack([x, 1 - x])
    np.testing.assert_allclose(dirichlet_uniforms(points, [2.5, 0.7])[:, 0], beta(2.5, 0.7).cdf(x), rtol=1e-12)
    assert ks_distance(points, [2.5, 0.7]) == pytest.approx(kstest(x, beta(2.5, 0.7).cdf).statistic, rel=1e-10)


def test_digits_at_both_ends():
    # I_x(a, 1) = x^a and I_x(1, b) = 1 - (1 - x)^b; 1 - x is zero in float64 in the second.
    small = 10.0 ** np.array([-300, -200, -100, -17, -1])
    ones = np.ones(5)
    low = dirichlet_uniforms(np.column_stack([small, ones - small]), [0.01, 1.0])[:, 0]
    np.testing.assert_allclose(low, small**0.01, rtol=1e-12)
    high = dirichlet_uniforms(np.column_stack([ones - small, small]), [1.0, 0.01])[:, 0]
    np.testing.assert_allclose(1 - high, small**0.01, rtol=1e-10)
    # The tail is summed by itself: 1e-200 and 3e-200 after a weight of one
    np.testing.assert_allclose(dirichlet_uniforms([[1.0, 1e-200, 3e-200]], [5.0, 1.0, 1.0])[0, 1], 0.25, rtol=1e-12)


def test_scale_of_the_weights_does_not_matter():
    rng = np.random.default_rng(5)
    draws = rng.gamma(SPARSE, size=(200, 10))
    scales = 10.0 ** rng.uniform(-30, 30, size=(200, 1))
    expected = dirichlet_uniforms(draws, SPARSE)
    np.testing.assert_allclose(dirichlet_uniforms(draws * scales, SPARSE), expected, rtol=1e-9)
    np.testing.assert_allclose(
        dirichlet_uniforms(draws / draws.sum(axis=1, keepdims=True), SPARSE), expected, rtol=1e-9
    )


def test_chains_are_joined():
    draws = np.random.default_rng(6).gamma(DENSE, size=(3, 50, 10))
    np.testing.assert_array_equal(dirichlet_uniforms(draws, DENSE), dirichlet_uniforms(draws.reshape(-1, 10), DENSE))
    assert ks_distance(draws, DENSE) == ks_distance(draws.reshape(150, 10), DENSE)


def test_zeros():
    draws = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [1.0, 1.0, 1.0]]
    u = dirichlet_uniforms(draws, [1.0, 1.0, 1.0])
    np.testing.assert_allclose(u, [[1.0, np.nan], [0.0, 1.0], [0.0, 0.0], [5 / 9, 0.5]], rtol=1e-15)
    # second coordinate: 1, 0, 0.5 of three draws
    np.testing.assert_allclose(ks_distances(draws, [1.0, 1.0, 1.0]), [0.5, 1 / 3], rtol=1e-12)
    nothing = ks_distances([[1.0, 0.0, 0.0]], [1.0, 1.0, 1.0])
    assert nothing[0] == 1.0
    assert np.isnan(nothing[1])
    assert np.isnan(ks_distance([[1.0, 0.0, 0.0]], [1.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("weights", "parameter", "words"),
    [
        ([[1.0, -1.0]], [1.0, 1.0], "weights must be nonnegative and finite; 1 of 2"),
        ([[1.0, np.nan]], [1.0, 1.0], "weights must be nonnegative and finite; 1 of 2"),
        ([[np.inf, np.inf]], [1.0, 1.0], "weights must be nonnegative and finite; 2 of 2"),
        ([[1.0, 1.0], [0.0, 0.0]], [1.0, 1.0], "weights must have a positive and finite sum in each draw; 1 of 2"),
        ([[1e308, 1e308]], [1.0, 1.0], "weights must have a positive and finite sum"),
        ([[1.0, 1.0, 1.0]], [1.0, 1.0], r"weights must have shape \(..., draws, 2\).* got \(1, 3\)"),
        ([1.0, 1.0], [1.0, 1.0], r"weights must have shape \(..., draws, 2\).* got \(2,\)"),
        (np.empty((0, 2)), [1.0, 1.0], r"weights must have shape .* got \(0, 2\)"),
        ([[1.0, 1.0]], [1.0, 0.0], "parameter must be positive and finite; got .*0.0"),
        ([[1.0, 1.0]], [1.0, np.nan], "parameter must be positive and finite; got .*nan"),
        ([[1.0]], [1.0], r"parameter must have shape \(d,\) with d of at least 2; got \(1,\)"),
        ([[1.0, 1.0]], [[1.0, 1.0]], r"parameter must have shape \(d,\)"),
    ],
)
def test_bad_input(weights, parameter, words):
    with pytest.raises(ValueError, match=words):
        ks_distance(weights, parameter)
