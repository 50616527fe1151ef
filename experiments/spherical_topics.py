"""Topics on the sphere, all methods against the clock: Figure 5 of Liu, Zhu and Song (2016), sections 5.3 and F.3.

The spherical admixture model, documents being unit vectors of tf-idf, on (a) 20News-different, three newsgroups with 20
topics and minibatches of 50 documents, and (b) a subset of Wikipedia with 50 topics and minibatches of 100. The measure
is the log-perplexity, minus the mean of log p(v | draws) over held-out documents, where shares of topics come from
their prior. The source sees that gSGNHT and SGGMC go lowest and gSGNHT lower than SGGMC, that small batches beat all
data at once, which still beats both GMC methods, and that all sampling goes below variational inference (VI and its
stochastic version StoVI).

Every method has the same seconds; compiling is not counted. One run of one chain gives the whole curve: its value at a
time is the log-perplexity of the draws of the second half up to then (at most 200 of them). Variational methods have
one point at each time; the length of their runs, which sets how their steps shrink, comes from ten steps of trial. All
methods start at the same topics for a seed, those of k-means, and see the same shares when they are scored; beside them
gSGNHT and SGGMC from the start that ``sc.SphericalAdmixture`` searches, whose seconds count. The yardstick is a model
all of whose topics are the mean document.

What differs. The source takes the noise V of the gradient as zero. Here that noise is hundreds of times as wide as the
posterior of a topic is, and the steps of ``sc.SphericalAdmixture`` account for it. SGGMC with V = 0, h = sqrt(gamma/D)
and C = rho/h, gamma = 0.01 and rho = 0.1, the source's way to set it, is run beside the others as 'as in the source';
the source does not print its gamma and rho for this model. VI ran in MATLAB there and in JAX here. The documents are
prepared anew. Of three newsgroups 4,748 words have the document frequencies named (5,000 in the source); if more than
3,000 words of Wikipedia do, the most frequent of them stay. Of Wikipedia's documents those with more than 20 of these
words stay, 92,024 in place of 150,000. The source reports pictures only.

Full mode reads ``newsgroups20.npz`` and ``wikipedia.npz`` in the folder named by SCIROCCO_DATA. Short mode draws a
small corpus from the model. Options besides those below: --seconds and --seeds of every method, --documents of
Wikipedia, --corpora, one or more of: newsgroups wikipedia.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
import scipy.sparse as sp
from common import COLOURS, INK, Claim
from scipy.special import logsumexp

import scirocco as sc
from scirocco.directional import sample

GROUPS = (0, 9, 14)  # alt.atheism, rec.sport.baseball, sci.space
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the seconds
GAMMA, RHO = 0.01, 0.1
SHARES, MOST, TRIAL = 1000, 200, 10
MODES: dict[str, Any] = {
    "tiny": {"corpora": ("synthetic",), "seconds": 0.3, "seeds": 1, "draws": 12, "thin": 1, "documents": 0},
    "short": {"corpora": ("synthetic",), "seconds": 1.0, "seeds": 1, "draws": 200, "thin": 5, "documents": 0},
    "full": {"corpora": ("newsgroups", "wikipedia"), "seconds": 80.0, "seeds": 2, "draws": 1000, "thin": 50,
             "documents": 150_000},
}  # fmt: skip
OURS, FULL = ("gSGNHT", "SGGMC"), ("gSGNHT, all data", "SGGMC, all data")
GMC, POINTS, SOURCE = ("GMC, Gibbs", "GMC, approximate"), ("VI", "StoVI"), "SGGMC, as in the source"
SEARCHED = ("gSGNHT, start searched", "SGGMC, start searched")
METHODS = {  # method, whether on minibatches, how it is drawn
    "gSGNHT": ("gsgnht", True, COLOURS[0], "-"), "SGGMC": ("sggmc", True, COLOURS[1], "-"),
    "gSGNHT, start searched": ("gsgnht", True, COLOURS[0], "-."),
    "SGGMC, start searched": ("sggmc", True, COLOURS[1], "-."),
    "gSGNHT, all data": ("gsgnht", False, COLOURS[0], "--"), "SGGMC, all data": ("sggmc", False, COLOURS[1], "--"),
    "GMC, Gibbs": ("gmc-gibbs", False, COLOURS[2], "-"),
    "GMC, approximate": ("gmc-approximate", False, COLOURS[2], "--"),
    "VI": ("variational", False, COLOURS[3], "--"), "StoVI": ("stochastic-variational", True, COLOURS[3], "-"),
    "SGGMC, as in the source": ("sggmc", True, INK, ":"),
}  # fmt: skip


class Corpus(NamedTuple):
    """Unit rows to learn from and to be scored, the rows of a minibatch, and the settings of the model."""

    train: np.ndarray
    test: np.ndarray
    batch: int
    topics: int
    settings: dict[str, float]


class Curve(NamedTuple):
    """Log-perplexity (seed, mark) after so many seconds, nan before the first draw; of each seed the steps, and a
    share: that of GMC's proposals accepted, or of the steps planned for a variational method those that were made."""

    seconds: np.ndarray
    values: np.ndarray
    steps: list[int]
    share: list[float]

    @property
    def end(self) -> np.ndarray:
        """Of every seed at the end of its time; infinite if there was no draw."""
        return np.where(np.isnan(self.values[:, -1]), np.inf, self.values[:, -1])


class Results(NamedTuple):
    """For each corpus the curve of each method, the yardstick, and documents, words and topics."""

    curves: dict[str, dict[str, Curve]]
    yardstick: dict[str, float]
    sizes: dict[str, tuple[int, int, int, int]]


# The corpora.


def moderate(counts: sp.csr_array, low: float, high: float, most: int | None = None) -> np.ndarray:
    """Columns of words in at least ``low`` and at most ``high`` per cent of the documents, of these the ``most`` first.

    The first are those in most documents; columns stay in their order.
    """
    frequency = np.bincount(counts.indices[counts.data > 0], minlength=counts.shape[1])
    share = 100 * frequency / counts.shape[0]
    kept = np.flatnonzero((share >= low) & (share <= high))
    return kept if most is None else np.sort(kept[np.argsort(-frequency[kept], kind="stable")[:most]])


def unit_rows(train: sp.csr_array, test: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Tf-idf by the training documents; documents without words are dropped."""
    weights = sc.models.TfIdf().fit(train)
    made = (weights.transform(part) for part in (train, test))
    first, second = (rows[np.diff(rows.indptr) > 0].toarray().astype(np.float32) for rows in made)
    return first, second


def newsgroups(documents: int) -> Corpus:
    """20News-different, divided by date."""
    del documents
    found = common.data_set(sc.datasets.load_newsgroups)
    chosen = np.isin(found.label, GROUPS)
    counts, test = found.counts[chosen], found.test[chosen] == 1
    counts = counts[:, moderate(counts, 0.36, 11.77)]
    settings = {"alpha": 10.0, "concentration": 3e4, "topic_concentration": 1e4, "centre_concentration": 1e4}
    return Corpus(*unit_rows(counts[~test], counts[test]), 50, 20, settings)


def wikipedia(documents: int) -> Corpus:
    """The first ``documents`` that are long enough to learn from; those of the last 1,000 to be scored."""
    counts = common.data_set(sc.datasets.load_wikipedia).counts
    counts = counts[:, moderate(counts[:-1000], 0.44, 5.99, 3000)]
    long = np.asarray(counts.sum(axis=1)).ravel() > 20
    train, test = counts[:-1000][long[:-1000]][:documents], counts[-1000:][long[-1000:]]
    settings = {"alpha": 10.0, "concentration": 2e4, "topic_concentration": 6e3, "centre_concentration": 6e3}
    return Corpus(*unit_rows(train, test), 100, 50, settings)


def synthetic(documents: int, size: int = 600, words: int = 60, topics: int = 4) -> Corpus:
    """Drawn from the model: topics around a centre, documents around mixtures of topics."""
    del documents
    rng = np.random.default_rng(0)
    settings = {"alpha": 1.0, "concentration": 500.0, "topic_concentration": 60.0, "centre_concentration": 60.0}
    centre = np.full(words, words**-0.5)
    beta = sample(rng, centre, settings["topic_concentration"], topics)
    mixed = rng.dirichlet(np.full(topics, settings["alpha"]), size) @ beta
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    rows = sample(rng, mixed, settings["concentration"], size).astype(np.float32)
    return Corpus(rows[: size * 3 // 4], rows[size * 3 // 4 :], 50, topics, settings)


CORPORA: dict[str, Callable[[int], Corpus]] = {
    "newsgroups": newsgroups, "wikipedia": wikipedia, "synthetic": synthetic,
}  # fmt: skip


# The runs.


def model_of(corpus: Corpus, name: str, seed: int, **run: Any) -> sc.SphericalAdmixture:
    """The model of a corpus with one of the methods."""
    method, small, *_ = METHODS[name]
    step = np.sqrt(GAMMA / len(corpus.train))
    sampler = sc.SGGMC(step, friction=RHO / step) if name == SOURCE else method
    return sc.SphericalAdmixture(
        corpus.topics, **corpus.settings, sampler=sampler, batch_size=corpus.batch if small else 1.0,
        start="variational" if name in SEARCHED else "k-means", burn_in=0, n_chains=1, random_state=seed,
        measure_bias=False, **run,
    )  # fmt: skip


def scores(model: Any, topics: np.ndarray, test: np.ndarray) -> np.ndarray:
    """log p(v | topics) of every document for each of several draws (draw, topic, word): (draw, document)."""
    import xarray as xr

    whole, found = model.posterior_, []
    for one in topics:
        model.posterior_ = xr.Dataset({"topics": (("chain", "draw", "topic", "word"), one[None, None])})
        found.append(model.score_samples(test, n_shares=SHARES, random_state=0))
    model.posterior_ = whole
    return np.array(found)


def averaged(values: np.ndarray, times: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The log-perplexity at each mark from log p (draw, document): that of the draws made from half of it on."""
    result = np.full(len(marks), np.nan)
    for place, mark in enumerate(marks):
        window = (times > mark / 2) & (times <= mark)
        if not window.any() and (times <= mark).any():
            window = times == times[times <= mark].max()  # the run was over, or draws are far apart
        if window.any():
            result[place] = -np.mean(logsumexp(values[window], axis=0) - np.log(window.sum()))
    return result


def sampled(corpus: Corpus, name: str, seed: int, marks: np.ndarray, draws: int, thin: int) -> tuple[Any, int, float]:
    """The curve of a sampler, the number of its steps and the share of them that was accepted."""
    small, in_turn = METHODS[name][1], name in GMC
    thin = thin if small else 1 if in_turn else 2
    model = model_of(corpus, name, seed, n_draws=draws, thin=thin, max_seconds=float(marks[-1])).fit(corpus.train)
    topics = model.trace_.posterior["topics"].values[0]
    times = model.search_seconds_ + model.trace_.seconds * np.arange(1, len(topics) + 1) / len(topics)
    some = np.unique(np.linspace(0, len(topics) - 1, min(len(topics), MOST)).astype(int))
    accepted = float(model.trace_.sample_stats["acceptance"].mean()) if in_turn else np.nan
    return averaged(scores(model, topics[some], corpus.test), times[some], marks), thin * len(topics), accepted


def variational(corpus: Corpus, name: str, seed: int, marks: np.ndarray) -> tuple[Any, int, float]:
    """The curve of a variational method, the last topics before each mark; its steps; the share of the planned ones.

    Steps shrink over the run as planned, so a run that is cut off ends with long ones: a fifth of the time is spare.
    """
    times: list[float] = []
    model_of(corpus, name, seed, n_draws=TRIAL, thin=1).fit(corpus.train, callback=lambda t, _: times.append(t))
    steps = max(2, int(0.8 * marks[-1] / np.mean(np.diff(times))))  # the first one compiles
    last: dict[int, np.ndarray] = {}
    counted: list[float] = []

    def report(seconds: float, topics: np.ndarray) -> None:
        counted.append(seconds)
        last[int(np.searchsorted(marks, seconds))] = topics

    model = model_of(corpus, name, seed, n_draws=steps, thin=1, max_seconds=float(marks[-1]))
    model.fit(corpus.train, callback=report)
    found = {place: -scores(model, topics[None], corpus.test).mean() for place, topics in last.items()}
    values, known = np.full(len(marks), np.nan), np.nan
    for place in range(len(marks)):
        known = values[place] = found.get(place, known)
    return values, len(counted), len(counted) / steps


def mean_document(corpus: Corpus) -> float:
    """The log-perplexity with the mean document in place of every topic."""
    model = model_of(corpus, "VI", 0, n_draws=2, thin=1).fit(corpus.train)
    return -float(scores(model, np.tile(model.centre_, (1, corpus.topics, 1)), corpus.test).mean())


def run(
    mode: str, *, seconds: float | None = None, seeds: int | None = None, documents: int | None = None,
    corpora: Sequence[str] | None = None,
) -> Results:  # fmt: skip
    """Every method on every corpus from every seed."""
    settings = MODES[mode]
    marks = np.array(FRACTIONS) * (seconds or settings["seconds"])
    results = Results({}, {}, {})
    for name in corpora or settings["corpora"]:
        corpus = CORPORA[name](documents or settings["documents"])
        results.sizes[name] = (len(corpus.train), len(corpus.test), corpus.train.shape[1], corpus.topics)
        results.yardstick[name] = mean_document(corpus)
        results.curves[name] = {}
        for method in METHODS:
            began, found = time.perf_counter(), []
            for seed in range(seeds or settings["seeds"]):
                if method in POINTS:
                    found.append(variational(corpus, method, seed, marks))
                else:
                    found.append(sampled(corpus, method, seed, marks, settings["draws"], settings["thin"]))
            values, steps, share = zip(*found, strict=True)
            curve = Curve(marks, np.array(values), list(steps), list(share))
            results.curves[name][method] = curve
            if mode == "full":
                print(f"{name}, {method}: {common.spread(curve.values[:, -1], 1)} after {curve.steps} steps "
                      f"({time.perf_counter() - began:.0f} s)", flush=True)  # fmt: skip
    return results


# The report.


def table(results: Results) -> str:
    """Means of the seeds over time; at the end all of them."""
    parts = []
    for name, curves in results.curves.items():
        train, test, words, topics = results.sizes[name]
        marks = next(iter(curves.values())).seconds
        rows = [(method, *("" if np.isnan(v) else f"{v:.1f}" for v in curve.values.mean(axis=0)),
                 common.spread(curve.end, 1), "/".join(map(str, curve.steps)),
                 "" if np.isnan(curve.share[0]) else common.spread(curve.share, 2))
                for method, curve in curves.items()]  # fmt: skip
        header = ("method", *(f"{mark:.3g} s" for mark in marks), "each seed", "steps", "share")
        parts.append(
            f"{name}: {train:,} documents, {test:,} held out, {words:,} words, {topics} topics; log-perplexity\n"
            f"{common.columns(header, rows)}\nthe mean document as every topic: {results.yardstick[name]:.1f}\n"
            "share: of GMC's proposals those accepted; of the steps planned for VI and StoVI those made"
        )
    return "\n\n".join(parts)


def below(curves: dict[str, Curve], first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether every one of the first ends below every one of the second from every seed."""
    return all(bool(np.all(curves[a].end < curves[b].end)) for a in first for b in second)


def gap(curves: dict[str, Curve]) -> float:
    """How far the better of gSGNHT and SGGMC on minibatches ends below the best other method, means of the seeds."""
    others = min(curves[method].end.mean() for method in (*GMC, *POINTS))
    return float(others - min(curves[method].end.mean() for method in OURS))


def check(results: Results) -> list[Claim]:
    """The source's claims at the end of the time, from every seed; fixed before the runs."""
    claims = []
    for name, curves in results.curves.items():

        def words(*methods: str, curves: dict[str, Curve] = curves) -> str:
            return ", ".join(f"{method} {common.spread(curves[method].end, 1)}" for method in methods)

        yardstick = results.yardstick[name]
        claims += [
            Claim(f"{name}: sampling beats variational inference (every sampler ends below VI and StoVI)",
                  below(curves, (*OURS, *FULL, *GMC), POINTS), words(*OURS, *FULL, *GMC, *POINTS)),
            Claim(f"{name}: beyond the source: from a start that is searched, gSGNHT and SGGMC end below VI and StoVI",
                  below(curves, SEARCHED, POINTS), words(*SEARCHED, *POINTS)),
            Claim(f"{name}: gSGNHT beats SGGMC (on minibatches and on all data)",
                  below(curves, OURS[:1], OURS[1:]) and below(curves, FULL[:1], FULL[1:]), words(*OURS, *FULL)),
            Claim(f"{name}: small batches beat all data (for gSGNHT and for SGGMC)",
                  all(below(curves, [small], [large]) for small, large in zip(OURS, FULL, strict=True)),
                  words(*OURS, *FULL)),
            Claim(f"{name}: gSGNHT and SGGMC beat the GMC variants", below(curves, OURS, GMC), words(*OURS, *GMC)),
            Claim(f"{name}: even on all data gSGNHT and SGGMC beat the GMC variants", below(curves, FULL, GMC),
                  words(*FULL, *GMC)),
            Claim(f"{name}: beyond the source: V taken as zero with its step size is too hot to learn topics (ends "
                  "above the mean document)", bool(np.all(curves[SOURCE].end > yardstick)),
                  f"{words(SOURCE)}, mean document {yardstick:.1f}"),
        ]  # fmt: skip
    if {"newsgroups", "wikipedia"} <= set(results.curves):
        small, large = (gap(results.curves[name]) for name in ("newsgroups", "wikipedia"))
        claims.append(Claim("the gap between gSGNHT or SGGMC and the best of the others is larger on Wikipedia, and "
                            "positive", large > max(small, 0), f"{small:+.1f} and {large:+.1f}"))  # fmt: skip
    return claims


def draw(results: Results, path: Path) -> None:
    """Log-perplexity against time, one panel a corpus."""
    figure = common.picture(6.5 * len(results.curves) + 0.5, 5.5)
    panels = figure.subplots(1, len(results.curves), squeeze=False)[0]
    for axes, (name, curves) in zip(panels, results.curves.items(), strict=True):
        for method, curve in curves.items():
            _, _, colour, style = METHODS[method]
            axes.plot(curve.seconds, curve.values.T, color=colour, linestyle=style, linewidth=0.6, alpha=0.5)
            axes.plot(curve.seconds, curve.values.mean(axis=0), color=colour, linestyle=style, marker="o", markersize=3,
                      linewidth=1.6, label=method)  # fmt: skip
        axes.axhline(results.yardstick[name], color="#888888", linewidth=1, label="mean document")
        axes.set_xscale("log")
        ends = [curve.values for method, curve in curves.items() if method != SOURCE]
        low, high = np.nanmin(ends), max(np.nanmax(ends), results.yardstick[name])
        axes.set_ylim(low - 0.05 * (high - low), high + 0.3 * (high - low))
        common.tidy(axes, f"{name}: seeds thin, mean thick", "seconds", "held-out log-perplexity", legend=None)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8,
                  frameon=False)  # fmt: skip
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--seconds", type=float)
    own.add_argument("--seeds", type=int)
    own.add_argument("--documents", type=int)
    own.add_argument("--corpora", nargs="+", choices=tuple(CORPORA))
    options, rest = own.parse_known_args(argv)
    given = {name: value for name, value in vars(options).items() if value is not None}
    common.play(__doc__, "spherical_topics", lambda mode: run(mode, **given), table, check, draw, rest)


if __name__ == "__main__":
    main()
