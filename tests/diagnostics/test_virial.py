"""The virial identity."""

import numpy as np
import pytest

from scirocco.diagnostics import virial


def student(size, dof, seed=0):
    """Draws of Student's law and its grad U: no Gaussian."""
    x = np.random.default_rng(seed).standard_t(dof, size=size)
    return x, (dof + 1) * x / (dof + x**2)


def test_it_is_one_for_the_right_law_whatever_its_shape():
    found = virial(*student((4, 4000, 5), 4.0))
    assert np.all(np.abs(found.ratio - 1) < 4 * found.error)
    assert np.max(found.error) < 0.05
    assert abs(found.overall - 1) < 4 * found.overall_error


def test_minibatch_noise_leaves_it_as_it_is():
    x, slope = student((4, 20_000, 3), 6.0)
    found = virial(x, slope + 3 * np.random.default_rng(1).normal(size=x.shape))
    assert np.all(np.abs(found.ratio - 1) < 4 * found.error)


@pytest.mark.parametrize("factor", [0.1, 1.3])
def test_chains_that_are_too_cold_or_too_hot_are_seen(factor):
    x = np.random.default_rng(0).normal(size=(4, 2000, 3))
    found = virial(2 * factor * x, factor * x / 2)  # of a law with variance 4
    np.testing.assert_allclose(found.ratio, factor**2, rtol=0.1)


def test_a_temperature_is_taken_off():
    x = np.random.default_rng(0).normal(size=(4, 2000, 3))
    assert virial(np.sqrt(3) * x, np.sqrt(3) * x, temperature=3.0).overall == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (np.zeros((4, 10)), "same shape"),
        (np.zeros((4, 10, 3)), "same shape"),
        (np.full((4, 10, 2), np.nan), "must be finite"),
    ],
)
def test_wrong_input(draws, words):
    with pytest.raises(ValueError, match=words):
        virial(draws, np.zeros((4, 10, 2)))
