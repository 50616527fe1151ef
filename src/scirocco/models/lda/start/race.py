"""A start for kept assignments: expectation maximisation and doubling, in competition.

    EM on minibatches, beside it doubling  ->  the one that promises to predict documents put aside better:
      doubling  ->  to its end  ->  sampling
      EM        ->  assign all documents given its topics  ->  sampling
                    or, with ``ENOUGH`` sweeps left  ->  sweep  ->  doubling once more  ->  sweep  ->  the more likely

Neither is best everywhere. EM (``em``) has good topics after a fraction of a pass, but it slows down with many
topics, and expected assignments are not the posterior's: on short documents, or few, it ends in a worse mode. Doubling
(``doubling``) takes some fifteen sweeps. Both get the same work in the first quarter of the search; doubling has seen a
part of the documents by then, and what it will gain from the others is foreseen. EM is over when documents put aside
say so, at the latest after half of the search. Where there is time for both, what they led to is compared by log
p(words, assignments), after as many sweeps of each over everything.

With many topics (``collapsed.MANY``) there is no search: all documents are assigned, one after the other. Few documents
cannot tell so many topics apart, and what they make of them takes longer to forget than sampling takes from nothing.

An initial value like any other: the samplers that go on from it forget it. Work is counted in sweeps over all
documents.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.counts.estimators import KeptCounts
from scirocco.counts.packing import Arrays, nested, packed, unpack_into
from scirocco.models.lda.cells import Cells
from scirocco.models.lda.collapsed import are_many
from scirocco.models.lda.held_out import HeldOut, held_out_size
from scirocco.models.lda.start.doubling import Doubling, joint_likelihood
from scirocco.models.lda.start.em import TOKENS, StochasticEM
from scirocco.models.lda.time_limited import TimeLimited
from scirocco.run.checkpoint import part

COST, COST_OF_TOPIC = 3.0, 0.04  # of a token in EM over one in a sweep, measured with 10 to 200 topics
RACE = 12  # sweeps: a shorter search has no time for two
FEWEST = 64  # minibatches of EM, without which its topics are worse than none: documents would be held to them
RACED, SHARE = 1 / 4, 1 / 2  # of the search, after which the race and EM are over
ENOUGH = 32  # sweeps that must be left for doubling after EM, which takes about half of them
SETTLE = 8  # sweeps before two starts are compared
NUMBERS = ("phase", "passes", "spent", "likely", "read", "raced")  # that change


class Phase(IntEnum):
    """Where the search is."""

    EXPECT = 0
    ASSIGN = 1
    SETTLE = 2
    DOUBLE = 3
    SETTLE_DOUBLED = 4
    DONE = 5


class Race(TimeLimited):
    """The search of one chain, on the ``kept`` assignments of ``documents``, which are in random order.

    ``cells`` say how its sweeps are shared out; ``alpha`` is padded as the table of counts is; ``passes``
    is the work that the search may cost.
    """

    def __init__(
        self, documents: Documents, kept: KeptCounts, cells: Cells, alpha: np.ndarray, beta: np.ndarray, *,
        seed: int, chain: int, passes: float, threads: int | None,
    ) -> None:  # fmt: skip
        passes = 0.0 if are_many(kept.rows) else passes
        self.kept, self.cells, self.alpha, self.beta, self.passes = kept, cells, alpha, beta, passes
        self.starts = starts = cells.starts
        self.size = documents.size
        self._common: dict[str, Any] = {"seed": seed, "chain": chain, "threads": threads}
        aside = held_out_size(self.size, int(starts[-1]))
        self.aside = HeldOut(kept.codes, starts, self.size - aside) if aside else None
        self.spent = 0.0  # on what came before the doubling
        self.likely, self.chosen = -np.inf, np.empty(0, kept.labels.dtype)  # what EM led to
        self.read = 0  # documents
        self._documents: Documents | None = documents
        self.em: StochasticEM | None = None
        self.cost = COST + COST_OF_TOPIC * kept.rows
        self.raced = False
        self.phase = Phase.DOUBLE
        if passes > 0 and self.aside is not None:  # documents enough to say when EM is over
            self.phase = Phase.EXPECT
            self.em = self._fresh_em()
            self.doubling = self._fresh_doubling(passes, begin=1)
        else:
            self.doubling = self._fresh_doubling(passes)

    def _fresh_doubling(self, passes: float, **more: int) -> Doubling:
        return Doubling(
            self.kept, self.cells, self.alpha, self.beta, passes=passes, aside=self.aside, **self._common, **more
        )  # fmt: skip

    def _fresh_em(self) -> StochasticEM:
        return StochasticEM(
            int(self.starts[-1]), self.size, self.alpha[: self.kept.rows], self.beta, passes=np.inf,
            aside=self.aside, **self._common,
        )  # fmt: skip

    @property
    def done(self) -> bool:
        """Whether all documents are assigned for good."""
        return self.phase == Phase.DONE

    @property
    def work(self) -> float:  # type: ignore[override]
        """In sweeps over all documents."""
        return self.spent + (self.cost * self.em.work if self.em else 0.0) + self.doubling.work

    def step(self) -> None:
        """A minibatch of EM, or a quarter of a sweep."""
        if self.phase == Phase.EXPECT and self._behind():
            self.doubling.step()
        elif self.phase == Phase.EXPECT:
            self._expect()
        elif self.phase in (Phase.ASSIGN, Phase.DOUBLE):
            self.doubling.passes = self.passes - self.spent
            self.doubling.step()
        else:
            self.doubling.sweep()
        self._move_on()

    @property
    def share(self) -> float:
        """How much of the search is over, by time if that is limited."""
        return self.taken or self.work / self.passes

    def _racing(self) -> bool:
        return not self.raced and self.passes >= RACE

    def _behind(self) -> bool:
        """Whether it is the turn of doubling in the race."""
        assert self.em is not None
        return self._racing() and self.doubling.work < self.cost * self.em.work and not self.doubling.done

    def _expect(self) -> None:
        """A minibatch of the documents that are not put aside, again and again."""
        assert self.em is not None
        assert self._documents is not None
        assert self.aside is not None
        end = self.size - self.aside.size
        most = int(np.searchsorted(self.starts, self.starts[self.read] + TOKENS))
        stop = min(end, self.read + max(1, end // 8), max(self.read + 1, most))
        self.em.step(self._documents.take(slice(self.read, stop)))
        self.read = stop % end

    def _move_on(self) -> None:
        """To the next phase, if this one is over."""
        doubling = self.doubling
        if self.phase == Phase.EXPECT:
            assert self.em is not None
            if self._racing() and (self.em.done or self.share > RACED) and not self._behind():
                self._judge()
            if self.phase == Phase.EXPECT and self.em.steps < FEWEST and self.share > SHARE:
                self._give_up()
            elif self.phase == Phase.EXPECT and (self.em.done or self.share > SHARE):
                self._assign()
        elif self.phase == Phase.ASSIGN and doubling.done:
            self._lend(-1)
            self.em, self.spent, self._documents = None, self.work - doubling.work, None
            self.phase = Phase.SETTLE if self.passes - self.work > ENOUGH + 2 * SETTLE else Phase.DONE
            doubling.sweeps = doubling.quarter = 0
        elif self.phase == Phase.SETTLE and doubling.sweeps == SETTLE:
            self.likely, self.chosen, self.spent = self._likelihood(), self.kept.labels.copy(), self.work
            self._begin_again(self.passes - self.spent)
            self.phase = Phase.DOUBLE
        elif self.phase == Phase.DOUBLE and doubling.done:
            self.phase = Phase.SETTLE_DOUBLED if self.chosen.size else Phase.DONE
            doubling.sweeps = doubling.quarter = 0
        elif self.phase == Phase.SETTLE_DOUBLED and doubling.sweeps == SETTLE:
            if self._likelihood() < self.likely:
                self._take_chosen()
            self.chosen, self.phase = self.chosen[:0], Phase.DONE

    def _judge(self) -> None:
        """Who of the two goes on."""
        assert self.em is not None
        assert self.aside is not None
        self.raced = True
        known = self.aside.score(self.em.phi(self.aside.columns), self.em.alpha)
        if self.doubling.have and self.doubling.outlook(self.aside) > known:
            self.spent, self.em, self._documents = self.work - self.doubling.work, None, None
            self.phase = Phase.DOUBLE

    def _give_up(self) -> None:
        """EM came to nothing: doubling alone, with what is left."""
        self.spent, self.em, self._documents = self.work, None, None
        self._begin_again(self.passes - self.spent)
        self.phase = Phase.DOUBLE

    def _assign(self) -> None:
        """All documents will be assigned, given the topics of EM."""
        self.spent += self.doubling.work
        self._begin_again(0.0)
        self._lend(1)
        self.phase = Phase.ASSIGN

    def _begin_again(self, passes: float) -> None:
        """Nothing is assigned."""
        calls = self.doubling.calls
        self.kept.clear()
        self.doubling = self._fresh_doubling(passes)
        self.doubling.calls = calls  # other random numbers

    def _lend(self, sign: int) -> None:
        """The counts of EM, while they are needed, are those of documents that nobody has."""
        if self.em is not None:
            counts = np.rint(self.em.counts.read()).astype(np.int32) * np.int32(sign)
            self.kept.used[:] += counts
            self.kept.totals[:] += counts.sum(axis=0)

    def topics(self) -> np.ndarray:
        """What is found so far, topics x words."""
        if self.phase == Phase.EXPECT and self.em is not None:
            return self.em.phi().T
        parameter = self.kept.used + self.beta[:, None]
        return np.asarray(parameter / parameter.sum(axis=0), np.float32).T

    def _likelihood(self) -> float:
        return joint_likelihood(self.kept, self.starts, self.alpha[: self.kept.rows], self.beta)

    def _take_chosen(self) -> None:
        """Back to what EM led to."""
        self.kept.labels[:] = self.chosen
        self.kept.clear()
        self.kept.add(0, self.chosen.size)

    def stop(self) -> None:
        """Do with what there is."""
        self.passes = min(self.passes, self.work)
        if self.phase == Phase.EXPECT:
            self._assign()
        elif self.phase in (Phase.DOUBLE, Phase.SETTLE_DOUBLED) and self.chosen.size:
            self._take_chosen()
            self.chosen, self.phase = self.chosen[:0], Phase.DONE
        elif self.phase == Phase.DOUBLE:
            self.doubling.stop()
        elif self.phase == Phase.SETTLE:
            self.phase = Phase.DONE

    def begin_after(self, documents: int) -> None:
        """So many documents have topics already: only the others are assigned, given those."""
        self.em, self.phase, self._documents = None, Phase.DOUBLE, None
        self.doubling.begin_after(documents)
        if self.doubling.done:
            self.phase = Phase.DONE

    def pack(self) -> Arrays:
        """The place in the search; assignments are packed by whoever owns them."""
        inner = {"doubling": self.doubling.pack()} | ({"em": self.em.pack()} if self.em else {})
        return packed(self, NUMBERS) | {"chosen": self.chosen} | nested(**inner)

    def unpack(self, arrays: Arrays) -> None:
        """The inverse of ``pack``, once the assignments are there: they are counted again."""
        unpack_into(self, NUMBERS, arrays)
        self.phase = Phase(self.phase)
        self.chosen = arrays["chosen"].copy()
        self.doubling.unpack(part(arrays, "doubling"))
        self.kept.clear()
        self.kept.add(0, self.starts[self.doubling.have])
        em = part(arrays, "em")
        self._documents = self._documents if em else None
        self.em = self._fresh_em() if em else None
        if self.em is not None:
            self.em.unpack(em)
            if self.phase == Phase.ASSIGN:
                self._lend(1)
