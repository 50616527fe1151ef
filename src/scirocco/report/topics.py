"""The page of a topic model: topics by share, a map of them, each by its words and documents, search.

Words of a topic are ordered by their relevance, l log p + (1 - l) log(p / p_w), p being the probability of the word in
the topic and p_w that in the corpus (Sievert and Shirley 2014); of each topic the page has the words that are first at
any l.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.credible import interval
from scirocco.models.labels import shown
from scirocco.models.lda.hierarchy import distances
from scirocco.models.lda.words import draws_of, names_of_words
from scirocco.report import charts
from scirocco.report.elements import Child, Element, element, number
from scirocco.report.page import Page
from scirocco.report.posterior import LEVEL, add_costs, add_run
from scirocco.report.tables import facts, table

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.models.lda.reading import TopicReading

WEIGHTS = np.linspace(0, 1, 11)  # of relevance, at which words are looked for
WORDS, DOCUMENTS = 30, 8  # of a topic
FOUND = 3  # topics of a word
NAMING = 4  # words that name a topic without a label


def add_topics(
    page: Page, model: TopicReading, *, X: Any = None, by: Any = None, names: Any = None, vocabulary: Any = None,
    held_out: Any = None,
) -> None:  # fmt: skip
    """All sections of a topic model. Documents ``X`` are looked at if they are given, with their ``names``."""
    if X is None and (by is not None or names is not None):
        raise ValueError("by and names are of documents: give X too")
    words = np.array([str(word) for word in names_of_words(model, vocabulary)], dtype=object)
    info = model.topic_info(8, vocabulary, level=LEVEL)
    titles = [_title(model, k, info["words"].iloc[k]) for k in range(len(info))]
    share = info["share"].to_numpy()
    page.data["topics"] = _data(model, words, titles, share)
    page.add("topics", "Topics", _listed(model, info, X))
    page.add("topic", "One topic", *_one(model, info, titles))
    page.add("documents", "Documents", *_documents(page, model, X, by, names))
    page.add("quality", "Quality", *_quality(model, held_out))
    page.add("agreement", "Agreement", element("pre", str(model.agreement_), class_="plain", tabindex="0"))
    trace = getattr(model, "trace_", None)
    if trace is not None:
        add_run(page, trace, model)
        add_costs(page, trace)


def _title(model: TopicReading, topic: int, words: str) -> str:
    """A topic by its number and label, or its first words."""
    return shown(model, topic) if model.labels_[topic] else f"{topic} {' '.join(words.split()[:NAMING])}"


def _data(model: TopicReading, words: np.ndarray, titles: list[str], share: np.ndarray) -> dict[str, Any]:
    """What the script shows: words of each topic with probability, interval and lift; where each word belongs."""
    counts = np.asarray(model.word_counts_, np.float64) + 0.5
    overall, means = counts / counts.sum(), np.asarray(model.components_, np.float64)
    known: dict[int, int] = {}
    rows = []
    for k, mean in enumerate(means):
        lift = mean / overall
        with np.errstate(divide="ignore"):
            log_p, log_lift = np.log(mean), np.log(lift)
        best = [np.argsort(-(w * log_p + (1 - w) * log_lift), kind="stable")[:WORDS] for w in WEIGHTS]
        columns = np.unique(np.concatenate(best))
        columns = columns[mean[columns] > 0]
        low, high = interval(mean[columns], draws_of(model, k, columns).astype(np.float64), LEVEL)
        places = [known.setdefault(int(c), len(known)) for c in columns]
        rows.append([list(row) for row in zip(places, mean[columns], low, high, lift[columns], strict=True)])
    used = np.fromiter(known, int)
    belongs = means[:, used] * share[:, None]
    belongs = belongs / np.maximum(belongs.sum(axis=0), 1e-300)
    first = np.argsort(-belongs, axis=0, kind="stable")[:FOUND]
    where = [[[int(k), belongs[k, j]] for k in first[:, j]] for j in range(used.size)]
    return {
        "names": titles, "share": share, "vocabulary": list(words[used]), "words": rows, "where": where, "shown": WORDS,
        "documents": [],
    }  # fmt: skip


def _listed(model: TopicReading, info: pd.DataFrame, X: Any) -> Element:
    """The table of topics."""
    found = info.reset_index()
    chains = model.agreement_.chains
    ends = (0.0, float(np.nanmax(found[["share", "upper"]].to_numpy())))
    bars = list(zip(found["share"], found["lower"], found["upper"], strict=True))
    found["picture"] = bars
    found["chains"] = [f"{count} of {chains}" for count in found["chains"]]
    if X is not None and len(model.components_[0]) > 1:
        found["coherence"] = model.coherence(X, min(10, len(model.components_[0])))
    found = found.sort_values("share", ascending=False, kind="stable")
    columns = ("topic", "label", "words", "share", "picture", "lower", "upper", "chains", "coherence")
    return table(
        found[[name for name in columns if name in found]],
        f"First words, share of all tokens with {LEVEL:.0%} intervals, chains that have found the topic",
        name="topics", text=("label", "words", "chains", "picture"),
        titles={"picture": f"{LEVEL:.0%} interval", "coherence": "coherence, NPMI"},
        formats={
            "topic": lambda k: element("a", str(k), href=f"#topic-{k}"),
            "picture": lambda bar: charts.interval_bar(bar, ends),
        },
    )  # fmt: skip


def _one(model: TopicReading, info: pd.DataFrame, titles: list[str]) -> list[Child]:
    """The map, the search, and the words of the topic that is looked at."""
    parts: list[Child] = []
    if len(titles) > 2:
        picture = charts.places(
            _plane(distances(np.asarray(model.components_))), info["share"].to_numpy(), titles,
            [f"#topic-{k}" for k in range(len(titles))], "Map of topics",
        )  # fmt: skip
        said = "Topics by the Hellinger distance of their words, areas by their shares: choose one to see it."
        parts.append(charts.figure(picture, said))
    slider = element("input", id="relevance", type="range", min="0", max="1", step="0.05", value="0.6")
    heads = [element("th", name, scope="col") for name in ("word", "")]
    heads += [
        element("th", name, scope="col", class_="num") for name in ("probability", f"{LEVEL:.0%} interval", "lift")
    ]
    words = element(
        "table", element("caption", "Words by relevance: 1 orders by probability, 0 by lift over the corpus"),
        element("thead", element("tr", heads)), element("tbody"), id="topic-words", class_="words",
    )  # fmt: skip
    steps = [
        element("button", text, type="button", data_step=step)
        for text, step in (("previous topic", -1), ("next topic", 1))
    ]
    controls = element(
        "p",
        steps,
        " ",
        element("label", "relevance ", slider, element("output", id="relevance-value")),
        class_="controls",
    )
    page = element(
        "div", element("h3", id="topic-name", tabindex="-1"), controls,
        element("noscript", "Words by relevance need the page's script; the table above has the first of each topic."),
        element("div", words, class_="scroll", tabindex="0", role="region", aria_label="Words of the topic"),
    )  # fmt: skip
    search = element(
        "div", element("h3", "Search"),
        element("p", element("label", "words and documents ", element("input", id="search", type="search")), " ",
                element("span", id="found-count", role="status"), class_="controls"),
        element("ul", id="found", class_="found"),
        element("p", "Of a word: the share of its occurrences that is the topic's.", class_="note"),
        class_="search",
    )  # fmt: skip
    save = element("button", "save topics as JSON", type="button", class_="save", data_json="topics")
    return [element("div", element("div", parts, search), page, class_="pair"), save]


def _plane(distances: np.ndarray) -> np.ndarray:
    """Points in a plane with about these distances: classical scaling."""
    size = len(distances)
    centred = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-centred @ distances**2 @ centred / 2)
    return np.asarray(vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0)))


def _documents(page: Page, model: TopicReading, X: Any, by: Any, names: Any) -> list[Child]:
    """For each topic the documents it is best seen in, and its shares by group; one topic is shown at a time."""
    if X is None:
        return []
    best = model.representative_documents(X, DOCUMENTS, names=names, level=LEVEL)
    page.data["topics"]["documents"] = [
        list(row) for row in best[["document", "topic", "mean"]].itertuples(index=False)
    ]
    from pandas.api.types import is_string_dtype

    groups = None if by is None else model.shares_by(X, by)
    parts: list[Child] = [element("p", "Of the topic that is looked at.", class_="note")]
    for k, own in best.groupby("topic"):
        listed = own.drop(columns=["topic", "label"], errors="ignore").reset_index(drop=True)
        name = f"topic-{k}-documents"
        words = f"Documents in which topic {k} surely has most: its share with {LEVEL:.0%} intervals"
        content: list[Child] = [table(listed, words, name=name)]
        if groups is not None:
            development = groups.table(LEVEL).loc[k]
            mean, low, high = (development[c].to_numpy() for c in ("mean", "lower", "upper"))
            axis = str(groups.groups.name or "group")
            said = f"Share of topic {k} by {axis}"
            labels, joined = list(map(str, development.index)), not is_string_dtype(groups.groups)
            picture = charts.band(mean, low, high, labels, said, axis=axis, joined=joined)
            content.append(charts.figure(picture, f"{said}, with {LEVEL:.0%} intervals"))
        parts.append(element("div", content, data_topic=k))
    return parts


def _quality(model: TopicReading, held_out: Any) -> list[Child]:
    """How well documents that were put aside are predicted."""
    if held_out is None:
        return []
    own, without = model.perplexity(held_out), model.unigram_perplexity(held_out)
    rows: list[tuple[str, Child]] = [
        ("held-out perplexity", number(own, 4)), ("of word frequencies alone", number(without, 4)),
    ]  # fmt: skip
    said = "A tenth of the tokens of each document, given the others; lower is better."
    return [facts(rows), element("p", said, class_="note")]
