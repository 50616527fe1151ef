"""Minibatches: every row equally often, epochs without replacement, weights that make sums unbiased."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from scirocco.batches import Arrays, RandomBlocks, Shuffled, Sweeps, Weighted, WithReplacement
from scirocco.batches.base import batch_rows
from scirocco.batches.integers import below


def draws(batching, size, batch, steps, seed=0):
    """Rows (as original indices) and weights of some minibatches."""
    order = np.random.default_rng(5).permutation(size)
    bound = batching.bind(size, size, batch, order, True)
    data = Arrays(np.arange(size)).on_device(order, bound.wrap)
    state = bound.init(jax.random.key(seed))

    @jax.jit
    def step(state, count):
        state, b = bound.draw(jax.random.fold_in(jax.random.key(seed), count), state, count, data)
        return state, (b.data, jnp.broadcast_to(b.weights, (batch,)), b.indices)

    _, (rows, weights, indices) = jax.lax.scan(step, state, jnp.arange(steps))
    np.testing.assert_array_equal(np.asarray(rows), order[np.asarray(indices)])
    return np.asarray(rows), np.asarray(weights)


@pytest.mark.parametrize(("size", "batch"), [(100, 10), (103, 10), (64, 64), (97, 5), (5000, 5), (40, 3)])
def test_an_epoch_has_no_row_twice(size, batch):
    epoch = size // batch
    rows, _ = draws(Shuffled(), size, batch, 3 * epoch)
    for k in range(3):
        seen = rows[k * epoch : (k + 1) * epoch].ravel()
        assert len(set(seen)) == len(seen) == epoch * batch


@pytest.mark.parametrize(("size", "batch"), [(100, 10), (103, 10), (5000, 5), (15, 10)])
def test_sweeps_are_epochs_and_their_mirror_images(size, batch):
    epoch = size // batch
    rows, weights = draws(Sweeps(), size, batch, 6 * epoch)
    sweeps = rows.reshape(3, 2 * epoch, batch)
    np.testing.assert_array_equal(sweeps, sweeps[:, ::-1])
    for sweep in sweeps:
        assert len(set(sweep[:epoch].ravel())) == epoch * batch
    assert not np.array_equal(sweeps[0], sweeps[1])
    np.testing.assert_allclose(weights, size / batch)
    shuffled, _ = draws(Shuffled(), size, batch, 3 * epoch)
    np.testing.assert_array_equal(sweeps[:, :epoch].reshape(shuffled.shape), shuffled)  # the same epochs, each twice


def test_all_data_at_once_is_not_swept():
    assert Sweeps().epoch(100, 100, 100) == np.inf
    assert draws(Sweeps(), 10, 10, 2)[0].shape == (2, 10)


@pytest.mark.parametrize("min_blocks", [1, 30, 1000])
def test_epochs_differ_and_rows_are_drawn_equally_often(min_blocks):
    """103 rows in batches of 10: the three rows left over are different ones each epoch."""
    rows, weights = draws(Shuffled(min_blocks), 103, 10, 10 * 400)
    counts = np.bincount(rows.ravel(), minlength=103)
    # Each row is left out of 3/103 of the epochs. The binomial law is skew: its own quantiles, 103 rows fail with 7e-4.
    left_out = stats.binom(400, 3 / 103)
    low, high = left_out.ppf(3.5e-4 / 103), left_out.isf(3.5e-4 / 103)
    assert np.all((low <= 400 - counts) & (400 - counts <= high))
    assert not np.array_equal(rows[:10], rows[10:20])
    np.testing.assert_allclose(weights, 10.3)


def test_small_data_is_cut_into_single_rows_and_large_data_into_blocks():
    assert Shuffled().bind(1000, 1000, 100, None, True).pieces == 100
    assert Shuffled().bind(581_012, 581_012, 500, None, True).pieces == 1
    assert Shuffled().bind(60_000, 60_000, 100, None, True).pieces == 2
    huge = Shuffled().bind(10**8, 10**8, 100, None, True)
    assert huge.blocks <= 32_768
    assert huge.epoch * 100 > 0.99 * 10**8


def test_grouped_blocks_cover_an_epoch():
    """The order that is carried through the loop stays short for very many batches."""
    from scirocco.batches.draws import _Shuffled

    bound = _Shuffled(total=90, resident=90, batch_size=5, pieces=1, groups=3, ring=True)
    data = Arrays(np.arange(90)).on_device(None, bound.wrap)
    state, seen = bound.init(jax.random.key(0)), []
    for count in range(18):
        state, batch = bound.draw(jax.random.key(0), state, jnp.int32(count), data)
        seen.append(np.asarray(batch.data))
    assert sorted(np.concatenate(seen)) == list(range(90))


@pytest.mark.parametrize("batching", [WithReplacement(), RandomBlocks(10), RandomBlocks()])
def test_independent_draws_are_uniform_and_uncorrelated(batching):
    rows, weights = draws(batching, 50, 5, 8000)
    counts = np.bincount(rows.ravel(), minlength=50)
    # A row's count has sd of at most sqrt(8000 * 5 * 0.1); 50 rows at 4.5 sd.
    assert np.all(np.abs(counts - 800) < 4.5 * np.sqrt(8000 * 0.5))
    x = rows.mean(1)
    correlation = np.corrcoef(x[1:], x[:-1])[0, 1]
    assert abs(correlation) < 4.5 / np.sqrt(8000)
    np.testing.assert_allclose(weights, 10.0)


def test_weighted_draws_follow_their_probabilities_and_estimate_sums_without_bias():
    weights = np.arange(1, 51, dtype=float)
    rows, w = draws(Weighted(weights), 50, 5, 8000)
    p = weights / weights.sum()
    counts = np.bincount(rows.ravel(), minlength=50)
    assert np.all(np.abs(counts - 40_000 * p) < 4.5 * np.sqrt(40_000 * p * (1 - p)) + 1)
    np.testing.assert_allclose(w, 1 / (5 * p[rows]), rtol=1e-5)
    f = np.cos(np.arange(50.0)) + 2
    estimates = np.sum(w * f[rows], axis=1)
    assert abs(estimates.mean() - f.sum()) < 4.5 * estimates.std() / np.sqrt(8000)


def test_draws_depend_on_the_seed_alone():
    a, _ = draws(Shuffled(), 100, 10, 20, seed=3)
    b, _ = draws(Shuffled(), 100, 10, 20, seed=3)
    c, _ = draws(Shuffled(), 100, 10, 20, seed=4)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_batch_size_as_count_or_fraction():
    assert batch_rows(500, 1000) == 500
    assert batch_rows(0.01, 1000) == 10
    assert batch_rows(1.0, 1000) == 1000
    assert batch_rows(1e-9, 1000) == 1
    for bad in (0, -1, 1001, 0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="batch_size"):
            batch_rows(bad, 1000)
    for bad in (True, "10", None):
        with pytest.raises(TypeError, match="batch_size must be a count"):
            batch_rows(bad, 1000)


def test_wrong_weights():
    for weights, message in (
        (np.ones(3), "one entry per example"),
        (np.array([1.0, 0, 1, 1]), "positive and finite"),
        (np.array([1.0, np.nan, 1, 1]), "positive and finite"),
    ):
        with pytest.raises(ValueError, match=message):
            Weighted(weights).bind(4, 4, 2, None, True)
    with pytest.raises(ValueError, match="needs data in memory"):
        Weighted(np.ones(4)).bind(4, 2, 2, None, False)


@pytest.mark.parametrize("top", [1, 2, 1000, 65_536, 581_012, 2**31 - 1, 2**31])
def test_integers_are_the_floor_of_a_fraction_of_64_bits(top):
    words = np.random.default_rng(0).integers(2**32, size=(2, 1000), dtype=np.uint32)
    words[:, :4] = [[0, 0, 2**32 - 1, 2**32 - 1], [0, 2**32 - 1, 0, 2**32 - 1]]
    words[0, 4:20] = -(-np.arange(16) * 2**32 // top) % 2**32  # where the second word decides
    exact = [(int(high) * 2**32 + int(low)) * top >> 64 for high, low in words.T]
    np.testing.assert_array_equal(below(jnp.asarray(words), top), exact)


@pytest.mark.parametrize(
    "batching", [Shuffled(), Shuffled(2), Sweeps(2), RandomBlocks(2), WithReplacement(), Weighted(np.ones(40))]
)
def test_draws_are_the_same_in_double_precision(batching):
    """The random words must have 32 bits, also where JAX would take 64."""
    expected, _ = draws(batching, 40, 5, 50)
    with jax.enable_x64(True):
        found, _ = draws(batching, 40, 5, 50)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [Shuffled, RandomBlocks, Sweeps])
@pytest.mark.parametrize("wrong", [0, -(2**63), True])
def test_min_blocks_must_be_a_positive_whole_number(kind, wrong):
    """A large negative one made the search for a block length endless."""
    with pytest.raises(ValueError, match="min_blocks must be a whole number of at least 1"):
        kind(min_blocks=wrong)
