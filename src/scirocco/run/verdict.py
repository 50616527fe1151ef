"""One verdict on a result: whether to use it, why, and what to do next.

Everything that knows something of a run has findings, each with a kind, a line of words and, where something can be
done, a step to take: the bias report (``Findings``), the agreement of chains, Monte Carlo error, how the run ended. The
verdict is the gravest of them, so that no two of its lines contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

USE, MEANS, LONGER, NOT = "use it", "use means, not intervals", "run longer", "do not use it"
KINDS = (USE, MEANS, LONGER, NOT)
"""From the best to the worst."""

SD_LIMIT, MEAN_LIMIT = 0.1, 0.2  # errors of posterior sds, relative, and of means, in sds, that a user may meet
RHAT_LIMIT, RHAT_LOST = 1.05, 1.5  # chains that should run longer, and chains that never met
MARGIN = 1.3  # the length that is asked for over that which would just do
NECK = (
    "chains are turned away from places that are narrower still, as the neck of a funnel is: write effects as a scale "
    "times standard normal numbers (not centred)"
)
SHARE_OF_ERROR = 0.5  # of the Monte Carlo error that a verdict allows: what an open ``thin`` aims at
MOST_THIN = 200  # steps from draw to draw that an open ``thin`` may mean, however slow a chain is


class Advice(NamedTuple):
    """What to do next: run so many times as long, change settings (by the names of ``sample``, as code), or take a step
    size that keeps the bias smaller; where both might help, the latter if the step size was a user's own.

    ``ordered`` is a parameter whose entries should rise, "" for the only one.

    ``efficiency`` is what an average draw was worth: the closer to 1, the less is won by more steps between them."""

    factor: float = 1.0
    settings: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    less_bias: bool = False
    efficiency: float = 0.0
    ordered: str | None = None


class Finding(NamedTuple):
    """A reason for a verdict."""

    kind: str
    text: str
    advice: Advice | None = None


@runtime_checkable
class Findings(Protocol):
    """A report that has findings."""

    def findings(self) -> Sequence[Finding]:
        """What it has to say, good or bad."""


@dataclass(frozen=True)
class Verdict:
    """Whether to use a result: ``kind`` is one of ``KINDS``; ``reasons`` a line each; ``action`` code to run next."""

    kind: str
    reasons: tuple[str, ...]
    action: str = ""

    @property
    def good(self) -> bool:
        """Whether means and intervals can be used."""
        return self.kind == USE

    def __str__(self) -> str:
        lines = [f"verdict: {self.kind}", *(f"  {reason}" for reason in self.reasons)]
        return "\n".join([*lines, f"  next: {self.action}"] if self.action else lines)

    __repr__ = __str__


def judge(findings: Iterable[Finding]) -> tuple[str, tuple[str, ...], Advice | None]:
    """The gravest kind, the reasons for it (for 'use it' all that is good), and what to do about them."""
    found = sorted(findings, key=lambda finding: -KINDS.index(finding.kind))
    kind = found[0].kind if found else NOT
    told = [finding for finding in found if kind == USE or finding.kind != USE]
    # Where nothing is to be used, a longer run or the like would not help.
    helpful = [finding for finding in told if kind != NOT or finding.kind == NOT]
    advice = _together([finding.advice for finding in helpful if finding.advice is not None])
    return kind, tuple(finding.text for finding in told), advice


def _together(advice: Sequence[Advice]) -> Advice | None:
    """One step for all, so that what is wrong besides does not come to light only after the next run."""
    if not advice:
        return None
    longest = max(advice, key=lambda one: one.factor)
    settings = {name: code for one in reversed(advice) for name, code in one.settings.items()}
    return longest._replace(settings=settings, less_bias=any(one.less_bias for one in advice))


def chance(size: int) -> float:
    """Standard errors that the worst of so many estimates is off by chance."""
    return float(np.sqrt(2 * np.log(max(2, 2 * size))))


def draws_for(size: int, share: float, spread: float = 2.0) -> float:
    """Effective draws at which the errors of means and sds of so many parameters are this share of what is allowed.

    ``spread`` is the variance of a squared deviation over the squared variance, the largest of all parameters.
    """
    return float((chance(size) / share) ** 2 * max(1 / MEAN_LIMIT**2, spread / (4 * SD_LIMIT**2)))


def monte_carlo(table: Any, labels: Sequence[str], draws: int) -> list[Finding]:
    """Findings of R-hat and the errors of mean and sd in sds, an array (coordinate, 3) with the names of its rows."""
    r_hat, mean_error, sd_error = np.asarray(table, np.float64).T
    known = np.isfinite(r_hat) & np.isfinite(mean_error) & np.isfinite(sd_error)
    if not known.any():
        return [Finding(NOT, "R-hat and ESS are not known: draws are constant, or not finite")]
    found = []
    worst = int(np.nanargmax(np.where(known, r_hat, -np.inf)))
    if r_hat[worst] > RHAT_LOST:
        found.append(
            Finding(
                NOT, f"the chains never met: R-hat {r_hat[worst]:.2f} ({labels[worst]})", Advice(10.0, less_bias=True)
            )
        )
    elif r_hat[worst] > RHAT_LIMIT:
        found.append(Finding(LONGER, f"the chains do not agree yet: R-hat {r_hat[worst]:.2f} ({labels[worst]})"))
    factor = chance(int(known.sum()))
    k, j = (int(np.nanargmax(np.where(known, e, -np.inf))) for e in (mean_error, sd_error))
    of_sd, of_mean = (factor * sd_error[j] / SD_LIMIT) ** 2, (factor * mean_error[k] / MEAN_LIMIT) ** 2
    need, effective = max(of_sd, of_mean), mean_error[j if of_sd > of_mean else k] ** -2
    words = (
        f"Monte Carlo error of means up to {mean_error[k]:.1%} of an sd ({labels[k]}), of sds up to {sd_error[j]:.1%} "
        f"({labels[j]})"
    )
    if need > 1:
        found.append(Finding(LONGER, words, Advice(factor=MARGIN * need, efficiency=min(1.0, effective / draws))))
    elif not found:
        found.append(Finding(USE, f"the chains agree, R-hat {r_hat[worst]:.3f}; {words}"))
    return found
