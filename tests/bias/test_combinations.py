"""Combinations of parameters that are sampled too wide or too narrow, from exact draws and from runs."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.combinations import _ends, in_words, worst_combinations
from scirocco.bias.report import DOUBT, SLIGHT
from scirocco.bias.virials import Curvature, Virials
from scirocco.samplers.preconditioned import Preconditioned, Scale


def found(x, g, temperature=1.0):
    return worst_combinations(x, g, temperature, Curvature.of_halves(x, g))


def off(combination):
    """As the report sees it."""
    seen = Virials(np.asarray(combination.ratio), np.asarray(combination.error))
    return bool(np.abs(seen.sd_error) > DOUBT * seen.sd_error_error + SLIGHT)


def rotated(rng, size, condition=1e4):
    """Vectors and sds of a Gaussian with this ratio of the largest variance to the smallest."""
    return np.linalg.qr(rng.normal(size=(size, size)))[0], np.logspace(0, -np.log10(condition) / 2, size)


def gaussian(rng, shape, factor=1.0, temperature=1.0):
    """Draws and gradients of a correlated Gaussian, and the combination that is too wide by ``factor``."""
    vectors, sds = rotated(rng, shape[-1])
    special = rng.normal(size=shape[-1])
    special /= np.linalg.norm(special)
    z = np.sqrt(temperature) * rng.normal(size=shape)
    z += (factor - 1) * (z @ special)[..., None] * special
    return z @ (vectors * sds).T, (z / sds) @ vectors.T, vectors @ (special / sds)


def log_gamma(rng, shape):
    x = np.log(rng.gamma(2.0, size=shape))
    return x, np.exp(x) - 2


def funnel(rng, shape):
    """A width for all, and as many that are so wide."""
    v = rng.normal(size=(*shape[:2], 1))
    x = np.exp(v / 2) * rng.normal(size=(*shape[:2], shape[2] - 1))
    pull = v + (shape[2] - 1) / 2 - np.sum(x**2, axis=2, keepdims=True) * np.exp(-v) / 2
    return np.concatenate([v, x], axis=2), np.concatenate([pull, x * np.exp(-v)], axis=2)


def noisy(rng, shape):
    x = rng.normal(size=shape)
    return x, x + 10 * rng.normal(size=shape)


def slow(rng, shape):
    """Points that remember the last one."""
    x = rng.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(0.19) * x[:, t]
    return x, x


LAWS = {"gaussian": lambda *a: gaussian(*a)[:2], "log gamma": log_gamma, "funnel": funnel, "noisy": noisy, "slow": slow}


@pytest.mark.parametrize("size", [2, 10, 300])
@pytest.mark.parametrize("law", LAWS)
def test_right_laws_raise_no_alarm(law, size):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        pair = found(*LAWS[law](rng, (4, 256 if seed % 2 else 60, size)))
        assert not any(off(combination) for combination in pair), (seed, pair)


def test_the_choice_does_not_bias_what_is_measured():
    """On the points that it was chosen by, the widest of 30 is (1 + sqrt(30/200))^2 times too wide."""
    ratios = [found(*noiseless(np.random.default_rng(seed)))[1].ratio for seed in range(30)]
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios, ddof=1) / np.sqrt(30)
    assert np.std(ratios, ddof=1) < 0.2


def noiseless(rng):
    x = rng.normal(size=(4, 100, 30))
    return x, x


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize(("factor", "end"), [(0.2, 0), (0.6, 0), (1.6, 1)])
def test_a_combination_is_found_where_single_parameters_look_right(factor, end, temperature):
    x, g, combination = gaussian(np.random.default_rng(0), (4, 256, 20), factor, temperature)
    curvatures = Curvature.of_halves(x, g)
    worst = worst_combinations(x, g, temperature, curvatures)[end]
    assert off(worst)
    assert abs(worst.ratio - factor**2) < 4.5 * worst.error
    assert np.abs(np.corrcoef((x @ worst.weights).ravel(), (x @ combination).ravel())[0, 1]) > 0.9
    vectors, sds = rotated(np.random.default_rng(0), 20)
    singles = x.std(axis=(0, 1)) / np.sqrt(temperature * np.sum((vectors * sds) ** 2, axis=1))
    assert np.all(np.abs(singles - 1) < 0.15)


def test_more_parameters_than_points_tell_what_sticks_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 128, 400))
    special = np.ones(400) / 20
    x += (x @ special)[..., None] * special  # twice too wide
    assert Curvature.of_halves(x, x) is None
    assert [off(c) for c in found(x, x)] == [False, True]


def test_a_single_chain_is_split():
    x, g, _ = gaussian(np.random.default_rng(0), (1, 400, 3), factor=2.0)
    narrowest, widest = found(x, g)
    assert off(widest)
    assert not off(narrowest)


@pytest.mark.parametrize("size", [5, 30, 200])
def test_both_ends_of_the_spectrum(size):
    rng = np.random.default_rng(0)
    z, h = rng.normal(size=(300, size)) * np.linspace(1, 3, size), rng.normal(size=(300, size))
    product = z.T @ h + h.T @ z
    values = np.linalg.eigvalsh(product)
    quotients = [v @ product @ v / (v @ v) for v in _ends(z, h)]
    np.testing.assert_allclose(quotients, values[[0, -1]], rtol=1e-9 if size <= 40 else 0.02)


def test_what_never_moves_is_infinitely_narrow_and_no_error():
    x = np.random.default_rng(0).normal(size=(4, 50, 2)) * [1.0, 0.0]
    narrowest, _ = found(x, x)
    assert narrowest.ratio == pytest.approx(0, abs=1e-12)
    assert off(narrowest)


@pytest.mark.parametrize("others", [1, 2])
def test_a_run_in_which_a_parameter_never_moves_names_it(others):
    """Its steps are lost in rounding; the other parameters, correlated with it, are right given that it stands."""
    precision = jnp.eye(others + 1) + 0.4

    def log_prior(p):
        x = jnp.append(p["a"], p["b"])
        return -0.5 * x @ precision @ x

    target = sc.Target(log_prior, lambda p, row: 0.0 * row, np.ones(8, np.float32))
    start = {"a": jnp.zeros(others), "b": jnp.array(1.0)}
    trace = sc.sample(
        target, sc.SGLD({"a": 0.05, "b": 1e-20}), start, num_samples=500, burn_in=100, thin=20, batch_size=1.0
    )
    assert trace.variance["b"] == 0 == trace.bias.virial["b"]
    np.testing.assert_allclose(trace.bias.virial["a"], 1, atol=0.2)
    assert trace.verdict().reasons == ("the chains are too narrow: they hardly moved: -100.0% in the sd of b",)
    assert (trace.bias.narrowest is None) == (others == 1)


def test_words():
    assert in_words(np.array([-0.6, 0.8, 0.01]), ["a", "b[0]", "c"]) == "0.80 b[0] - 0.60 a"
    assert in_words(np.ones(25), [f"w[{k}]" for k in range(25)]) == "0.20 w[0] + 0.20 w[1] + 0.20 w[2] + ..."


@pytest.mark.parametrize("kind", ["diagonal", "matrix", "directions", "parts"])
def test_the_coordinates_of_a_sampler_are_inverted(kind):
    rng = np.random.default_rng(0)
    part, diagonal = rng.normal(size=(4, 4)), np.array([1.0, 2.0, 0.1, 0.3])
    vectors = np.linalg.qr(part)[0][:, :2]
    scale = {
        "diagonal": Scale(diagonal), "matrix": Scale(diagonal, part @ part.T + np.eye(4)),
        "directions": Scale(diagonal, vectors=vectors, stretches=np.array([0.1, 5.0])),
        "parts": Scale(diagonal, part[:2] @ part[:2].T),
    }[kind]  # fmt: skip
    phi = rng.normal(size=(2, 3, 4))
    theta = np.apply_along_axis(scale.forward, 2, phi)
    np.testing.assert_allclose(scale.backward(theta), phi, rtol=1e-9)
    covector = rng.normal(size=4)
    np.testing.assert_allclose(theta @ scale.backward_transposed(covector), phi @ covector, rtol=1e-8)


def difference(x):
    """The sum is wide, the difference narrow."""
    return -0.25 * (x[0] + x[1]) ** 2 - 0.25 * (x[0] - x[1]) ** 2 / 0.01


@pytest.mark.parametrize("reach", [0.1, 1e-4])
def test_a_run_that_stands_still_in_a_combination_only(reach):
    """The sampler moves the difference as if its sd were so much; the sum, and so each parameter, is right."""
    whole, apart = np.ones((2, 2)) / 2, np.array([[1.0, -1.0], [-1.0, 1.0]]) / 2
    sampler = Preconditioned(sc.SGLD(0.2), Scale(np.ones(2), whole + reach * apart))
    names = {"dims": {"theta": ["column"]}, "coords": {"column": ["age", "income"]}}
    target = sc.Target(difference, lambda p, row: 0.0 * row, np.ones(8, np.float32), **names)
    trace = sc.sample(
        target, sampler, jnp.zeros(2), num_samples=1500, burn_in=100, thin=10, batch_size=1.0, progress=False
    )
    spread = trace.posterior["theta"].values.astype(np.float64)
    np.testing.assert_allclose(spread.std(axis=(0, 1)), np.sqrt(0.505) * np.sqrt(1 / 0.9), rtol=0.1)
    if reach == 0.1:  # the right one
        assert trace.bias.combinations_off == []
        return
    assert trace.bias.narrowest < 0.01
    assert trace.verdict().kind == "do not use it"
    reasons = " ".join(trace.verdict().reasons)
    assert "a combination of parameters (0.71 theta[age] - 0.71 theta[income]) is sampled" in reasons
    assert "too narrow" in str(trace.bias)
