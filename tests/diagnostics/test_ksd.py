"""Kernel Stein discrepancy: the closed form, its law under the target, and what it detects."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scirocco.diagnostics.ksd import ksd


@partial(jax.jit, static_argnames="kernel")
def stein_matrix(x, s, kernel, scale, exponent):
    """k0 for all pairs, every derivative by autodiff of the kernel."""

    def k(a, b):
        u = jnp.sum((a - b) ** 2) / scale**2
        return (1 + u) ** exponent if kernel == "imq" else jnp.exp(-u / 2)

    def k0(a, sa, b, sb):
        mixed = jnp.trace(jax.jacfwd(jax.grad(k, 1), 0)(a, b))
        return k(a, b) * sa @ sb + sa @ jax.grad(k, 1)(a, b) + sb @ jax.grad(k, 0)(a, b) + mixed

    rows = jax.vmap(k0, (None, None, 0, 0))
    return jax.vmap(rows, (0, 0, None, None))(x, s, x, s)


@pytest.mark.parametrize(("kernel", "exponent"), [("imq", -0.3), ("rbf", -0.5)])
def test_closed_form_against_autodiff(kernel, exponent):
    rng = np.random.default_rng(1)
    x, s = rng.normal(5.0, 2.0, (12, 3)), rng.normal(size=(12, 3))
    w = rng.uniform(0.1, 1.0, 12)
    with jax.enable_x64(True):
        k0 = np.asarray(stein_matrix(jnp.asarray(x), jnp.asarray(s), kernel, 1.7, exponent))
    given = {"kernel": kernel, "exponent": exponent, "scale": 1.7}
    np.testing.assert_allclose(ksd(x, s, **given), np.sqrt(k0.mean()), rtol=1e-11)
    pairs = np.outer(w, w) * (1 - np.eye(12))
    np.testing.assert_allclose(
        ksd(x, s, statistic="U", weights=w, **given), (pairs * k0).sum() / pairs.sum(), rtol=1e-9
    )


def test_u_statistic_has_mean_zero_under_the_target():
    # 400 repeats; 4 standard errors fail by chance once in 16,000 seeds.
    rng = np.random.default_rng(2)
    values = np.array([ksd(x, -x, scale=1.5, statistic="U") for x in rng.standard_normal((400, 40, 2))])
    assert abs(values.mean()) < 4 * values.std(ddof=1) / np.sqrt(len(values))
    assert values.min() < 0  # an unbiased estimate of zero must be negative at times


def test_falls_with_n_for_right_samples_only():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3200, 2))
    cases = {"right": x, "shifted": x + 0.5, "overdispersed": 1.5 * x}
    few, many = ({name: ksd(y[:n], -y[:n], scale=1.0) for name, y in cases.items()} for n in (200, 3200))
    # n^(-1/2) means a factor of 4 here. n KSD^2 is close to its mean, E k0(x, x), give or take a fifth.
    assert 2.8 < few["right"] / many["right"] < 5.6
    for wrong in ("shifted", "overdispersed"):
        assert many[wrong] > 0.7 * few[wrong]
        assert many[wrong] > 10 * many["right"]


def test_noisy_scores_bias_v_but_not_u():
    # 300 repeats of independent score noise; 4 standard errors fail by chance once in 16,000 seeds.
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 2)) + 0.3
    n, sd = len(x), 2.0
    noisy = [-x + rng.normal(0, sd, x.shape) for _ in range(300)]
    u = np.array([ksd(x, s, scale=1.0, statistic="U") for s in noisy])
    v = np.array([ksd(x, s, scale=1.0) ** 2 for s in noisy])
    error = [a.std(ddof=1) / np.sqrt(len(a)) for a in (u, v)]
    assert abs(u.mean() - ksd(x, -x, scale=1.0, statistic="U")) < 4 * error[0]
    bias = sd**2 * x.shape[1] / n  # k(x, x) = 1 times E|noise|^2 on n of n^2 pairs
    assert abs(v.mean() - ksd(x, -x, scale=1.0) ** 2 - bias) < 4 * error[1]
    assert bias > 10 * error[1]  # so the line above would see it missing


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_blocks_agree(statistic):
    x = np.random.default_rng(5).normal(100.0, 1.0, (150, 3))
    whole = ksd(x, 100.0 - x, statistic=statistic)
    for block in (150, 64, 37, 7):
        assert ksd(x, 100.0 - x, statistic=statistic, block=block) == pytest.approx(whole, rel=1e-10)


def test_weights_and_vectors():
    x = np.random.default_rng(6).standard_normal(40)
    counts = np.r_[np.full(20, 3.0), np.ones(20)]
    repeated = np.repeat(x, counts.astype(int))
    assert ksd(x, -x, weights=counts, scale=1.0) == pytest.approx(ksd(repeated, -repeated, scale=1.0), rel=1e-12)
    assert ksd(x, -x) == ksd(x[:, None], -x[:, None])
    assert ksd(x, -x, weights=np.full(40, 7.0)) == pytest.approx(ksd(x, -x), rel=1e-12)


def test_default_scale_is_the_median_distance():
    x = np.random.default_rng(7).standard_normal((30, 4))
    distances = np.linalg.norm(x[:, None] - x[None], axis=-1)[np.triu_indices(30, 1)]
    assert ksd(x, -x) == pytest.approx(ksd(x, -x, scale=float(np.median(distances))), rel=1e-12)
    # one unit of length for the samples is another for the scores: the default scale follows, KSD scales with it
    assert ksd(10 * x, -x / 10) == pytest.approx(ksd(x, -x) / 10, rel=1e-10)


X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((X, X[:2]), {}, r"scores must have the shape of draws, \(3, 2\); got \(2, 2\)"),
        ((X[:1], X[:1]), {}, r"draws must have shape .* at least 2; got \(1, 2\)"),
        ((X[None], X[None]), {}, r"draws must have shape"),
        ((X, np.where(X == 3, np.nan, X)), {}, "scores must be finite; 1 of 6"),
        ((np.where(X > 3, np.inf, X), X), {}, "draws must be finite; 2 of 6"),
        ((X, X), {"kernel": "matern"}, r"kernel must be one of \['imq', 'rbf'\]; got 'matern'"),
        ((X, X), {"statistic": "W"}, "statistic must be 'U' or 'V'; got 'W'"),
        ((X, X), {"exponent": 0.5}, "exponent must lie strictly between -1 and 0; got 0.5"),
        ((X, X), {"scale": 0.0}, "scale must be positive and finite; got 0.0"),
        ((X, X), {"block": 0}, "block must be a whole number of at least 1; got 0"),
        ((X, X), {"weights": [1.0, 2.0]}, r"weights must have shape \(3,\)"),
        ((X, X), {"weights": [1.0, 2.0, -1.0]}, "weights must be nonnegative"),
        ((X * 0, X), {}, "scale must be given here"),
    ],
)
def test_bad_input_is_named(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        ksd(*arguments, **options)
