"""Kept and stale counts, and the Gibbs sampler that kept counts make exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from scirocco.counts.estimators import CentredCounts, KeptCounts, RunningCounts, StaleCounts
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import Minibatch
from scirocco.simplex import SCIR, SCIRCV, Counts, Exact, Weights


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_kept_counts_are_the_counts_of_the_labels(data):
    rows, categories, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12))
    row = st.integers(0, rows - 1)
    codes = data.draw(st.lists(st.integers(0, categories - 1), min_size=size, max_size=size))
    kept = KeptCounts(codes, rows, categories, data.draw(st.lists(row, min_size=size, max_size=size)))
    for _ in range(3):
        chosen = data.draw(st.lists(st.integers(0, size - 1), unique=True))
        kept.relabel(np.array(chosen, int), np.array([data.draw(row) for _ in chosen], int))
    low = data.draw(st.integers(0, size))
    old = kept.labels[low:].copy()
    kept.labels[low:] = [data.draw(row) for _ in old]  # as a kernel would
    kept.moved(low, old)
    expected = np.zeros((rows, categories))
    np.add.at(expected, (kept.labels, np.array(codes)), 1)
    assert np.array_equal(kept.counts.values, expected)
    assert np.array_equal(kept.totals, expected.sum(axis=1))
    assert kept.counts.exact


def test_stale_counts_are_unbiased_for_the_renewed_counts():
    # If every observation were renewed, the counts would be those of ``fresh``: the estimate knows it on average.
    rng = np.random.default_rng(0)
    old, fresh, codes = rng.integers(0, 4, 200), rng.integers(0, 4, 200), np.zeros(200, int)
    found = []
    for _ in range(400):
        stale = StaleCounts(codes, 4, 1, old)
        chosen = rng.choice(200, 100, replace=False)
        found.append(stale.estimate(chosen, fresh[chosen]).values[:, 0])
        assert stale.clipped == 0
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - np.bincount(fresh)) < 4.5 * error)
    # Nothing changes: no noise at all.
    assert np.array_equal(StaleCounts(codes, 4, 1, old).estimate([3, 4], old[[3, 4]]).values[:, 0], np.bincount(old))


def test_stale_counts_never_fall_below_zero_and_say_so():
    stale = StaleCounts([0, 0, 0, 0], 2, 1, [0, 0, 1, 1])
    estimate = stale.estimate([0], [1])
    assert np.array_equal(estimate.values[:, 0], [0.0, 6.0])
    assert stale.clipped == 1


# A mixture of two categorical laws, small enough to enumerate all assignments.

X, PRIOR = np.array([0, 0, 1, 2, 2, 2]), 0.7


def exact_cluster_sizes():
    """P(k of the observations are in the first cluster), by enumeration with the weights of Polya urns."""
    weight = np.zeros(len(X) + 1)
    for z in itertools.product((0, 1), repeat=len(X)):
        log = 0.0
        for row in (0, 1):
            counts = np.bincount(X[np.array(z) == row], minlength=3)
            log += (
                gammaln(3 * PRIOR)
                - gammaln(3 * PRIOR + counts.sum())
                + np.sum(gammaln(PRIOR + counts) - gammaln(PRIOR))
            )
        weight[sum(np.array(z) == 0)] += np.exp(log)
    return weight / weight.sum()


@pytest.mark.parametrize("sampler", [SCIR(0.7), Exact()], ids=["SCIR", "Exact"])
def test_minibatch_gibbs_with_kept_assignments_is_exact(sampler):
    rng = np.random.default_rng(1)
    kept, weights = KeptCounts(X, 2, 3, np.zeros_like(X)), Weights(PRIOR, rows=2, categories=3, seed=1)
    steps = 15_000
    uniforms, minibatches = rng.random((steps, 3)), rng.permuted(np.tile(np.arange(len(X)), (steps, 1)), axis=1)[:, :3]
    path = np.empty(steps, int)
    for t in range(steps):
        sampler.step(weights, kept.counts)
        chosen = minibatches[t]  # half of the observations, the others wait
        omega = weights.proportions()[:, X[chosen]]
        rows = (uniforms[t] * omega.sum(axis=0) > omega[0]).astype(int)
        kept.relabel(chosen, rows)
        path[t] = np.sum(kept.labels == 0)
    batches = np.array([np.bincount(part, minlength=len(X) + 1) / len(part) for part in np.split(path, 30)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    assert np.all(np.abs(batches.mean(axis=0) - exact_cluster_sizes()) < 4.5 * error + 1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KeptCounts([0, 9], 2, 3), "codes must lie between 0 and 2"),
        (lambda: KeptCounts([0.5], 2, 3), "vector of whole numbers"),
        (lambda: KeptCounts([0, 1], 2, 3, [0, 2]), "labels must lie between 0 and 1"),
        (lambda: KeptCounts([0, 1], 2, 3, [0]), "one entry for each code"),
        (lambda: KeptCounts([0, 1], 2, 3, [0, 0]).relabel([2], [0]), "observations must lie between 0 and 1"),
        (lambda: KeptCounts([0, 1], 2, 3, [0, 0]).relabel([1], [0, 1]), "one entry for each observation"),
        (lambda: StaleCounts([0, 1], 2, 3, [0, 0]).estimate([], []), "empty minibatch"),
        (lambda: Counts([[1.0, -1.0]]), "counts must be finite and at least 0"),
        (lambda: Counts([[1.0, np.nan]]), "counts must be finite"),
        (lambda: Counts([1.0, 2.0]), "shape"),
        (lambda: Counts([[1.0, 2.0]], columns=np.array([1])), "columns must name"),
        (lambda: Counts([[1.0, 2.0]], fraction=0.0), "fraction must lie in"),
        (lambda: Counts([[1.0]], columns=np.array([0]), exact=True), "exact counts must be given for all"),
        (lambda: Weights(0.0, categories=3), "prior must be finite and greater than 0"),
        (lambda: Weights(0.1), "categories must be given"),
        (lambda: Weights([0.1, 0.2], categories=3), "prior must be a number or have shape"),
        (lambda: Weights(0.1, categories=1), "categories must be a whole number of at least 2"),
        (lambda: Weights(0.1, categories=3, initial=[1.0, -1.0, 0.0]), "initial must be"),
        (lambda: Weights(0.1, categories=2, initial=[0.0, 0.0]).proportions(), "row 0 have underflowed"),
        (lambda: SCIR(0.0), "step_size must be finite and greater than 0"),
        (lambda: SCIR(lambda t: -1.0), "step_size must be"),
        (
            lambda: Exact().step(Weights(0.1, categories=2), Counts([[1.0, 2.0]], fraction=0.5)),
            "Exact needs exact counts",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises((ValueError, TypeError, FloatingPointError), match=words):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_counts_fade(dtype):
    rng = np.random.default_rng(1)
    expected = rng.random((6, 2))
    running = RunningCounts(expected.astype(dtype))
    for step in range(300):
        columns = rng.choice(6, 3, replace=False)
        estimate, rate = rng.random((3, 2)), 1.0 if step == 5 else 0.3
        expected = (1 - rate) * expected
        expected[columns] += rate * estimate
        running.add(columns, estimate, rate)
        np.testing.assert_allclose(running.read(), expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(running.totals, expected.sum(axis=0), rtol=1e-4)
    again = RunningCounts.over({name: array.copy() for name, array in running.pack().items()})
    np.testing.assert_array_equal(again.read(columns), running.read(columns))
    np.testing.assert_array_equal(again.totals, running.totals)


class Given(LocalStep):
    """Minibatches that are their counts."""

    def __init__(self, weights):
        self.weights = weights

    def count(self, batch, at=None, *, survey=False):
        return None, batch.data


def test_a_centre_from_minibatches_already_seen():
    # It comes from those before, never from the one at hand, which would bias the chain.
    rng = np.random.default_rng(2)
    weights, sampler = Weights(0.5, categories=3, seed=1), SCIRCV(0.1, recentre_every=4, centre_from="seen")
    local, memory, average = Given(weights), {}, None
    for step in range(13):
        counts = rng.poisson([600, 300, 100]).astype(float)
        estimate = CentredCounts(sampler).counts(local, Minibatch(counts[:, None], 1.0, 0.1), memory)
        sampler.step(weights, estimate)
        average = counts if average is None else average
        if step % 4 == 0:
            centre = 0.5 + average
        np.testing.assert_allclose(estimate.centre.parameter[:, 0], centre)
        average = 0.75 * average + 0.25 * counts
    with pytest.raises(ValueError, match="needs recentre_every"):
        SCIRCV(0.1, centre_from="seen")
