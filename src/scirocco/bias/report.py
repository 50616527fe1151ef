"""How far the sampled law is from the posterior: the part that R-hat and ESS cannot see.

A stochastic gradient sampler converges to a law of its own. On a Gaussian target that law is known for every sampler
here (``stationary_variance``), given the step size, the curvature lambda and the variance V of the gradient estimate.
The report measures V and the curvature during the run and solves, for each coordinate, for the lambda whose sampled
variance is the observed one; T/lambda is then the variance that an exact sampler would have shown.

Minibatch noise is taken proportional to the curvature, V = c H, as it is in a well-specified model; c is the ratio of
the traces, per variable. This holds to first order for correlated posteriors too. Where a step is long for the
curvature of some combination of parameters, first order is not enough: the direction that strains it most is found by
power iterations, and what the law adds along it is taken off the observed variance of each coordinate. It is an
estimate: for posteriors far from Gaussian compare with a run at half the step size.

None of this sees whether the chains have been everywhere. For that they are compared with each other, by the means and
variances of each (``moment_rhat``), which says something only if they started apart (``spread_apart``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np

from scirocco.bias.combinations import Combination
from scirocco.bias.tours import TourNoise
from scirocco.bias.virials import Virials
from scirocco.core.parts import part
from scirocco.core.trees import named_leaves
from scirocco.core.types import Params
from scirocco.run.moments import Moments as AllMoments
from scirocco.run.verdict import LONGER, MEANS, NECK, NOT, RHAT_LIMIT, RHAT_LOST, USE, Advice, Finding
from scirocco.samplers.base import Strain, at, has_law

APART = 2.0  # posterior sds: starts that are spread so widely are not draws around one mode
FEWEST = 4  # draws for R-hat
LIMIT = 0.05  # of the posterior sd: beyond this the report warns
LOST = 0.25  # of the posterior sd: beyond this the means are no better
STRETCHED = 0.5  # of the sd along the stiffest direction
STRAINED = 0.5  # of the curvature that a step bears: beyond it chains are turned away
SHIFTED, NOTICED = 0.15, 0.1  # sds that means are off by: too much, and worth a word
BY_CHANCE = 3.0  # standard errors of the Monte Carlo error of means, which a longer run has less of
DOUBT, SLIGHT = 4.5, 0.02  # standard errors, and error of the sd, by which two estimates may differ
UNSEEN = 1.0  # beyond this the observed variance is mostly noise and says little about the posterior's
UNSTABLE = 100.0  # times the variance: the most that is assumed along a direction in which the law has none
SLACK = 0.1  # of a variance: Monte Carlo error that need not be explained
NEGLIGIBLE = 1e-6  # share of a coordinate in the stiffest direction
LEGS = 8  # rounds in which what legs add and what is left without it are found
HOT = 3.0  # times what the law explains: a temperature, measured at few points, beyond which a step is unstable

TABLES = ("virial", "virial_error", "conflicts", "spread", "shift", "shift_error", "shift_chance")
"""Fields of a report that are stored by their names."""

Moments = dict[str, np.ndarray]


@part
@dataclass(frozen=True)
class BiasReport:
    """Per variable: the share of the noise that came from minibatches, and the estimated relative error of the sd."""

    limit: ClassVar[float] = LIMIT
    """Of an error of the sd that is accepted."""
    minibatch_share: dict[str, np.ndarray]
    sd_error: dict[str, np.ndarray]
    step_size: float
    exact_steps: bool = False  # minibatches are the only source of error: the dynamics is not discretised
    stiffest_error: float = 0.0  # of the sd along the direction that strains the step most; infinite: unstable
    r_hat: float | None = None  # the largest of ``moment_rhat``; None: not measured
    r_hat_in: str = ""  # the variable it was found in
    started_apart: bool | None = None  # None: not known
    fault: str = ""  # what the sampler itself says against its law
    note: str = ""  # of a model: what its sds are those of, and what they are not; of codes: control variates
    virial: dict[str, np.ndarray] = field(default_factory=dict)  # sampled over true variance, by the virial identity
    virial_error: dict[str, np.ndarray] = field(default_factory=dict)
    conflicts: dict[str, np.ndarray] = field(default_factory=dict)  # whether it is what ``sd_error`` shows
    spread: dict[str, np.ndarray] = field(default_factory=dict)  # of squares, where the posterior is known: codes
    shift: dict[str, np.ndarray] = field(default_factory=dict)  # of means, in sds; empty: not measured, or small
    shift_error: dict[str, np.ndarray] = field(default_factory=dict)
    shift_chance: dict[str, np.ndarray] = field(default_factory=dict)  # its Monte Carlo error
    narrowest: float | None = None  # combination of parameters: its sampled over true variance; None: not measured
    narrowest_error: float = np.inf
    narrowest_in: str = ""  # its largest weights, of parameters in units of their sds
    widest: float | None = None
    widest_error: float = np.inf
    widest_in: str = ""
    legs_error: float = 0.0  # of the sd, at most: what the legs of chains that travel add to it
    strain: float = 0.0  # the largest curvature at draws, over the largest that the step bears; 0: not measured

    @property
    def worst(self) -> tuple[str, float]:
        """The variable with the largest error of the sd, and that error."""
        errors = {name: float(e.flat[np.argmax(np.abs(e))]) for name, e in self.sd_error.items() if e.size}
        name = max(errors, key=lambda n: abs(errors[n]))
        return name, errors[name]

    @property
    def accurate(self) -> bool:
        """Whether the estimated error of every posterior sd stays below the limit, where the chains have been."""
        return abs(self.worst[1]) <= LIMIT and self.stable and not self.fault

    @property
    def agreed(self) -> bool:
        """Whether the chains agree with each other, in mean and in variance."""
        return self.r_hat is not None and self.r_hat <= RHAT_LIMIT

    @property
    def stable(self) -> bool:
        """Whether the step is short enough for every direction, as far as they were seen."""
        return bool(np.isfinite(self.stiffest_error))

    @property
    def contradicted(self) -> int:
        """The parameters in which the virial identity says something else than the sampler's law."""
        return sum(int(np.sum(conflict)) for conflict in self.conflicts.values())

    @property
    def mean_off(self) -> tuple[str, float, float, float]:
        """The variable whose mean is off by most beyond doubt, that in sds, its standard error, and Monte Carlo
        error; 0 where none is."""
        far = ("", 0.0, 0.0, 0.0)
        for name, size in self.shift.items():
            error = self.shift_error[name]
            sure = np.where(np.isfinite(size) & (np.abs(size) > DOUBT * error), size, 0.0)
            k = int(np.argmax(np.abs(sure))) if sure.size else 0
            if sure.size and abs(sure.flat[k]) > abs(far[1]):
                far = (name, float(sure.flat[k]), float(error.flat[k]), float(self.shift_chance[name].flat[k]))
        return far

    @property
    def combinations_off(self) -> list[tuple[str, float]]:
        """The worst combinations of parameters with the relative error of their sd, if beyond chance."""
        seen = self._combinations
        far = np.abs(seen.sd_error) > DOUBT * seen.sd_error_error + SLIGHT
        words = (self.narrowest_in, self.widest_in)
        return [(words[i], float(seen.sd_error[i])) for i in np.flatnonzero(far)]

    @property
    def _combinations(self) -> Virials:
        """Of the narrowest and of the widest; of none if they were not measured."""
        if self.narrowest is None or self.widest is None:
            return Virials(np.empty(0), np.empty(0))
        return Virials(np.array([self.narrowest, self.widest]), np.array([self.narrowest_error, self.widest_error]))

    def comparing(self, moments: AllMoments) -> BiasReport:
        """The report with these means and variances of chains compared: of draws that a model made of theirs."""
        found = moment_rhat(moments.mean, moments.variance(), moments.count)
        return replace(self, **{"r_hat": None, "r_hat_in": ""} | worst_rhat(found))

    def findings(self) -> list[Finding]:
        """What the report has to say of a result."""
        name, error = self.worst
        found = [Finding(NOT, self.fault)] if self.fault else []
        if not self.stable:
            text = "the step is unstable in the combination of parameters with the largest curvature"
            found.append(Finding(NOT, text, Advice(less_bias=True)))
        if abs(error) > LOST or not np.isfinite(error):
            wide = "too wide" if error > 0 else "too narrow: they hardly moved"
            text = f"the chains are {wide}: {self._said(error)} in the sd of {name}"
            found.append(Finding(NOT, text, Advice(less_bias=True)))
        elif abs(error) > LIMIT:
            found.append(
                Finding(MEANS, f"posterior sds are off by up to {error:+.1%} ({name})", Advice(less_bias=True))
            )
        if self.stable and abs(self.stiffest_error) > STRETCHED:
            text = f"combinations of parameters are off by up to {self.stiffest_error:+.0%} in their sd"
            found.append(Finding(MEANS, text, Advice(less_bias=True)))
        if self.strain > STRAINED:
            found.append(Finding(MEANS, f"{self._strained}: {NECK}"))
        for words, off in self.combinations_off:
            if abs(off) > LIMIT:
                text = f"a combination of parameters ({words}) is sampled {_too(off)}"
                found.append(Finding(NOT if abs(off) > LOST else MEANS, text, Advice(less_bias=True)))
        found += self._shifted()
        if self.r_hat is not None and self.r_hat > RHAT_LIMIT:
            lost = self.r_hat > RHAT_LOST
            text = f"chains differ in mean or variance: R-hat of moments {self.r_hat:.2f} ({self.r_hat_in})"
            found.append(Finding(NOT if lost else LONGER, text, Advice(10.0 if lost else 4.0, less_bias=lost)))
        if all(finding.kind == USE for finding in found):
            seen = " by two ways of measuring it" if self.virial and self.sd_error else ""
            found.append(Finding(USE, f"bias of posterior sds at most {error:+.1%} ({name}){seen}"))
            if self.agreed and not self.exact_steps and not self.started_apart:
                found.append(Finding(USE, "the chains began around one point, and would not see a mode elsewhere"))
        return found

    def _shifted(self) -> list[Finding]:
        """What there is to say of means."""
        name, size, error, by_chance = self.mean_off
        if abs(size) <= NOTICED:
            return []
        text = f"means are off by up to {size:+.2f} sd ({name}, standard error {error:.2f})"
        if abs(size) <= SHIFTED:
            return [Finding(USE, text)]
        if abs(size) <= BY_CHANCE * by_chance:
            return [Finding(LONGER, f"{text}, as in so short a run they may be", Advice((size / NOTICED) ** 2))]
        return [Finding(NOT, text, Advice(less_bias=True))]

    @property
    def _strained(self) -> str:
        return f"the largest curvature at draws is {self.strain:.0%} of what the step bears"

    @staticmethod
    def _said(error: float) -> str:
        return "more than any law explains" if not np.isfinite(error) else f"{error:+.1%}"

    def __str__(self) -> str:
        lines = [f"bias report (step size {self.step_size:.3g})" if np.isfinite(self.step_size) else "bias report"]
        if self.minibatch_share:
            share = np.concatenate([np.ravel(v) for v in self.minibatch_share.values()])
            lines.append(
                f"  noise from minibatches: {np.median(share):.0%} of all noise (median), {np.max(share):.0%} at most"
            )
        if self.fault:
            lines.append(f"  NOT the law that the sampler promises: {self.fault}")
        if not self.stable:
            lines.append(
                "  the step is UNSTABLE in the combination of parameters with the largest curvature: only that the "
                "posterior is not Gaussian holds the chains"
            )
        else:
            name, error = self.worst
            lines.append(f"  estimated error of the posterior sd: at most {self._said(error)} (in {name})")
            if self.legs_error:
                lines.append(f"  of that the legs between shards: at most {self._said(self.legs_error)}")
            if abs(self.stiffest_error) > LIMIT:
                lines.append(
                    f"  in the combination of parameters with the largest curvature, if not in any single one: "
                    f"{self.stiffest_error:+.1%}"
                )
        if self.virial:
            ratio = np.concatenate([np.ravel(v) for v in self.virial.values()])
            roots = np.sqrt(np.maximum([ratio.min(), np.median(ratio), ratio.max()], 0))
            lines.append(
                f"  virial identity, sampled over true sd: {roots[0]:.2f} to {roots[2]:.2f}, median {roots[1]:.3f} "
                f"(standard error of a single one {self._virial_doubt:.2f})"
            )
        if self.contradicted:
            lines.append(
                f"  it CONTRADICTS the law's prediction in {self.contradicted:,} parameters, and is what counts there: "
                "chains have not left their start, or the posterior is far from Gaussian"
            )
        if self.shift:
            name, size, error, _ = self.mean_off
            told = f"up to {size:+.2f} sd in {name} (standard error {error:.2f})" if size else "nowhere beyond doubt"
            lines.append(f"  means are off, by Stein's identity: {told}")
        if self.strain:
            lines.append(f"  {self._strained}")
        lines += self._combined()
        lines += self._agreement()
        if self.note:
            lines.append(f"  {self.note}")
        return "\n".join(lines)

    @property
    def _virial_doubt(self) -> float:
        return float(np.median(np.concatenate([np.ravel(v) for v in self.virial_error.values()]))) / 2

    def _combined(self) -> list[str]:
        """What is known of combinations of parameters."""
        if self.narrowest is None:
            return []
        (narrow, wide), errors = self._combinations.sd_error + 1, self._combinations.sd_error_error
        told = (
            f"  in the combinations that look worst, sought in half of the chains and measured in the others: "
            f"{narrow:.2f} and {wide:.2f} (standard errors {errors[0]:.2f} and {errors[1]:.2f})"
        )
        return [told, *(f"  {words} is sampled {_too(off)}" for words, off in self.combinations_off)]

    def _agreement(self) -> list[str]:
        """What is known of the agreement between chains, and what that is worth."""
        if self.r_hat is None:
            return ["  agreement between chains was not measured, which takes two chains or more"]
        if not self.agreed:
            return [
                f"  the chains DISAGREE: R-hat of means and variances is {self.r_hat:.2f} (in {self.r_hat_in}), above "
                f"{RHAT_LIMIT}.\n  They are too short, or in different modes, or the posterior has heavy tails or a "
                "funnel"
            ]
        if self.exact_steps:
            return [f"  the chains agree: R-hat {self.r_hat:.2f}"]
        if self.started_apart:
            return [f"  chains that started apart agree: R-hat {self.r_hat:.2f} (in {self.r_hat_in})"]
        start = "all started around one point" if self.started_apart is False else "may all have started at one point"
        return [
            f"  the chains agree, R-hat {self.r_hat:.2f} (in {self.r_hat_in}), but {start}: other modes would not be "
            "seen"
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The report as named arrays, to be saved with the run."""
        arrays = {f"share/{name}": v for name, v in self.minibatch_share.items()}
        arrays |= {f"error/{name}": v for name, v in self.sd_error.items()}
        for kind in TABLES:
            arrays |= {f"{kind}/{name}": v for name, v in getattr(self, kind).items()}
        rest = {
            "step_size": self.step_size, "exact_steps": self.exact_steps, "stiffest_error": self.stiffest_error,
            "r_hat": self.r_hat, "r_hat_in": self.r_hat_in, "started_apart": self.started_apart,
            "fault": self.fault, "note": self.note, "narrowest": self.narrowest,
            "narrowest_error": self.narrowest_error, "narrowest_in": self.narrowest_in, "widest": self.widest,
            "widest_error": self.widest_error, "widest_in": self.widest_in, "strain": self.strain,
            "legs_error": self.legs_error,
        }  # fmt: skip
        return arrays | {name: np.asarray(value) for name, value in rest.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> BiasReport:
        """The inverse of ``to_arrays``; what is not there was not measured."""

        def part(kind: str) -> dict[str, np.ndarray]:
            return {n.removeprefix(f"{kind}/"): a for n, a in arrays.items() if n.startswith(f"{kind}/")}

        rest: dict[str, Any] = {f.name: arrays[f.name].item() for f in fields(cls) if f.name in arrays}
        rest |= {kind: part(kind) for kind in TABLES}
        return cls(part("share"), part("error"), **rest)


def _too(error: float) -> str:
    return f"{abs(error):.0%} too {'wide' if error > 0 else 'narrow'}"


def moment_rhat(mean: Moments, variance: Moments, count: int, spread: Moments | None = None) -> Moments:
    """R-hat of each coordinate from the means and variances of each chain, (chain, ...) by variable.

    The larger of two: the usual ratio of the variance of all draws to that within chains; and the same for squared
    deviations, whose variance is taken as that of a normal law, or is known: ``spread`` times the squared variance. The
    latter sees chains that agree in the mean and not in how far they went: heavy tails, and funnels. Empty for a single
    chain, or for too few draws.

    >>> still = {"x": np.array([0.0, 0.0])}
    >>> print(moment_rhat({"x": np.array([0.0, 1.0])}, {"x": np.array([1.0, 1.0])}, 1000)["x"].round(2))
    1.22
    >>> print(moment_rhat(still, {"x": np.array([0.2, 5.0])}, 1000)["x"].round(2))
    1.36
    """
    if count < FEWEST or not mean or len(next(iter(mean.values()))) < 2:
        return {}

    def one(mean: np.ndarray, variance: np.ndarray, spread: Any) -> np.ndarray:
        within, among = np.mean(variance, axis=0), np.var(mean, axis=0, ddof=1)
        with np.errstate(all="ignore"):
            place = np.where(among == 0, 0.0, among / within)  # what never moves agrees with itself
            width = np.where(within == 0, 0.0, np.var(variance, axis=0, ddof=1) / (spread * within**2))
        worse = np.maximum(place, width)
        return np.sqrt(1 - 1 / count + np.where(np.isnan(worse), np.inf, worse))

    known = spread or {}
    return {
        n: one(np.asarray(m, np.float64), np.asarray(variance[n], np.float64), known.get(n, 2.0))
        for n, m in mean.items()
    }


def spread_apart(starts: Moments, variance: Moments) -> bool:
    """Whether chains started farther from each other than draws around one mode would lie.

    ``starts`` are the first positions, (chain, ...) by variable, ``variance`` the variances of each chain. Compared is
    the typical coordinate.

    >>> spread_apart({"x": np.array([-3.0, 3.0])}, {"x": np.ones(2)})
    True
    """
    ratios = []
    for name, start in starts.items():
        if len(start) < 2:
            return False
        spread = np.std(np.asarray(start, np.float64), axis=0, ddof=1)
        within = np.sqrt(np.mean(np.asarray(variance[name], np.float64), axis=0))
        ratios.append(np.ravel(spread / np.maximum(within, np.finfo(np.float64).tiny)))
    return bool(ratios and np.median(np.concatenate(ratios)) >= APART)


def bias_report(
    sampler: Any, state: Any, variance: dict[str, np.ndarray], noise: dict[str, np.ndarray],
    curvature: dict[str, np.ndarray], epoch: float = np.inf,
    stiffest: tuple[dict[str, np.ndarray], Strain] | None = None, *,
    r_hat: Moments | None = None, started_apart: bool | None = None, virials: dict[str, Virials] | None = None,
    worst: Sequence[tuple[str, Combination]] = (), travelling: TourNoise | None = None,
) -> BiasReport | None:  # fmt: skip
    """The report for a run; None for runs without temperature, and for samplers that do not know their law if there is
    no virial either.

    ``r_hat`` is what ``moment_rhat`` found, ``started_apart`` what ``spread_apart`` did; without them the report does
    not know whether the chains agree. ``worst`` are the words for the narrowest and the widest combination, and what
    was found of each. ``travelling`` is the noise of chains that travel between shards of the data, whose ``within`` is
    the ``noise``.
    """
    report = _by_law(sampler, state, variance, noise, curvature, epoch, stiffest, r_hat, started_apart, travelling)
    if not virials:
        return report
    if report is None:
        unknown = {name: np.zeros(found.ratio.shape) for name, found in virials.items()}
        h = float(np.mean([np.mean(np.asarray(leaf)) for leaf in jax.tree.leaves(at(sampler.step_size, 0))]))
        report = BiasReport({}, unknown, h, started_apart=started_apart, **worst_rhat(r_hat))
    report = _checked(report, virials)
    if worst:
        # Measured in other chains than they were sought in, both may be right: by chance the widest is then narrower.
        (thin, narrowest), (wide, widest) = sorted(worst, key=lambda found: found[1].ratio)
        report = replace(
            report, narrowest=narrowest.ratio, narrowest_error=narrowest.error, narrowest_in=thin,
            widest=widest.ratio, widest_error=widest.error, widest_in=wide,
        )  # fmt: skip
    return report


def _checked(report: BiasReport, virials: dict[str, Virials]) -> BiasReport:
    """The report with the virial identity, which counts where it contradicts the law, beyond chance."""
    errors, conflicts = dict(report.sd_error), {}
    for name, found in virials.items():
        with np.errstate(invalid="ignore"):
            apart = np.abs(found.sd_error - errors[name])
        conflicts[name] = ~(apart <= DOUBT * found.sd_error_error + SLIGHT)
        errors[name] = np.where(conflicts[name], found.sd_error, errors[name])
    return replace(
        report, sd_error=errors, virial={name: found.ratio for name, found in virials.items()},
        virial_error={name: found.error for name, found in virials.items()}, conflicts=conflicts,
    )  # fmt: skip


def _by_law(
    sampler: Any, state: Any, variance: dict[str, np.ndarray], noise: dict[str, np.ndarray],
    curvature: dict[str, np.ndarray], epoch: float, stiffest: tuple[dict[str, np.ndarray], Strain] | None,
    r_hat: Moments | None, started_apart: bool | None, travelling: TourNoise | None,
) -> BiasReport | None:  # fmt: skip
    """By the sampler's law, if it knows it."""
    if not has_law(sampler) or not noise:
        return None
    temperature = float(at(sampler.temperature, state.step))
    if temperature <= 0 or sampler.recorded_stages()[0] > 1:  # cycles have no stationary law
        return None
    current = getattr(state, "step_size", sampler.step_size)  # some adapt it
    h = np.mean([np.mean(np.asarray(leaf)) for leaf in jax.tree.leaves(at(current, state.step))])
    if sampler.full_data or sampler.exact_minibatches:  # a Metropolis-Hastings test, or thinning, leaves no error
        none, fault = {name: np.zeros(v.shape) for name, v in noise.items()}, sampler.fault(state)
        return BiasReport(none, none, float(h), started_apart=started_apart, fault=fault, **worst_rhat(r_hat))
    like, structure = state.position, jax.tree.structure(state.position)

    def tree(values: dict[str, np.ndarray]) -> Params:
        return jax.tree.unflatten(structure, [np.asarray(values[name], np.float64) for name in noise])

    observed, tiny = tree(variance), np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):
        ratio = {n: max(0.0, float(np.sum(noise[n]) / max(np.sum(curvature[n]), tiny))) for n in noise}
    # Noise that was measured along each parameter's own direction needs no such assumption; that within shards of the
    # data has not all of what is proportional.
    own = sampler.own_directions or travelling is not None
    trustworthy = {n: bool(np.sum(curvature[n]) > 0) and not own for n in noise}
    factor = tree({n: np.full(noise[n].shape, ratio[n]) for n in noise})
    fixed = tree(noise)
    proportional = tree({n: np.full(noise[n].shape, trustworthy[n]) for n in noise})

    with np.errstate(all="ignore"):
        bends = tree({n: _bend(curvature[n], noise[n], ratio[n]) for n in noise})

    def precision(excess: Params, observed: Params) -> Params:
        return jax.tree.map(lambda e, s: e * temperature / np.maximum(s, tiny), excess, observed)

    def explained(observed: Params) -> Params:
        """Sampled over posterior variance, if the sampled one is what was ``observed``."""

        def law(excess: Params) -> Params:
            """The sampled variance if the posterior variance were the observed one divided by ``excess``."""
            lam = precision(excess, observed)
            v = jax.tree.map(lambda lam, c, f, p: np.where(p, c * lam, f), lam, factor, fixed, proportional)
            return jax.tree.map(np.asarray, sampler.stationary_variance(state, lam, v, epoch))

        def most(excess: Params) -> Params:
            """The same for noise as it was measured, if that is larger: a bound should not be too low."""
            own_law = sampler.stationary_variance(state, precision(excess, observed), fixed, epoch)
            return jax.tree.map(np.maximum, law(excess), own_law)

        with np.errstate(all="ignore"):  # what overflows has no solution, and is reported as such
            steepest = jax.tree.map(
                lambda b, s, p: np.where((p > 0) & (b > 0), b * s / temperature, np.nan), bends, observed, proportional
            )
            return _solve(law, most, observed, steepest)

    excess, legs = explained(observed), 0.0
    if travelling is not None:
        laws = tree(travelling.between), partial(sampler.stationary_variance, state, epoch=travelling.tours)
        excess, legs = _with_legs(excess, observed, *laws, precision, explained)
    injected = jax.tree.map(lambda i: np.asarray(i, np.float64), sampler.injected_noise(state, like))
    along = 0.0
    if stiffest is not None and stiffest[1].curvature > 0:
        direction, strain = tree(stiffest[0]), stiffest[1]
        inflation = _inflation(sampler, state, direction, strain, temperature, epoch)
        # Legs heat a direction in a way that is not looked at here, but in each parameter.
        hot = travelling is None and strain.temperature / temperature > HOT * inflation
        along = np.inf if hot else float(np.sqrt(inflation) - 1)
        factor = strain.temperature / temperature if hot else inflation
        added = temperature / strain.curvature * (min(factor, UNSTABLE) - 1)
        with np.errstate(all="ignore"):
            excess = jax.tree.map(lambda e, u, s: _with_added(e, u * added, s, factor), excess, direction, observed)
    share = jax.tree.map(lambda v, i: v / np.maximum(v + i, tiny), fixed, injected)
    error = jax.tree.map(lambda e: np.sqrt(e) - 1, excess)
    return BiasReport(
        named_leaves(share), named_leaves(error), float(h), stiffest_error=along, started_apart=started_apart,
        legs_error=legs, **worst_rhat(r_hat),
    )  # fmt: skip


def _with_legs(
    excess: Params, observed: Params, between: Params, stationary: Callable[[Params, Params], Params],
    precision: Callable[[Params, Params], Params], explained: Callable[[Params], Params],
) -> tuple[Params, float]:  # fmt: skip
    """Sampled over posterior variance, the part of legs included, and what they add to the sd at most."""
    rest, none, tiny = observed, jax.tree.map(np.zeros_like, observed), np.finfo(np.float64).tiny

    def left(s: np.ndarray, own: Any, still: Any) -> np.ndarray:
        """Of the observed variance without what legs add to it."""
        return np.maximum(s - np.nan_to_num(np.asarray(own) - np.asarray(still)), tiny)

    with np.errstate(all="ignore"):
        for _ in range(LEGS):
            lam = precision(excess, observed)
            rest = jax.tree.map(left, observed, stationary(lam, between), stationary(lam, none))
            # Half of the way each time: more of the one is less of the other.
            excess = jax.tree.map(lambda x, e, s, r: np.sqrt(x * e * s / r), excess, explained(rest), observed, rest)
        times = jax.tree.map(lambda s, r: np.max(np.where(r > tiny, s / r, np.inf)), observed, rest)
    return excess, float(np.sqrt(max(jax.tree.leaves(times)))) - 1


def worst_rhat(r_hat: Moments | None) -> dict[str, Any]:
    """The fields of a report that hold the largest R-hat and its variable; none if nothing was measured."""
    largest = {name: float(np.max(values)) for name, values in (r_hat or {}).items() if values.size}
    name = max(largest, key=lambda n: largest[n], default=None)
    return {} if name is None else {"r_hat": largest[name], "r_hat_in": name}


def _inflation(sampler: Any, state: Any, direction: Params, strain: Strain, temperature: float, epoch: float) -> float:
    """Sampled over true variance along the stiffest direction: the law at its curvature, whatever the coordinate."""
    drift = sampler.drift_scale(state, direction)
    unit = jax.tree.map(lambda u, m: np.broadcast_to(1 / np.asarray(m, np.float64), u.shape), direction, drift)
    precision, noise = (jax.tree.map(lambda i, x=x: x * i, unit) for x in (strain.curvature, strain.noise))
    variance = sampler.stationary_variance(state, precision, noise, epoch)
    weights = jax.tree.map(np.multiply, direction, unit)
    total = sum(np.sum(w) for w in jax.tree.leaves(weights))
    ratios = jax.tree.map(
        lambda w, v, p: np.sum(np.where(w > NEGLIGIBLE * total, w * v * p, 0)), weights, variance, precision
    )
    return float(sum(jax.tree.leaves(ratios)) / (temperature * total))


def _with_added(excess: np.ndarray, added: np.ndarray, observed: np.ndarray, factor: float) -> np.ndarray:
    """Observed over true variance, of two explanations the one that moves it further: they see the same error.

    No coordinate is inflated by more than the direction itself, by ``factor``.
    """
    left = 1 - added / observed
    other = np.where(left > (1 + UNSEEN) ** -2, 1 / np.maximum(left, np.finfo(float).tiny), np.inf)
    other = np.minimum(other, max(factor, 1.0))
    return np.where(np.abs(np.log(other)) > np.abs(np.log(excess)), other, excess)


def _bend(curvature: np.ndarray, noise: np.ndarray, ratio: float) -> np.ndarray:
    """The curvature of each coordinate, of two measurements the larger; Hutchinson's may be far too small for one."""
    return np.maximum(curvature, noise / ratio) if ratio > 0 else np.asarray(curvature)


def _solve(
    law: Callable[[Params], Params], most: Callable[[Params], Params], observed: Params, steepest: Params
) -> Params:
    """The ratio of observed to posterior variance at which the law gives what was observed.

    The law falls as the ratio (the curvature) grows, until the step comes near its limit of stability, or the noise
    of an epoch no longer averages out, and it rises again. Where most of the variance is noise this is badly posed:
    two crossings, or none if a measurement is off by a twentieth. But no coordinate has a smaller posterior variance
    than T over its curvature (Cramer and Rao), so no ratio is larger than ``steepest``. Where the law explains all that
    was observed with that curvature, its inflation there is the answer; elsewhere the crossing next below. Where no
    curvature was measured, or the law has no variance at it, the first crossing on a grid counts; infinite where there
    is none below ``1 + UNSEEN``.
    """
    inflated = jax.tree.map(lambda v, e, s: v * e / s, most(steepest), steepest, observed)
    known = jax.tree.map(np.isfinite, inflated)
    top = jax.tree.map(lambda k, e: np.where(k, e, (1 + UNSEEN) ** 2), known, steepest)
    explained = jax.tree.map(lambda i, e, k: k & (i >= (1 - SLACK) * e), inflated, top, known)
    # From the top down where it is known, from below where not.
    bottom = jax.tree.map(lambda e: np.minimum(np.log(0.25), np.log(e) - 1), top)
    shares = np.linspace(0, 1, 100)
    step = shares[1]

    def place(share: Params) -> Params:
        return jax.tree.map(lambda t, e, b, k: b + np.where(k, 1 - t, t) * (np.log(e) - b), share, top, bottom, known)

    high = jax.tree.map(lambda s: np.full(s.shape, np.inf), observed)
    for t in shares:
        value = law(jax.tree.map(np.exp, place(jax.tree.map(lambda s, t=t: np.full(s.shape, t), observed))))
        high = jax.tree.map(
            lambda b, v, s, k, t=t: np.where(((v > s) == k) & (b == np.inf), t, b), high, value, observed, known
        )
        answered = jax.tree.map(lambda b, x: np.all(x | np.isfinite(b)), high, explained)
        if all(jax.tree.leaves(answered)):  # 100,000 coordinates take a second for the whole grid
            break
    found = jax.tree.map(np.isfinite, high)
    high = jax.tree.map(lambda b, f: np.where(f, b, 1.0), high, found)
    low = jax.tree.map(lambda b: b - step, high)
    for _ in range(20):
        middle = jax.tree.map(lambda a, b: (a + b) / 2, low, high)
        value = law(jax.tree.map(np.exp, place(middle)))
        before = jax.tree.map(lambda v, s, k: (v > s) != k, value, observed, known)
        low = jax.tree.map(np.where, before, middle, low)
        high = jax.tree.map(np.where, before, high, middle)
    return jax.tree.map(
        lambda u, f, x, i: np.where(x, i, np.where(f, np.exp(u), np.inf)), place(low), found, explained, inflated
    )
