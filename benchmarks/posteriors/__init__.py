"""Thirty posteriors of the kinds that people have, with data made on the spot, of unconstrained parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from posteriors.base import Posterior
from posteriors.few_rows import eight_schools, small_logistic, small_poisson
from posteriors.hierarchical import (
    centred_groups,
    crossed_effects,
    funnel,
    grouped_logit,
    horseshoe,
    item_response,
    large_grouped_logit,
    random_features,
)
from posteriors.near_gaussian import (
    censored_weibull,
    correlated_columns,
    laplace_prior,
    large_logistic,
    logistic,
    mixture,
    negative_binomial,
    normal_gamma,
    normal_mean,
    ordered_logit,
    poisson,
    robust,
)
from posteriors.tails_and_modes import cauchy_prior, few_groups, labels, sign, student, two_modes

__all__ = ["KINDS", "Posterior"]

KINDS: dict[str, dict[str, Callable[[], Posterior]]] = {
    "near Gaussian": {
        "normal": normal_mean, "correlated": correlated_columns, "normal-gamma": normal_gamma, "logistic": logistic,
        "laplace": laplace_prior, "poisson": poisson, "robust": robust, "mixture": mixture, "ordered": ordered_logit,
        "negative-binomial": negative_binomial, "weibull": censored_weibull, "large-logistic": large_logistic,
    },
    "hierarchical": {
        "item-response": item_response, "grouped": grouped_logit, "large-grouped": large_grouped_logit,
        "centred": centred_groups, "crossed": crossed_effects, "gaussian-process": random_features,
        "horseshoe": horseshoe, "funnel": funnel,
    },
    "heavy tails": {
        "student-8": partial(student, 8.0), "student-4": partial(student, 4.0), "cauchy-prior": cauchy_prior,
        "few-groups": few_groups,
    },
    "several modes": {"two-modes": two_modes, "sign": sign, "labels": labels},
    "few rows": {"schools": eight_schools, "small-logistic": small_logistic, "small-poisson": small_poisson},
}  # fmt: skip
