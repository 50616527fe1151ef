"""Do 90 % intervals of spherical topics hold the truth in nine of ten data sets?

    python benchmarks/spherical_coverage.py --sets 12

`SphericalAdmixture` on documents of its own law: four topics around a centre (sigma 3) in thirty dimensions, kappa 30,
alpha 1, 300 documents. Entries of topics, and shares of documents, mean and sd with 1.645 sds on either side. Sigma is
given, because the default is for topics that are alike; kappa once found from the documents and once given. Chains
begin at the truth: whether the start is found is another question. The standard error is over data sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

import scirocco as sc
from scirocco import directional

TOPICS, WORDS, DOCUMENTS = 4, 30, 300
SIGMA, KAPPA, LEVEL = 3.0, 30.0, 0.9
SETTINGS = {"measure_bias": False}


def answers(seed: int, concentration: float | None) -> dict[str, float]:
    """The shares of intervals of topics and of shares that hold the truth."""
    rng = np.random.default_rng(seed)
    centre = np.full(WORDS, 1 / np.sqrt(WORDS))
    topics = directional.sample(rng, np.tile(centre, (TOPICS, 1)), np.full(TOPICS, SIGMA))
    shares = rng.dirichlet(np.ones(TOPICS), DOCUMENTS)
    mixed = shares @ topics
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    rows = directional.sample(rng, mixed, np.full(DOCUMENTS, KAPPA)).astype(np.float32)
    model = sc.SphericalAdmixture(
        TOPICS, start=topics, topic_concentration=SIGMA, concentration=concentration, random_state=seed, **SETTINGS
    ).fit(rows)
    order = linear_sum_assignment(-topics @ model.components_.T)[1]
    low, high = np.quantile(model._draws("topics")[:, order], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    mean, sd = (values[:, order] for values in model.transform(rows, n_draws=200, return_std=True))
    far = np.abs(mean - shares) / sd
    return {
        "topics": float(np.mean((low <= topics) & (topics <= high))),
        "shares": float(np.mean(far <= norm.ppf((1 + LEVEL) / 2))),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=12)
    options = parser.parse_args(argv)
    for title, concentration in (("kappa found", None), ("kappa given", KAPPA)):
        found = [answers(seed, concentration) for seed in range(options.sets)]
        for name in found[0]:
            each = np.array([own[name] for own in found])
            print(f"{title}  {name:7s} {each.mean():6.1%}  +- {each.std() / np.sqrt(len(each)):.1%}", flush=True)


if __name__ == "__main__":
    main()
