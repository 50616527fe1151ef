"""The law of a_hat: against whole-number arithmetic, its moments, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from scirocco.theory import EstimateLaw


def exact_hypergeometric(size, count, batch_size):
    support = range(max(0, batch_size - (size - count)), min(batch_size, count) + 1)
    total = comb(size, batch_size)
    return {z: Fraction(comb(count, z) * comb(size - count, batch_size - z), total) for z in support}


# In the last three n > N - count, where the formula with the hypergeometric function breaks down.
@pytest.mark.parametrize(
    ("size", "count", "batch_size"),
    [(30, 4, 7), (1000, 150, 100), (50, 0, 5), (20, 20, 3), (40, 25, 40), (1000, 950, 100), (5000, 4000, 2500)],
)
def test_hypergeometric_probabilities(size, count, batch_size):
    law = EstimateLaw.hypergeometric(size, count, batch_size, 0.1)
    exact = {z: float(p) for z, p in exact_hypergeometric(size, count, batch_size).items() if p > 1e-299}
    np.testing.assert_allclose(law.values, 0.1 + size / batch_size * np.array(list(exact)), rtol=1e-14)
    np.testing.assert_allclose(law.probabilities, list(exact.values()), rtol=1e-10)
    share = count / size
    np.testing.assert_allclose(law.mean, count + 0.1, rtol=1e-12)
    variance = size**2 / batch_size * share * (1 - share) * (size - batch_size) / (size - 1)  # Remark 1, (23)
    np.testing.assert_allclose(law.variance, variance, rtol=1e-11, atol=1e-20)


@pytest.mark.parametrize(("size", "count", "batch_size"), [(30, 4, 7), (30, 29, 40), (9, 0, 3), (9, 9, 3)])
def test_binomial_probabilities(size, count, batch_size):
    law = EstimateLaw.with_replacement(size, count, batch_size, 2.0)
    share = Fraction(count, size)
    exact = [comb(batch_size, z) * share**z * (1 - share) ** (batch_size - z) for z in range(batch_size + 1)]
    np.testing.assert_allclose(law.probabilities, [float(p) for p in exact if p], rtol=1e-12)
    np.testing.assert_allclose(law.values, [2.0 + size / batch_size * z for z, p in enumerate(exact) if p], rtol=1e-14)
    np.testing.assert_allclose(law.mean, 2.0 + count, rtol=1e-13)


def test_large_data():
    law = EstimateLaw.hypergeometric(10**8, 10**6, 10**4, 0.5)
    np.testing.assert_allclose(law.mean, 10**6 + 0.5, rtol=1e-12)
    np.testing.assert_allclose(law.variance, 10**12 * 0.01 * 0.99 * (10**8 - 10**4) / (10**8 - 1), rtol=1e-9)
    assert law.probabilities.min() >= 1e-300


def test_from_samples_and_exact():
    law = EstimateLaw.from_samples([[3.0, 1.5], [1.5, 6.0]])
    np.testing.assert_array_equal(law.values, [1.5, 3.0, 6.0])
    np.testing.assert_array_equal(law.probabilities, [0.5, 0.25, 0.25])
    assert law.mean == 3.0
    np.testing.assert_allclose(law.variance, np.var([3.0, 1.5, 1.5, 6.0]))
    np.testing.assert_allclose(law.expect(np.log), np.mean(np.log([3.0, 1.5, 1.5, 6.0])))
    point = EstimateLaw.exact(7.5)
    assert (point.mean, point.variance) == (7.5, 0.0)


def test_conditioned():
    law = EstimateLaw([0.5, 1.0, 2.0, 4.0], [0.25, 0.25, 0.25, 0.25]).above(1.0)
    np.testing.assert_array_equal(law.values, [2.0, 4.0])
    np.testing.assert_array_equal(law.probabilities, [0.5, 0.5])
    with pytest.raises(ValueError, match="bound must be below the largest estimate"):
        law.above(4.0)


def test_cannot_be_changed_from_outside():
    values = np.array([1.0, 2.0])
    law = EstimateLaw(values, [0.5, 0.5])
    values[0] = 9.0
    assert law.values[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        law.values[0] = 9.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EstimateLaw([1.0, 0.0], [0.5, 0.5]), "values must be positive and finite"),
        (lambda: EstimateLaw([1.0, np.nan], [0.5, 0.5]), "values must be positive and finite"),
        (lambda: EstimateLaw([[1.0]], [1.0]), r"values must have shape \(k,\)"),
        (lambda: EstimateLaw([], []), r"values must have shape \(k,\)"),
        (lambda: EstimateLaw([1.0, 2.0], [1.0]), r"probabilities must have the shape of values, \(2,\); got \(1,\)"),
        (lambda: EstimateLaw([1.0, 2.0], [0.5, 0.4]), "probabilities must be nonnegative and sum to one"),
        (lambda: EstimateLaw([1.0, 2.0], [1.5, -0.5]), "probabilities must be nonnegative and sum to one"),
        (lambda: EstimateLaw([1.0, 2.0], [np.nan, 0.5]), "probabilities must be nonnegative and sum to one"),
        (lambda: EstimateLaw.hypergeometric(10, 11, 2, 0.1), "count must be at most size, 10; got 11"),
        (lambda: EstimateLaw.hypergeometric(10, 3, 11, 0.1), "batch_size must be at most size, 10"),
        (lambda: EstimateLaw.hypergeometric(10, 3.5, 2, 0.1), "count must be a whole number of at least 0; got 3.5"),
        (lambda: EstimateLaw.hypergeometric(10, 3, 0, 0.1), "batch_size must be a whole number of at least 1"),
        (lambda: EstimateLaw.with_replacement(10, 3, 2, 0.0), "prior must be finite and greater than 0; got 0"),
        (lambda: EstimateLaw.with_replacement(0, 0, 2, 1.0), "size must be a whole number of at least 1; got 0"),
        (lambda: EstimateLaw.from_samples([]), "samples must be positive, finite and at least one"),
        (lambda: EstimateLaw.from_samples([1.0, -1.0, np.inf]), "2 of 3 are not"),
        (lambda: EstimateLaw.exact(0.0), "parameter must be finite and greater than 0"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
