r"""Calibration from the ranks of true values among draws: tests of uniformity, what they say of intervals, a picture.

    u = (draws below the truth + U (draws equal to it + 1)) / (draws + 1),    U uniform on (0, 1)

is uniform if the truth and the draws, thinned to as many as are worth independent ones, come from one law, whatever the
number of draws and of ties. Of R values of u three things are asked, each exactly:

    shift     mean of z ~ N(0, 1/R),                  z the normal score of u
    spread    sum of (z - mean)^2 ~ chi^2_(R-1)
    shape     the empirical distribution function stays within a band, at all of K points at once

The band is that of Säilynoja, Bürkner and Vehtari (2022): at each point a central interval of the binomial law, all of
one level gamma, chosen so that the whole function stays inside with the probability wanted. That probability is
computed exactly: counts in K cells are Poisson variables given their sum, so that the law of the function at one point
after the other is a convolution, cut off at the band. Three times the least p value of the three is that of a quantity
(Bonferroni). Half of the chance of a false alarm is left to the log likelihood, which sees errors in all directions,
the other half to the other quantities, whose p values are adjusted by Holm's method.

In posterior SBC (Säilynoja et al. 2025) the truth is itself a draw of the sampler under test, from the posterior of N
rows, and the draws come from that of N and c N simulated rows. If the sampler's sds are k times the right ones both
times, and its means off by b sds, then for a Gaussian that the data dominate

    var z = (k^2 + c) / ((1 + c) k^2),        mean z = b (1 / sqrt(1 + c) - 1);

with truths of the right law var z = 1 / k^2 and mean z = -b. These are solved for k and b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, chdtri, gammaln, ndtr, ndtri, xlogy

from scirocco.core.checks import real_array
from scirocco.run.convergence import LEAST_DRAWS, ess
from scirocco.run.description import Stop
from scirocco.run.trace import Summary, Trace
from scirocco.run.trace_verdict import action_of
from scirocco.run.verdict import LONGER, MARGIN, MEANS, NOT, USE, Advice, Finding, Verdict, judge

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

LIKELIHOOD = "log likelihood"
LEVEL = 0.05  # chance that the right posterior is called wrong
POWER = 0.8  # chance that an error is seen which is said to be seen
POINTS = 100  # at most, at which the empirical distribution function is looked at
TESTS = 3  # of a quantity
FEW_DRAWS, FEW_REPEATS = 20, 20  # below them nothing is said
TOO_WIDE = 0.25  # share of an sd that makes a result useless (docs/guides/verdict.md)
TOLD = 3  # names in one line


def rank_among(truth: float, draws: Any, rng: np.random.Generator) -> tuple[float, int]:
    """Where ``truth`` lies among ``draws`` (chain, draw), uniform on (0, 1) if it is one of them, and among how many.

    As many draws are used as are worth independent ones, spread evenly.

    >>> rank_among(0.0, np.arange(-50.0, 50.0).reshape(1, -1) % 7, np.random.default_rng(0))[1] <= 100
    True
    """
    values = real_array("draws", draws)
    count = values.size
    if values.shape[1] >= LEAST_DRAWS:
        sizes = [float(ess(values, method)) for method in ("bulk", "tail")]
        count = int(np.clip(np.nanmin([*sizes, values.size]), 1, values.size))
    chosen = values.ravel()[np.linspace(0, values.size - 1, count).round().astype(int)]
    below, equal = int(np.sum(chosen < truth)), int(np.sum(chosen == truth))
    return (below + rng.random() * (equal + 1)) / (count + 1), count


class Band(NamedTuple):
    """Where the empirical distribution function of uniform variables stays: ``low`` to ``high`` at ``points``."""

    points: np.ndarray
    low: np.ndarray
    high: np.ndarray


def ecdf_band(size: int, level: float = 1 - LEVEL) -> Band:
    """The simultaneous band of the empirical distribution function of ``size`` uniform variables.

    >>> band = ecdf_band(50)
    >>> print(band.low[24].round(2), band.high[24].round(2), band.points[24])
    0.3 0.7 0.5
    """
    cells = _cells(size)
    tails = _tails(size, cells)
    levels = np.unique(tails)
    least, beyond = 0, len(levels)  # of gammas that are low enough, and of the first that is not
    while beyond - least > 1:
        middle = (least + beyond) // 2
        inside = _staying(size, cells, levels[middle]) >= level
        least, beyond = (middle, beyond) if inside else (least, middle)
    kept = tails > levels[least]
    low, high = kept.argmax(axis=1), size - kept[:, ::-1].argmax(axis=1)
    return Band(np.arange(1, cells) / cells, low / size, high / size)


def shape_p_value(ranks: np.ndarray) -> float:
    """The chance that uniform variables leave a band as wide as these do.

    >>> print(round(shape_p_value((np.arange(50) + 0.5) / 50), 2), shape_p_value(np.full(50, 0.9)) < 1e-6)
    1.0 True
    """
    size = len(ranks)
    cells = _cells(size)
    counts = np.searchsorted(np.sort(ranks), np.arange(1, cells) / cells, side="right")
    return 1 - _staying(size, cells, float(_tails(size, cells)[np.arange(cells - 1), counts].min()))


def _cells(size: int) -> int:
    """Between the points at which a function of so many values is looked at: one point at least."""
    return max(2, min(size, POINTS))


@cache
def _tails(size: int, cells: int) -> np.ndarray:
    """Twice the smaller tail of the binomial law at each point (row) from each count on (column), at most 1."""
    count, point = np.arange(size + 1)[None], (np.arange(1, cells) / cells)[:, None]
    up_to, from_on = bdtr(count, size, point), np.where(count, bdtrc(np.maximum(count - 1, 0), size, point), 1.0)
    # Rounded: tails of mirrored counts are equal, and which of them is the rarer must not hang on the last digit.
    return np.asarray(np.minimum(1.0, 2 * np.minimum(up_to, from_on)).round(12))


def _staying(size: int, cells: int, gamma: float) -> float:
    """The chance that at every point the tail is above ``gamma``."""
    count, allowed = np.arange(size + 1), _tails(size, cells) > gamma
    step = _poisson(count, size / cells)
    law = (count == 0).astype(np.float64)
    for inside in allowed:
        law = np.convolve(law, step)[: size + 1] * inside
    return float(np.convolve(law, step)[size] / _poisson(size, size))


def _poisson(count: Any, rate: float) -> Any:
    return np.exp(xlogy(count, rate) - rate - gammaln(np.asarray(count) + 1))


def adjusted(p_values: np.ndarray) -> np.ndarray:
    """P values of several tests by Holm's method: those below 0.05 are wrong about any of them once in 20 times.

    >>> adjusted(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    found = np.empty_like(p_values)
    found[order] = np.minimum(1.0, steps)
    return found


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks of what data were simulated from among draws of what was found out from them.

    ``ranks`` (repeat, quantity) lie in (0, 1), and are uniform if all is right; ``independent`` is the number of draws
    that each is among. ``table`` has the tests, ``verdict()`` what they mean, ``plot()`` shows the ranks.
    """

    level: ClassVar[float] = LEVEL
    """The chance that the right posterior is called wrong."""

    trace: Trace = field(repr=False)
    """The run that was checked."""
    names: tuple[str, ...]
    ranks: np.ndarray
    independent: np.ndarray
    ratio: float
    """Simulated rows over those of the data."""
    wanted: int
    """Repeats that were asked for."""
    own: bool = True
    """Whether the sampler is the one of the run, so that the truths share its errors."""
    exact: bool = False
    """Whether the sampler has no bias of its own."""
    failures: tuple[str, ...] = ()
    """What ended repeats without draws."""
    stopped: Stop | None = None
    seconds: float = 0.0
    note: str = ""
    thin: int = 1
    """Steps from draw to draw of a repeat."""
    dimension: int = 1
    """Of what was sampled: on a sphere one less than it has coordinates."""

    @property
    def repeats(self) -> int:
        """Repeats that have ranks."""
        return len(self.ranks)

    @cached_property
    def table(self) -> pd.DataFrame:
        """By quantity: shift and spread of the normal scores of the ranks (0 and 1 if all is right), p values.

        ``p`` is that of the quantity alone, ``p_adjusted`` for all of them together; ``independent`` the draws that the
        ranks are among, the median of the repeats.
        """
        import pandas as pd

        scores = ndtri(self.ranks)
        count, shift = len(scores), scores.mean(axis=0)
        squares = np.sum((scores - shift) ** 2, axis=0)
        free = max(1, count - 1)
        p_shift = 2 * ndtr(-np.abs(shift) * np.sqrt(count))
        p_spread = np.minimum(1.0, 2 * np.minimum(chdtr(free, squares), chdtrc(free, squares))) if count > 1 else 1.0
        p_shape = np.array([shape_p_value(column) for column in self.ranks.T])
        parts = np.stack(np.broadcast_arrays(p_shift, p_spread, p_shape))
        p = np.minimum(1.0, TESTS * parts.min(axis=0))
        columns = {
            "shift": shift, "spread": np.sqrt(squares / free), "p_shift": parts[0], "p_spread": parts[1],
            "p_shape": parts[2], "p": p, "p_adjusted": self._adjusted(p),
            "independent": np.median(self.independent, axis=0),
        }  # fmt: skip
        return pd.DataFrame(columns, index=pd.Index(self.names, name="quantity"))

    def _adjusted(self, p: np.ndarray) -> np.ndarray:
        """For all quantities together: half of the level for the log likelihood, half for the others."""
        likelihood = np.array([name == LIKELIHOOD for name in self.names])
        found = np.empty_like(p)
        found[likelihood], found[~likelihood] = p[likelihood], adjusted(p[~likelihood])
        return np.minimum(1.0, 2 * found)

    def verdict(self) -> Verdict:
        """Whether the sampler can be relied on where it was used, why, and what to do next."""
        kind, reasons, advice = judge(self._findings())
        if advice is not None and advice.settings:
            given = ", ".join(f"{name}={value}" for name, value in advice.settings.items())
            return Verdict(kind, reasons, f"sc.check_calibration(target, trace, simulate, {given})")
        return Verdict(kind, reasons, "" if advice is None or self.exact else action_of(self.trace, advice))

    def _findings(self) -> list[Finding]:
        found = []
        if self.failures:
            text = f"{len(self.failures)} of {self.repeats + len(self.failures)} repeats failed: {self.failures[0]}"
            found.append(Finding(NOT, text, Advice(less_bias=True)))
        if self.repeats < FEW_REPEATS:
            why = f" ({self.stopped})" if self.stopped else ""
            more = Advice(settings={"repeats": str(max(self.wanted, FEW_REPEATS))})
            made = "1 repeat is" if self.repeats == 1 else f"{self.repeats} repeats are"
            found.append(Finding(LONGER, f"{made} too few to say anything{why}", more))
            return found
        worth = self.table["independent"]
        if (draws := float(worth.min())) < FEW_DRAWS:
            text = f"the draws of a repeat are worth {draws:.0f} independent ones ({worth.idxmin()}): too few for ranks"
            thin = int(np.ceil(self.thin * MARGIN * FEW_DRAWS / draws))
            found.append(Finding(LONGER, text, Advice(settings={"thin": str(thin)})))
        wrong: dict[str, list[str]] = {}
        for name, p in self.table["p_adjusted"].sort_values().items():
            if p < LEVEL:
                wrong.setdefault(self._deviation(str(name)), []).append(str(name))
        found += [self._finding(kind, names) for kind, names in wrong.items()]
        if wrong and self.exact:
            found.append(
                Finding(NOT, "the sampler is exact: simulate does not follow log_likelihood, or runs are short")
            )
        if not found:
            found.append(Finding(USE, f"ranks of {len(self.names)} quantities are uniform in {self.repeats} repeats"))
            found.append(Finding(USE, self.sensitivity))
        return found

    def _deviation(self, name: str) -> str:
        """What is wrong with a quantity: shift or spread if they say so, or else its shape."""
        row = self.table.loc[name]
        test = str(row[["p_shift", "p_spread"]].idxmin())
        if not row[test] < LEVEL / TESTS or (name == LIKELIHOOD and test == "p_spread"):
            return "shape"
        if name == LIKELIHOOD:
            return "all"
        return "shift" if test == "p_shift" else "narrow" if row["spread"] > 1 else "wide"

    def _finding(self, kind: str, names: list[str]) -> Finding:
        """One line for all quantities that are wrong in one way; the worst is the first."""
        worst: dict[str, float] = self.table.T.to_dict()[names[0]]
        free = self.repeats - 1
        who = ", ".join(names[:TOLD]) + (f" and {len(names) - TOLD} more" if len(names) > TOLD else "")
        why = f"p = {worst['p_adjusted']:.1g}" + ("" if self.exact else ", or simulate does not follow log_likelihood")
        advice = Advice(less_bias=True)
        if kind == "shift":
            size = -worst["shift"] / (1 - 1 / np.sqrt(1 + self.ratio) if self.own else 1.0)
            return Finding(NOT, f"biased: means of {who} are about {size:+.1f} sds off, {why}", advice)
        if kind == "shape":
            return Finding(MEANS, f"the law of {who} is not the posterior, {why}", advice)
        square = worst["spread"] ** 2
        ends = [free * square / float(chdtri(free, 1 - tail)) for tail in (LEVEL / 2, 1 - LEVEL / 2)]
        if kind == "all":  # of a Gaussian, twice the log likelihood below its maximum is chi^2
            size, who = self.dimension, f"all parameters ({LIKELIHOOD})"
            square = float(chdtri(size, self.ranks[:, self.names.index(LIKELIHOOD)]).mean() / size)
            far = float(ndtri(1 - LEVEL / 2)) * square * np.sqrt(2 / (size * self.repeats))
            ends, kind = [square + far, square - far], "wide" if square < 1 else "narrow"
        width, low, high = (self._width(value) for value in (square, *ends))
        text = f"intervals too {kind}: sds of {who} off by {_range(width, low, high)}, {why}"
        return Finding(NOT if width - 1 >= TOO_WIDE else MEANS, text, advice)

    def _width(self, square: float) -> float:
        """The sampler's sds over the right ones, from the variance of the normal scores."""
        if not self.own:
            return float(1 / np.sqrt(square)) if square > 0 else np.inf
        c = self.ratio
        return float(np.sqrt(c / ((1 + c) * square - 1))) if (1 + c) * square > 1 else np.inf

    @property
    def sensitivity(self) -> str:
        """What so many repeats would have seen, four times out of five."""
        count, size = self.repeats, self.dimension
        all_tail = LEVEL / (2 * TESTS * 2)
        tail = all_tail / max(1, len(self.names) - 1)
        free = max(1, count - 1)
        one = chdtri(free, tail) / chdtri(free, POWER), chdtri(free, 1 - tail) / chdtri(free, 1 - POWER)
        far = (ndtri(1 - all_tail) + ndtri(POWER)) / np.sqrt(count * size / 2)
        words = []
        together = (((1 + far, 1 - far), f"in all {size} together"),) if size > 1 else ()
        for squares, where in ((one, "in one parameter"), *together):
            small, large = (self._width(square) for square in squares)
            above = f"or {large - 1:.0%} too large" if np.isfinite(large) else "(none that are too large)"
            words.append(f"{1 - small:.0%} too small {above} {where}")
        return f"in four of five such checks sds would have been seen that are {', '.join(words)}"

    def summary(self) -> Summary:
        """The verdict, the table and what so many repeats can see."""
        verdict = self.verdict()
        return Summary(self.table, self.note, verdict=verdict, agreement="" if verdict.good else self.sensitivity)

    @property
    def band(self) -> Band:
        """Where the empirical distribution function of the ranks stays if the intervals are right."""
        return ecdf_band(self.repeats)

    def to_dataset(self) -> xr.Dataset:
        """Ranks and the numbers of draws that they are among, with the dimensions (repeat, quantity)."""
        import xarray as xr

        dims = ("repeat", "quantity")
        values = {"rank": (dims, self.ranks), "independent": (dims, self.independent)}
        return xr.Dataset(values, coords={"quantity": list(self.names)})

    def plot(self, names: Sequence[str] | None = None, ax: Any = None) -> Any:
        """The ranks as a picture: see ``plots.calibration``."""
        from scirocco import plots

        return plots.calibration(self, names, ax=ax)

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__


def _range(width: float, low: float, high: float) -> str:
    """A factor of sds and an interval for it, the ends of which may be beyond what can be measured."""
    if np.isinf(low):
        return "more than can be measured"
    if np.isinf(high):
        return f"{low - 1:+.0%} or more"
    return f"{width - 1:+.0%} ({low - 1:+.0%} to {high - 1:+.0%})"
