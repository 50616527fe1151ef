"""What a page says of a model before what it says of its trace: what a practitioner would plot."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from scirocco.core.credible import quantiles
from scirocco.diagnostics.predictive import expected_calibration_error
from scirocco.models.base import GradientModel
from scirocco.models.bayesian_pca import BayesianPCA
from scirocco.models.dp_mixture.readings import MixtureReadings
from scirocco.models.labels import shown
from scirocco.models.lda.reading import TopicReading
from scirocco.models.logistic import LogisticRegression
from scirocco.models.sam.estimator import SphericalAdmixture
from scirocco.models.von_mises_fisher.estimator import VonMisesFisherMixture
from scirocco.report import charts
from scirocco.report.clusters import add_clusters, sizes_table, together, unsure_rows
from scirocco.report.elements import Child, Element, element, number
from scirocco.report.page import Page
from scirocco.report.posterior import LEVEL, add_posterior
from scirocco.report.tables import facts, table, told
from scirocco.report.topics import add_topics

FEATURES = 10  # of a component
UNKNOWN = 0.25  # the median angle of draws to a component beyond it: of two that turn freely it is 0.39
BINS = 10  # of predictions
MOST_ROWS = 2000  # of a table


@singledispatch
def add_model(model: Any, page: Page, **given: Any) -> None:
    """All sections of a model but the verdict."""
    del page, given
    raise TypeError(f"there is no report for {type(model).__name__}")


@add_model.register
def _(model: TopicReading, page: Page, **given: Any) -> None:
    add_topics(page, model, **given)


@add_model.register
def _(model: MixtureReadings, page: Page) -> None:
    add_clusters(page, model)


@add_model.register
def _(model: GradientModel, page: Page, X: Any = None, y: Any = None) -> None:
    check_is_fitted(model)
    page.add("prediction", "Prediction", *_prediction(model, X, y))
    _rest(page, model)


@add_model.register
def _(model: LogisticRegression, page: Page, X: Any = None, y: Any = None) -> None:
    check_is_fitted(model)
    page.add("coefficients", "Coefficients", *_coefficients(model))
    page.add("prediction", "Prediction", *_prediction(model, X, y))
    _rest(page, model)


@add_model.register
def _(model: BayesianPCA, page: Page, X: Any = None, y: Any = None) -> None:
    check_is_fitted(model)
    page.add("components", "Components", *_components(model))
    _rest(page, model)


@add_model.register
def _(model: VonMisesFisherMixture, page: Page, X: Any = None, y: Any = None) -> None:
    check_is_fitted(model)
    page.add("components", "Components", *_directions(model))
    if X is not None or hasattr(model, "_kept"):
        page.add("sizes", "Sizes", sizes_table(model.cluster_sizes(X, level=LEVEL)))
        labels = model.labels_ if X is None else model.predict(X)
        membership = model.membership_ if X is None else model.predict_proba(X)
        every = model._kept[0] if X is None else np.asarray(X)
        seed = model._fixed_seed()
        page.add("pairs", "Together", *together(labels, lambda rows: model.co_clustering(every[rows]), seed))
        page.add("rows", "Rows", *unsure_rows(membership, labels, model.entropy(X)))
    _rest(page, model)


@add_model.register
def _(model: SphericalAdmixture, page: Page, X: Any = None, y: Any = None) -> None:
    check_is_fitted(model)
    page.add("topics", "Topics", *_spherical_topics(model))
    _rest(page, model)


def _rest(page: Page, model: GradientModel) -> None:
    trace = getattr(model, "trace_", None)
    if trace is not None:
        add_posterior(page, trace, model)


def quantities(labels: pd.DataFrame, draws: np.ndarray, caption: str, *, name: str) -> Element:
    """A table of quantities, named by columns of ``labels``, with their draws (draw, quantity)."""
    low, high = quantiles(draws, LEVEL)
    mean = draws.mean(axis=0)
    ends = (float(min(0.0, low.min())), float(max(0.0, high.max())))
    sd = draws.std(axis=0, ddof=1)
    frame = labels.assign(mean=told(mean, sd), sd=sd, lower=told(low, sd), upper=told(high, sd))
    frame["picture"] = list(zip(mean, low, high, strict=True))
    words = [str(column) for column in labels.columns]
    return table(
        frame.head(MOST_ROWS),
        caption,
        name=name,
        text=(*words, "picture"),
        titles={"picture": f"{LEVEL:.0%} interval"},
        formats={"picture": lambda bar: charts.interval_bar(bar, ends)},
    )


def _features(model: Any) -> np.ndarray:
    """The names of the columns."""
    known = getattr(model, "feature_names_in_", None)
    return np.array([str(name) for name in (range(model.n_features_in_) if known is None else known)], dtype=object)


def _coefficients(model: LogisticRegression) -> list[Child]:
    """Coefficients with intervals, and the probability of their sign."""
    draws = model._draws("coef").astype(np.float64)
    features = _features(model)
    classes = [str(c) for c in model.classes_]
    if draws.ndim == 2:
        labels, said = pd.DataFrame({"feature": features}), f"for class {classes[1]} against {classes[0]}"
    else:
        labels = pd.DataFrame({"class": np.repeat(classes, features.size), "feature": np.tile(features, len(classes))})
        said = "by class"
        draws = draws if draws.shape[1:] == (len(classes), features.size) else draws.swapaxes(1, 2)
        draws = draws.reshape(len(draws), -1)
    positive = (draws > 0).mean(axis=0)
    labels["sign"] = [f"{'+' if p >= 0.5 else '-'} with probability {max(p, 1 - p):.3f}" for p in positive]
    return [quantities(labels, draws, f"Log odds {said}, with {LEVEL:.0%} intervals", name="coefficients")]


def _components(model: BayesianPCA) -> list[Child]:
    """Explained variance, and the features with the largest loadings of each component."""
    scales, noise = model._draws("scales").astype(np.float64), model._draws("noise").astype(np.float64)
    variance = scales**2 + noise.reshape(-1, 1) ** 2
    labels = pd.DataFrame({"component": [str(k) for k in range(variance.shape[1])]})
    parts: list[Child] = [
        quantities(labels, variance, f"Variance along each component, with {LEVEL:.0%} intervals", name="variances")
    ]
    unknown = np.flatnonzero(np.median(model._draws("column_angles"), axis=0) > UNKNOWN)
    if unknown.size:
        which = ", ".join(map(str, unknown))
        words = f"Not known one by one: {which}. Their scales hardly differ, from each other or from the noise."
        parts.append(element("p", words, class_="note"))
    loadings, features = model._draws("loadings").astype(np.float64), _features(model)
    for k in range(loadings.shape[2]):
        own = loadings[:, :, k]
        best = np.argsort(-np.abs(own.mean(axis=0)), kind="stable")[:FEATURES]
        words = f"The largest loadings of component {k}, with {LEVEL:.0%} intervals"
        parts += [
            element("h3", f"Component {k}"),
            quantities(pd.DataFrame({"feature": features[best]}), own[:, best], words, name=f"component-{k}"),
        ]
    return parts


def _directions(model: VonMisesFisherMixture) -> list[Child]:
    """Weights and concentrations of the components, and the features that they point at."""
    weights = model._draws("weights").astype(np.float64)
    concentrations = model._draws("concentrations").astype(np.float64)
    means = model._draws("means").mean(axis=0)
    count = weights.shape[1]
    labels = pd.DataFrame({"component": [str(k) for k in range(count)]})
    if means is not None and hasattr(model, "feature_names_in_"):
        features = _features(model)
        best = np.argsort(-means, axis=1, kind="stable")[:, :FEATURES]
        labels["points at"] = [" ".join(features[row]) for row in best]
    parts: list[Child] = [element("p", line, class_="note") for line in model._remarks()]
    parts.append(quantities(labels, weights, f"Weights with {LEVEL:.0%} intervals", name="weights"))
    parts.append(
        quantities(
            labels[["component"]], concentrations, f"Concentrations with {LEVEL:.0%} intervals", name="concentrations"
        )
    )
    return parts


def _spherical_topics(model: SphericalAdmixture) -> list[Child]:
    """The words that each topic points at, and those that it points away from."""
    present, absent = (model.top_words(FEATURES, level=LEVEL, absent=absent) for absent in (False, True))
    facts_known: list[tuple[str, Child]] = [
        ("concentration", number(model.concentration_, 4)),
        ("mean of the largest share", number(model.largest_share_)),
    ]
    parts: list[Child] = [facts(facts_known)]
    for k in range(model.n_topics):
        own = present[present["topic"] == k]
        away = ", ".join(map(str, absent.loc[absent["topic"] == k, "word"]))
        listed = own.drop(columns=["topic", "label"], errors="ignore").astype({"word": str})
        words = f"The largest entries of topic {k}, with {LEVEL:.0%} intervals"
        parts += [
            element("h3", f"Topic {shown(model, k)}"), table(listed, words, name=f"topic-{k}"),
            element("p", f"Absent where the topic is: {away}.", class_="note") if away else None,
        ]  # fmt: skip
    return parts


# Prediction.


def _prediction(model: Any, X: Any, y: Any) -> list[Child]:
    """Whether predictions of rows that are given say the right thing of themselves."""
    if X is None or y is None:
        if X is not None or y is not None:
            raise ValueError("prediction is judged by rows and their outcomes: give both X and y, or neither")
        return []
    y = np.asarray(y)
    if is_classifier(model):
        return _classified(model, X, y)
    mean, sd = model.predict(X, return_std=True)
    error = y - mean
    order = np.argsort(sd, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    predicted = np.array([np.sqrt(np.mean(sd[some] ** 2)) for some in parts])
    observed = np.array([np.sqrt(np.mean(error[some] ** 2)) for some in parts])
    axes = ("predicted sd", "root mean squared error")
    picture = charts.against(predicted, observed, np.array(list(map(len, parts))), "Errors by predicted sd", axes=axes)
    covered = np.mean(np.abs(error) <= 1.645 * sd)
    rows: list[tuple[str, Child]] = [
        ("rows", f"{y.size:,}"), ("root mean squared error", number(float(np.sqrt(np.mean(error**2))), 4)),
        ("within 1.645 predicted sds", f"{covered:.1%} of the rows, 90 % if errors are normal"),
    ]  # fmt: skip
    return [
        facts(rows),
        charts.figure(picture, "Errors of rows in order of their predicted sd: on the line if sds are right."),
    ]


def _classified(model: Any, X: Any, y: np.ndarray) -> list[Child]:
    """Accuracy, log score, and the calibration curve of the most probable class."""
    chances = model.predict_proba(X)
    codes = np.searchsorted(model.classes_, y)
    if np.any(codes >= len(model.classes_)) or np.any(
        np.asarray(model.classes_)[np.minimum(codes, len(model.classes_) - 1)] != y
    ):
        raise ValueError("y has classes that the model has not seen")
    sure, right = chances.max(axis=1), chances.argmax(axis=1) == codes
    at = np.minimum((sure * BINS).astype(int), BINS - 1)
    counts = np.bincount(at, minlength=BINS)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(at, sure, BINS) / counts
        observed = np.bincount(at, right, BINS) / counts
    score = -np.mean(np.log(np.maximum(chances[np.arange(y.size), codes], 1e-300)))
    rows: list[tuple[str, Child]] = [
        ("rows", f"{y.size:,}"), ("accuracy", f"{right.mean():.1%}"),
        ("negative log likelihood", number(float(score), 4)),
        ("expected calibration error", number(float(expected_calibration_error(chances, codes)), 3)),
    ]  # fmt: skip
    axes = ("predicted probability", "share that is right")
    picture = charts.against(predicted, observed, counts, "Calibration of the most probable class", axes=axes)
    words = "How often the most probable class is right, by its probability: on the line if probabilities are right."
    return [facts(rows), charts.figure(picture, words)]
