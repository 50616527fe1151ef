"""Microseconds a step of SGLD: scirocco beside a hand-written XLA loop, BlackJAX and posteriors, in one run.

    python benchmarks/gradient_engine.py [logistic|network] [--peers]

The limit is a loop written by hand for exactly this problem: jit, scan, contiguous blocks of shuffled data, every
position stored, no library. Contestants take turns, so that a noisy machine hurts all alike; the ratio of the medians
is the result. Peers run as their documentation does: a Python loop around a jitted step (BlackJAX), a PyTorch loop
(posteriors). Data: ``covertype.npz`` and ``mnist.npz`` in the folder named by SCIROCCO_DATA.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc
from scirocco.gradient.engine import GradientEngine
from scirocco.run.recording import Recording

ROUNDS = 7


class Logistic:
    """Bayesian logistic regression on covertype, 581,012 x 54, batch 500."""

    name, batch, step_size, steps = "logistic regression, 581,012 x 54, batch 500", 500, 1e-7, 5000

    def __init__(self) -> None:
        rows = sc.datasets.load_covertype()
        self.x, self.y = rows.design(), rows.lodgepole
        self.initial = jnp.zeros(self.x.shape[1])

    @staticmethod
    def log_prior(w: Any) -> Any:
        """A standard normal prior."""
        return -0.5 * jnp.sum(w**2)

    @staticmethod
    def log_likelihood(w: Any, row: Any) -> Any:
        """Bernoulli with a logit link."""
        x, y = row
        z = x @ w
        return y * z - jax.nn.softplus(z)

    def torch_log_posterior(self, torch: Any) -> Callable[..., Any]:
        """The same for PyTorch, batched."""
        size = len(self.y)

        def log_posterior(params: Any, batch: Any) -> Any:
            x, y = batch
            z = x @ params["w"]
            likelihood = (y * z - torch.nn.functional.softplus(z)).mean()
            return likelihood - 0.5 * (params["w"] ** 2).sum() / size, torch.zeros(())

        return log_posterior

    def torch_params(self, torch: Any) -> Any:
        """Parameters for PyTorch."""
        return {"w": torch.zeros(self.x.shape[1])}


class Network:
    """A 784-100-10 neural network on MNIST, batch 100."""

    name, batch, step_size, steps = "784-100-10 network, 60,000 x 784, batch 100", 100, 1e-9, 200

    def __init__(self) -> None:
        digits = sc.datasets.load_mnist()
        self.x, self.y = digits.x_train.astype(np.float32) / 255, digits.y_train.astype(np.int32)
        a, b = jax.random.split(jax.random.key(0))
        self.initial = {
            "a": jax.random.normal(a, (784, 100)) * 0.05,
            "b": jnp.zeros(100),
            "c": jax.random.normal(b, (100, 10)) * 0.1,
            "d": jnp.zeros(10),
        }

    @staticmethod
    def log_prior(p: Any) -> Any:
        """A standard normal prior."""
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))

    @staticmethod
    def log_likelihood(p: Any, row: Any) -> Any:
        """Softmax of two layers."""
        x, y = row
        z = jnp.maximum(x @ p["a"] + p["b"], 0) @ p["c"] + p["d"]
        return jax.nn.log_softmax(z)[y]

    def torch_log_posterior(self, torch: Any) -> Callable[..., Any]:
        """The same for PyTorch, batched."""
        size = len(self.y)

        def log_posterior(p: Any, batch: Any) -> Any:
            x, y = batch
            z = torch.relu(x @ p["a"] + p["b"]) @ p["c"] + p["d"]
            likelihood = -torch.nn.functional.cross_entropy(z, y.long())
            return likelihood - 0.5 * sum((v**2).sum() for v in p.values()) / size, torch.zeros(())

        return log_posterior

    def torch_params(self, torch: Any) -> Any:
        """Parameters for PyTorch."""
        return {name: torch.tensor(np.asarray(v)) for name, v in self.initial.items()}


def scirocco_run(problem: Any, chains: int) -> Callable[[], int]:
    """The library, as ``sample`` runs it: every draw stored, streaming moments, chains side by side."""
    target = sc.Target(problem.log_prior, problem.log_likelihood, (problem.x, problem.y))
    kernel = sc.kernel(target, sc.SGLD(problem.step_size), batch_size=problem.batch)
    engine = GradientEngine(kernel, problem.initial, chains=chains, recording=Recording(0, 1))
    engine.start()
    engine.advance(2)

    def run() -> int:
        start = engine.step
        while engine.step < start + problem.steps:
            engine.advance(start + problem.steps)
        return problem.steps * chains

    return run


def by_hand(problem: Any) -> Callable[[], int]:
    """The limit: one scan over shuffled contiguous blocks, written for this problem."""
    size, batch, h = len(problem.y), problem.batch, problem.step_size
    order = np.random.default_rng(0).permutation(size)
    x, y = jnp.asarray(problem.x[order]), jnp.asarray(problem.y[order])
    blocks = size // batch

    def potential(p: Any, xb: Any, yb: Any) -> Any:
        likelihood = jax.vmap(problem.log_likelihood, (None, 0))(p, (xb, yb))
        return -(problem.log_prior(p) + size / batch * jnp.sum(likelihood))

    gradient = jax.grad(potential)

    @jax.jit
    def loop(p: Any, x: Any, y: Any, key: Any, first: Any) -> Any:
        schedule = jax.random.permutation(key, blocks)

        def step(p: Any, t: Any) -> Any:
            s = schedule[t % blocks] * batch
            g = gradient(p, jax.lax.dynamic_slice_in_dim(x, s, batch), jax.lax.dynamic_slice_in_dim(y, s, batch))
            leaves, structure = jax.tree.flatten(p)
            keys = jax.random.split(jax.random.fold_in(key, t), len(leaves))
            noise = jax.tree.unflatten(
                structure, [jax.random.normal(k, v.shape) for k, v in zip(keys, leaves, strict=True)]
            )
            p = jax.tree.map(lambda v, g, z: v - h * g + jnp.sqrt(2 * h) * z, p, g, noise)
            return p, p

        return jax.lax.scan(step, p, first + jnp.arange(problem.steps))

    position = jax.block_until_ready(loop(problem.initial, x, y, jax.random.key(0), 0))[0]

    def run() -> int:
        nonlocal position
        position, _ = jax.block_until_ready(loop(position, x, y, jax.random.key(0), 0))
        return problem.steps

    return run


def blackjax_run(problem: Any) -> Callable[[], int]:
    """BlackJAX as its documentation runs it: a jitted step in a Python loop over random minibatches."""
    import blackjax

    size, steps = len(problem.y), min(300, problem.steps)
    estimator = blackjax.sgmcmc.gradients.grad_estimator(problem.log_prior, problem.log_likelihood, size)
    sgld = blackjax.sgld(estimator)
    step = jax.jit(sgld.step)
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
    position, key = sgld.init(problem.initial), jax.random.key(0)

    def run() -> int:
        nonlocal position, key
        for _ in range(steps):
            key, now = jax.random.split(key)
            rows = rng.choice(size, problem.batch)
            position = step(now, position, (x[rows], y[rows]), problem.step_size)
        jax.block_until_ready(position)
        return steps

    run()
    return run


def posteriors_run(problem: Any) -> Callable[[], int]:
    """posteriors (torch) as its documentation runs it: a PyTorch loop over minibatches."""
    import posteriors
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    size, steps = len(problem.y), min(300, problem.steps)
    x, y = torch.tensor(problem.x), torch.tensor(problem.y)
    transform = posteriors.sgmcmc.sgld.build(
        problem.torch_log_posterior(torch), lr=problem.step_size * size, temperature=1 / size
    )
    state = transform.init(problem.torch_params(torch))
    rng = torch.Generator().manual_seed(0)

    def run() -> int:
        nonlocal state
        for _ in range(steps):
            rows = torch.randint(size, (problem.batch,), generator=rng)
            state, _ = transform.update(state, (x[rows], y[rows]))
        return steps

    run()
    return run


def measure(problem: Any, peers: bool) -> None:
    """Let the contestants take turns and print microseconds a step and ratios to the limit."""
    contestants = {
        "by hand (the limit)": by_hand(problem),
        "scirocco, 1 chain": scirocco_run(problem, 1),
        "scirocco, 4 chains": scirocco_run(problem, 4),
    }
    if peers:
        contestants |= {"BlackJAX": blackjax_run(problem), "posteriors (torch)": posteriors_run(problem)}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            start = time.perf_counter()
            steps = run()
            times[name].append((time.perf_counter() - start) / steps * 1e6)
    limit = statistics.median(times["by hand (the limit)"])
    print(f"\n{problem.name}: us a chain-step, median of {ROUNDS} [least, most], ratio to the limit")
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"  {name:22s} {middle:9.1f} [{min(values):.1f}, {max(values):.1f}]   {middle / limit:6.2f}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", choices=["logistic", "network", "all"], default="all")
    parser.add_argument(
        "--peers", action="store_true", help="BlackJAX and posteriors too (pip install 'scirocco[bench]')"
    )
    arguments = parser.parse_args(argv)
    for name, problem in {"logistic": Logistic, "network": Network}.items():
        if arguments.problem in (name, "all"):
            measure(problem(), arguments.peers)


if __name__ == "__main__":
    main()
