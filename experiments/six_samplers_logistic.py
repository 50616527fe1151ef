"""Logistic regression by the six samplers of sgmcmc: Figures 4.5.1 and 4.6.2 of Baker's thesis (2019).

SGLD, SGHMC and SGNHT, each with the plain gradient and with control variates (CV), on the covertype data: N = 571,012
examples with 54 columns scaled to [0, 1], lodgepole pine or not; a Laplace(0, 1) prior on intercept and coefficients;
minibatches of 500. The measure is the log loss of 10,000 held-out examples every 10 iterations. The plain methods begin
at a point from N(0, I) and run 10^4 iterations of burn-in and 10^4 more. The CV methods begin with 10^4 steps of
stochastic gradient descent from such a point, make their centre where that ends, and run 10^4 iterations from there.
SGHMC makes L = 5 gradient steps an iteration, redraws its momentum before each, and runs a fifth of the iterations.
The source claims that the CV methods predict better and vary less, that SGHMC varies less than SGLD and SGNHT, that
SGLD varies most by far, and that of the CV methods SGLD-CV takes the longest to burn in. Figure 4.5.1 is one chain of
SGLD-CV from a centre that was searched from 0, after 1,000 iterations, and shows it settled.

Step sizes are those of the authors' scripts (jackcbaker/sgmcmc-simulations on GitHub), as the text of the thesis has
lost its list. The R package moves SGLD by epsilon/2 times the gradient: h = epsilon/2 here. Its SGHMC and SGNHT have
the form h = sqrt(epsilon), friction or diffusion 0.01/sqrt(epsilon). Its descent moves by epsilon times the gradient of
the whole log posterior: a learning rate of epsilon N on the mean.

Run here besides: SGLD-CV with the step of Figure 4.5.1 at the library's own centre, the mode ('at the mode'). And,
since a first full run showed why claims fail, SGLD-CV 'in turn': the package moves one parameter after the other,
coefficients at the new intercept, which equation (4.3.2) does not say. The step of SGLD-CV is stable only like that. If
all move at once, h times the largest curvature of the log posterior at the mode is 2.07, and Euler's steps need 2.

What differs: three chains of each method in place of one, with one centre for all CV chains; rows of a minibatch are
drawn with replacement (500 of 571,012, hardly a difference); one thermostat for all coordinates, where the package
has one for the intercept and one for the coefficients. The source reports pictures only. Full mode reads
``covertype.npz`` in the folder named by SCIROCCO_DATA. Short mode draws 20,000 examples from the model; with step
sizes in proportion to 1/N and minibatches of 20 the noise has the same share, and there are 500 iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import COLOURS, Claim
from matplotlib.axes import Axes

import scirocco as sc
from scirocco.samplers import Sampler
from scirocco.samplers.base import Info, info
from scirocco.samplers.sgld import SGLDState

PLAIN = ("SGLD", "SGHMC", "SGNHT")
CONTROLLED = tuple(f"{method}-CV" for method in PLAIN)
METHODS = PLAIN + CONTROLLED
COLOUR = dict(zip(METHODS, COLOURS[:3] * 2, strict=True))
INNER, FRICTION = 5, 0.01  # the package's L, alpha and a

EVERY, SOURCE_SIZE = 10, 571_012
IN_TURN, AT_MODE, USAGE = "SGLD-CV, in turn", "SGLD-CV, at the mode", "SGLD-CV, Figure 4.5.1"
STEPS = {"SGLD": 5e-6, "SGHMC": 5e-7, "SGNHT": 1e-7, "SGLD-CV": 1e-5, "SGHMC-CV": 1e-6, "SGNHT-CV": 1e-6,
         IN_TURN: 1e-5, AT_MODE: 5e-6, USAGE: 5e-6, "descent": 1e-6, "descent, Figure 4.5.1": 5e-6}  # fmt: skip
MODES: dict[str, Any] = {
    "tiny": {"batch": 20, "held_out": 200, "iterations": 60, "chains": 2, "warm": 10},
    "short": {"batch": 20, "held_out": 1_000, "iterations": 500, "chains": 2, "warm": 50},
    "full": {"batch": 500, "held_out": 10_000, "iterations": 10_000, "chains": 3, "warm": 1_000},
}


# What the experiments with six samplers share.


@dataclass(frozen=True, eq=False)
class InTurn(Sampler):
    """SGLD that moves one part of the parameters after the other; ``parts`` are masks of 0 and 1."""

    step_size: float
    parts: tuple[np.ndarray, ...]
    temperature: float = 1.0

    def init(self, key: Any, position: Any) -> SGLDState:
        """Start at ``position``."""
        return SGLDState(position, jnp.int32(0))

    def step(self, key: Any, state: SGLDState, gradient: Any) -> tuple[SGLDState, Info]:
        """A step for each part, all on one minibatch."""
        position, h = state.position, self.step_size
        noise = jnp.sqrt(2 * h * self.temperature) * jax.random.normal(key, position.shape)
        for part in self.parts:
            slope = gradient(position)
            position = position + part * (noise - h * slope)
        return SGLDState(position, state.step + 1), info(h, slope)


def sampler(method: str, epsilon: float, parts: tuple[np.ndarray, ...]) -> Any:
    """A method of the package in the conventions of the library."""
    h = epsilon**0.5
    if method == IN_TURN:
        return InTurn(epsilon / 2, parts)
    if method.startswith("SGLD"):
        return sc.SGLD(epsilon / 2)
    if method.startswith("SGHMC"):
        return sc.SGHMC(h, friction=FRICTION / h, inner_steps=INNER, resample_momentum=True)
    return sc.SGNHT(h, diffusion=FRICTION / h)


def cost(method: str) -> int:
    """Minibatches of one iteration."""
    return INNER if method.startswith("SGHMC") else 1


def descend(target: sc.Target, start: Any, epsilon: float, steps: int, batch: int) -> Any:
    """Where the package's search for a centre ends."""
    optimizer = optax.sgd(epsilon * target.size)  # find_mode descends on the mean
    return sc.find_mode(target, start, optimizer=optimizer, steps=steps, batch_size=batch, polish=False)


def follow(
    target: sc.Target, method: str, epsilon: float, starts: Any, measure: Callable[[Any, Any], Any], given: Any, *,
    batch: int, burn_in: int, iterations: int, every: int, batching: Any, centre: Any = None, together: bool = False,
    parts: tuple[np.ndarray, ...] = (), seed: int = 0,
) -> np.ndarray:  # fmt: skip
    """``measure(position, given)`` every ``every`` iterations after the burn-in, (chain, record, ...).

    A chain for each of ``starts``, or as many from the centre if there is one; one after the other, or ``together`` if
    small. ``sc.sample`` would do but for ``given``, data for the measure, which must be an argument of the compiled
    program.
    """
    estimator = None if centre is None else sc.ControlVariate(centre=centre)
    kernel = sc.kernel(
        target, sampler(method, epsilon, parts), batch_size=batch, estimator=estimator, batching=batching
    )
    chains = jax.tree.leaves(starts)[0].shape[0]
    if centre is not None:
        starts = jax.tree.map(lambda a: jnp.broadcast_to(a, (chains, *a.shape)), centre)
    centred = kernel.estimator.init(target, jax.tree.map(lambda a: a[0], starts), None)

    def run(keys: Any, starts: Any, centred: Any, data: Any, given: Any) -> Any:
        def one(chain: tuple[Any, Any]) -> Any:
            key, start = chain
            start_key, key = jax.random.split(key)

            def advance(_: Any, state: Any) -> Any:
                return kernel.program.transition(jax.random.fold_in(key, state.step), state, data)[0]

            def record(state: Any, count: Any) -> tuple[Any, Any]:
                state = jax.lax.fori_loop(0, count, advance, state)
                return state, measure(state.position, given)

            counts = jnp.full(iterations // every, every).at[0].add(burn_in)
            return jax.lax.scan(record, kernel.program.state(start_key, start, None, centred), counts)[1]

        return jax.vmap(lambda *chain: one(chain))(keys, starts) if together else jax.lax.map(one, (keys, starts))

    keys = jax.random.split(jax.random.key(seed), chains)
    return np.asarray(jax.jit(run)(keys, starts, centred, kernel.data_at(0), given))


def settled(loss: np.ndarray) -> np.ndarray:
    """Records before each chain first comes within 3 sd of the mean of its second half: its burn-in."""
    late = loss[:, loss.shape[1] // 2 :]
    inside = loss <= (late.mean(axis=1) + 3 * late.std(axis=1))[:, None]
    return np.where(inside.any(axis=1), inside.argmax(axis=1), loss.shape[1])


def curves(axes: Axes, loss: np.ndarray, passes: np.ndarray, colour: str, label: str) -> None:
    """A thin line for each chain."""
    for number, chain in enumerate(loss):
        axes.plot(passes, chain, color=colour, linewidth=0.7, alpha=0.8, label=label if number == 0 else None)


# Logistic regression.


class Examples(NamedTuple):
    """Rows to learn from and rows to predict, each (columns, label)."""

    train: tuple[np.ndarray, np.ndarray]
    held_out: tuple[np.ndarray, np.ndarray]


class Results(NamedTuple):
    """The log loss (chain, record) of each method, minibatches in a pass, the loss of the label's frequency alone."""

    loss: dict[str, np.ndarray]
    epoch: float
    frequency: float

    def late(self, method: str) -> np.ndarray:
        """The second half of each chain."""
        return self.loss[method][:, self.loss[method].shape[1] // 2 :]

    def level(self, method: str) -> np.ndarray:
        """The mean log loss of the second half, chain by chain."""
        return self.late(method).mean(axis=1)

    def spread(self, method: str) -> np.ndarray:
        """Its standard deviation along the chain."""
        return self.late(method).std(axis=1)


def log_prior(theta: Any) -> Any:
    """Laplace(0, 1) on the intercept, which comes first, and on the coefficients."""
    return -jnp.sum(jnp.abs(theta))


def log_likelihood(theta: Any, rows: Any) -> Any:
    """Of each row of a batch."""
    x, y = rows
    logit = theta[0] + x @ theta[1:]
    return y * logit - jax.nn.softplus(logit)


def log_loss(theta: Any, held_out: Any) -> Any:
    """The mean of minus the log likelihood."""
    return -jnp.mean(log_likelihood(theta, held_out))


def examples(mode: str, held_out: int) -> Examples:
    """Covertype as in LIBSVM's scaled file, or examples drawn from the model with columns like these."""
    rng = np.random.default_rng(1)
    if mode != "full":
        x = np.column_stack(
            [rng.beta(2, 3, (20_000 + held_out, 6)), np.eye(5)[rng.integers(5, size=20_000 + held_out)]]
        )
        logit = (x - x.mean(axis=0)) @ rng.normal(size=x.shape[1]) * 3
        y = rng.random(x.shape[0]) < 1 / (1 + np.exp(-logit))
    else:
        found = common.data_set(sc.datasets.load_covertype)
        scale = found.quantitative.astype(np.float32)
        scale = (scale - scale.min(axis=0)) / np.ptp(scale, axis=0)
        x = np.hstack([scale, np.eye(4)[found.wilderness], np.eye(40)[found.soil]])
        y = found.cover_type == 2
    order = rng.permutation(len(y))
    x, y = x[order].astype(np.float32), y[order].astype(np.float32)
    return Examples((x[held_out:], y[held_out:]), (x[:held_out], y[:held_out]))


def run(mode: str) -> Results:
    """The log loss of each method."""
    batch, held_out, iterations, chains, warm = MODES[mode].values()
    found = examples(mode, held_out)
    target = sc.Target(log_prior, log_likelihood, found.train, batched=True)
    steps = {name: epsilon * SOURCE_SIZE / target.size for name, epsilon in STEPS.items()}
    zero = jnp.zeros(1 + found.train[0].shape[1])
    starts = jnp.asarray(np.random.default_rng(0).normal(size=(chains, zero.size)), jnp.float32)
    descended = descend(target, starts[0], steps["descent"], iterations, batch)
    first = np.arange(zero.size) < 1
    parts = first.astype(np.float32), (~first).astype(np.float32)  # intercept, coefficients
    plans: dict[str, tuple[Any, int]] = {method: (None, iterations // cost(method)) for method in PLAIN}
    plans |= dict.fromkeys(CONTROLLED, (descended, 0))
    if mode == "full":
        plans[IN_TURN] = descended, 0
        plans[AT_MODE] = sc.find_mode(target, zero), 0
        plans[USAGE] = descend(target, zero, steps["descent, Figure 4.5.1"], iterations, batch), warm
    loss = {
        method: follow(
            target, method, steps[method], starts, log_loss, found.held_out, batch=batch, every=EVERY, centre=centre,
            burn_in=burn_in, iterations=iterations // cost(method), batching=sc.batches.WithReplacement(), parts=parts,
        )
        for method, (centre, burn_in) in plans.items()
    }  # fmt: skip
    share, y = found.train[1].mean(), found.held_out[1].mean()
    return Results(loss, target.size / batch, float(-y * np.log(share) - (1 - y) * np.log(1 - share)))


def burn_in(results: Results, method: str) -> np.ndarray:
    """Minibatches until each chain has settled."""
    return settled(results.loss[method]) * EVERY * cost(method)


def table(results: Results) -> str:
    """Each chain: the loss at its first record, its mean and sd over the second half, and the burn-in."""
    rows = [(method, common.spread(loss[:, 0], 4), common.spread(results.level(method), 4),
             common.spread(1000 * results.spread(method), 2), "/".join(map(str, burn_in(results, method))))
            for method, loss in results.loss.items()]  # fmt: skip
    header = ("method", "first log loss", "mean, second half", "1000 sd along it", "minibatches to settle")
    return f"{common.columns(header, rows)}\nthe frequency of the label alone: {results.frequency:.4f}"


def check(results: Results) -> list[Claim]:
    """The source's claims; the criteria were set before the first full run, which had no SGLD-CV in turn."""
    level = {method: results.level(method) for method in results.loss}
    sd = {method: results.spread(method) for method in results.loss}
    waits = {method: burn_in(results, method) for method in results.loss}
    pairs = [(f"{method}-CV", method) for method in PLAIN] + [(IN_TURN, "SGLD")] * (IN_TURN in results.loss)
    versions = [m for m in ("SGLD-CV", IN_TURN) if m in results.loss]

    def below(values: dict[str, np.ndarray], one: str, other: str) -> bool:
        return bool(values[one].max() < values[other].min())

    def listed(values: dict[str, np.ndarray], methods: Sequence[str], factor: float = 1, digits: int = 4) -> str:
        return ", ".join(f"{m} {common.spread(factor * values[m], digits)}" for m in methods)

    claims = [
        *(Claim(f"{one} predicts better than {other} (mean log loss of the second half, every chain below every chain)",
                below(level, one, other), listed(level, (one, other))) for one, other in pairs),
        *(Claim(f"{one} varies less than {other} (sd of the log loss along the chain, every chain below every chain)",
                below(sd, one, other), f"1000 sd: {listed(sd, (one, other), 1000, 2)}") for one, other in pairs),
        Claim("SGHMC varies less than SGLD and SGNHT (every chain)",
              below(sd, "SGHMC", "SGLD") and below(sd, "SGHMC", "SGNHT"), f"1000 sd: {listed(sd, PLAIN, 1000, 2)}"),
    ]  # fmt: skip
    for version in versions:
        rest = [m for m in METHODS if m not in ("SGLD", "SGLD-CV")]
        most = max((*rest, version), key=lambda m: sd[m].mean())
        claims += [
            Claim(f"SGLD varies most by far, {version} among the others (mean sd over twice that of any other)",
                  bool(sd["SGLD"].mean() > 2 * sd[most].mean()),
                  f"1000 sd: {1e3 * sd['SGLD'].mean():.2f}, {most} {1e3 * sd[most].mean():.2f}"),
            Claim(f"{version} takes longer to burn in than the other CV methods (median of the minibatches to settle)",
                  bool(np.median(waits[version]) > max(np.median(waits[m]) for m in CONTROLLED[1:])),
                  listed(waits, (version, *CONTROLLED[1:]), 1, 0)),
        ]  # fmt: skip
    if USAGE in results.loss:
        early = results.loss[USAGE][:, : results.loss[USAGE].shape[1] // 5].mean(axis=1)
        apart = np.abs(early - level[USAGE]) / sd[USAGE]
        claims += [
            Claim("Figure 4.5.1: SGLD-CV is stationary after 1,000 iterations (the mean of the first fifth within "
                  "2 sd of that of the second half, every chain)",
                  bool(np.all(apart < 2)), f"{common.spread(apart, 2)} sd apart"),
            Claim("beyond the source: SGLD-CV at the mode needs no burn-in (settled at the first record, every chain)",
                  bool(np.all(waits[AT_MODE] == 0)), listed(waits, [AT_MODE], 1, 0)),
        ]  # fmt: skip
    return claims


def draw(results: Results, path: Path) -> None:
    """Plain and CV methods (Figure 4.6.2), SGLD-CV if all moves at once, and the chains of Figure 4.5.1."""
    groups = [(PLAIN, "plain gradient, after burn-in"), (CONTROLLED, "control variates, from their centre")]
    if USAGE in results.loss:
        stable = (IN_TURN, *CONTROLLED[1:])
        groups = [groups[0], (stable, groups[1][1]), (("SGLD-CV",), "SGLD-CV, all at once: too large a step"),
                  ((USAGE, AT_MODE), "SGLD-CV with half the step: Figure 4.5.1, and at the mode")]  # fmt: skip
    figure = common.picture(11, 4 * (len(groups) // 2))
    colours = {**COLOUR, IN_TURN: COLOURS[0], USAGE: COLOURS[0], AT_MODE: COLOURS[3]}
    for axes, (methods, title) in zip(figure.subplots(len(groups) // 2, 2).ravel(), groups, strict=True):
        for method in methods:
            loss = results.loss[method]
            passes = np.arange(1, loss.shape[1] + 1) * EVERY * cost(method) / results.epoch
            curves(axes, loss, passes, colours[method], method)
        common.tidy(axes, title, "passes over the data", "log loss of held-out examples")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "six_samplers_logistic", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
