"""How many topics? Candidates side by side under one budget.

Each candidate is fitted with several chains to most of the documents and scored on the others by document completion.
A chain may stay in a poor mode, in which two topics of the data share one of its own: one such chain among those of the
true number makes more topics, which have room for both, look better. So each candidate is scored by its best chain.
The best on one half of the held-out documents scores the other half, and the other way round: what is chosen has not
seen what it is scored on.

All candidates get the same time, in one fit: of a fit in parts the search for a start would have the first part only,
and what goes on stays in the mode that it has found.

Recommended is the smallest number of topics whose score is within ``CHANCE`` standard errors of the best, the error
being that of the difference, document by document: more topics than that are not worth what they cost in stability and
in time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import positive_array, require_count
from scirocco.core.executors import call_each
from scirocco.core.interrupt import interruptible, poll
from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.fit_location import FitLocation
from scirocco.models.lda.engine import TOPICS
from scirocco.models.lda.estimator import LDA
from scirocco.models.lda.evaluation import completion_scores, require_held_out

if TYPE_CHECKING:
    import pandas as pd

CHANCE = 2.0
HELD_OUT, MOST_HELD_OUT = 0.1, 1000  # share of the documents, and how many at most
SCORED_DRAWS = 10
SCORED_TOKENS = 2  # of a document, about, but a tenth of it at the least


@dataclass(eq=False)
class TopicChoice:
    """What was found: ``table`` by number of topics, ``recommended`` and the ``reason``; ``models`` are the fits.

    Perplexity is of held-out documents, ``error`` its standard error over documents; ``difference`` is the log score
    per token below the best, with its own error; ``reproduced`` is the share of topics that all chains have found.
    """

    table: pd.DataFrame
    recommended: int
    reason: str
    models: dict[int, LDA] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.table.to_string(float_format=lambda x: f'{x:.4g}')}\n{self.reason}"

    __repr__ = __str__

    def plot(self, ax: Any = None) -> Any:
        """Perplexity against the number of topics: see ``plots.topic_choice``."""
        from scirocco import plots

        return plots.topic_choice(self, ax=ax)


@interruptible
def choose_topics(
    X: Any, candidates: Iterable[int], *, max_seconds: float = 60.0, n_chains: int = 2, random_state: Any = None,
    n_jobs: int | None = None, executor: Executor | None = None, **settings: Any,
) -> TopicChoice:  # fmt: skip
    """Compare numbers of topics on the same documents under one budget.

    Parameters
    ----------
    X
        Counts, documents x words; a tenth of the documents, at most 1,000, is held out.
    candidates : Iterable[int]
        Numbers of topics.
    max_seconds : float, default 60.0
        For all candidates together, compiling and scoring not counted.
    n_chains : int, default 2
        Of each, at least two, so that it can be said which topics they agree on.
    random_state : optional
        Seed.
    n_jobs : int, optional
        Threads; -1 or None for all cores.
    executor : concurrent.futures.Executor, optional
        Its workers fit the candidates, each a task with its share of the time.
    settings
        What else ``LDA`` takes, such as alpha and beta.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> counts = np.random.default_rng(0).poisson(0.3, size=(80, 40))
    >>> choice = sc.choose_topics(counts, [1, 3], max_seconds=2.0, random_state=0)
    >>> choice.recommended in (1, 3), len(choice.table)
    (True, 2)
    """
    positive_array("max_seconds", max_seconds)
    require_count("n_chains", n_chains, least=2)
    own = {"n_topics", "max_iter", "search_passes"} & settings.keys()
    if own:
        raise ValueError(f"{', '.join(sorted(own))} are chosen here: leave them out")
    reader = LDA(1)
    seed, documents = FitLocation().seed(random_state), reader._documents(X, reset=True)
    held = max(1, min(int(HELD_OUT * documents.size), MOST_HELD_OUT))
    numbers = _candidates(candidates, documents.size - held)
    # Of short documents more tokens are scored, so that each has one or two.
    scored = float(np.clip(SCORED_TOKENS * documents.size / max(1, documents.tokens), 0.1, 0.5))
    order = generator(seed, Purpose.HELD_OUT).permutation(documents.size)
    train, test = documents.take(order[held:]), documents.take(order[:held])
    settings |= {"n_chains": n_chains, "random_state": seed, "n_jobs": n_jobs}
    models: dict[int, LDA] = {}
    scores: dict[int, np.ndarray] = {}
    tokens = np.ones(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*of the topics are not found by all")  # it is in the table
        fit = partial(_fitted, max_seconds / len(numbers), train, settings)
        fits = map(fit, numbers) if executor is None else call_each(executor, fit, numbers)
        for k, model in zip(numbers, fits, strict=True):
            poll()  # a comparison of fits that were cut short would mean nothing
            models[k] = model
            scores[k], tokens = _scores(model, test, scored, seed)
    names = getattr(reader, "feature_names_in_", X.vocabulary if isinstance(X, Corpus) else None)
    for model in models.values():
        if names is not None:
            model.vocabulary_ = np.asarray(names, dtype=object)
    return _judged(numbers, models, scores, tokens)


def _candidates(candidates: Iterable[int], size: int) -> list[int]:
    numbers = sorted(set(candidates))
    if not numbers:
        raise ValueError("candidates is empty: give some numbers of topics, such as [10, 20, 50]")
    for k in numbers:
        require_count("candidates", k)
    if numbers[-1] > size:
        raise ValueError(f"candidates must not exceed the number of documents fitted, {size}; got {numbers[-1]}")
    if size < 18:
        raise ValueError(f"{size} documents beside those held out are too few to compare: at least 18")
    return [int(k) for k in numbers]


def _fitted(seconds: float, train: Documents, settings: dict[str, Any], k: int) -> LDA:
    return LDA(k, max_seconds=seconds, **settings)._fit(train, None, FitLocation())


def _scores(model: LDA, test: Documents, held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log probability and tokens of held-out documents, those of either half by the chain that is best on the other."""
    found, chains = [], model.posterior_[TOPICS].values
    for chain in chains:
        draws = chain[np.unique(np.linspace(0, len(chain) - 1, max(2, SCORED_DRAWS // len(chains))).astype(int))]
        logs, tokens = completion_scores(
            draws, model.alpha_, test, held_out=held_out, seed=seed, threads=model._threads
        )
        found.append(logs)
    require_held_out(tokens)
    each = np.array(found)
    even = np.arange(test.size) % 2 == 0
    best_of_even, best_of_odd = (int(np.argmax(each[:, half].sum(axis=1))) for half in (even, ~even))
    return np.where(even, each[best_of_odd], each[best_of_even]), tokens


def _difference(a: np.ndarray, b: np.ndarray, tokens: np.ndarray) -> tuple[float, float]:
    """How much higher the log score a is than b, per token, and the standard error over documents."""
    each = a - b
    mean = each.sum() / tokens.sum()
    return float(mean), float(np.sqrt(np.sum((each - mean * tokens) ** 2)) / tokens.sum())


def _within(best: np.ndarray, other: np.ndarray, tokens: np.ndarray, limit: float) -> bool:
    mean, error = _difference(best, other, tokens)
    return mean <= limit * error


def _judged(
    numbers: list[int], models: dict[int, LDA], scores: dict[int, np.ndarray], tokens: np.ndarray
) -> TopicChoice:
    import pandas as pd

    best = max(numbers, key=lambda k: scores[k].sum())
    rows = []
    for k in numbers:
        mean = scores[k].sum() / tokens.sum()
        error = np.sqrt(np.sum((scores[k] - mean * tokens) ** 2)) / tokens.sum()
        below, its_error = _difference(scores[best], scores[k], tokens)
        agreement = models[k].agreement_
        rows.append({
            "perplexity": np.exp(-mean), "error": np.exp(-mean) * error, "difference": below,
            "difference_error": its_error, "reproduced": float(agreement.reproduced.mean()),
            "total_variation": float(agreement.total_variation[1:].mean()) if agreement.chains > 1 else np.nan,
            "seconds": models[k].seconds_,
        })  # fmt: skip
    recommended = min(k for k in numbers if k == best or _within(scores[best], scores[k], tokens, CHANCE))
    share = float(models[recommended].agreement_.reproduced.mean())
    if recommended == best:
        reason = (
            f"{best} topics predict held-out documents best, and no smaller number comes within two standard errors"
        )
    else:
        reason = f"{recommended} topics are the fewest within two standard errors of the best score, that of {best}"
    if recommended == numbers[-1] and len(numbers) > 1:
        reason += "; it is the largest candidate: try more"
    reason += f". All chains agree on {share:.0%} of its topics"
    return TopicChoice(pd.DataFrame(rows, index=pd.Index(numbers, name="topics")), recommended, f"{reason}.", models)
