"""Bounds on the cost of SGLD-CV: they agree with each other, and no exact law breaks them."""

import itertools
import math

import numpy as np
import pytest

from scirocco.theory import cost_bound, optimisation_steps, sufficient_settings, wasserstein_bound


@pytest.mark.parametrize(("m", "ratio"), list(itertools.product((1.0, 1e4), (1.0, 3.0, 30.0))))
def test_sufficient_settings_suffice(m, ratio):
    for d, accuracy, start, centre in itertools.product((1, 5, 100), (0.1, 0.5, 1.0), (0.0, 100.0), (0.0, 1.0)):
        known = {"m": m, "M": ratio * m, "d": d, "start_error": start * d / m, "centre_error": centre * d / m}
        settings = sufficient_settings(accuracy, **known)
        bound = wasserstein_bound(settings.step_size, settings.batch_size, settings.steps, **known)
        assert bound <= accuracy / math.sqrt(m) * (1 + 1e-9)
        assert settings.cost <= cost_bound(accuracy, **known) * (1 + 1e-9)


def test_the_cost_does_not_grow_with_the_data():
    # m and M grow with N; the errors, in posterior sds, do not.
    costs = [
        sufficient_settings(0.3, m=n, M=4 * n, d=10, start_error=10 / n, centre_error=10 / n).cost
        for n in (1e3, 1e5, 1e7)
    ]
    assert np.ptp(costs) <= 1e-6 * costs[0] + 10


@pytest.mark.parametrize(("step", "batch"), [(0.002, 2), (0.01, 10), (0.02, 50)])
def test_an_exact_law_stays_below_the_bound(step, batch):
    # U = sum L_i (theta - x_i)^2 / 2: around its mode SGLD-CV is theta <- (1 - h H_S) theta + sqrt(2h) xi, and the
    # second moment follows a recursion in closed form. sds differ by at most W_2.
    curvatures = np.random.default_rng(0).gamma(0.5, 1.0, 40)
    m = curvatures.sum()
    h, noise = step / m, 40**2 / batch * curvatures.var()
    second = start = 25.0 / m
    for k in range(1, 400):
        second = (1 - 2 * h * m + h**2 * (m**2 + noise)) * second + 2 * h
        if k % 50 == 0:
            bound = wasserstein_bound(h, batch, k, m=m, M=m, d=1, start_error=start, centre_error=0.0)
            assert abs(math.sqrt(second) - math.sqrt(1 / m)) < bound


def test_descent():
    # One-dimensional U = m theta^2 / 2 with gradient noise of sd s: the error of h_k = 1/(m k) is s^2 / (m^2 K).
    m, s = 4.0, 3.0
    steps = optimisation_steps(0.01, m=m, gradient_bound=s)
    assert steps == math.ceil(4 * s**2 / (m**2 * 0.01))
    assert s**2 / (m**2 * steps) < 0.01


@pytest.mark.parametrize(
    ("change", "words"),
    [({"M": 0.5}, "must not be below m"), ({"d": 0}, "d must be"), ({"start_error": -1.0}, "start_error must be")],
)
def test_wrong_input(change, words):
    known = {"m": 1.0, "M": 2.0, "d": 2, "start_error": 1.0, "centre_error": 1.0} | change
    with pytest.raises(ValueError, match=words):
        sufficient_settings(0.5, **known)
    with pytest.raises(ValueError, match="step_size must be below"):
        wasserstein_bound(1.0, 1, 10, m=1.0, M=2.0, d=2, start_error=1.0, centre_error=1.0)
