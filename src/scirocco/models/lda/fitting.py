"""``LDA.fit``: engines for the chains, the run, and what the model keeps of it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.seeds import Purpose, stream_key
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import Stretches
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.counts.estimators import chosen_estimator
from scirocco.counts.minibatches import FromDisk, InMemory, Minibatches
from scirocco.counts.passes import SEARCH_SHARE
from scirocco.models.count_model import SamplerChoice
from scirocco.models.fit_location import SHARDS, FitLocation
from scirocco.models.lda.agreement import Agreement
from scirocco.models.lda.assignments import Assignments, InOrder
from scirocco.models.lda.blocks import CorpusBlocks
from scirocco.models.lda.engine import ORDER, TOPICS, TopicChain, TopicEngine
from scirocco.models.lda.gibbs import CollapsedGibbs, KeptGibbs
from scirocco.models.lda.held_out import HeldOut, held_out_size
from scirocco.models.lda.resident import ResidentGibbs, ShardMaker, sampled
from scirocco.models.lda.resident_stream import Away, Itinerary, ResidentStream, StreamShardMaker
from scirocco.models.lda.sampler_names import IN_MEMORY, NATURAL, natural_sampler, stream_sampler
from scirocco.models.lda.seeds import InformedGibbs, SeededCollapsedGibbs, SeededGibbs
from scirocco.models.lda.start.em import StochasticEM
from scirocco.models.lda.stream import StreamChain, StreamFit
from scirocco.run.checkpoint import part
from scirocco.run.rounds import Rounds
from scirocco.run.trace import Trace

if TYPE_CHECKING:
    from scirocco.models.lda.estimator import LDA

WARM_TOKENS = 3e7  # after which the search for good topics has little left to find
STREAM_BATCH = 500  # documents
RECORDS = 4  # for each draw that is kept, at the least
DOCUMENTS = "documents"  # in the folder of a run: those that workers hold
NOISY = 1.5  # sds inflated by more than this are worth a warning


def fit_topics(
    model: LDA, documents: Documents | Corpus, choice: SamplerChoice, alpha: np.ndarray, beta: np.ndarray,
    location: FitLocation, *, passes: float, seconds: float | None, assigned: InOrder | None = None,
    seed: int | None = None,
) -> None:  # fmt: skip
    """Run the chains of a model, for so many passes or seconds, and set its fitted attributes.

    ``assigned`` has the topics of the first tokens of a model that goes on, with a ``seed`` of its own.
    """
    seed = location.seed(model.random_state) if seed is None else seed
    chains = model.n_chains if assigned is None else len(assigned.topics)
    alphas = assigned.alphas if assigned is not None and model.learn_alpha else [alpha] * chains
    workers, threads = model._workers(chains)
    draws, lent = model._kept_draws(documents.width), model._seeds(documents)
    engines = [
        TopicEngine(
            partial(
                make_chain, model, choice, documents, alphas[number], beta, seed,
                number, threads, None if assigned is None else assigned.topics[number], lent,
            ),
            number, draws=draws, passes=passes, topics=model.n_topics, vocabulary=documents.width,
            tokens=documents.tokens,
        )
        for number in range(chains)
    ]  # fmt: skip
    trace = location.run(
        engines, model, documents.fingerprint(), seed=seed, sampler=choice.name, seconds=seconds, workers=workers
    )
    keep(model, trace, documents, alpha)


def fit_resident_topics(
    model: LDA, documents: Documents | Corpus, choice: SamplerChoice, alpha: np.ndarray, beta: np.ndarray,
    location: FitLocation, *, passes: float, seconds: float | None,
) -> None:  # fmt: skip
    """The same with documents on the workers of a cluster, which meet in the folder of the run."""
    seed = location.seed(model.random_state)
    workers, threads = model._workers(model.n_chains)
    with location.meeting() as meeting:
        shards, corpus = meeting.cluster.shards, meeting.folder / DOCUMENTS
        if isinstance(documents, Corpus):
            corpus = documents.path.absolute()
            meeting.require_seen(corpus)
        stretches = Stretches(corpus, shards)

        def make(number: int, rounds: Rounds) -> TopicChain:
            if isinstance(documents, Documents):
                with suppress(FileExistsError):  # written when the run began
                    write_corpus(corpus, [documents], documents.width)
            if choice.name != "gibbs":
                return make_stream_chain(model, choice, documents, alpha, beta, seed, number, threads, rounds)
            sample = sampled(documents)
            start = make_chain(model, choice, sample, alpha, beta, seed, number, threads, None, None)
            assert isinstance(start, KeptGibbs)
            return ResidentGibbs(rounds, start, sample.tokens / documents.tokens, seed=seed, chain=number)

        rounds = []
        for number in range(model.n_chains):
            if choice.name == "gibbs":
                maker: Any = ShardMaker(stretches, model.n_topics, seed, number, bool(model.learn_alpha))
            else:
                key = stream_key(seed, Purpose.STREAM_SWEEPS, number)
                maker = StreamShardMaker(stretches, documents.size, key, model.sweeps, model.skip_sweeps)
            rounds.append(meeting.rounds(number, maker, remembers=choice.name == "gibbs"))
        engines = [
            TopicEngine(
                partial(make, number, rounds[number]), number, draws=model._kept_draws(documents.width), passes=passes,
                topics=model.n_topics, vocabulary=documents.width, tokens=documents.tokens,
            )
            for number in range(model.n_chains)
        ]  # fmt: skip
        trace = location.run(
            engines, model, documents.fingerprint() | {SHARDS: shards}, seed=seed, sampler=choice.name,
            seconds=seconds, workers=workers,
        )  # fmt: skip
    keep(model, trace, documents, alpha)


def make_chain(
    model: LDA, choice: SamplerChoice, documents: Documents | Corpus, alpha: np.ndarray, beta: np.ndarray, seed: int,
    number: int, threads: int, assigned: np.ndarray | None, lent: np.ndarray | None,
) -> TopicChain:  # fmt: skip
    """The sampler of one chain at its start."""
    if choice.name in IN_MEMORY:
        assert isinstance(documents, Documents)
        plain = KeptGibbs if choice.name == "gibbs" else CollapsedGibbs
        seeded = SeededGibbs if choice.name == "gibbs" else SeededCollapsedGibbs
        kind = InformedGibbs if beta.ndim == 2 else plain if model.seed_words is None else seeded
        kept = kind(
            documents, alpha, beta, seed=seed, chain=number, threads=threads,
            search_passes=search_passes_of(model, documents, in_memory=True), batch_size=model.batch_size,
            learn=("alpha",) * bool(model.learn_alpha) + ("beta",) * bool(model.learn_beta),
            passes=model._passes, records=RECORDS * model._kept_draws(documents.width), assigned=assigned,
            groups=1 if model.n_chains > 1 else None,  # several chains have threads enough to share out
        )  # fmt: skip
        if isinstance(kept, SeededGibbs) and lent is not None:
            kept.lend(lent, in_order=assigned is not None)
        return kept
    return make_stream_chain(model, choice, documents, alpha, beta, seed, number, threads)


def make_stream_chain(
    model: LDA, choice: SamplerChoice, documents: Documents | Corpus, alpha: np.ndarray, beta: np.ndarray, seed: int,
    number: int, threads: int, rounds: Rounds | None = None,
) -> TopicChain:  # fmt: skip
    """A stream sampler of one chain at its start; documents may be on the workers of a cluster, for ``rounds``."""
    search_passes = search_passes_of(model, documents, in_memory=False)
    estimator = "control_variate" if choice.name == "sgld_cv" else model.estimator
    sampler = stream_sampler(choice, warm=search_passes > 0)
    chosen = chosen_estimator(estimator, sampler)
    independent = chosen.remembers or getattr(sampler, "independent_draws", False)
    way = "independent" if independent else "shuffled"
    size = min(model.batch_size or STREAM_BATCH, documents.size)
    minibatches: Minibatches
    kind: Any = StreamChain
    if rounds is not None:
        kind = partial(ResidentStream, rounds)
        minibatches = Itinerary(Away(documents.size), size, way, seed=seed, chain=number)
    elif isinstance(documents, Corpus):
        blocks = CorpusBlocks(documents, seed=seed, chain=number, independent=independent)
        minibatches = FromDisk(blocks, size, seed=seed, chain=number)
    else:
        minibatches = InMemory(documents, size, way, seed=seed, chain=number)
    stream = kind(
        sampler, documents.width, alpha, beta, seed=seed, chain=number, sweeps=model.sweeps,
        skip_sweeps=model.skip_sweeps, threads=threads, estimator=chosen, minibatches=minibatches,
    )  # fmt: skip
    first = stream.documents_of(minibatches.at(0))  # put aside: the search begins after it
    first = first.take(slice(held_out_size(documents.size, documents.tokens)))
    aside = HeldOut(first.token_words(), first.token_starts)
    search = StochasticEM(
        documents.tokens, documents.size, alpha, beta, seed=seed, chain=number, passes=search_passes, threads=threads,
        aside=aside,
    )  # fmt: skip
    choose = partial(natural_sampler, choice.name) if choice.name in NATURAL else None
    return StreamFit(stream, documents, search, beta, choose)


def search_passes_of(model: LDA, documents: Documents | Corpus, *, in_memory: bool) -> float:
    """How long the search for a start may take."""
    allowed = model._passes
    wanted = SEARCH_SHARE * allowed if in_memory else min(WARM_TOKENS / documents.tokens, 10)
    wanted = wanted if model.search_passes is None else float(model.search_passes)
    return min(wanted, allowed / 2)


def keep(model: LDA, trace: Trace, documents: Documents | Corpus, alpha: np.ndarray) -> None:
    """The fitted attributes: topics of all chains in the order of the first."""
    model.trace_ = trace
    leaves = [trace.leaves[chain] for chain in trace.chains or [0]]  # the first, if none has draws
    if trace.chains:
        draws, means = trace.posterior[TOPICS].values, trace.moments.mean[TOPICS]
        means = means / means.sum(axis=2, keepdims=True)
    else:
        warnings.warn(
            "fit stopped before the sampler began: the topics are those of the search for a start, without "
            "uncertainty. Give it more time (the first fit also compiles)",
            stacklevel=6,
        )
        draws = leaves[0][TOPICS][None, None]
        means = (draws / draws.sum(axis=3, keepdims=True, dtype=np.float64))[0]
    model.posterior_ = named_topics(draws, model)
    model.agreement_ = Agreement.of(means, draws)
    matched = model.agreement_.matched
    shares = matched / matched.sum(axis=0)  # of strangers 0
    model.components_ = np.einsum("ck,ckw->kw", shares, means)
    learnt = np.array([leaf["alpha"][leaf[ORDER]] for leaf in leaves], np.float64)
    model.alpha_ = (shares * learnt).sum(axis=0) if model.learn_alpha else alpha
    model.beta_ = np.mean([leaf["beta"] for leaf in leaves], axis=0)
    model._assigned = _assignments(leaves, documents)
    model.inflation_ = None
    if all("inflation" in leaf for leaf in leaves):
        known = [np.broadcast_to(leaf["inflation"][leaf[ORDER]], means.shape[1:]) for leaf in leaves]
        model.inflation_ = np.einsum("ck,ckw->kw", shares, np.array(known))
    model.n_iter_ = max(float(leaf["passes"]) for leaf in trace.leaves.values())
    _warn(model)


def _assignments(leaves: list[dict[str, np.ndarray]], documents: Documents | Corpus) -> Assignments | None:
    """Those of the chains, if all have kept them."""
    kept = [part(leaf, "assigned") for leaf in leaves]
    if not all(kept):
        return None
    assert isinstance(documents, Documents)
    alphas = np.array([leaf["alpha"] for leaf in leaves], np.float64)
    orders, topics = ([own[name] for own in kept] for name in ("order", "topics"))
    return Assignments(documents.token_starts, documents.token_words(), orders, topics, alphas)


def _warn(model: LDA) -> None:
    """Say what intervals and averages of a fit are not good for."""
    if model.inflation_ is not None:
        typical = float((model.components_ * model.inflation_).sum(axis=1).mean())
        if typical > NOISY:
            warnings.warn(
                f"the noise of minibatches makes the sds of words {typical:.1f} times too large (inflation_): take "
                "means, not intervals, from this fit, or a smaller step size, a larger batch_size, sampler='gibbs'",
                stacklevel=7,
            )
    lost = float(np.mean(~model.agreement_.reproduced))
    if model.agreement_.chains > 1 and lost > 0.5:
        warnings.warn(
            f"{lost:.0%} of the topics are not found by all {model.agreement_.chains} chains (agreement_): each chain "
            "stays in a mode of its own. Give them more time, fewer topics, or take the topics that are found by all",
            stacklevel=7,
        )


def named_topics(topics: np.ndarray, model: LDA) -> Any:
    """Draws of the topics, (chain, draw, topic, word), as a dataset whose words have their names if they are known."""
    import xarray as xr

    names = getattr(model, "vocabulary_", getattr(model, "feature_names_in_", None))
    sizes = {"chain": len(topics), "draw": topics.shape[1], "topic": topics.shape[2]}
    coordinates: dict[str, Any] = {name: np.arange(size) for name, size in sizes.items()}
    coordinates["word"] = np.arange(topics.shape[3]) if names is None else np.asarray(names, dtype=str)
    return xr.Dataset({TOPICS: (("chain", "draw", "topic", "word"), topics)}, coords=coordinates)
