"""A Bayesian neural network by the six samplers of sgmcmc: Figure 4.6.3 of Baker's thesis (2019), section 4.6.3.

MNIST, 55,000 images of digits to learn from and 10,000 to predict, minibatches of 500. The model is that of Chen et al.
(2014): 100 hidden units and 10 classes, a softmax at both layers; every weight and intercept has a normal prior, and
each of the four groups a precision of its own with a Gamma(1, 1) prior: 79,514 parameters. The measure is the log loss
of the test images. The plain methods run 10^4 iterations after 10^4 of burn-in, from weights of N(0, 1) and precisions
of Gamma(1, 1). Those with control variates (CV) run 10^4 from a centre that 10^4 steps of stochastic gradient descent
found. SGHMC makes 5 gradient steps an iteration and a fifth of the iterations. The source claims that CV methods
predict better, and that of the plain methods SGHMC and SGNHT predict best.

Step sizes are those of the authors' scripts (jackcbaker/sgmcmc-simulations on GitHub), as the text of the thesis has
lost its list; ``six_samplers_logistic.py`` says how they translate.

What differs: half of the iterations throughout, and the log loss every 20 of them in place of 10. Precisions move on
the log scale, where they cannot become negative. All parameters move at once, where the package moves one group after
the other, and there is one thermostat for all, where the package has one for each. Rows of a minibatch are drawn with
replacement. The source reports pictures only. Full mode reads ``mnist.npz`` in the folder named by SCIROCCO_DATA; the
first 5,000 images are left out, as in TensorFlow's copy. Short mode takes the small digits of scikit-learn, 10 hidden
units and 300 iterations; with step sizes in proportion to 1/N and minibatches of 12 the noise has the same share.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import Claim
from six_samplers_logistic import COLOUR, CONTROLLED, METHODS, PLAIN, cost, curves, descend, follow
from sklearn.datasets import load_digits

import scirocco as sc

SOURCE_SIZE, CLASSES = 55_000, 10
GROUPS = ("A", "B", "a", "b")  # of weights and intercepts, each with a precision
STEPS = {"SGLD": 1e-4, "SGHMC": 1e-5, "SGNHT": 5e-6, "SGLD-CV": 5e-5, "SGHMC-CV": 5e-6, "SGNHT-CV": 5e-7,
         "descent": 3e-5}  # fmt: skip
MODES: dict[str, Any] = {
    "tiny": {"batch": 12, "hidden": 4, "iterations": 60, "every": 10},
    "short": {"batch": 12, "hidden": 10, "iterations": 300, "every": 10},
    "full": {"batch": 500, "hidden": 100, "iterations": 5_000, "every": 20},
}

Images = tuple[np.ndarray, np.ndarray]  # pixels from 0 to 1, digit


class Results(NamedTuple):
    """The log loss (1, record) of each method; minibatches from record to record of one gradient, and in a pass."""

    loss: dict[str, np.ndarray]
    every: int
    epoch: float

    def level(self, method: str) -> float:
        """The mean of the second half."""
        return float(self.late(method).mean())

    def late(self, method: str) -> np.ndarray:
        """The second half."""
        return self.loss[method][0, self.loss[method].shape[1] // 2 :]


def log_prior(params: Any) -> Any:
    """Normal groups; ``log_precision`` phi has the density of Gamma(1, 1) at e^phi, times e^phi."""
    phi = params["log_precision"]
    sizes = jnp.array([params[group].size for group in GROUPS])
    squares = jnp.stack([jnp.sum(params[group] ** 2) for group in GROUPS])
    return jnp.sum((sizes / 2 + 1) * phi - jnp.exp(phi) * (squares / 2 + 1))


def log_likelihood(params: Any, rows: Any) -> Any:
    """Of each row of a batch."""
    x, digit = rows
    hidden = jax.nn.softmax(x @ params["B"] + params["b"])
    scores = jax.nn.log_softmax(hidden @ params["A"] + params["a"])
    return jnp.take_along_axis(scores, digit[:, None], axis=1)[:, 0]


def log_loss(params: Any, held_out: Any) -> Any:
    """The mean of minus the log likelihood."""
    return -jnp.mean(log_likelihood(params, held_out))


def start(inputs: int, hidden: int) -> Any:
    """Weights from N(0, 1), precisions from Gamma(1, 1)."""
    rng = np.random.default_rng(1)
    shapes = {"A": (hidden, CLASSES), "B": (inputs, hidden), "a": (CLASSES,), "b": (hidden,)}
    drawn = {group: rng.normal(size=shape) for group, shape in shapes.items()}
    drawn["log_precision"] = np.log(rng.gamma(1.0, size=len(GROUPS)))
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), drawn)


def images(mode: str) -> tuple[Images, Images]:
    """To learn from and to predict."""
    if mode != "full":
        found = load_digits()
        x, digit = (found.data / 16).astype(np.float32), found.target.astype(np.int32)
        order = np.random.default_rng(0).permutation(digit.size)
        return (x[order[500:]], digit[order[500:]]), (x[order[:500]], digit[order[:500]])
    found = common.data_set(sc.datasets.load_mnist)
    parts = (found.x_train[5_000:], found.y_train[5_000:]), (found.x_test, found.y_test)
    return tuple(((x / 255).astype(np.float32), y.astype(np.int32)) for x, y in parts)


def run(mode: str) -> Results:
    """The log loss of each method."""
    batch, hidden, iterations, every = MODES[mode].values()
    train, held_out = images(mode)
    target = sc.Target(log_prior, log_likelihood, train, batched=True)
    steps = {name: epsilon * SOURCE_SIZE / target.size for name, epsilon in STEPS.items()}
    first = start(train[0].shape[1], hidden)
    centre = descend(target, first, steps["descent"], iterations, batch)
    starts = jax.tree.map(lambda a: a[None], first)
    loss = {
        method: follow(
            target, method, steps[method], starts, log_loss, held_out, batch=batch, every=every,
            burn_in=iterations // cost(method) if method in PLAIN else 0, iterations=iterations // cost(method),
            centre=None if method in PLAIN else centre, batching=sc.batches.WithReplacement(),
        )
        for method in METHODS
    }  # fmt: skip
    return Results(loss, every, target.size / batch)


def table(results: Results) -> str:
    """The log loss at the first record, and its mean and sd over the second half."""
    rows = [(method, f"{loss[0, 0]:.4f}", f"{results.level(method):.4f}", f"{results.late(method).std():.4f}",
             f"{loss[0, -1]:.4f}") for method, loss in results.loss.items()]  # fmt: skip
    header = ("method", "first log loss", "mean, second half", "sd along it", "last")
    return f"{common.columns(header, rows)}\nall digits alike: {np.log(CLASSES):.4f}"


def check(results: Results) -> list[Claim]:
    """The source's claims, with criteria fixed beforehand."""
    level = {method: results.level(method) for method in METHODS}
    return [
        *(Claim(f"{method}-CV predicts better than {method} (mean log loss of the second half)",
                level[f"{method}-CV"] < level[method], f"{level[f'{method}-CV']:.4f} against {level[method]:.4f}")
          for method in PLAIN),
        Claim("of the plain methods SGHMC and SGNHT predict best (both below SGLD)",
              max(level["SGHMC"], level["SGNHT"]) < level["SGLD"],
              ", ".join(f"{method} {level[method]:.4f}" for method in PLAIN)),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Plain and CV methods side by side."""
    figure = common.picture(11, 4.5)
    titles = ("plain gradient, after burn-in", "control variates, from their centre")
    for axes, methods, title in zip(figure.subplots(1, 2, sharey=True), (PLAIN, CONTROLLED), titles, strict=True):
        for method in methods:
            loss = results.loss[method]
            passes = np.arange(1, loss.shape[1] + 1) * results.every * cost(method) / results.epoch
            curves(axes, loss, passes, COLOUR[method], method)
        common.tidy(axes, title, "passes over the data", "log loss of test images")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "six_samplers_network", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
