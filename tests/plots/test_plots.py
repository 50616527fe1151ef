"""Pictures show what the tables say, with names as they are."""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import ndtr

import scirocco as sc
from scirocco import plots
from scirocco.bias import BiasReport
from scirocco.diagnostics import check_predictions
from scirocco.diagnostics.calibration import LIKELIHOOD, Calibration
from scirocco.run.moments import Moments
from scirocco.run.trace import Trace

mpl = pytest.importorskip("matplotlib", reason="it draws")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

RNG = np.random.default_rng(0)
HOSTILE = ["$\\alpha_1$", "_under_", "<b>&amp;", "50%^2{", "tab\tbell\a", "long" * 20]
SHOWN = ["$\\alpha_1$", "_under_", "<b>&amp;", "50%^2{", "tab bell\N{REPLACEMENT CHARACTER}", "long" * 5 + "l…"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(draws=60, shift=0.0):
    """Four chains of a parameter with entries that have names, and of one that moves slowly; the last may be off."""
    values = RNG.normal(size=(4, draws, 6))
    values[3, :, 2] += shift
    slow = np.cumsum(RNG.normal(size=(4, draws)), axis=1)
    dims = {"w": ("chain", "draw", "column"), "_s$": ("chain", "draw")}
    return xr.Dataset({"w": (dims["w"], values), "_s$": (dims["_s$"], slow)}, {"column": HOSTILE})


def traced(draws, seconds=1.0, error=0.01, **report):
    """A trace of normal draws with a bias report."""
    bias = BiasReport({}, {"x": np.array([error, error / 2])}, 0.1, **report)
    return Trace({"x": RNG.normal(size=(4, draws, 2))}, draws, Moments(), bias=bias, seconds=seconds)


@pytest.fixture(scope="module")
def model():
    """Topics of documents whose words have hostile names; both chains find them."""
    kinds = np.kron(np.eye(2), np.full(3, 1 / 3))
    counts = np.array([RNG.multinomial(40, kinds[k % 2]) for k in range(40)])
    found = sc.LDA(2, alpha=0.1, n_chains=2, max_iter=20, random_state=0).fit(pd.DataFrame(counts, columns=HOSTILE))
    return found.label_topics({1: "$label_"})


def texts(axes, path):
    """What an SVG of the figure says, texts as texts."""
    from xml.etree import ElementTree

    with mpl.rc_context({"svg.fonttype": "none"}):
        np.ravel(np.asarray(axes, dtype=object))[0].figure.savefig(path)
    found = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return [" ".join("".join(text.itertext()).split()) for text in found]


def points(ax, marker="o"):
    """Where the marks of a picture are, (x, y)."""
    (line,) = [line for line in ax.lines if line.get_marker() == marker]
    return np.array([line.get_xdata(), line.get_ydata()], float)


def ends(ax):
    """The ends of horizontal intervals, (row, 2)."""
    return np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])


@pytest.mark.quick
def test_intervals_of_a_posterior_and_of_a_table(tmp_path):
    data = drawn()
    ax = plots.intervals(data, level=0.8, reference=np.arange(7))
    values = np.concatenate([data["w"].values, data["_s$"].values[..., None]], axis=2).reshape(-1, 7)
    np.testing.assert_allclose(points(ax), [values.mean(axis=0), range(7)])
    np.testing.assert_allclose(ends(ax), np.quantile(values, [0.1, 0.9], axis=0, method="weibull").T)
    np.testing.assert_array_equal(points(ax, "x")[0], range(7))
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first at the top
    said = texts(ax, tmp_path / "a.svg")
    assert {f"w[{name}]" for name in SHOWN[:5]} | {"_s$", "reference"} <= set(said)
    table = pd.DataFrame({"mean": [1.0, 2.0], "lower": [0.0, 1.0], "upper": [2.0, 4.0]}, pd.Index([3, 4], name="topic"))
    own = plt.subplots()[1]
    assert plots.intervals(table, ax=own) is own
    np.testing.assert_array_equal(ends(own), [[0, 2], [1, 4]])
    assert {"topic 3", "topic 4"} <= set(texts(own, tmp_path / "b.svg"))
    many = pd.concat([table] * 100, ignore_index=True)
    assert len(ends(plots.intervals(many, reference=np.arange(200)))) == 40


def test_hostile_words_stay_as_they_are_where_a_user_has_titles_and_ticks_already(tmp_path):
    with mpl.rc_context({"text.parse_math": True}):
        own = plt.subplots(7, 1, figsize=(5, 14))[1]
        own[0].set(title="$x$", xlabel="$y$")
        assert plots.traces(drawn(), ["w", "_s$"], ax=own)[0] is own[0]
        said = texts(own, tmp_path / "a.svg")
    assert all(any(text.startswith(f"w[{name}] R-hat") for text in said) for name in SHOWN[:5])
    assert any(text.startswith("_s$ R-hat") for text in said)


@pytest.mark.parametrize("draw", [plots.traces, plots.ranks])
def test_what_agrees_worst_comes_first(draw, tmp_path):
    data = drawn(shift=5.0)
    axes = draw(data, ax=None)
    table = sc.diagnostics.rhat(data)
    worst = max(float(table["w"].max()), float(table["_s$"]))
    title = axes[0].get_title(loc="left")
    assert f"R-hat {worst:.3f}" in title
    assert len(axes) == 7
    with pytest.raises(ValueError, match="ax must have 7 axes"):
        draw(data, ax=plt.subplots()[1])
    (one,) = draw(data, "w[_under_]")
    assert f"R-hat {float(table['w'][1]):.3f}" in one.get_title(loc="left")
    with pytest.raises(ValueError, match="names must be of parameters, w, _s"):
        draw(data, ["w[tau]"])


def test_traces_show_draws_and_long_ones_their_range():
    data = drawn()
    (ax,) = plots.traces(data, "_s$")
    lines = [line for line in ax.lines if len(line.get_xdata()) == 60]
    np.testing.assert_array_equal([line.get_ydata() for line in lines], data["_s$"].values)
    np.testing.assert_array_equal(np.concatenate([line.get_xdata() for line in lines]), np.arange(240))
    long = xr.Dataset({"x": (("chain", "draw"), RNG.normal(size=(2, 3000)))}, {"chain": [1, 7]})
    (ax,) = plots.traces(long)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["chain 1", "chain 7"]
    for chain, area in enumerate(ax.collections):
        heights = area.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (long["x"][chain].min(), long["x"][chain].max())


def test_ranks_of_a_chain_that_lies_higher(tmp_path):
    data = drawn(draws=500, shift=1.0)
    (ax,) = plots.ranks(data, f"w[{HOSTILE[2]}]")
    bars = np.array([bar.get_height() for bar in ax.patches]).reshape(4, 20)
    centre = np.arange(20) - 9.5
    slopes = -(bars @ centre)  # the axis points down
    assert slopes[3] > 0 > slopes[:3].max()
    np.testing.assert_allclose(bars.sum(axis=1), 0, atol=1e-9)
    bands = np.array([np.ptp(area.get_paths()[0].vertices[:, 1]) / 2 for area in ax.collections])
    assert np.all(np.abs(bars[3]).max() > 2 * bands)
    (ax,) = plots.ranks(drawn(draws=500), f"w[{HOSTILE[0]}]")
    outside = np.abs([bar.get_height() for bar in ax.patches]) > ax.collections[0].get_paths()[0].vertices[:, 1].max()
    assert outside.mean() < 0.15


def test_words_of_topics(model, tmp_path):
    axes = plots.topics(model, n_words=3, level=0.8)
    info, words = model.topic_info(level=0.8), model.top_words(3, level=0.8)
    largest = int(info["share"].idxmax())
    own = words[words["topic"] == largest]
    np.testing.assert_allclose(points(axes[0])[0], own["mean"])
    np.testing.assert_allclose(ends(axes[0]), own[["lower", "upper"]])
    said = texts(axes, tmp_path / "a.svg")
    assert set(SHOWN) <= set(said)
    assert any("1 $label_" in text for text in said)
    assert len(plots.topics(model, [1])) == 1
    with pytest.raises(ValueError, match="topics must have numbers of topics, from 0 to 1"):
        plots.topics(model, [2])
    entries = words.assign(mean=-words["mean"], lower=-words["upper"], upper=-words["lower"])
    axes = plots.topics(SimpleNamespace(top_words=lambda *given, **named: entries))  # which knows no shares
    np.testing.assert_array_equal(points(axes[0])[0], entries["mean"][:3])
    assert axes[0].get_xlim()[0] < entries["lower"][:3].min()


def test_shares_and_the_tree_of_topics(model, tmp_path):
    labels = ["_first", "$second$"]
    shares = SimpleNamespace(
        draws=RNG.dirichlet([1, 3], (9, 4)), groups=pd.Index(["$a$", "_b", "c<d", "e"], name="_year_"), labels=labels
    )
    ax = plots.shares_by(shares)
    for k, line in zip(np.argsort(-np.ptp(shares.draws.mean(axis=0), axis=0), kind="stable"), ax.lines, strict=True):
        np.testing.assert_allclose(line.get_ydata(), shares.draws.mean(axis=0)[:, k])
    assert len({line.get_marker() for line in ax.lines}) == 2  # told apart without colour
    assert {"$a$", "_b", "c<d", "_year_", "0 _first", "1 $second$"} <= set(texts(ax, tmp_path / "a.svg"))
    tree = model.hierarchy()
    ax = tree.plot()
    assert {"0", "1 $label_"} <= set(texts(ax, tmp_path / "b.svg"))
    assert max(line.get_xdata().max() for line in ax.lines) == pytest.approx(tree.distances[0, 1])


def test_clusters(tmp_path):
    labels = np.array([0] * 6 + [1] * 4)
    draws = np.where(RNG.random((50, 10)) < 0.9, labels, 1 - labels)
    order = RNG.permutation(10)
    together = sc.partitions.co_clustering(draws[:, order], np.arange(10))
    ax = plots.co_clustering(together, labels=labels[order], names=[f"${k}$" for k in range(10)])
    image = np.asarray(ax.images[0].get_array())
    np.testing.assert_array_equal(np.sort(image, axis=None), np.sort(together, axis=None))
    assert image[:6, :6].min() > image[:6, 6:].max()
    assert {"$0$", "$9$"} <= set(texts(ax, tmp_path / "a.svg"))
    fitted = SimpleNamespace(labels_=labels[order], co_clustering=lambda rows: together[np.ix_(rows, rows)])
    assert plots.co_clustering(fitted, [0, 3, 4]).images[0].get_array().shape == (3, 3)
    numbers = pd.Series([0.7, 0.3], pd.Index([2, 4], name="clusters"))
    ax = plots.cluster_numbers(numbers)
    assert [(bar.get_x() + 0.4, bar.get_height()) for bar in ax.patches] == [(2, 0.7), (3, 0), (4, 0.3)]
    with pytest.raises(ValueError, match="labels must be 10"):
        plots.co_clustering(together, labels=[0])
    with pytest.raises(ValueError, match="square matrix"):
        plots.co_clustering(together[0])


def test_calibration_and_coverage(tmp_path):
    scores = RNG.normal(size=(60, 14)) * np.append(np.full(13, 1.0), 1.0)
    scores[:, 2] += 3.0
    names = (*(f"$t_{k}$" for k in range(13)), LIKELIHOOD)
    made = Calibration(SimpleNamespace(), names, ndtr(scores), np.full(scores.shape, 99), 1.0, 60, dimension=13)
    axes = made.plot()
    assert len(axes) == 12
    assert axes[0].get_title(loc="left").startswith("WRONG: $t_2$")
    assert axes[0].lines[1].get_linestyle() == "--"
    with pytest.raises(ValueError, match="names must be one of"):
        made.plot(["tau"])
    assert "$t_5$" in made.plot(["$t_5$"])[0].get_title(loc="left")
    texts(axes, tmp_path / "a.svg")
    check = check_predictions(RNG.normal(size=(50, 100)), RNG.normal(size=100))
    np.testing.assert_array_equal(check.plot().lines[1].get_ydata(), check.coverage)


def test_bias_against_cost(tmp_path):
    runs = {"$h$": traced(50, 3.0, -0.2), "_small": traced(800, 20.0, 0.002), "lost": traced(50, 1.0, np.inf)}
    ax = plots.bias_against_cost(runs)
    np.testing.assert_allclose(points(ax), [[3, 20], [0.2, 0.002]])
    table = runs["_small"].summary().table
    x, y = points(ax, "s")
    assert y[1] == (table["mcse"] / table["sd"]).max()
    assert list(x) == [3, 20, 1]
    assert points(ax, "^")[1] > 0.2
    said = texts(ax, tmp_path / "a.svg")
    assert {"$h$", "_small", "lost", "10", "0.01"} <= set(said)
    own = plots.bias_against_cost(runs, cost={"$h$": 1, "_small": 100, "lost": 5})
    assert list(points(own)[0]) == [1, 100]
    with pytest.raises(ValueError, match="without a bias report or a cost cannot be drawn: other"):
        plots.bias_against_cost({"other": Trace({}, 0, Moments())})
    with pytest.raises(ValueError, match='cost must be "seconds"'):
        plots.bias_against_cost(runs, cost="passes")


def test_without_matplotlib_and_without_draws(monkeypatch):
    empty = Trace({}, 0, Moments())
    for draw in (plots.traces, plots.ranks, plots.intervals):
        with pytest.raises(ValueError, match="no draws"):
            draw(empty)
    with pytest.raises(TypeError, match=r"a trace, a fitted model or .* is needed; got list"):
        plots.traces([1.0])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'scirocco\[plots\]'"):
        plots.traces(drawn())


# ArviZ 0.23 with Matplotlib 3.11
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")
@pytest.mark.quick
def test_pictures_of_arviz_itself():
    """Of the generation that is installed: on Python 3.11 that is 0.23, on later ones 1.x."""
    trace = Trace({"x": RNG.normal(size=(4, 100, 2))}, 100, Moments())
    import arviz as az

    if version("arviz").startswith("0."):
        made = {
            "trace": az.plot_trace(trace.to_arviz(), compact=False), "rank": az.plot_rank(trace.to_arviz()),
            "forest": az.plot_forest(trace.to_arviz()), "posterior": az.plot_posterior(trace.to_arviz()),
        }  # fmt: skip
        assert {name: np.size(axes) for name, axes in made.items()} == {
            "trace": 4, "rank": 2, "forest": 1, "posterior": 2,
        }  # fmt: skip
    else:
        for draw in (az.plot_trace_dist, az.plot_rank_dist, az.plot_forest, az.plot_dist):
            draw(trace.to_arviz(), backend="matplotlib")
    assert len(plt.get_fignums()) == 4
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
