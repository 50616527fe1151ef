"""The mixture estimator: conformance, planted clusters, what is read from draws, saving, resuming, and wrong input."""

import json
import signal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import scirocco as sc
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture import Multinomial, Poisson
from scirocco.models.dp_mixture.clusters import Clusters, Statistics
from scirocco.models.dp_mixture.gibbs import Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess
from scirocco.models.dp_mixture.predictive import Snapshot
from scirocco.run import group


def planted(rows, clusters=6, columns=40, events=12, seed=0):
    rng = np.random.default_rng(seed)
    theta, z = rng.dirichlet(np.full(columns, 0.1), clusters), rng.integers(0, clusters, rows)
    return np.array([rng.multinomial(events, theta[k]) for k in z]), z, theta


@pytest.fixture(scope="module")
def data():
    return planted(700)


@pytest.fixture(scope="module")
def fitted(data):
    return sc.DirichletProcessMixture(max_iter=160, n_chains=2, n_draws=20, random_state=0).fit(
        sp.csr_matrix(data[0][:600])
    )


# Both take every model with predict_proba for a classifier of four classes.
CLASSIFIERS_ONLY = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), "predict_proba is not that of a classifier"
)


@pytest.mark.filterwarnings("ignore:counts must be whole numbers")
@parametrize_with_checks(
    [sc.DirichletProcessMixture(max_iter=6, random_state=0)], expected_failed_checks=lambda _: CLASSIFIERS_ONLY
)
def test_conforms_to_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("sampler", ["collapsed", "gibbs"])
@pytest.mark.parametrize("prior", ["dp", "mfm"])
def test_planted_clusters_are_found(data, sampler, prior):
    counts, z, _ = data
    model = sc.DirichletProcessMixture(
        sampler=sampler, n_components_prior=prior, max_iter=60, n_draws=20, random_state=1
    ).fit(counts[:600])
    assert adjusted_rand_score(z[:600], model.labels_) > 0.97
    assert adjusted_rand_score(z[600:], model.predict(counts[600:])) > 0.9
    assert model.cluster_numbers(least=10).idxmax() == 6


@pytest.mark.parametrize(
    "settings",
    [
        {"sampler": "slice"},
        {"sampler": "slice", "search": False, "start": "random", "batch_size": 100},
        {"sampler": "scir", "allocations": "kept", "batch_size": 100},
        {"sampler": "scir_cv", "allocations": "kept"},
        {"sampler": "scir", "batch_size": 100},
        {"sampler": "scir_cv", "batch_size": 100},
        {"sampler": sc.SGRLD(0.002), "stick_sampler": sc.SCIR(0.1), "batch_size": 100},
    ],
    ids=str,
)
def test_samplers_with_sticks(tmp_path, data, settings):
    counts, z, theta = data
    model = sc.DirichletProcessMixture(base=0.2, max_iter=40, n_draws=10, random_state=1, **settings)
    model.fit(counts[:600])
    assert adjusted_rand_score(z[:600], model.labels_) > (0.6 if settings.get("search") is False else 0.9)
    limit = np.logaddexp.reduce(counts[600:] @ np.log(np.maximum(theta, 1e-300)).T - np.log(6), axis=1).mean()
    assert limit - 2.5 < model.score(counts[600:]) < limit
    np.testing.assert_allclose(model.predict_proba(counts[600:], unseen=True).sum(axis=1), 1)
    model.save(tmp_path / "model.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.score_samples(counts[600:]), model.score_samples(counts[600:]))


@pytest.mark.parametrize("start", ["one", "sequential", "random", "labels"])
def test_every_start_ends_at_the_same_clusters(data, start):
    counts, z, _ = data
    given = np.random.default_rng(3).integers(0, 3, 600) if start == "labels" else start
    model = sc.DirichletProcessMixture(start=given, max_iter=60, n_draws=10, random_state=2).fit(counts[:600])
    assert adjusted_rand_score(z[:600], model.labels_) > 0.97


def test_score_is_the_predictive_density(data, fitted):
    counts, _, theta = data
    held = counts[600:]
    found = fitted.score_samples(held)
    limit = np.logaddexp.reduce(held @ np.log(np.maximum(theta, 1e-300)).T - np.log(6), axis=1)
    assert fitted.score(held) == pytest.approx(found.mean())
    assert limit.mean() - 1.5 < found.mean() < limit.mean()
    # By hand, draw by draw.
    from scipy.special import gammaln

    total = []
    for c, d in np.ndindex(2, 20):
        sizes, table = fitted._found.sizes[c][d], fitted._found.counts[c][d]
        alpha = fitted.posterior_["concentration"].values[c, d]
        parameter = np.concatenate([table, np.zeros((1, 40))]) + 0.1
        weights = np.append(sizes, alpha) / (sizes.sum() + alpha)
        row = held[0]
        logs = np.sum(gammaln(parameter + row) - gammaln(parameter), axis=1)
        logs += gammaln(parameter.sum(axis=1)) - gammaln(parameter.sum(axis=1) + row.sum())
        total.append(np.logaddexp.reduce(np.log(weights) + logs))
    assert found[0] == pytest.approx(np.logaddexp.reduce(total) - np.log(40))


def test_rows_without_entries(data, fitted):
    blank = np.zeros((1, 40), int)
    assert fitted.score_samples(blank)[0] == pytest.approx(0.0)  # the density of an empty sequence
    shares = fitted.predict_proba(blank, unseen=True)[0]
    sizes = np.bincount(fitted.labels_) / 600
    np.testing.assert_allclose(shares[:-1], sizes * (1 - shares[-1]), atol=0.01)
    counts = np.concatenate([data[0][:300], np.zeros((3, 40), int)])
    assert sc.DirichletProcessMixture(max_iter=5, n_draws=2, random_state=0).fit(counts).labels_.shape == (303,)


def test_draws_and_what_is_read_from_them(data, fitted):
    posterior = fitted.posterior_
    assert posterior["labels"].dims == ("chain", "draw", "row")
    assert posterior["labels"].shape == (2, 20, 600)
    number = posterior["n_clusters"].values
    np.testing.assert_array_equal(posterior["labels"].values.max(axis=2) + 1, number)
    ragged = fitted.trace_.ragged
    np.testing.assert_array_equal(ragged["sizes"].lengths, number)
    labels, counts = posterior["labels"].values[1, 3], data[0][:600]
    np.testing.assert_array_equal(ragged["sizes"][1, 3], np.bincount(labels))
    np.testing.assert_array_equal(
        ragged["counts"][1, 3], [counts[labels == k].sum(axis=0) for k in range(labels.max() + 1)]
    )
    chances = fitted.cluster_numbers()
    assert chances.sum() == pytest.approx(1.0)
    assert chances.index.to_numpy() @ chances.to_numpy() == pytest.approx(number.mean())
    sizes = fitted.cluster_sizes()
    assert sizes["mean"].sum() == pytest.approx(600)
    assert np.all(sizes["lower"] <= sizes["upper"])
    table = fitted.summary().table
    assert table.loc["n_clusters", "mean"] == pytest.approx(number.mean())
    assert "2 chains find the same partitions" in str(fitted.summary())


def test_modes_have_their_evidence(data, fitted):
    held = data[0][600:]
    found = fitted.mode_scores(held)
    assert found["chains"].sum() == 2
    if len(found) == 1:
        assert found["score"].iloc[0] == pytest.approx(fitted.score(held))
    assert found["log_density"].mean() == pytest.approx(float(fitted.posterior_["log_density"].mean()))


def test_uncertainty_of_rows(data, fitted):
    entropy = fitted.entropy()
    assert entropy.shape == (600,)
    assert np.all(entropy >= -1e-9)
    vague, clear = np.zeros((1, 40), int), data[0][[0]]
    assert fitted.entropy(vague)[0] > 1.5
    assert fitted.entropy(clear)[0] < 0.3
    together = fitted.co_clustering([0, 1, 2, 3])
    draws = fitted.posterior_["labels"].values.reshape(-1, 600)
    assert together[0, 1] == pytest.approx(np.mean(draws[:, 0] == draws[:, 1]))
    assert fitted.credible_ball().radius >= 0


def test_profiles_tell_clusters_apart(data):
    counts, z, theta = data
    frame = pd.DataFrame(counts[:600], columns=[f"w{i}" for i in range(40)])
    model = sc.DirichletProcessMixture(max_iter=60, n_draws=20, random_state=0).fit(frame)
    table = model.profiles(40, by="mean")
    own = table[table["cluster"] == 0]
    truth = theta[np.bincount(z[:600][model.labels_ == 0]).argmax()]
    given = truth[[int(name[1:]) for name in own["feature"]]]
    frequent = own["mean"].to_numpy() > 0.01
    inside = (given >= own["lower"]) & (given <= own["upper"])
    assert inside[frequent].mean() > 0.7
    assert np.all(own["lower"] <= own["mean"])
    assert np.all(own["mean"] <= own["upper"])
    first = model.profiles(1).groupby("cluster").first()
    assert np.all(first.loc[:5, "lift"] > 2)


def test_tables_of_categories():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 500)
    levels = np.array(["low", "mid", "high"])
    table = pd.DataFrame(
        {f"q{j}": levels[(z + (rng.random(500) < 0.1) * rng.integers(0, 3, 500)) % 3] for j in range(6)}
    )
    table["age"] = np.where(rng.random(500) < 0.9, 20.0 + 10 * z, 20.0)
    table = table.mask(rng.random(table.shape) < 0.1)
    model = sc.DirichletProcessMixture("categorical", base=0.5, max_iter=80, n_draws=20, random_state=0).fit(
        table[:400]
    )
    assert adjusted_rand_score(z[:400], model.labels_) > 0.9
    assert adjusted_rand_score(z[400:], model.predict(table[400:])) > 0.9
    first = model.profiles(3)["feature"].iloc[0]
    assert "=" in first
    strange = table[400:402].copy()
    strange.iloc[0, 0] = "never seen"
    assert np.isfinite(model.score_samples(strange)).all()
    blank = pd.DataFrame([[None] * 7], columns=table.columns)
    assert model.score_samples(blank)[0] == pytest.approx(0.0)
    plain = sc.DirichletProcessMixture("categorical", max_iter=10, n_draws=2, random_state=0).fit(
        table[:400].to_numpy(dtype=object)
    )
    assert plain.predict(table[400:].to_numpy(dtype=object)).shape == (100,)


def test_classes_that_overlap_are_not_doubled():
    """Eight yes-no items: the search finds more classes than there are, which only moves on few rows put right."""
    rng = np.random.default_rng(0)
    z, chances = rng.integers(0, 4, 20_000), rng.beta(0.5, 0.5, (4, 8))
    table = (rng.random((20_000, 8)) < chances[z]).astype(int)
    model = sc.DirichletProcessMixture(
        "categorical", base=1.0, n_components_prior="mfm", max_iter=80, n_draws=5, random_state=0
    ).fit(table)
    assert model.cluster_numbers(least=20).idxmax() == 4
    sizes = model.cluster_sizes(by="rank")["mean"][:4].to_numpy()
    assert sizes == pytest.approx(np.sort(np.bincount(z))[::-1], rel=0.1)


def test_totals_matter_to_poisson_rows_only():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 400)
    counts = rng.poisson(np.where(z[:, None] == 0, 1.0, 6.0), (400, 8))
    poisson = sc.DirichletProcessMixture(Poisson(rate=0.5), base=1.0, max_iter=40, n_draws=10, random_state=0).fit(
        counts
    )
    assert adjusted_rand_score(z, poisson.labels_) > 0.98
    plain = sc.DirichletProcessMixture(base=1.0, max_iter=40, n_draws=10, random_state=0).fit(counts)
    assert plain.n_clusters_ == 1
    from scipy.stats import nbinom

    # One cluster's density: negative binomial counts.
    alone = sc.DirichletProcessMixture(
        Poisson(rate=0.5), base=1.0, concentration=1e-9, start=np.zeros(400, int), search=False, split_merge=False,
        max_iter=2, n_draws=1, random_state=0,
    ).fit(counts[z == 1][:1].repeat(400, axis=0))  # fmt: skip
    total = 400 * counts[z == 1][0]
    expected = nbinom.logpmf(counts[0], 1.0 + total, 400.5 / 401.5).sum()
    assert alone.score_samples(counts[:1])[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_learnt_base_predicts_better(seed):
    """Many clusters of few rows, with features that are frequent everywhere."""
    rng = np.random.default_rng(seed)
    popular = rng.dirichlet(np.full(80, 0.2))
    theta = rng.dirichlet(20 * popular + 1e-3, 25)
    counts = np.array([rng.multinomial(5, theta[k]) for k in rng.integers(0, 25, 800)])
    scores = [
        sc.DirichletProcessMixture(base=0.5, learn_base=way, max_iter=60, n_draws=20, random_state=0)
        .fit(counts[:500])
        .score(counts[500:])
        for way in (False, True)
    ]
    assert scores[1] > scores[0] + 0.05


def test_save_and_load(tmp_path, data, fitted):
    fitted.save(tmp_path / "model.npz")
    loaded = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    held = data[0][600:620]
    np.testing.assert_array_equal(loaded.score_samples(held), fitted.score_samples(held))
    np.testing.assert_array_equal(loaded.predict(held), fitted.predict(held))
    assert str(loaded.summary()) == str(fitted.summary())
    table = pd.DataFrame({"a": ["x", "y", None, "x"] * 10, "b": [1, 2, 2, None] * 10})
    model = sc.DirichletProcessMixture("categorical", max_iter=5, n_draws=2, random_state=0).fit(table)
    model.save(tmp_path / "table.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "table.npz")
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))
    (tmp_path / "table.npz").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged or not a saved"):
        sc.DirichletProcessMixture.load(tmp_path / "table.npz")


def test_files_of_the_first_versions_load(tmp_path, data, fitted):
    """They had neither memberships nor log densities, nor the name of the component."""
    fitted.save(tmp_path / "new.npz")
    stored = dict(np.load(tmp_path / "new.npz"))
    meta = json.loads(stored.pop("meta").tobytes())
    for name in ("membership", "log_density"):
        del stored[name], meta["arrays"][name]
    for name in ("component_", "looked_"):
        del meta[name]
    np.savez_compressed(tmp_path / "old.npz", meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **stored)
    old = sc.DirichletProcessMixture.load(tmp_path / "old.npz")
    held = data[0][600:620]
    np.testing.assert_array_equal(old.score_samples(held), fitted.score_samples(held))
    np.testing.assert_allclose(old.posterior_["log_density"], fitted.posterior_["log_density"])
    assert str(old.agreement_) == str(fitted.agreement_)
    assert np.mean(old.labels_ == fitted.labels_) > 0.97  # of the frequencies of draws
    old.save(tmp_path / "again.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "again.npz")
    np.testing.assert_array_equal(again.membership_, old.membership_)


@pytest.mark.parametrize("steps", [5, 110], ids=["in the search", "later"])
def test_a_fit_on_disk_goes_on_where_it_was(tmp_path, data, monkeypatch, steps):
    counts, settings = data[0], {"max_iter": 60, "n_chains": 2, "n_draws": 8, "random_state": 5, "n_jobs": 1}
    whole = sc.DirichletProcessMixture(**settings).fit(counts)
    step, calls = Collapsed.step, []

    def interrupting(chain):
        calls.append(1)
        if len(calls) == steps:
            signal.raise_signal(signal.SIGINT)
        step(chain)

    with monkeypatch.context() as changed:
        changed.setattr(Collapsed, "step", interrupting)
        changed.setattr(group, "CHUNK_SECONDS", 1e-6)
        with pytest.warns(UserWarning, match="interrupted|before the sampler began"):
            sc.DirichletProcessMixture(**settings).fit(counts, path=tmp_path / "run")
    again = sc.resume(tmp_path / "run", counts)
    np.testing.assert_array_equal(again.posterior_["labels"], whole.posterior_["labels"])
    np.testing.assert_array_equal(again.score_samples(counts[:5]), whole.score_samples(counts[:5]))
    with pytest.raises(ValueError, match="the data differ from those of the run"):
        sc.resume(tmp_path / "run", counts[:-1])


def test_a_stream(tmp_path, monkeypatch):
    from scirocco.models.dp_mixture import stream

    monkeypatch.setattr(stream, "MEMORY", 500)
    counts, z, _ = planted(2000, clusters=8, seed=3)
    model = sc.DirichletProcessMixture(random_state=0)
    for first in range(0, 1600, 200):
        model.partial_fit(sp.csr_matrix(counts[first : first + 200]))
        found = model._found
        assert found.sizes[0][0].sum() == first + 200 == model.rows_seen_
        np.testing.assert_array_equal(found.counts[0][0].sum(axis=0), counts[: first + 200].sum(axis=0))
        assert (model._stream.kept is None) == (first + 200 > 500)
    held = counts[1600:]
    assert adjusted_rand_score(z[1600:], model.predict(held)) > 0.95
    whole = sc.DirichletProcessMixture(max_iter=60, n_draws=10, random_state=0).fit(counts[:1600])
    assert model.score(held) > whole.score(held) - 0.1
    assert model.predict_proba(held).shape == (400, model.n_clusters_)
    assert model.cluster_sizes()["mean"].sum() == pytest.approx(1600)
    assert set(model.profiles(2)["cluster"]) == set(range(model.n_clusters_))
    with pytest.raises(ValueError, match="a stream forgets its rows"):
        model.point_partition()
    model.save(tmp_path / "model.npz")
    for other in (sc.DirichletProcessMixture.load(tmp_path / "model.npz"), whole):
        before = other.score(held)
        other.partial_fit(counts[1600:1800])
        assert other.rows_seen_ == 1800
        assert other._found.sizes[0][0].sum() == 1800
        assert other.score(held) > before
    with pytest.raises(ValueError, match="one collapsed chain: leave sampler"):
        sc.DirichletProcessMixture(sampler="gibbs").partial_fit(counts)


def test_a_stream_predicts_clusters_that_its_last_minibatch_does_not_have():
    counts, z, _ = planted(900, clusters=3, seed=1)
    model = sc.DirichletProcessMixture(random_state=0).partial_fit(counts[:600])
    model.partial_fit(counts[600:][z[600:] == z[0]])
    assert adjusted_rand_score(z, model.predict(counts)) > 0.97
    assert model.entropy(counts).shape == (900,)


def test_a_stream_of_a_table_leaves_out_what_its_first_minibatch_did_not_have():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 900)
    table = np.where(rng.random((900, 8)) < 0.9, z[:, None], rng.integers(0, 3, (900, 8)))
    model = sc.DirichletProcessMixture("categorical", random_state=0)
    for first, last in ((0, 3), (3, 300), (300, 900)):
        model.partial_fit(table[first:last])
    assert model.n_clusters_ <= 6


def test_large_counts():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.where(np.arange(200)[:, None] < 100, 300.0, 330.0), (200, 10))
    for sampler in ("collapsed", "gibbs"):
        model = sc.DirichletProcessMixture(
            Poisson(rate=0.003), base=1.0, sampler=sampler, max_iter=40, n_draws=5, random_state=0
        ).fit(counts)
        assert adjusted_rand_score(np.arange(200) < 100, model.labels_) > 0.95
    with pytest.raises(ValueError, match=r"sum to less than 2\^31"):
        sc.DirichletProcessMixture().fit(np.full((3, 2), 2**30))


@pytest.mark.parametrize("sampler", ["scir", "slice"])
def test_a_stop_in_the_search_leaves_components_of_its_clusters(data, sampler, ticking):
    ticking(0.001)
    scores = []
    for kind in ("collapsed", sampler):
        with pytest.warns(UserWarning, match="before the sampler began"):
            model = sc.DirichletProcessMixture(sampler=kind, max_seconds=1e-6, random_state=0).fit(data[0])
        scores.append(model.score(data[0]))
    assert scores[1] == pytest.approx(scores[0], abs=0.5)


def test_starts_that_are_given(data):
    counts, settings = (
        data[0][:50],
        {"search": False, "split_merge": False, "max_iter": 1, "n_draws": 1, "random_state": 0},
    )
    labels = np.arange(50) % 7
    drawn = [
        sc.DirichletProcessMixture(start=start, **settings).fit(counts).posterior_["labels"].values
        for start in (labels, labels.tolist(), pd.Series(labels), labels * 10**9)
    ]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other, drawn[0])
    twins = np.repeat(np.eye(2, 4, dtype=int) * 9, 3000, axis=0)
    chain = Collapsed(
        *_parts(twins), DirichletProcess(1e-300), seed=0, chain=0, moves=False, start="one", search_passes=0.0
    )
    while chain.searching:
        chain.step()
    assert chain.clusters.number == 1


def _parts(counts):
    encoding = Multinomial().encoding(counts, None)
    return encoding.rows(counts), encoding.law(0.1), encoding.counted


def test_tables_of_dates_and_intervals(tmp_path):
    table = pd.DataFrame(
        {
            "age": pd.cut(np.arange(60) % 30, 3),
            "day": pd.date_range("2024-01-01", periods=60),
            "odd": [True, None, 3] * 20,
        }
    )
    model = sc.DirichletProcessMixture("categorical", max_iter=5, n_draws=2, random_state=0)
    with pytest.warns(UserWarning, match="column 'day' has 60 different values: clusters will follow it alone"):
        model.fit(table, path=tmp_path / "run")
    model.save(tmp_path / "model.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))
    with (
        pytest.warns(UserWarning, match="column 'day' has 60 different values"),
        pytest.raises(ValueError, match="the data differ"),
    ):
        sc.resume(tmp_path / "run", table.assign(odd=[False, None, 4] * 20))


def test_components_that_are_given_are_taken_as_they_are():
    law = Multinomial().encoding(np.ones((1, 2), int), None).law(0.1)
    state = Snapshot.given(Statistics(np.array([0.75]), np.array([[1.0, 1e-40]]), np.empty((1, 0, 3))), law)
    rows = Documents.of(np.array([[2, 3], [1, 0]]))
    np.testing.assert_allclose(state.scores(rows, 1)[:, 0], np.log(0.75) + np.array([3 * np.log(1e-40), 0.0]))
    np.testing.assert_allclose(state.scores(rows, 1)[1, 1], np.log(0.25 * 0.5))


def test_time_budgets_end_in_every_phase(data, ticking):
    ticking(0.001)
    with pytest.warns(UserWarning, match="before the sampler began"):
        brief = sc.DirichletProcessMixture(max_seconds=1e-6, random_state=0).fit(data[0])
    assert brief.labels_.shape == (700,)
    assert np.isfinite(brief.score(data[0]))
    model = sc.DirichletProcessMixture(max_seconds=0.5, max_iter=10**9, random_state=0).fit(data[0])
    assert model.trace_.stopped.kind == "budget"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"component": "normal"}, "component must be one of"),
        ({"base": -1.0}, "base must be finite and greater than 0"),
        ({"base": [0.1, 0.2]}, "base must be a number or 4 of them"),
        ({"concentration": 0.0}, "concentration must be finite"),
        ({"concentration_prior": (1.0,)}, "concentration_prior must be a shape and a rate"),
        ({"n_components_prior": "py"}, "n_components_prior must be one of auto, dp, mfm"),
        ({"sampler": "nuts"}, "sampler must be one of"),
        ({"start": "everywhere"}, "start must be one of"),
        ({"start": np.zeros(3, int)}, "start must be one of"),
        ({"learn_base": "partly"}, "learn_base must be one of"),
        ({"component": "poisson", "learn_base": True}, "learn_base learns Dirichlet parameters"),
        ({"n_draws": 0}, "n_draws must be a whole number"),
        ({"loss": "squared"}, "loss must be one of"),
        ({"sampler": sc.SGLD(0.1)}, "sampler must be one of .* or a simplex sampler"),
        ({"sampler": "collapsed", "allocations": "estimated"}, "estimated allocations need"),
        ({"sampler": "slice", "allocations": "estimated"}, "exact draws need allocations='kept'"),
        ({"sampler": "scir", "n_components_prior": "mfm"}, "sticks of a Dirichlet process"),
        ({"sampler": "scir", "component": "bernoulli"}, "multinomial rows only"),
        ({"sampler": sc.SCIRCV(0.1)}, "SCIRCV needs recentre_every"),
        ({"allocations": "some"}, "allocations must be one of"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sc.DirichletProcessMixture(**settings).fit(np.ones((10, 4), int))


def test_wrong_data_is_named():
    model = sc.DirichletProcessMixture(max_iter=2)
    with pytest.raises(ValueError, match="Negative values in data"):
        model.fit(np.array([[1, -1], [1, 1]]))
    with pytest.raises(ValueError, match="nothing in the rows"):
        model.fit(np.zeros((4, 3), int))
    with pytest.raises(TypeError, match="takes counts"):
        model.fit(["some text", "more"])
    with pytest.raises(ValueError, match="column 1 has no entry"):
        sc.DirichletProcessMixture("categorical").fit(np.array([["a", None], ["b", None]], dtype=object))


@pytest.mark.parametrize("component", ["multinomial", "categorical", Poisson(rate=0.5)], ids=str)
@pytest.mark.parametrize("prior", ["dp", "mfm"])
def test_memberships_are_those_given_all_other_rows(component, prior):
    """Against the densities of all partitions that differ in one row."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.5, 3.0, (3, 4))[rng.integers(0, 3, 12)])
    model = sc.DirichletProcessMixture(component, n_components_prior=prior, max_iter=12, n_draws=6, random_state=0)
    model.fit(counts)
    rows, law = model.encoding_.rows(counts), model.encoding_.law(model._base)
    snapshot, labels = model._snapshots[-1], model._found.draws[-1]
    number = labels.max() + 1

    def density(own):
        clusters = Clusters(rows, law)
        clusters.relabel(own)
        return clusters.log_density(snapshot.partition)

    found = snapshot.member_shares(rows, labels, 1)
    for i, k in enumerate(labels):
        alone = np.sum(labels == k) == 1
        logs = np.full(number + 1, -np.inf)
        for j in range(number + (not alone)):
            logs[j] = density(np.where(np.arange(12) == i, j, labels))
        np.testing.assert_allclose(found[i], np.exp(logs - np.logaddexp.reduce(logs)), rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(snapshot.member_shares(rows, labels, 2), found)


def test_labels_predictions_and_profiles_are_views_of_the_draws(data, tmp_path):
    """Classes that overlap: the point partition has one cluster, which no draw has."""
    rng = np.random.default_rng(1)
    z = rng.choice(3, 600, p=[0.5, 0.3, 0.2])
    chances = np.array([[0.8, 0.8, 0.2, 0.2, 0.8, 0.2], [0.2, 0.8, 0.8, 0.2, 0.2, 0.8], [0.8, 0.2, 0.2, 0.8, 0.8, 0.8]])
    table = (rng.random((600, 6)) < chances[z]).astype(int)
    model = sc.DirichletProcessMixture("categorical", base=1.0, n_components_prior="mfm", max_iter=150, random_state=0)
    model.fit(table)
    numbers = model.cluster_numbers()
    assert model.n_clusters_ == numbers.idxmax()
    assert model.membership_.shape == (600, model.n_clusters_ + 1)
    np.testing.assert_allclose(model.membership_.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.labels_, model.membership_[:, :-1].argmax(axis=1))
    assert adjusted_rand_score(z, model.labels_) > 0.15 + adjusted_rand_score(z, model.point_partition().labels)
    assert model.entropy().mean() > 0.3
    assert np.abs(model.entropy() - model.entropy(table)).max() < 0.3
    assert np.mean(model.predict(table) == model.labels_) > 0.95
    np.testing.assert_allclose(model.predict_proba(table, unseen=True), model.membership_, atol=0.2)
    sizes = model.cluster_sizes()
    assert list(sizes.index) == [*range(model.n_clusters_), "others"]
    assert sizes["mean"].sum() == pytest.approx(600)
    np.testing.assert_allclose(sizes["mean"], model.membership_.sum(axis=0), atol=30)
    assert set(model.profiles(2)["cluster"]) == set(range(model.n_clusters_))
    said = str(model.summary())
    assert f"{model.n_clusters_} clusters, the most frequent number of the draws" in said
    assert "point partition (vi): " in said
    model.save(tmp_path / "model.npz")
    again = sc.DirichletProcessMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.membership_, model.membership_)
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    pd.testing.assert_frame_equal(again.profiles(3), model.profiles(3))
    with pytest.raises(ValueError, match="by must be one of"):
        model.cluster_sizes(by="size")
