"""What is read off a fitted topic model. Each method checks what it is asked, and calls the file that answers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import require_choice, require_count, require_flag
from scirocco.core.credible import require_level
from scirocco.core.parts import part_named
from scirocco.models.count_model import CountModel
from scirocco.models.labels import checked_labels, checked_topic, shown, with_labels
from scirocco.models.lda import evaluation, words
from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.coherence import MEASURES, coherence
from scirocco.models.lda.effects import Effects, effects
from scirocco.models.lda.hierarchy import TopicTree, tree_of
from scirocco.models.lda.merging import merged
from scirocco.models.lda.representatives import names_of_documents, representatives
from scirocco.models.lda.shares_by import GroupShares, shares_by
from scirocco.run.trace import REPORT, Summary

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.corpora.documents import Documents
    from scirocco.corpora.store import Corpus

TRANSFORM_DRAWS = 5  # draws of the topics that document weights are averaged over
REPRESENTED = 100  # that intervals of representative documents come from


class TopicReading(CountModel):
    """A model with topics over words, ``components_`` and their draws, of which documents have shares."""

    components_: np.ndarray
    agreement_: Agreement
    alpha_: np.ndarray
    word_counts_: np.ndarray
    labels_: list[str]
    merged_: list[list[int]]

    if TYPE_CHECKING:

        def _draws(self, most: int, *, one_order: bool = False) -> np.ndarray: ...
        def _repeated(self, n_draws: int) -> np.ndarray: ...
        def _documents(self, X: Any, *, reset: bool) -> Documents: ...
        def _unread(self, X: Any, *, reset: bool) -> Documents | Corpus: ...
        def _names(self, vocabulary: Any) -> Any: ...

    def report(
        self, path: str | Path, X: Any = None, *, by: Any = None, names: Any = None, vocabulary: Any = None,
        held_out: Any = None, title: str = "",
    ) -> Path:  # fmt: skip
        """Write a page to look at and to pass on, one file that needs no network; returns its path.

        Topics by share, a map of them, each by its words with intervals, search, the verdict. With documents ``X`` the
        most typical of each topic, by ``names`` if they have any, and coherence; with ``by``, as for ``shares_by``,
        how shares develop; with other documents, ``held_out`` of the fit, their perplexity.
        """
        check_is_fitted(self)
        given = {"X": X, "by": by, "names": names, "vocabulary": vocabulary, "held_out": held_out}
        return part_named(REPORT)(self).write(path, title, **given)

    # Words.

    def top_words(self, n_words: int = 10, vocabulary: Any = None, *, level: float = 0.9) -> pd.DataFrame:
        """The ``n_words`` most probable words of each topic: topic, word, mean, lower and upper end of the interval.

        Intervals are those of a beta law with the mean and the variance of the draws, a little wider for being few.
        ``agreement_.intervals`` says for each topic whether they are about one chain's mode or about all chains.
        """
        check_is_fitted(self)
        return words.top_words(self, n_words, vocabulary, level)

    def topic_info(self, n_words: int = 8, vocabulary: Any = None, *, level: float = 0.9) -> pd.DataFrame:
        """A row for each topic: its label, its share of all tokens with an interval, how many chains have it, words."""
        check_is_fitted(self)
        return words.topic_info(self, n_words, vocabulary, level)

    def label_topics(self, labels: Any) -> Self:
        """Name topics, by ``{topic: text}`` or a list with a text for each; "" takes a name away.

        Labels are shown wherever topics are listed, and saved with the model. They stay when data are added, and are
        forgotten by ``fit``.
        """
        check_is_fitted(self)
        self.labels_ = checked_labels(labels, self.labels_)
        return self

    def summary(self, n_words: int = 5, vocabulary: Any = None) -> Summary:
        """Mean, sd, ESS and R-hat of the ``n_words`` first words of each topic, and which topics the chains agree on.

        Each topic is that of the chains that have it (column ``chains``); R-hat needs several to mean much. From fewer
        than 100 draws neither ESS nor R-hat means anything, and they are left out.
        """
        check_is_fitted(self)
        table, note = words.summary(self, n_words, vocabulary)
        return Summary(table, self._noted(note), agreement=self.agreement_, verdict=self.verdict())

    def hierarchy(self) -> TopicTree:
        """A tree of the topics by their distance, with the share of draws that supports each branch.

        ``linkage`` is what SciPy's ``dendrogram`` takes; ``merge(tree.groups(10))`` makes ten topics of it.
        """
        check_is_fitted(self)
        if len(self.components_) < 2:
            raise ValueError("a hierarchy needs two topics at least; the model has one")
        names = [shown(self, k) for k in range(len(self.components_))]
        return tree_of(self._draws(words.SIZED, one_order=True), names)

    def merge(self, groups: Any) -> Self:
        """A model in which each group of topics is one, ``groups`` being a list of lists of their numbers.

        Topics are merged in every draw, so that means and intervals agree with each other; ``merged_`` says of which
        topics of the fit each consists. This model stays as it is.
        """
        check_is_fitted(self)
        return merged(self, groups)

    # Documents.

    def representative_documents(
        self, X: Any, n_documents: int = 5, *, topics: Iterable[int] | None = None, names: Any = None,
        level: float = 0.9,
    ) -> pd.DataFrame:  # fmt: skip
        """The documents of ``X`` that most surely have most of each topic: their share of it, with an interval.

        They are in the order of the lower end. ``names`` are shown for the documents: titles, say; by default the index
        of a DataFrame, or numbers of rows.
        """
        check_is_fitted(self)
        require_count("n_documents", n_documents)
        require_level(level)
        every = len(self.components_)
        chosen = list(range(every)) if topics is None else [checked_topic("topics", k, every) for k in topics]
        if not chosen:
            raise ValueError("topics is empty: name some, or leave it out for all")
        documents = self._documents(X, reset=False)
        found = representatives(
            self._repeated(REPRESENTED), self.alpha_, documents, chosen, n_documents,
            names_of_documents(X, names, documents.size), level=level, seed=self._fixed_seed(), threads=self._threads,
        )  # fmt: skip
        return with_labels(self, found)

    def shares_by(
        self, X: Any, by: Any, *, period: str | None = None, n_draws: int = 50, sampled: bool = True
    ) -> GroupShares:  # fmt: skip
        """The mean share of each topic in groups of documents, with intervals: topics over time.

        ``by`` has the group of each document: years, journals, or dates, which ``period`` ("Y", "M", ...) puts
        together. If the documents are a ``sample`` of their groups, intervals contain that others might have been
        drawn; with ``sampled=False`` they are about these documents alone.
        """
        check_is_fitted(self)
        require_flag("sampled", sampled)
        documents = self._documents(X, reset=False)
        return shares_by(
            self._repeated(n_draws), self.alpha_, documents, by, period, list(self.labels_), sampled=sampled,
            seed=self._fixed_seed(), threads=self._threads,
        )  # fmt: skip

    def effects(self, X: Any, covariates: Any, *, n_draws: int = 50) -> Effects:
        """How the topic shares of documents depend on ``covariates``, a table with a row for each of them.

        A linear regression of the shares over ``n_draws`` draws of topics and weights, whose uncertainty its intervals
        contain. Text and categorical columns become one column for each value but the first. Any number of documents
        takes the same memory beside the counts.
        """
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        return effects(
            self._repeated(n_draws), self.alpha_, documents, covariates, seed=self._fixed_seed(),
            threads=self._threads, labels=list(self.labels_),
        )  # fmt: skip

    # Quality.

    def coherence(self, X: Any, n_words: int = 10, *, measure: str = "npmi") -> np.ndarray:
        """Whether each topic's first words occur in the same documents of ``X``.

        ``measure`` is "npmi", normalised pointwise mutual information, from -1 to 1, or "c_v", from 0 to 1 in practice.
        """
        check_is_fitted(self)
        require_count("n_words", n_words, least=2)
        require_choice("measure", measure, MEASURES)
        return coherence(words.first_words(self, n_words), self._documents(X, reset=False), measure)

    def topic_quality(self, X: Any, n_words: int = 10, *, held_out: float = 0.1, max_draws: int = 10) -> pd.DataFrame:
        """A row for each topic: its tokens in ``X``, the perplexity of those, and its coherence there.

        A share ``held_out`` of each document's tokens is predicted from the others; each belongs to topics by its
        posterior probability. The mean of the logarithms, weighed by tokens, is the logarithm of ``perplexity``.
        """
        import pandas as pd

        check_is_fitted(self)
        require_count("n_words", n_words, least=2)
        documents = self._scored(X, held_out, max_draws)
        logs, tokens = evaluation.completion_by_topic(
            self._draws(max_draws, one_order=True), self.alpha_, documents, held_out=held_out,
            seed=self._fixed_seed(), threads=self._threads,
        )  # fmt: skip
        best = words.first_words(self, n_words)
        with np.errstate(invalid="ignore", divide="ignore"):  # of a topic without tokens nothing is known
            table = pd.DataFrame({
                "topic": np.arange(len(best)), "tokens": tokens, "perplexity": np.exp(-logs / tokens),
                **{name: coherence(best, documents, name) for name in MEASURES},
            })  # fmt: skip
        return with_labels(self, table).set_index("topic")

    def _scored(self, X: Any, held_out: float, max_draws: int, *, whole: bool = True) -> Any:
        """Documents of which a share is to be predicted; a corpus on disk stays there unless they are the ``whole``."""
        require_count("max_draws", max_draws)
        if not 0 < held_out < 1:
            raise ValueError(f"held_out must lie strictly between 0 and 1; got {held_out!r}")
        documents = self._documents(X, reset=False) if whole else self._unread(X, reset=False)
        if not documents.tokens:
            raise ValueError("the documents have no words: there is nothing to score")
        return documents
