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
from scirocco.run.trace import Summary, table_of

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.models.sam.estimator import SphericalAdmixture

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
