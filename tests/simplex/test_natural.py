"""Gradient samplers on natural parameters: their law on a Dirichlet posterior, other priors, wrong input."""

import itertools

import numpy as np
import pytest

import scirocco as sc
from scirocco.run.convergence import standard_error
from scirocco.simplex import SCIR, Counts, Natural, Weights

CODES = np.repeat([0, 1, 2, 3], [30, 20, 9, 1])
PRIOR = np.array([1.0, 2.0, 1.5, 1.0])


@pytest.mark.parametrize(
    "sampler",
    [
        sc.SGLD(0.003),
        pytest.param(sc.SGHMC(0.05, friction=2.0, integrator="baoab"), marks=pytest.mark.slow),
        pytest.param(sc.SGNHT(0.05, diffusion=2.0), marks=pytest.mark.slow),
    ],
    ids=["sgld", "sghmc", "sgnht"],
)
def test_the_law_is_dirichlet(sampler):
    trace = sc.sample_dirichlet(
        CODES, PRIOR, Natural(sampler), batch_size=60, num_samples=1000, thin=6, burn_in=500, chains=4, seed=1
    )
    a = PRIOR + np.bincount(CODES)
    mean = a / a.sum()
    sd = np.sqrt(mean * (1 - mean) / (a.sum() + 1))
    draws = np.asarray(trace.posterior["omega"])
    # In the chain's own standard errors; of an sd it is 1/sqrt(2) of that of the mean. Steps and minibatches add 3 %.
    error = standard_error(draws) / sd
    assert np.all(error < 0.15)
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - mean) / sd < 4 * error + 0.03)
    assert np.all(np.abs(draws.std(axis=(0, 1)) / sd - 1) < 4 * error / np.sqrt(2) + 0.03)


def test_a_normal_prior():
    mean, sd, counts = 0.5, 0.8, np.array([6.0, 2.0])
    grid = np.linspace(-8, 8, 4001)  # theta_1 - theta_2 ~ N(0, 2 sd^2); the mean cancels
    log = counts @ np.stack([-np.logaddexp(0, -grid), -np.logaddexp(0, grid)]) - grid**2 / (4 * sd**2)
    chances = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    share = 1 / (1 + np.exp(-grid))
    expected = chances @ share, np.sqrt(chances @ share**2 - (chances @ share) ** 2)
    weights = Weights(1.0, categories=2, seed=3)
    natural = Natural(sc.SGLD(0.02), normal_prior=(mean, sd))
    state = natural.start(weights)
    found = []
    for _ in range(20_000):
        natural.step(weights, Counts(counts[None]), state)
        found.append(weights.theta[0, 0] / weights.theta.sum())
    assert np.mean(found[200:]) == pytest.approx(expected[0], abs=0.015)
    assert np.std(found[200:]) == pytest.approx(expected[1], rel=0.08)


def test_momenta_are_renewed_where_they_should():
    weights = Weights(1.0, categories=3, seed=1)
    natural = Natural(sc.SGHMC(1e-6, inner_steps=4, resample_momentum=True))
    state = natural.start(weights)
    momenta = []
    for _ in range(8):
        natural.step(weights, Counts(np.ones((1, 3))), state)
        momenta.append(state["inner2"].copy())
    turned = [not np.allclose(a, b, atol=1e-2) for a, b in itertools.pairwise(momenta)]
    assert turned == [False, False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Natural("sgld"), "one of the gradient engine"),
        (lambda: Natural(sc.SGHMC(0.1, integrator="aboba")), "out of euler, baoab, badodab"),
        (lambda: Natural(sc.SGLD(0.1), normal_prior=(0.0, 0.0)), "positive sd"),
        (lambda: Natural(sc.SGLD(0.1)).step(Weights(1.0, categories=3), Counts(np.ones((1, 3)))), "started first"),
        (lambda: SCIR(0.1).step(Weights(1.0, categories=3), Counts(-np.ones((1, 3)), signed=True)), "negative"),
    ],
)
def test_wrong_input(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_a_step_too_large_is_noticed():
    weights = Weights(1.0, categories=3, seed=1)
    natural = Natural(sc.SGLD(50.0))
    state = natural.start(weights)
    for _ in range(5):
        natural.step(weights, Counts([[1e5, 10.0, 0.0]]), state)
    with pytest.raises(FloatingPointError, match="no longer finite"):
        weights.proportions()
