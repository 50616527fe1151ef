"""The main job in one page: sample a real posterior from minibatches and say how far to trust it.

Bayesian logistic regression on the breast cancer data of scikit-learn (569 x 30, standardised). Four chains of SGLD
with control variates; the summary has means, sds, ESS, R-hat and the bias report. Draws, a checkpoint and a picture go
to ``results/demo``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer

import scirocco as sc

mpl.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path("results") / "demo"


def log_prior(params: dict[str, Any]) -> Any:
    """Standard normal weights, a wide intercept."""
    return -0.5 * jnp.sum(params["weights"] ** 2) - 0.5 * (params["intercept"] / 10) ** 2


def log_likelihood(params: dict[str, Any], example: Any) -> Any:
    """Bernoulli with a logit link, for one example."""
    x, y = example
    logit = x @ params["weights"] + params["intercept"]
    return y * logit - jax.nn.softplus(logit)


def main() -> None:
    """Sample, summarise, draw."""
    bunch = load_breast_cancer()
    x = ((bunch.data - bunch.data.mean(0)) / bunch.data.std(0)).astype(np.float32)
    y = bunch.target.astype(np.float32)
    shutil.rmtree(OUTPUT, ignore_errors=True)

    target = sc.Target(log_prior, log_likelihood, (x, y))
    initial = {"weights": jnp.zeros(30), "intercept": jnp.zeros(())}
    trace = sc.sample(
        target,
        sc.SGLD(step_size=4e-3),
        initial,
        num_samples=5000,
        burn_in=5000,
        thin=20,
        batch_size=100,
        estimator=sc.ControlVariate(),
        chains=4,
        seed=0,
        path=OUTPUT / "run",
    )
    print(trace.summary())

    weights = trace.posterior["weights"]
    mean, sd = weights.mean(("chain", "draw")).values, weights.std(("chain", "draw")).values
    order = np.argsort(mean)
    figure, axis = plt.subplots(figsize=(7, 7), layout="constrained")
    axis.errorbar(mean[order], np.arange(30), xerr=1.96 * sd[order], fmt="o", capsize=2)
    axis.axvline(0, color="grey", lw=0.8)
    axis.set_yticks(np.arange(30), bunch.feature_names[order])
    axis.set_xlabel("weight: posterior mean and 95 % interval (positive favours benign)")
    figure.savefig(OUTPUT / "weights.png", dpi=120)
    print(f"\nThe run (draws and checkpoint) is in {OUTPUT / 'run'}, the picture in {OUTPUT / 'weights.png'}.")


if __name__ == "__main__":
    main()
