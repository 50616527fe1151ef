"""What the topics are about: their first words, how large they are, and what the draws say of both.

Every number is a view of the same posterior: means are those of ``components_``, intervals and sds those of the draws
of the chains that have the topic.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from scirocco.core.checks import require_count
from scirocco.core.credible import interval, require_level
from scirocco.models.labels import with_labels
from scirocco.models.lda.engine import TOPICS
from scirocco.run import convergence

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.models.lda.reading import TopicReading

TOLD_APART = 100  # draws in all: from fewer, R-hat of independent draws exceeds 1.1 in one of a hundred words
SIZED = 20  # draws that sizes of topics are computed from


def names_of_words(model: TopicReading, vocabulary: Any) -> np.ndarray:
    """The words, given or known; their numbers if they have no names."""
    names = model._names(vocabulary)
    return np.arange(model.components_.shape[1]) if names is None else np.asarray(names, dtype=object)


def first_words(model: TopicReading, n_words: int) -> np.ndarray:
    """The columns of the most probable words of each topic, (topic, word)."""
    require_count("n_words", n_words)
    return np.argsort(-model.components_, axis=1, kind="stable")[:, :n_words]


def top_words(model: TopicReading, n_words: int, vocabulary: Any, level: float) -> pd.DataFrame:
    """The table of the first words of all topics."""
    import pandas as pd

    require_level(level)
    best, names = first_words(model, n_words), names_of_words(model, vocabulary)
    means = np.take_along_axis(model.components_, best, axis=1)
    lows, highs = np.empty(best.shape), np.empty(best.shape)
    for k, columns in enumerate(best):
        lows[k], highs[k] = interval(means[k], draws_of(model, k, columns).astype(np.float64), level)
    if np.isnan(lows).any():
        warnings.warn(
            "there is one draw of the topics so far, from which no interval follows: lower and upper are NaN",
            stacklevel=3,
        )
    topics = np.repeat(np.arange(len(best)), best.shape[1])
    columns = {"word": names[best], "mean": means, "lower": lows, "upper": highs}
    return with_labels(model, pd.DataFrame({"topic": topics} | {name: v.ravel() for name, v in columns.items()}))


def draws_of(model: TopicReading, topic: int, columns: np.ndarray) -> np.ndarray:
    """Draws of some words of a topic by all chains that have it, (draw, word)."""
    values = model.posterior_[TOPICS].values
    return values[model.agreement_.matched[:, topic], :, topic][..., columns].reshape(-1, len(columns))


def sizes(draws: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The share of all tokens that each topic has, for each draw of the topics, (draw, topic).

    The words of the corpus are a mixture of the topics: its weights by least squares, words weighed by one over their
    Poisson variance. They follow from a draw and the words' counts alone, so nothing of the documents is kept.
    """
    scale = 1 / np.sqrt(np.maximum(counts, 1.0))
    found = np.array([nnls((topics * scale).T.astype(np.float64), counts * scale)[0] for topics in draws])
    return found / found.sum(axis=1, keepdims=True)


def topic_info(model: TopicReading, n_words: int, vocabulary: Any, level: float) -> pd.DataFrame:
    """A row for each topic."""
    import pandas as pd

    require_level(level)
    best, names = first_words(model, n_words), names_of_words(model, vocabulary)
    found = sizes(model._draws(SIZED, one_order=True), model.word_counts_)
    low, high = interval(found.mean(axis=0), found, level)
    table = pd.DataFrame({
        "topic": np.arange(len(best)), "share": found.mean(axis=0), "lower": low, "upper": high,
        "chains": model.agreement_.matched.sum(axis=0), "words": [" ".join(map(str, names[row])) for row in best],
    })  # fmt: skip
    return with_labels(model, table).set_index("topic")


def summary(model: TopicReading, n_words: int, vocabulary: Any) -> tuple[pd.DataFrame, str]:
    """Mean, sd, ESS and R-hat of the first words of each topic, and what is to be said of them."""
    import pandas as pd

    names, values = names_of_words(model, vocabulary), model.posterior_[TOPICS].values
    tables, total = [], values.shape[0] * values.shape[1]
    for k, columns in enumerate(first_words(model, n_words)):
        matched = model.agreement_.matched[:, k]
        own = values[matched, :, k][..., columns].astype(np.float64)
        table = {"mean": model.components_[k, columns]}
        if own[..., 0].size > 1:
            table["sd"] = own.std(axis=(0, 1), ddof=1)
        if own[..., 0].size >= TOLD_APART:
            table |= {
                "ess_bulk": convergence.ess(own), "ess_tail": convergence.ess(own, "tail"),
                "r_hat": convergence.rhat(own),
            }  # fmt: skip
        label = f" {model.labels_[k]}" if model.labels_[k] else ""
        index = [f"topic {k}{label}: {names[w]}" for w in columns]
        tables.append(pd.DataFrame(table | {"chains": int(matched.sum())}, index=index))
    few = model.agreement_.matched.sum(axis=0).min() * values.shape[1] < TOLD_APART
    note = f"of fewer than {TOLD_APART} draws ESS and R-hat say nothing: they are left out" if few else ""
    return pd.concat(tables), "one draw so far: no sd" if total == 1 else note
