"""What is read off a fitted spherical admixture model: the words of its topics, and how sure the draws are of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from scirocco.core.checks import require_count, require_flag
from scirocco.core.credible import require_level
from scirocco.models.labels import shown, with_labels
from scirocco.models.lda.agreement import SLOW
from scirocco.run import convergence
from scirocco.run.trace import Summary, table_of

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.models.sam.estimator import SphericalAdmixture

WATCHED, LISTED = 10, 20  # words of a topic, by which it is judged; topics that are named
SAME = 0.95  # cosine of the means of a topic, from which they are one direction
FLAT = 0.2  # of the way from equal shares to one topic alone: documents whose largest share is less are nearly alike


def top_words(
    model: SphericalAdmixture, n_words: int, vocabulary: Any, level: float, absent: bool
) -> pd.DataFrame:  # fmt: skip
    """The table of the words with the largest entries, or the most negative ones, of all topics."""
    import pandas as pd

    require_flag("absent", absent)
    tail, best, names = require_level(level), _first(model, n_words, absent=absent), _names(model, vocabulary)
    draws = model.posterior_["topics"].values
    draws = draws.reshape(-1, *draws.shape[2:])
    own = np.stack([draws[:, k, columns] for k, columns in enumerate(best)], axis=1).astype(np.float64)
    mean, wide = own.mean(axis=0), np.full(best.shape, np.nan)
    if len(own) > 1:
        wide = own.std(axis=0, ddof=1) * stats.t.ppf(1 - tail, len(own) - 1) * np.sqrt(1 + 1 / len(own))
    else:
        warnings.warn("there is one point of the topics, from which no interval follows: lower and upper are NaN",
                      stacklevel=3)  # fmt: skip
    topics = np.repeat(np.arange(len(best)), best.shape[1])
    columns = {"word": names[best], "mean": mean, "lower": mean - wide, "upper": mean + wide}
    return with_labels(model, pd.DataFrame({"topic": topics} | {name: v.ravel() for name, v in columns.items()}))


def summary(model: SphericalAdmixture, n_words: int, vocabulary: Any) -> Summary:
    """Mean, sd, ESS and R-hat of the first words of each topic, and what is to be said of them."""
    best, names, draws = _first(model, n_words), _names(model, vocabulary), model.posterior_["topics"].values
    values = np.concatenate([draws[:, :, k][..., columns] for k, columns in enumerate(best)], axis=2)
    labels = [f"topic {shown(model, k)}: {names[w]}" for k, columns in enumerate(best) for w in columns]
    found, trace = table_of(values.astype(np.float64), labels), getattr(model, "trace_", None)
    note = "\n".join(line for line in (found.note, *_remarks(model)) if line)
    return Summary(found.table, note, verdict=model.verdict(), bias=trace and trace.bias, tuning=trace and trace.tuning)


def topic_info(model: SphericalAdmixture, n_words: int, vocabulary: Any) -> pd.DataFrame:
    """A row for each topic: how well chains agree on it, and its first words."""
    import pandas as pd

    words = [" ".join(map(str, own)) for own in _names(model, vocabulary)[_first(model, n_words)]]
    columns = dict(zip(("cosine", "r_hat"), agreement(model), strict=True))
    table = with_labels(model, pd.DataFrame({"topic": np.arange(len(words)), **columns, "words": words}))
    return table.set_index("topic")


def agreement(model: SphericalAdmixture) -> tuple[np.ndarray, np.ndarray]:
    """By topic: the least cosine of a chain's mean with that of all, and R-hat of the first ten words, the median.

    NaN of a single chain, and of too few draws.
    """
    draws = model.posterior_["topics"].values
    means = draws.mean(axis=1, dtype=np.float64)
    near = np.min(np.einsum("ckw,kw->ck", means, model.components_) / np.linalg.norm(means, axis=2), axis=0)
    if len(draws) < 2 or draws.shape[1] < convergence.LEAST_DRAWS:
        return np.full(near.shape, np.nan), np.full(near.shape, np.nan)
    first = _first(model, WATCHED)
    own = (draws[:, :, k][..., columns].astype(np.float64) for k, columns in enumerate(first))
    return near, np.array([np.median(convergence.rhat(values)) for values in own])


def means_only(model: SphericalAdmixture) -> str:
    """What is to be said of chains that agree in their means, if not in more; nothing of others."""
    near, r_hat = agreement(model)
    if not near.min() >= SAME:
        return ""
    slow = np.flatnonzero(r_hat > SLOW)
    named = ", ".join(map(str, slow[:LISTED])) + (", ..." if slow.size > LISTED else "")
    which = f"{slow.size} of {len(near)} topics ({named})" if slow.size else "some entries of topics"
    return (
        f"chains stay in arrangements of their own in {which}, and agree in the mean of each topic, cosine "
        f"{near.min():.3f} or more: summary() and topic_info() say which words chains agree on"
    )


def _remarks(model: SphericalAdmixture) -> Iterator[str]:
    if (topics := model.n_topics) > 1:
        share, equal = model.largest_share_, 1 / topics
        flat = (share - equal) / (1 - equal) < FLAT
        way_out = ": shares are nearly flat, and a smaller alpha makes better features of them" if flat else ""
        yield f"the largest share of a document is {share:.3f} on average, where equal ones are {equal:.3f}{way_out}."
    words = model.n_features_in_
    source = "given" if model.concentration is not None else "as the documents say"
    kappa = model.concentration_
    yield f"concentration of documents: {kappa:.3g}, {kappa / words:.2g} times the words ({source})."
    unseen = int(np.sum(model.document_frequency_ == 0))
    if unseen:
        yield f"{unseen:,} words are in no document: the topics know nothing of them, and top_words leaves them out."


def _first(model: SphericalAdmixture, n_words: int, *, absent: bool = False) -> np.ndarray:
    """The columns of the first words of each topic among those of some document, (topic, word)."""
    require_count("n_words", n_words)
    mean = model.posterior_["topics"].values.mean(axis=(0, 1), dtype=np.float64)
    seen = model.document_frequency_ > 0
    order = np.argsort(np.where(seen, mean if absent else -mean, np.inf), axis=1, kind="stable")
    return order[:, : min(n_words, int(seen.sum()))]


def _names(model: SphericalAdmixture, vocabulary: Any) -> np.ndarray:
    """The words, given or known by the columns of a table; their numbers if they have no names."""
    known = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
    names = known if vocabulary is None else np.asarray(vocabulary, dtype=object)
    if names.shape != (model.n_features_in_,):
        raise ValueError(f"vocabulary must name all {model.n_features_in_} words; got the shape {names.shape}")
    return names
