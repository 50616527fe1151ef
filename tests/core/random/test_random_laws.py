"""The laws of the random numbers: Kolmogorov-Smirnov and chi-squared tests with a failure rate of 1e-4 each."""

import numpy as np
import pytest
from scipy import stats

from scirocco.core.compiled import BLOCK, jit
from scirocco.core.random import below, exponential, gamma, make_key, normal, open_stream, poisson, uniform
from scirocco.core.random.bulk import gammas, workspace

LIMIT = 1e-4
DRAWS = 300_000


@jit
def one_by_one(key, law, parameter, out):
    s = open_stream(key, 3, 5)
    for i in range(out.size):
        if law == 0:
            out[i] = uniform(s)
        elif law == 1:
            out[i] = normal(s)
        elif law == 2:
            out[i] = exponential(s)
        elif law == 3:
            out[i] = gamma(s, parameter)
        elif law == 4:
            out[i] = poisson(s, parameter)
        else:
            out[i] = below(s, parameter)


@jit
def in_bulk(key, shape, out):
    work = workspace()
    for block in range(-(-out.size // BLOCK)):
        low, high = block * BLOCK, min(out.size, (block + 1) * BLOCK)
        gammas(open_stream(key, 0, block), shape[low:high], out[low:high], high - low, work)


def draws(law, parameter=1.0, size=DRAWS):
    out = np.empty(size)
    one_by_one(make_key(11, law), law, float(parameter), out)
    return out


@pytest.mark.parametrize(("law", "name"), [(0, "uniform"), (1, "norm"), (2, "expon")])
def test_simple_laws(law, name):
    sample = draws(law, size=1_000_000)
    assert stats.kstest(sample, name).pvalue > LIMIT
    # The far tails come from another branch than the bulk.
    tail = sample[sample > getattr(stats, name).ppf(1 - 1e-3)]
    assert abs(tail.size - 1000) < 4.5 * np.sqrt(1000)


@pytest.mark.parametrize("shape", [0.01, 0.1, 0.29, 0.31, 0.7, 1.0, 1.1, 50.0, 1e9])
def test_gamma(shape):
    assert stats.kstest(draws(3, shape), stats.gamma(shape).cdf).pvalue > LIMIT


def test_gammas_in_bulk():
    shapes = np.array([0.01, 0.1, 0.29, 0.31, 0.7, 1.0, 1.1, 50.0, 1e9])
    wanted = np.tile(shapes, DRAWS // 2)  # all methods side by side in every block
    out = np.empty(wanted.size)
    in_bulk(make_key(12), wanted, out)
    for column, shape in zip(out.reshape(-1, shapes.size).T, shapes, strict=True):
        assert stats.kstest(column, stats.gamma(shape).cdf).pvalue > LIMIT


def test_gammas_of_impossible_shapes():
    out = np.empty(3)
    in_bulk(make_key(0), np.array([0.0, -1.0, np.nan]), out)
    assert out[0] == 0
    assert np.all(np.isnan(out[1:]))


@pytest.mark.parametrize("mean", [1e-3, 0.5, 3.0, 9.9, 10.1, 64.0, 1e3, 1e5])
def test_poisson(mean):
    sample = draws(4, mean)
    low, high = stats.poisson.ppf([1e-4, 1 - 1e-4], mean)
    edges = np.unique(np.floor(np.linspace(low, high, 60)))
    expected = np.diff(np.r_[0, stats.poisson.cdf(edges, mean), 1]) * sample.size
    seen = np.histogram(sample, np.r_[-1, edges, np.inf] + 0.5)[0]
    counted = expected > 5
    seen, expected = np.r_[seen[counted], seen[~counted].sum()], np.r_[expected[counted], expected[~counted].sum()]
    if expected[-1] < 5:
        seen, expected = seen[:-1], expected[:-1] * seen[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(seen, expected).pvalue > LIMIT


@pytest.mark.parametrize("mean", [9e7, 1e9, 1e16])
def test_poisson_of_large_means(mean):
    z = (draws(4, mean) - mean) / np.sqrt(mean)
    assert stats.kstest(z, "norm").pvalue > LIMIT


@pytest.mark.parametrize("bound", [1, 2, 7, 1000])
def test_whole_numbers(bound):
    sample = draws(5, bound)
    assert set(np.unique(sample)) <= set(range(bound))
    if bound > 1:
        assert stats.chisquare(np.bincount(sample.astype(int), minlength=bound)).pvalue > LIMIT


def test_streams_differ():
    key = make_key(0)
    words = {
        tuple(open_stream(k, step, block))
        for k in (key, make_key(1), make_key(0, 1))
        for step in range(20)
        for block in range(20)
    }
    assert len(words) == 3 * 20 * 20


def test_streams_of_neighbours_are_independent():
    key, count = make_key(7), 100_000
    rows = [
        np.array([open_stream(key, step, block + 2 * i)[0] for i in range(count)], float)
        for step in range(2)
        for block in range(2)
    ]
    correlation = np.corrcoef(rows)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlation) < 4.5 / np.sqrt(count))
