"""One view of draws: the representative, relabelling, and what is averaged."""

from itertools import permutations

import numpy as np
import pytest

from scirocco.partitions import cluster_view
from scirocco.partitions.view import ClusterView


def renamed(truth, draws, noise, rng):
    """Draws around a partition whose clusters have other names each time."""
    clusters = truth.max() + 1
    moved = [
        np.where(rng.random(truth.size) < noise, rng.integers(0, clusters, truth.size), truth) for _ in range(draws)
    ]
    return np.array([rng.permutation(clusters)[own] for own in moved])


def test_clusters_get_their_names_back():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2, 3], [50, 30, 15, 5])
    draws = renamed(truth, 40, 0.2, rng)
    view = cluster_view(draws)
    np.testing.assert_array_equal(view.labels, truth)  # the largest first
    assert view.number == 4
    np.testing.assert_allclose(view.frequencies.sum(axis=1), 1)
    np.testing.assert_array_equal(view.sizes.sum(axis=1), 100)
    np.testing.assert_allclose(view.frequencies.sum(axis=0), view.sizes.mean(axis=0))
    assert np.all(view.present == 1)
    by_chain = cluster_view(draws.reshape(2, 20, 100) * 7)  # any names
    np.testing.assert_array_equal(by_chain.frequencies, view.frequencies)


def test_pairs_are_the_best_of_all():
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 4, (6, 30))
    view = ClusterView.of(draws)
    reference = view.names[view.reference][draws[view.reference]]
    for known, own in zip(view.names, draws, strict=True):
        best = max(np.sum(np.array(names)[own] == reference) for names in permutations(range(4)))
        assert np.sum(known[own] == reference) == best


def test_the_number_is_the_most_frequent_and_the_rest_are_others():
    two, three = np.repeat([0, 1], 10), np.r_[np.repeat([0, 1], 9), 2, 2]
    view = ClusterView.of(np.array([two, two, two, three]))
    assert view.number == 2
    np.testing.assert_array_equal(view.sizes, [[10, 10, 0]] * 3 + [[9, 9, 2]])
    assert view.frequencies[-1].tolist() == [0, 0.75, 0.25]
    shares = np.array([[0.5, 0.2, 0.1, 0.2]])  # a new cluster last
    np.testing.assert_allclose(view.gathered(3, shares), [[0.5, 0.2, 0.3]])
    np.testing.assert_allclose(view.averaged([(0, np.array([[0.6, 0.4]])), (3, shares)]), [[0.55, 0.3, 0.15]])
    few = ClusterView.of(np.array([two, two, np.zeros(20, int)]))  # a draw that has less
    assert few.present.tolist() == [1, 2 / 3]


def test_components_without_rows_are_others():
    draws = np.array([[0, 0, 2, 2], [2, 2, 0, 0], [0, 0, 2, 2]])
    view = ClusterView.of(draws, [4, 3, 4])
    assert view.number == 2
    assert [len(known) for known in view.names] == [4, 3, 4]
    assert view.names[0].tolist() == [0, 2, 1, 2]


@pytest.mark.parametrize("most", [1, 3, 7, 50])
def test_the_representative_is_always_among_some_draws(most):
    view = cluster_view(renamed(np.repeat([0, 1], 20), 23, 0.3, np.random.default_rng(2)))
    some = view.some_draws(most)
    assert len(some) == min(most, 23)
    assert view.reference in some


def test_very_many_rows_are_compared_on_some(monkeypatch):
    from scirocco.partitions import view as module

    truth = np.repeat([0, 1, 2], [50, 40, 30])
    draws = renamed(truth, 12, 0.1, np.random.default_rng(3))
    monkeypatch.setattr(module, "COMPARED_ROWS", 30)
    np.testing.assert_array_equal(cluster_view(draws).labels, truth)
