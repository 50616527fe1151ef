"""Zero-variance control variates for matrix factorisation: Figure 3.5.4 of Baker's thesis (2019).

SGLD-CV on the ratings of MovieLens-100k as in ``matrix_factorization_growing_data.py``: 20 factors, minibatches of
5,000, all 943 users, 55,000 parameters. The figure has box plots of the log predictive density of held-out ratings over
the draws of a run, before and after the correction; the source claims excellent variance reduction.

There are too many parameters to correct the log predictive density by all gradients at once: a regression with more
columns than draws fits anything. The source's published programs (github.com/jackcbaker/control-variates-sgld) correct
the parameters instead, the factors of each user and item by the 20 gradients of that user or item, and take the log
predictive density at the corrected parameters: 'at corrected parameters' does the same. That is no estimate of the mean
log predictive density: it tends to the log predictive density at the posterior mean.

So the log predictive density itself is corrected as well, by 42 columns that are chosen before the run ('few columns').
A column is the sum of c_i d_i U over a group of parameters. Groups are the parts of the 20 factors, for users and for
items, and the two kinds of biases. The weights c_i are the slope of the log predictive density at the centre over the
curvature of U there, the best choice for a Gaussian with independent coordinates. Shares of variance removed are those
over the draws of a run, with coefficients from all draws. Means and standard errors are those of
``sc.postprocess.zero_variance``, where each half of the draws is corrected by the coefficients of the other half;
'gain' is how many times more draws the plain mean would need.

The step size of SGLD-CV is that of Table A.3.3, 1e-6 over sqrt(S), twice that of ``sc.SGLD``; with it the chain hardly
leaves its centre. So there is a second run with the step size of SGLD, 5e-3 ('larger steps').

What differs: there are 3 runs in place of 5. A run has 4,000 iterations after 750 of stochastic gradient descent, the
first 1,000 not counted; every 10th is a draw. The programs have 10,000 and keep all. Gradients are those of SGLD-CV,
from minibatches of their own; those of the programs are the ones that made the draw. The regression of the programs
shrinks the covariance of the gradients; here it is plain least squares with 300 draws. The source reports pictures
only. Full mode reads ``ml100k.npz`` in the folder named by SCIROCCO_DATA. Short mode draws ratings from the model. The
variance over the draws of a run holds drift as well: in ``matrix_factorization_growing_data.py`` chains with larger
steps still fall after 1,000 iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, FILL, Claim
from rating_chains import TAU, Chains, Program, Ratings, Settings, ratings

import scirocco as sc
from scirocco.models.matrix_factorization import WEIGHTS
from scirocco.postprocess import ZeroVariance, zero_variance

PRINTED, LARGER = "printed steps", "larger steps"
MODES: dict[str, Any] = {  # draws and burn-in are counted in stretches of 10 iterations
    "tiny": {"factors": 2, "batch": 50, "users": 40, "runs": 1, "descent": 4, "burn_in": 2, "draws": 30,
             "steps": {"SGD": 2e-2, PRINTED: 1e-6, LARGER: 5e-3}},
    "short": {"factors": 3, "batch": 1000, "users": 40, "runs": 2, "descent": 60, "burn_in": 40, "draws": 200,
              "steps": {"SGD": 2e-2, PRINTED: 1e-6, LARGER: 5e-3}},
    "full": {"factors": 20, "batch": 5000, "users": 943, "runs": 3, "descent": 75, "burn_in": 100, "draws": 300,
             "steps": {"SGD": 1e-2, PRINTED: 1e-6, LARGER: 5e-3}},
}  # fmt: skip


class Chain(NamedTuple):
    """The log predictive densities of a run: as sampled, corrected, at corrected parameters; the library's estimate."""

    raw: np.ndarray
    corrected: np.ndarray
    parameters: np.ndarray
    estimate: ZeroVariance

    @property
    def removed(self) -> float:
        """The share of the variance over the draws that the correction takes off."""
        return float(1 - self.corrected.var() / self.raw.var())

    @property
    def remaining(self) -> float:
        """The variance at corrected parameters over that of the draws."""
        return float(self.parameters.var() / self.raw.var())

    @property
    def higher(self) -> float:
        """By how many standard errors the mean at corrected parameters lies above that of the draws."""
        return float((self.parameters.mean() - self.raw.mean()) / self.estimate.plain_se)

    @property
    def moved(self) -> float:
        """By how many standard errors the corrected mean lies from the plain one."""
        return float(abs(self.estimate.mean - self.estimate.plain_mean) / self.estimate.plain_se)


Results = dict[str, list[Chain]]  # by step size


def columns(found: Ratings, chains: Chains, centre: Any, precisions: np.ndarray) -> dict[str, Any]:
    """The weights c_i, like the parameters: the slope of the log predictive density over the curvature of U."""
    slope = jax.grad(lambda p: chains.evaluate(p, chains.held_out)[1])(centre)
    user, item = found.train[0].T
    curvature = {name: np.full(np.shape(value), float(lam)) for (name, value), lam
                 in zip(((n, centre[n]) for n in WEIGHTS), precisions, strict=True)}  # fmt: skip
    np.add.at(curvature["user_factors"], user, TAU * np.asarray(centre["item_factors"], np.float64)[item] ** 2)
    np.add.at(curvature["item_factors"], item, TAU * np.asarray(centre["user_factors"], np.float64)[user] ** 2)
    np.add.at(curvature["user_biases"], user, TAU)
    np.add.at(curvature["item_biases"], item, TAU)
    return {name: np.asarray(slope[name], np.float64) / curvature[name] for name in WEIGHTS}


def grouped(weights: dict[str, np.ndarray], gradients: dict[str, np.ndarray]) -> np.ndarray:
    """The columns (draw, group): sums over users or items, of each factor and of the biases."""
    parts = [np.einsum("n...,kn...->k...", weights[name], gradients[name], dtype=np.float64)
             for name in WEIGHTS]  # fmt: skip
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def corrected(values: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Values (draw,) less what a regression on the columns (draw, k) explains by their departure from mean 0."""
    return values - z @ np.linalg.lstsq(z - z.mean(axis=0), values - values.mean(), rcond=None)[0]


def corrected_parameters(draws: dict[str, np.ndarray], gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each user's and each item's factors corrected by their own gradients, each bias by its own."""
    made = {}
    for name in WEIGHTS:
        theta, z = (np.asarray(a[name], np.float64) for a in (draws, gradients))
        if theta.ndim == 2:
            theta, z = theta[..., None], z[..., None]
        deviation = z - z.mean(axis=0)
        inner = np.einsum("kna,knb->nab", deviation, deviation)
        outer = np.einsum("kna,knb->nab", deviation, theta - theta.mean(axis=0))
        ridge = 1e-9 * np.trace(inner, axis1=1, axis2=2)[:, None, None] + 1e-30  # some gradients do not vary
        coefficients = np.linalg.solve(inner + ridge * np.eye(theta.shape[2]), outer)
        made[name] = (theta - np.einsum("kna,nab->knb", z, coefficients)).reshape(draws[name].shape).astype(np.float32)
    return made


def run(mode: str) -> Results:
    """The runs of SGLD-CV with both step sizes from the same centres."""
    settings = MODES[mode]
    steps, factors, batch = settings["steps"], settings["factors"], settings["batch"]
    found = ratings(mode).first(settings["users"])
    model, chains = found.model(factors), Chains(found, factors)
    plain, controlled = (Program(found, factors, e, batch) for e in (sc.Plain(), sc.ControlVariate()))
    fresh = jax.jit(controlled.kernel.program.fresh_gradient)
    results: Results = {PRINTED: [], LARGER: []}
    for seed in range(settings["runs"]):
        descent = Settings(steps["SGD"], temperature=0.0)
        centre = chains.run(plain, seed, model.initial(jax.random.key(seed)), descent, settings["descent"])[0]
        position = {name: centre[name] for name in WEIGHTS}
        weights = columns(found, chains, position, np.asarray(centre["precisions"]))
        for name in results:
            state, key = controlled.start(seed, centre, Settings(steps[name] / 2)), jax.random.key(100 + seed)
            kept: list[Any] = []
            for number in range(settings["burn_in"] + settings["draws"]):
                state = chains.advance(controlled, key, state)
                if number >= settings["burn_in"]:
                    gradient = fresh(jax.random.fold_in(key, 10**6 + number), state, controlled.kernel.data_at(0))
                    kept.append(jax.tree.map(np.asarray, (state.sampler.position, gradient)))
            draws, gradients = jax.tree.map(lambda *a: np.stack(a), *kept)
            results[name].append(processed(chains, draws, gradients, weights))
    return results


def processed(chains: Chains, draws: Any, gradients: Any, weights: Any) -> Chain:
    """Everything that is made of the draws and gradients of one run."""

    def score(params: dict[str, np.ndarray]) -> np.ndarray:
        count = len(params["user_biases"])
        one = [chains.evaluate({n: a[k] for n, a in params.items()}, chains.held_out)[1] for k in range(count)]
        return np.array(jnp.stack(one), np.float64)

    raw, z = score(draws), grouped(weights, gradients)
    estimate = zero_variance(raw[None], z[None], z[None])  # linear columns need no positions
    return Chain(raw, corrected(raw, z), score(corrected_parameters(draws, gradients)), estimate)


def table(results: Results) -> str:
    """Each run with each step size."""
    rows = [(f"{name}, run {number + 1}", f"{c.raw.mean():.4f}", f"{1e3 * c.raw.std():.3f}",
             f"{1e3 * c.corrected.std():.3f}", f"{100 * c.removed:.1f}", f"{float(c.estimate.variance_ratio):.2f}",
             f"{c.moved:.2f}", f"{1e3 * c.parameters.std():.3f}", f"{c.parameters.mean():.4f}", f"{c.higher:.1f}")
            for name, made in results.items() for number, c in enumerate(made)]  # fmt: skip
    header = ("steps, run", "mean", "1000 sd", "corrected", "% removed", "gain of the mean", "mean moved, se",
              "1000 sd at corrected parameters", "mean there", "higher, se")  # fmt: skip
    return common.columns(header, rows)


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run."""
    claims = []
    for name, made in results.items():
        remaining, removed, higher, moved, gain = (
            np.array([float(value(c)) for c in made])
            for value in (lambda c: c.remaining, lambda c: c.removed, lambda c: c.higher, lambda c: c.moved,
                          lambda c: c.estimate.variance_ratio)
        )  # fmt: skip
        claims += [
            Claim(f"{name}: at corrected parameters the variance reduction is excellent (over 90 % in every run)",
                  bool(remaining.max() < 0.1), f"variance times {common.spread(remaining, 4)}"),
            Claim(f"{name}: and the mean log predictive density is left alone (within 3 standard errors in every run)",
                  bool(np.abs(higher).max() < 3), f"higher by {common.spread(higher, 1)} standard errors"),
            Claim(f"beyond the source, {name}: few columns take off most of the variance (over half in every run)",
                  bool(removed.min() > 0.5), f"removed {common.spread(100 * removed, 1)} %"),
            Claim(f"beyond the source, {name}: that leaves the mean alone (within 3 standard errors in every run)",
                  bool(moved.max() < 3), f"moved by {common.spread(moved, 2)} standard errors"),
            Claim(f"beyond the source, {name}: and makes it more precise (a gain over 2 in every run)",
                  bool(gain.min() > 2), f"gains {common.spread(gain, 2)}"),
        ]  # fmt: skip
    return claims


def draw(results: Results, path: Path) -> None:
    """Box plots of each run before and after, for both step sizes."""
    figure = common.picture(13, 4.8)
    for axes, (name, made) in zip(figure.subplots(1, 2), results.items(), strict=True):
        kinds = {"as sampled": ([c.raw for c in made], FILL),
                 "corrected by few columns": ([c.corrected for c in made], COLOURS[0]),
                 "at corrected parameters": ([c.parameters for c in made], COLOURS[2])}  # fmt: skip
        common.boxes(axes, kinds)
        common.tidy(axes, f"log predictive density over the draws, {name}", "run", "log predictive density")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "matrix_factorization_zero_variance", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
