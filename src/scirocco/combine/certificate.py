"""How far combined draws can be trusted, by one pass over all data.

    theta_i ~ q,    w_i ~ p(theta_i | all data) / q(theta_i),    i = 1, ..., 1000

q has the mean, the covariance and the shape of the combined draws (``combine.density``), and its density is known.
Weights are smoothed by a generalised Pareto law fitted to the largest (Vehtari et al. 2024, ArviZ's ``psislw``). Its
shape k says how heavy their tail is: below 0.7 averages with these weights are reliable, so that the error of the
combined answer can be measured and taken off; above, q misses part of the posterior, and neither q nor any weighting of
it can be trusted. What no draw has come near, such as a mode that no shard has found, no weight can tell.

Log posteriors are taken relative to that of the draw next to the mean, row by row: see ``Target.log_posteriors``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.combine.density import KernelMixture
from scirocco.combine.diagnosis import Diagnosis
from scirocco.combine.shards import Shards
from scirocco.core.checks import require_count, require_seed
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import named_leaves
from scirocco.core.types import Params
from scirocco.run.verdict import NOT, USE, Finding
from scirocco.target import Target, require_target

FEWEST = 100  # effective draws, for a reweighted answer
UNSEEN = "a mode that none of them has found would not be seen"
NEAR = 0.25  # sds, and share of an sd: an error of the combined answer that is small


@dataclass(frozen=True, eq=False)
class Certificate:
    """The verdict on combined draws, and the answer with their error taken off."""

    k_hat: float
    effective: float
    """The effective sample size of the weighted draws."""
    shift: float
    """How far the combined mean is from the reweighted one, of the worst coordinate, in sds."""
    stretch: float
    """The combined sd over the reweighted one, less 1, of the worst coordinate."""
    doubt: float
    """Two standard errors of ``shift`` and ``stretch``, of the coordinate of which least is known."""
    mean: Any
    """Posterior means by the weights, in the form of one draw."""
    sd: Any
    """Posterior sds."""
    draws: Any
    """The weighted draws, along the leading axis."""
    weights: np.ndarray
    """Smoothed; their sum is 1."""
    diagnosis: Diagnosis | None = None
    wanted: int = 0
    """Combined draws that a density in so many dimensions needs, if there are fewer; or 0."""

    @property
    def reliable(self) -> bool:
        """Whether the weights are: the reweighted answer can be trusted."""
        return bool(self.k_hat < _limit(self.weights.size) and self.effective >= FEWEST)

    @property
    def trusted(self) -> bool:
        """Whether the combined draws are right as they are, within a quarter of an sd beyond doubt."""
        return self.reliable and max(self.shift, abs(self.stretch)) + self.doubt < NEAR

    @property
    def verdict(self) -> str:
        """In words."""
        if self.trusted:
            return f"trust it where the draws are; {UNSEEN}"
        if self.reliable:
            return (
                f"trust the reweighted answer: the combined one is off by {self.shift:.2f} sds in a mean and by "
                f"{self.stretch:+.0%} in an sd, give or take {self.doubt:.2f}; {UNSEEN}"
            )
        if self.diagnosis is not None and self.diagnosis.warnings:
            return self.diagnosis.warnings[0]
        if self.wanted:
            return f"it cannot be said: there are too few combined draws for so many dimensions. Make {self.wanted}"
        return (
            "do not trust it: the combined draws miss part of the posterior. Take fewer shards, another method, or a "
            "sampler on all data"
        )

    def findings(self) -> list[Finding]:
        """What it says of the combined draws, for a verdict."""
        return [Finding(USE if self.trusted else NOT, str(self))]

    def resampled(self, num_samples: int = 1000, *, seed: int = 0) -> Any:
        """Draws with equal weights, in the same form."""
        require_count("num_samples", num_samples)
        rng = generator(require_seed(seed), Purpose.CERTIFICATE, 1)
        places = (np.arange(num_samples) + rng.random()) / num_samples
        chosen = rng.permutation(np.minimum(np.searchsorted(np.cumsum(self.weights), places), self.weights.size - 1))
        return jax.tree.map(lambda leaf: leaf[chosen], self.draws)

    def __str__(self) -> str:
        return f"k-hat {self.k_hat:.2f}, {self.effective:.0f} effective of {self.weights.size} draws: {self.verdict}"


def certify(
    target: Target, draws: Any, *, num_samples: int = 1000, seed: int = 0, diagnosis: Diagnosis | None = None,
    like: Params = None,
) -> Certificate:  # fmt: skip
    """Weigh ``num_samples`` draws like ``draws`` by the posterior of all data.

    ``draws`` are parameters of the target with a leading axis, or a data set with variables of their names; ``like``
    are parameters of the same form, for a data set whose names are paths. ``diagnosis`` of the shards, if there is one,
    gives the verdict its words. What no draw has come near no weight can tell: of draws from one of two modes that lie
    far apart the certificate says what it says of a posterior with one.

    >>> import jax.numpy as jnp, numpy as np, scirocco as sc
    >>> x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, row: -(row - m) ** 2 / 2, x)
    >>> exact = np.random.default_rng(1).normal(x.sum() / 1001, 1001**-0.5, 2000)
    >>> certify(target, exact).verdict
    'trust it where the draws are; a mode that none of them has found would not be seen'
    >>> certify(target, exact + 1).reliable
    False
    """
    require_target(target)
    require_count("num_samples", num_samples, least=FEWEST)
    if not isinstance(diagnosis, Diagnosis | None):
        raise TypeError(f"diagnosis must come from combine.diagnose(draws); got {type(diagnosis).__name__}")
    if not target.geometry.flat:
        raise ValueError("a certificate needs parameters that are free: on manifolds kernels have no density here")
    params = _parameters(draws, like)
    if target.change:
        return _certified_free(target, params, num_samples, seed, diagnosis)
    shards = Shards.single(params)
    flat = shards.values[0]
    if len(flat) <= flat.shape[1] + 1:
        raise ValueError(f"{len(flat)} draws are too few for a density in {flat.shape[1]} dimensions")
    _ = shards.precisions  # must not be singular
    _require_form(target, jax.tree.map(lambda leaf: leaf[0], shards.restore(flat[:1])))
    proposal = KernelMixture.fitted(flat)
    places = shards.restore(proposal.sample(num_samples, generator(require_seed(seed), Purpose.CERTIFICATE)))
    points = Shards.single(places).values[0]  # as they are in the precision of the parameters

    def one(coordinates: np.ndarray) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], shards.restore(coordinates[None]))

    # Relative to the draw next to the mean, which may itself lie where the posterior is zero.
    logs = target.log_posteriors(places, one(flat[proposal.innermost(flat)])) - proposal.log_density(points)
    weights, k_hat = _smoothed(logs)
    mean, mean_error = _expected(weights, points, proposal.mean)
    variance, variance_error = _expected(
        weights, (points - mean) ** 2, proposal.variances + (proposal.mean - mean) ** 2
    )
    sd = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    shift, stretch = np.abs(flat.mean(axis=0) - mean) / sd, flat.std(axis=0) / sd - 1
    enough = flat.shape[1] ** 2
    doubt = 2 * max(np.max(mean_error / sd), np.max(variance_error / (2 * variance)))
    return Certificate(
        k_hat, float(1 / np.sum(weights**2)), float(np.max(shift)), float(stretch[np.argmax(np.abs(stretch))]),
        float(doubt), one(mean), one(sd), places, weights, diagnosis, enough if len(flat) < enough else 0,
    )  # fmt: skip


def _certified_free(
    target: Target, params: Params, num_samples: int, seed: int, diagnosis: Diagnosis | None
) -> Certificate:  # fmt: skip
    """The certificate of draws with constraints: by free numbers, which have a density wherever they are."""
    free = target.free()
    draws = jax.jit(jax.vmap(target.change.free))(jax.tree.map(jnp.asarray, params))
    found = certify(free, draws, num_samples=num_samples, seed=seed, diagnosis=diagnosis)
    places = jax.tree.map(np.asarray, jax.jit(jax.vmap(target.change.parameters))(found.draws))

    def weighted(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.tensordot(found.weights, values.astype(np.float64), axes=1))

    mean = jax.tree.map(weighted, places)
    sd = jax.tree.map(lambda x, m: np.sqrt(weighted((x - m) ** 2)), places, mean)
    return replace(found, mean=mean, sd=sd, draws=places)


def _require_form(target: Target, draw: Any) -> None:
    """Reject draws that the functions of the target cannot take."""
    try:
        target.check(draw, values=False)
    except Exception as error:  # whatever the user's functions raise
        found = ", ".join(f"{name} {np.shape(leaf)}" for name, leaf in named_leaves(draw).items())
        raise ValueError(
            f"draws must be parameters of the target with a leading axis; one of them is {found}, and the target says "
            f"{type(error).__name__}: {error}"
        ) from error


def _expected(weights: np.ndarray, values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of columns and their standard errors.

    ``known`` are the means under q, which the points have with an error; what of it is in the answer is taken off. If
    q is the posterior nothing else is, and the answer is exact.
    """
    plain = weights @ values
    influence = len(weights) * weights[:, None] * (values - plain)
    centred = values - values.mean(axis=0)
    slope = np.mean(influence * centred, axis=0) / np.maximum(np.mean(centred**2, axis=0), np.finfo(float).tiny)
    error = np.sqrt(np.mean((influence - slope * centred) ** 2, axis=0) / len(weights))
    return plain - slope * (values.mean(axis=0) - known), error


def _parameters(draws: Any, like: Params) -> Any:
    """Arrays along a leading axis; of a data set its variables by name, or the one that has none."""
    posterior = getattr(draws, "posterior", draws)
    if not hasattr(posterior, "data_vars"):
        return posterior
    found = {
        str(name): variable.transpose("chain", "draw", ...).values.reshape(-1, *variable.shape[2:])
        for name, variable in posterior.data_vars.items()
    }
    if like is not None:
        names = named_leaves(like)
        if set(names) != set(found):
            raise ValueError(f"draws have the variables {sorted(found)}; the parameters are {sorted(names)}")
        return jax.tree.unflatten(jax.tree.structure(like), [found[name] for name in names])
    return found["theta"] if set(found) == {"theta"} else found


def _smoothed(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights whose sum is 1, and k-hat; of nothing but infinities no weights."""
    finite = np.isfinite(logs)
    if not finite.any():
        return np.full(logs.size, 1 / logs.size), np.inf
    smoothed, k = _pareto_smoothed(np.where(finite, logs, logs[finite].min() - 700))
    weights = np.exp(np.asarray(smoothed) - np.max(smoothed))
    return weights / weights.sum(), float(k)


def _pareto_smoothed(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log weights and k-hat, by ArviZ 0.x or by what 1.x has in its place, which differ in the third digit of k-hat."""
    try:
        from arviz import psislw
    except ImportError:
        from arviz_stats.base import array_stats

        return array_stats.psislw(-logs)  # it takes log likelihoods that are left out, the reciprocals of weights
    return psislw(logs)


def _limit(count: int) -> float:
    """The k-hat up to which so many draws are enough (Vehtari et al. 2024, section 3.2)."""
    return min(1 - 1 / np.log10(count), 0.7)
