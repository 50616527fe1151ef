"""Exactness of the mixture samplers: partitions of so few rows that all can be enumerated, and joint tests."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma as gamma_law
from scipy.stats import multivariate_t, nbinom

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.components import Bernoulli, Categorical, Multinomial, Poisson
from scirocco.models.dp_mixture.density import Tables, log_scores
from scirocco.models.dp_mixture.gibbs import Blocked, Collapsed
from scirocco.models.dp_mixture.mixed import Gaussian, Mixed
from scirocco.models.dp_mixture.partition import DirichletProcess, FiniteMixtures
from scirocco.models.dp_mixture.slice_sampler import SliceSampler
from scirocco.simplex import SCIR, SCIRCV, SGRLD

COUNTS = np.array([[2, 0, 0], [1, 1, 0], [0, 2, 1], [0, 0, 2], [1, 0, 1], [0, 0, 0]])
TABLE = np.array([["a", "x"], ["a", "y"], ["b", None], ["b", "x"], [None, "z"], ["a", "x"]], dtype=object)
DATA = {
    "multinomial": (Multinomial(), COUNTS, np.array([0.5, 0.4, 0.6])),
    "categorical": (Categorical(), TABLE, np.array([0.5, 0.7, 0.3, 0.4, 0.6])),
    "bernoulli": (Bernoulli(), COUNTS, np.array([0.5, 0.4, 0.6, 0.3, 0.5, 0.7])),
    "poisson": (Poisson(0.8), COUNTS, np.array([0.5, 0.4, 0.6])),
    "mixed": (
        Mixed({"0": Gaussian(1.5, 0.4, 0.3), "1": "categorical", "2": "poisson", "3": Gaussian(2.0, 0.6, 0.2)}),
        np.array(
            [[0.3, "a", 2, 7.0], [None, "a", 0, 7.5], [2.1, "b", None, 3.0], [1.9, None, 5, None], [0.1, "b", 1, 6.0],
             [0.2, "a", 0, 3.5]], dtype=object,
        ),
        np.array([0.5, 0.7]),
    ),
}  # fmt: skip


def all_partitions(n):
    found = [[]]
    for _ in range(n):
        found = [[*p, k] for p in found for k in range((max(p) if p else -1) + 2)]
    return np.array(found)


def brute_marginal(component, base, X):
    """The log density of rows of one cluster, written out by hand, without the constants of the Poisson law."""
    if isinstance(component, Categorical):
        levels, offset, total = [["a", "b"], ["x", "y", "z"]], 0, 0.0
        for j, own in enumerate(levels):
            a = base[offset : offset + len(own)]
            n = np.array([np.sum(X[:, j] == value) for value in own])
            total += np.sum(gammaln(a + n) - gammaln(a)) + gammaln(a.sum()) - gammaln(a.sum() + n.sum())
            offset += len(own)
        return total
    if isinstance(component, Mixed):
        n = np.array([np.sum(X[:, 1] == value) for value in "ab"])
        total = np.sum(gammaln(base + n) - gammaln(base)) + gammaln(base.sum()) - gammaln(base.sum() + n.sum())
        whole = DATA["mixed"][1]
        for j in (0, 3):
            known, x = (table[:, j][table[:, j] != None].astype(float) for table in (whole, X))  # noqa: E711
            prior, x = component.columns[str(j)], (x - known.mean()) / known.std()
            if x.size:
                wide = prior.rate / prior.shape * (np.eye(x.size) + 1 / prior.strength)
                total += multivariate_t(np.zeros(x.size), wide, 2 * prior.shape).logpdf(x)
        rate = 1 / np.mean([x for x in whole[:, 2] if x is not None])
        visits = [x for x in X[:, 2] if x is not None]
        for i, x in enumerate(visits):
            chance = (rate + i) / (rate + i + 1)
            total += nbinom(1 + sum(visits[:i]), chance).logpmf(x) + gammaln(x + 1)
        return total
    if isinstance(component, Bernoulli):
        yes = (X > 0).sum(axis=0)
        n, a, b = np.stack([yes, len(X) - yes]), base[::2], base[1::2]
        return np.sum(
            gammaln(a + n[0]) + gammaln(b + n[1]) - gammaln(a + b + len(X)) + gammaln(a + b) - gammaln(a) - gammaln(b)
        )
    n = X.sum(axis=0)
    found = np.sum(gammaln(base + n) - gammaln(base))
    if isinstance(component, Poisson):
        b = component.rate
        return found + np.sum(base * np.log(b) - (base + n) * np.log(b + len(X)))
    return found + gammaln(base.sum()) - gammaln(base.sum() + n.sum())


def enumerated(name, log_prior):
    component, X, base = DATA[name]
    partitions = all_partitions(len(X))
    logs = np.array([
        log_prior(np.bincount(z)) + sum(brute_marginal(component, base, X[z == k]) for k in range(z.max() + 1))
        for z in partitions
    ])  # fmt: skip
    weights = np.exp(logs - logs.max())
    return partitions, weights / weights.sum()


def dp_log_prior(sizes, alpha):
    n = sizes.sum()
    return len(sizes) * np.log(alpha) + gammaln(sizes).sum() + gammaln(alpha) - gammaln(alpha + n)


def mfm_log_prior(sizes, gamma):
    """Summed over the number of components, by hand."""
    k = np.arange(len(sizes), 3000)
    log = np.log(0.1) + (k - 1) * np.log(0.9) + gammaln(k + 1) - gammaln(k - len(sizes) + 1)
    log = log + gammaln(gamma * k) - gammaln(gamma * k + sizes.sum())
    return np.logaddexp.reduce(log) + np.sum(gammaln(gamma + sizes) - gammaln(gamma))


PRIORS = {
    "dp": (lambda: DirichletProcess(1.3), lambda sizes: dp_log_prior(sizes, 1.3)),
    "mfm": (lambda: FiniteMixtures(0.8), lambda sizes: mfm_log_prior(sizes, 0.8)),
}


def chain_of(kind, name, partition, **settings):
    component, X, base = DATA[name]
    encoding = component.encoding(X, None)
    options = {"seed": 3, "chain": 0, "threads": 1} | settings
    chain = kind(encoding.rows(X), encoding.law(base), encoding.counted, partition, **options)
    while not chain.sampling:
        chain.step()
    return chain


def assert_average(path, expected):
    """Averages over a chain, by batch means, within 4.5 standard errors."""
    batches = np.array([part.mean(axis=0) for part in np.array_split(path, 40)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    assert np.all(np.abs(batches.mean(axis=0) - expected) < 4.5 * error + 1e-12)


def assert_law(chain, partitions, weights, steps):
    """The number of clusters and which rows are together."""
    path = []
    for _ in range(steps):
        chain.step()
        path.append(chain.labels())
    path, pairs = np.array(path), list(itertools.combinations(range(partitions.shape[1]), 2))
    together = np.stack([path[:, i] == path[:, j] for i, j in pairs], axis=1).astype(float)
    assert_average(together, [weights[partitions[:, i] == partitions[:, j]].sum() for i, j in pairs])
    number, exact = path.max(axis=1) + 1, partitions.max(axis=1) + 1
    numbers = np.arange(1, partitions.shape[1])
    assert_average((number[:, None] == numbers).astype(float), [weights[exact == k].sum() for k in numbers])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Collapsed, {"moves": False}), (Collapsed, {}), (Blocked, {"moves": False, "batch_size": 2}), (Blocked, {})],
)
def test_partitions_have_their_exact_law(kind, settings, prior):
    make, log_prior = PRIORS[prior]
    partitions, weights = enumerated("multinomial", log_prior)
    assert_law(chain_of(kind, "multinomial", make(), **settings), partitions, weights, 5_000)


@pytest.mark.parametrize("kind", [Collapsed, Blocked])
@pytest.mark.parametrize("name", ["categorical", "bernoulli", "poisson", "mixed"])
def test_other_components_have_their_exact_law(kind, name):
    make, log_prior = PRIORS["dp"]
    partitions, weights = enumerated(name, log_prior)
    assert_law(chain_of(kind, name, make()), partitions, weights, 7_000)


@pytest.mark.parametrize("name", ["multinomial", "mixed"])
def test_moves_alone_have_the_exact_law(monkeypatch, name):
    """Splits and merges reach every partition, so they can be tested without sweeps."""
    from scirocco.models.dp_mixture import gibbs

    make, log_prior = PRIORS["mfm"]
    partitions, weights = enumerated(name, log_prior)
    for scans in (0, 1, 3) if name == "multinomial" else (2,):
        monkeypatch.setattr(gibbs, "SCANS", (scans, scans))
        chain = chain_of(Collapsed, name, make())
        chain.move_number = 3
        monkeypatch.setattr(chain, "sweep", lambda begin, end: None)
        assert_law(chain, partitions, weights, 5_000)
        assert chain.tally[1] > 500


def slice_chain(partition, **settings):
    _, X, base = DATA["multinomial"]
    encoding = Multinomial().encoding(X, None)
    options = {"seed": 4, "chain": 0, "threads": 1} | settings
    return SliceSampler(encoding.rows(X), encoding.law(base), partition, **options)


@pytest.mark.parametrize(
    "settings",
    [{}, {"batch_size": 2}, {"sampler": SCIR(0.5), "batch_size": 3}],
    ids=["all rows", "minibatches", "SCIR"],
)
def test_kept_allocations_make_the_slice_sampler_exact(settings):
    make, log_prior = PRIORS["dp"]
    partitions, weights = enumerated("multinomial", log_prior)
    chain = slice_chain(make(), **settings)
    for _ in range(200):
        chain.step()
    assert_law(chain, partitions, weights, 5_000)


def test_labels_switched_alone_keep_the_law_of_sticks(monkeypatch):
    """The probability that the first component is the largest, with and without moves that switch labels."""
    from scirocco.models.dp_mixture import slice_sampler

    shares = []
    for switches in (0, 10):
        monkeypatch.setattr(slice_sampler, "SWITCHES", switches)
        chain = slice_chain(DirichletProcess(1.3))
        path = []
        for _ in range(6_000):
            chain.step()
            path.append([chain.weights()[0], chain.clusters.labels[0] == 0, chain.clusters.tables.sizes[0]])
        batches = np.array([part.mean(axis=0) for part in np.array_split(np.array(path, float), 40)])
        shares.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / len(batches)))
    (one, first), (two, second) = shares
    assert np.all(np.abs(one - two) < 4.5 * np.sqrt(first + second))


@pytest.mark.parametrize("sampler", [SCIR(0.1), SCIRCV(0.1, recentre_every=10, centre_from="seen"), SGRLD(0.01)])
def test_estimated_allocations_follow_planted_clusters(sampler):
    rng = np.random.default_rng(0)
    theta, z = rng.dirichlet(np.full(20, 0.1), 3), rng.integers(0, 3, 400)
    X = np.array([rng.multinomial(15, theta[k]) for k in z])
    encoding = Multinomial().encoding(X, None)
    chain = SliceSampler(
        encoding.rows(X), encoding.law(0.5), DirichletProcess(1.0, (1.0, 1.0)), sampler=sampler, kept=False,
        batch_size=50, seed=0, chain=0, threads=1, start=rng.integers(0, 10, 400),
    )  # fmt: skip
    for _ in range(600):
        chain.step()
    sizes, components, _ = chain.statistics()
    truth = [np.abs(components[:, None] - theta).sum(axis=2)[sizes > 0.1].min(axis=0)]
    assert np.max(truth) < 0.6  # each true component has one near it
    fresh = SliceSampler(
        encoding.rows(X), encoding.law(0.5), DirichletProcess(1.0, (1.0, 1.0)), sampler=sampler, kept=False,
        batch_size=50, seed=0, chain=0, threads=2,
    )  # fmt: skip
    fresh.unpack({name: array.copy() for name, array in chain.pack().items()})
    for _ in range(5):
        chain.step()
        fresh.step()
    np.testing.assert_array_equal(chain.weights(), fresh.weights())
    np.testing.assert_array_equal(chain.labels(), fresh.labels())


def test_the_concentration_is_learnt_exactly():
    shape, rate = 2.0, 1.5
    law = gamma_law(shape, scale=1 / rate)
    component, X, base = DATA["multinomial"]
    partitions = all_partitions(len(X))
    sizes = [np.bincount(z) for z in partitions]
    likelihood = np.array([
        np.exp(sum(brute_marginal(component, base, X[z == k]) for k in range(z.max() + 1))) for z in partitions
    ])  # fmt: skip

    def averaged(function, t, n):  # over the prior of alpha: the law of a partition depends on its number of clusters
        return quad(lambda a: function(a) * np.exp(t * np.log(a) + gammaln(a) - gammaln(a + n)) * law.pdf(a), 1e-9, 60)[
            0
        ]

    known = {t: [averaged(f, t, len(X)) for f in (lambda a: 1.0, lambda a: a)] for t in range(1, len(X) + 1)}
    weights = np.array(
        [lik * np.exp(gammaln(s).sum()) * known[len(s)][0] for lik, s in zip(likelihood, sizes, strict=True)]
    )
    mean = np.array([known[len(s)][1] / known[len(s)][0] for s in sizes]) @ weights / weights.sum()
    exact = [mean, np.array([len(s) for s in sizes]) @ weights / weights.sum()]
    for chain in (
        chain_of(Collapsed, "multinomial", DirichletProcess(1.0, (shape, rate)), moves=False),
        slice_chain(DirichletProcess(1.0, (shape, rate))),  # by its sticks, not by Escobar and West
    ):
        path = []
        for _ in range(6_000):
            chain.step()
            path.append([chain.partition.concentration, chain.clusters.number])
        assert_average(np.array(path), exact)


@pytest.mark.parametrize("kind", [Collapsed, Blocked])
def test_rows_that_say_nothing_have_the_prior_of_a_mixture_of_finite_mixtures(kind):
    """The number of clusters of 7 rows under the prior: sums over all partitions, by hand."""
    blank = np.zeros((7, 3), int)
    partitions = all_partitions(7)
    weights = np.exp([mfm_log_prior(np.bincount(z), 0.8) for z in partitions])
    assert weights.sum() == pytest.approx(1.0)
    encoding = Multinomial().encoding(blank, None)
    chain = kind(
        encoding.rows(blank), encoding.law(0.5), encoding.counted, FiniteMixtures(0.8), seed=5, chain=0, threads=1
    )
    while not chain.sampling:
        chain.step()
    assert_law(chain, partitions, weights, 7_000)


def test_the_urn_of_finite_mixtures_sums_to_one():
    law = FiniteMixtures(0.7)
    sizes = np.array([4.0, 2.0, 1.0])
    urn = law.urn(8, 5)
    before = law.log_v(7, 3)[3]
    total = np.exp(law.log_v(8, 3)[3] - before) * (np.sum(sizes + urn.shift) + urn.fresh[3])
    assert total == pytest.approx(1.0)
    assert law.log_probability(sizes) == pytest.approx(mfm_log_prior(sizes, 0.7))


@pytest.mark.parametrize("name", DATA)
def test_densities_are_ratios_of_marginals(name):
    component, X, base = DATA[name]
    encoding = component.encoding(X, None)
    rows, law = encoding.rows(X), encoding.law(base)
    chain = chain_of(Collapsed, name, DirichletProcess(1.0), start=np.array([0, 0, 1, 1, 0, 1]))
    tables = Tables(*(np.ascontiguousarray(t[..., :3]) for t in chain.clusters.tables))
    chain.clusters.relabel(np.array([0, 0, 1, 1, 0, 1])[chain.order])
    tables = Tables(*(np.ascontiguousarray(t[..., :3]) for t in chain.clusters.tables))
    scores = log_scores(rows, law, tables, np.ones(3), 1)
    members = [[0, 1, 4], [2, 3, 5], []]
    for i, k in itertools.product(range(len(X)), range(3)):
        own = X[members[k]]
        before = brute_marginal(component, base, own) if members[k] else 0.0
        after = brute_marginal(component, base, np.concatenate([own, X[[i]]]))
        assert scores[i, k] == pytest.approx(after - before, rel=1e-5 if name == "mixed" else None)  # rounded numbers


def test_long_rows_do_not_underflow():
    counts = np.array([[400, 1, 300], [1, 500, 2], [0, 3, 900]])
    encoding = Multinomial().encoding(counts, None)
    law = encoding.law(0.01)
    scores = log_scores(encoding.rows(counts), law, Tables.empty(law, 2), np.array([0.3, 0.7]), 1)
    for row, found in zip(counts, scores, strict=True):
        exact = brute_marginal(Multinomial(), np.full(3, 0.01), row[None])
        np.testing.assert_allclose(found, exact + np.log([0.3, 0.7]), rtol=1e-12)


@pytest.mark.parametrize("way", ["concentration", "full"])
def test_the_base_measure_passes_a_joint_test(way):
    """Geweke: data drawn given the clusters, clusters and base given the data; their joint law is that of the prior."""
    rng, n, levels = np.random.default_rng(0), 5, (2, 3)
    X = np.array([["a", "x"], ["b", "y"], ["a", "z"], ["a", "x"], ["b", "z"]], dtype=object)
    encoding = Categorical().encoding(X, None)
    given = encoding.law(0.6)
    chain = Collapsed(
        encoding.rows(X), given, encoding.counted, DirichletProcess(1.0, (2.0, 2.0)), seed=1, chain=0, threads=1,
        learn_base=way, moves=False,
    )  # fmt: skip
    path = []
    for _ in range(6_000):
        chain.step()
        law, labels, clusters = chain.clusters.law, chain.clusters.labels, chain.clusters
        words = np.empty((n, 2), np.int32)
        for j in range(2):
            own = np.flatnonzero((law.group == j) & encoding.counted)
            for k in np.unique(labels):
                weights = law.base[own].copy()
                for i in np.flatnonzero(labels == k):
                    f = rng.choice(own.size, p=weights / weights.sum())
                    weights[f] += 1
                    words[i, j] = own[f]
        clusters.rows = Documents(clusters.rows.starts, words.ravel(), clusters.rows.numbers, clusters.rows.width)
        clusters.entries = (clusters.rows.starts, clusters.rows.words, clusters.rows.numbers)
        clusters.relabel(labels.copy())
        total = law.totals
        path.append([*total, law.base[0] / total[0], law.base[3] / total[1], (law.base[3] / total[1]) ** 2,
                     chain.partition.concentration, chain.clusters.number])  # fmt: skip
    path = np.array(path)
    uniform = [1 / size for size in levels]
    square = 2 / 12 if way == "full" else 1 / 9  # of a coordinate of Dirichlet(1, 1, 1)
    numbers = np.array([z.max() + 1 for z in all_partitions(n)])

    def chance(sizes):
        return quad(lambda a: np.exp(dp_log_prior(sizes, a)) * gamma_law(2, scale=0.5).pdf(a), 1e-9, 40)[0]

    crp = np.array([chance(np.bincount(z)) for z in all_partitions(n)])
    assert_average(path, [*given.totals, *uniform, square, 1.0, crp @ numbers])


@pytest.mark.parametrize("kind", [Collapsed, Blocked])
def test_threads_and_splits_of_a_run_change_nothing(kind):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, (700, 12))
    encoding = Multinomial().encoding(X, None)

    def chain(threads):
        return kind(
            encoding.rows(X), encoding.law(0.2), encoding.counted, DirichletProcess(1.0, (1.0, 1.0)), seed=2, chain=1,
            threads=threads, search_passes=12.0, learn_base="full",
        )  # fmt: skip

    one, two, other = chain(1), chain(2), chain(1)
    for step in range(120):
        one.step()
        two.step()
        if step % 7 == 3:
            fresh = chain(1)
            fresh.unpack({name: array.copy() for name, array in other.pack().items()})
            other = fresh
        other.step()
    assert one.sampling
    for found in (two, other):
        np.testing.assert_array_equal(one.labels(), found.labels())
        assert one.partition.concentration == found.partition.concentration
        np.testing.assert_array_equal(one.clusters.law.base, found.clusters.law.base)


def test_priors_of_columns_pass_a_joint_test():
    """Geweke: numbers given the clusters and priors, these given the numbers; their joint law is that of the prior."""
    from scirocco.models.dp_mixture import numeric
    from scirocco.models.dp_mixture.density import Law
    from scirocco.models.dp_mixture.rows import Rows, entries_of

    rng, n = np.random.default_rng(1), 5
    normal = [numeric.NORMAL, 3.0, 1.0, 1.0, 4.0, 3.0, 5.0, 4.0]
    counted = [numeric.POISSON, 2.0, 1.0, 1.0, 4.0, 4.0, 0.0, 0.0]
    none = np.empty(0, np.int32)
    rows = Rows(np.zeros(n + 1, np.int64), none, none, 0, np.zeros((n, 2)))
    law = Law.of(np.empty(0), none, np.empty(0, bool), columns=np.array([normal, counted]))
    chain = Collapsed(rows, law, np.empty(0, bool), DirichletProcess(1.0), seed=1, chain=0, threads=1, moves=False)
    path = []
    for _ in range(6_000):
        chain.step()
        clusters, values = chain.clusters, np.empty((n, 2))
        for k in np.unique(clusters.labels):
            own, (a, b, c), (p, r) = clusters.labels == k, clusters.law.columns[0, 1:4], clusters.law.columns[1, 1:3]
            variance = 1 / rng.gamma(a, 1 / b)
            center = rng.normal(0, np.sqrt(variance / c))
            values[own, 0] = np.round(rng.normal(center, np.sqrt(variance), own.sum()) * 2**20) / 2**20
            values[own, 1] = rng.poisson(rng.gamma(p, 1 / r), own.sum())
        clusters.rows = Rows(rows.starts, none, none, 0, values)
        clusters.entries = entries_of(clusters.rows)
        clusters.relabel(clusters.labels.copy())
        prior = clusters.law.columns
        path.append([prior[0, 2], prior[0, 3], prior[1, 2], prior[0, 2] ** 2, prior[0, 3] ** 2, clusters.number])
    numbers = sum(1 / (1 + i) for i in range(n))
    assert_average(np.array(path), [4 / 3, 5 / 4, 1.0, (4 / 3) ** 2 + 4 / 9, 25 / 16 + 5 / 16, numbers])


def test_numbers_taken_out_leave_nothing_behind():
    """Sums of moments are exact: any order, in and out, and the clusters are those of a fresh start, to the bit."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(1e6, 1, 300), rng.lognormal(0, 3, 300)])
    X[rng.random(X.shape) < 0.1] = np.nan
    with pytest.warns(UserWarning, match="long upper tail"):
        encoding = Gaussian().encoding(X, None)
    chain = Collapsed(
        encoding.rows(X), encoding.law(1.0), encoding.counted, FiniteMixtures(1.0), seed=0, chain=0, threads=1
    )
    for _ in range(60):
        chain.step()
    kept = chain.clusters.tables.moments.copy()
    assert chain.clusters.number > 1
    chain.clusters.relabel(chain.clusters.labels.copy(), chain.clusters.slots)
    np.testing.assert_array_equal(chain.clusters.tables.moments, kept)
