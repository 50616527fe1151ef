"""Point partitions against all partitions, distances against other ways to compute them, the credible ball."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score, rand_score

import scirocco as sc
from scirocco.partitions import binder, co_clustering, credible_ball, expected_loss, variation_of_information

RNG = np.random.default_rng(0)


def all_partitions(n):
    """Labels of every partition of n rows, each once."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*one, k] for one in found for k in range(max(one) + 2)]
    return np.array(found)


def entropy(labels):
    share = np.bincount(labels) / len(labels)
    return -np.sum(share[share > 0] * np.log2(share[share > 0]))


def noisy_draws(truth, draws, noise, rng):
    """Draws around a partition: some rows are somewhere else, and clusters have other names each time."""
    found = []
    for _ in range(draws):
        moved = np.where(rng.random(truth.size) < noise, rng.integers(0, truth.max() + 2, truth.size), truth)
        found.append(rng.permutation(100)[moved])
    return np.array(found)


def test_distances_are_those_of_information_and_of_pairs():
    for _ in range(20):
        a, b = RNG.integers(0, 5, 60), RNG.integers(0, 3, 60)
        information = mutual_info_score(a, b) / np.log(2)
        assert variation_of_information(a, b) == pytest.approx(entropy(a) + entropy(b) - 2 * information, abs=1e-12)
        assert binder(a, b) == pytest.approx((1 - rand_score(a, b)) * 59 / 60)
        assert variation_of_information(a, b) == pytest.approx(variation_of_information(b, a))
        assert variation_of_information(a, a + 7) == 0


def mean_losses(draws, every, loss):
    """Of each partition, from pairs of rows in the same cluster: of partitions, of draws, of both."""
    one, other = (labels[..., None] == labels[:, None, :] for labels in (every, draws))
    both = np.einsum("pij,dij->pdi", one.astype(int), other.astype(int))
    sizes = one.sum(axis=-1)[:, None], other.sum(axis=-1)
    if loss == "binder":
        return np.mean(sizes[0] + sizes[1] - 2 * both, axis=(1, 2)) / draws.shape[1]
    return np.mean(np.log2(sizes[0] * sizes[1] / both**2), axis=(1, 2))


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_the_search_finds_the_best_of_all_partitions(loss):
    every = all_partitions(6)  # 203
    for repeat in range(15):
        rng = np.random.default_rng(repeat)
        draws = noisy_draws(rng.integers(0, 3, 6), 12, 0.3, rng)
        found = sc.partitions.point_partition(draws, loss=loss, seed=repeat, max_clusters=6)
        losses = mean_losses(draws, every, loss)
        assert expected_loss(draws, every[100], loss=loss) == pytest.approx(losses[100], abs=1e-12)
        assert found.expected_loss == pytest.approx(losses.min(), abs=1e-12)
        assert found.expected_loss == pytest.approx(expected_loss(draws, found.labels, loss=loss))
        two = sc.partitions.point_partition(draws, loss=loss, max_clusters=2)
        assert two.expected_loss == pytest.approx(losses[every.max(axis=1) < 2].min(), abs=1e-12)


def test_a_partition_is_found_again_in_many_rows_on_any_threads():
    rng = np.random.default_rng(3)
    truth = rng.choice(8, 500, p=np.arange(8, 0, -1) / 36)
    draws = noisy_draws(truth, 60, 0.2, rng)
    found = sc.partitions.point_partition(draws)
    assert variation_of_information(found.labels, truth) == 0
    assert np.all(np.diff(found.sizes) <= 0)  # the largest first
    assert found.sizes.sum() == 500
    assert "500 rows in 8 clusters" in repr(found)
    same = sc.partitions.point_partition(draws.reshape(3, 20, 500), threads=2)  # chains, threads
    np.testing.assert_array_equal(found.labels, same.labels)
    order = rng.permutation(60)
    assert sc.partitions.point_partition(draws[order]).expected_loss == pytest.approx(found.expected_loss)


def test_it_is_better_than_every_draw():
    rng = np.random.default_rng(4)
    draws = noisy_draws(rng.integers(0, 6, 80), 40, 0.35, rng)
    found = sc.partitions.point_partition(draws)
    assert found.expected_loss <= min(expected_loss(draws, draw) for draw in draws)


def test_rows_that_always_agree_are_not_parted():
    rng = np.random.default_rng(5)
    draws = np.repeat(noisy_draws(rng.integers(0, 4, 30), 25, 0.4, rng), 4, axis=1)
    labels = sc.partitions.point_partition(draws).labels.reshape(30, 4)
    assert np.all(labels == labels[:, :1])


def test_a_partition_that_is_like_no_draw_says_so():
    rng = np.random.default_rng(8)
    unsure = rng.integers(0, 3, (30, 200))  # rows say nothing of each other
    found = sc.partitions.point_partition(unsure)
    assert "no draw has 1 clusters: they have 3" in repr(found)
    assert "one cluster for all rows would cost" in repr(found)
    clear = sc.partitions.point_partition(noisy_draws(np.repeat([0, 1, 2], 60), 30, 0.0, rng))
    assert clear.remarks == ()
    assert sc.partitions.point_partition(np.zeros((5, 20), int)).remarks == ()


def test_a_credible_ball_has_its_share_and_its_edges():
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 4, 50)
    draws = noisy_draws(truth, 200, 0.15, rng)
    ball = credible_ball(draws, truth, level=0.9)
    far = np.array([variation_of_information(draw, truth) for draw in draws])
    assert ball.radius == pytest.approx(np.sort(far)[179])
    assert ball.share == np.mean(far <= ball.radius) >= 0.9
    assert variation_of_information(ball.farthest, truth) == pytest.approx(ball.radius)
    counts = np.array([len(set(draw)) for draw in draws])[far <= ball.radius]
    assert ball.clusters == (counts.min(), counts.max())
    assert len(set(ball.fewest)) == counts.min()
    assert len(set(ball.most)) == counts.max()
    whole = credible_ball(draws, truth, level=1.0, loss="binder")
    assert whole.share == 1
    assert whole.radius == max(binder(draw, truth) for draw in draws)


def test_co_clustering_is_the_share_of_draws():
    draws = RNG.integers(0, 3, (40, 12))
    rows = np.array([2, 7, 7, 11])
    found = co_clustering(draws, rows)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert found[i, j] == np.mean(draws[:, a] == draws[:, b])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sc.partitions.point_partition([0, 1]), "labels must be"),
        (lambda: sc.partitions.point_partition(np.empty((0, 3), int)), "not empty"),
        (lambda: sc.partitions.point_partition([[0.5, 1.0]]), "whole numbers"),
        (lambda: sc.partitions.point_partition([[0, 1]], loss="rand"), "loss must be"),
        (lambda: sc.partitions.point_partition([[0, 1]], n_starts=0), "n_starts must be"),
        (lambda: sc.partitions.point_partition([[0, 1]], max_clusters=0), "max_clusters must be"),
        (lambda: expected_loss([[0, 1]], [0, 1, 2]), "one label for each of 2 rows"),
        (lambda: credible_ball([[0, 1]], [0, 1], level=0.0), "level must be"),
        (lambda: co_clustering([[0, 1]], [2]), "rows must be from 0 to 1"),
        (lambda: co_clustering([[0, 1]], [0.5]), "numbers of some rows"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# What models read from draws.


def test_rows_that_were_not_searched_join_where_their_draws_lie(monkeypatch):
    from scirocco.partitions import draws as module

    truth = np.repeat([0, 1, 2], [60, 40, 20])
    rng = np.random.default_rng(0)
    labels = np.array(
        [np.where(rng.random(truth.size) < 0.05, rng.integers(0, 3, truth.size), truth) for _ in range(30)]
    )
    whole = module.PartitionDraws(labels).point()
    monkeypatch.setattr(module, "SEARCHED_ROWS", 50)
    some = module.PartitionDraws(labels).point()
    assert np.array_equal(whole.labels, truth)
    assert np.array_equal(some.labels, truth)
    other = module.PartitionDraws(labels, path=(1,)).point()
    assert np.array_equal(other.labels, truth)
    assert other.expected_loss != some.expected_loss  # of other rows


def test_sizes_and_numbers_of_draws():
    from scirocco.partitions.draws import PartitionDraws, by_rank, number_probabilities, size_intervals

    drawn = PartitionDraws(np.array([[0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 0], [0, 1, 2, 2]]))
    sizes = drawn.sizes()
    assert by_rank(sizes).tolist() == [[3, 1, 0], [2, 2, 0], [3, 1, 0], [2, 1, 1]]
    assert number_probabilities(sizes).to_dict() == {2: 0.75, 3: 0.25}
    assert number_probabilities(sizes, least=2).to_dict() == {1: 0.75, 2: 0.25}
    table = size_intervals(by_rank(sizes), 0.5, "rank")
    assert table.index.name == "rank"
    np.testing.assert_allclose(table["mean"], [2.5, 1.25, 0.25])
    assert (table["lower"] <= table["upper"]).all()
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        size_intervals(by_rank(sizes), 1.0, "rank")
