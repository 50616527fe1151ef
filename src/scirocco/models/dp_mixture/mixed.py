"""Tables whose columns are of several kinds, independent within a cluster: numbers beside categories and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.components import (
    Bernoulli,
    Categorical,
    Component,
    Encoding,
    Multinomial,
    Poisson,
)
from scirocco.models.dp_mixture.looks import CATEGORICAL, COUNTED, KINDS, NORMALS, SHOWN, column_kind
from scirocco.models.dp_mixture.numeric import NORMAL, POISSON
from scirocco.models.dp_mixture.rows import Rows, vars_of
from scirocco.models.dp_mixture.skewed import warn_of_skewed
from scirocco.models.dp_mixture.units import Units, numbers_of

# In sds of the column: a, c, and the gamma priors of b and c where these are learnt (benchmarks/mixed_tables.py).
RATE_LAW, STRENGTH_LAW = (1.0, 1.0), (1.0, 10.0)
SHAPE, STRENGTH = 3.0, 0.003


@dataclass(frozen=True)
class Gaussian(Component):
    """Columns of numbers, normal and independent given the cluster; missing entries are left out.

    In sds of a column from its mean, sigma^2 ~ InverseGamma(shape, rate) and mu ~ N(0, sigma^2 / strength). None learns
    the rate, or the strength, for each column by itself: how wide clusters are, how far apart.
    """

    shape: float = SHAPE
    rate: float | None = None
    strength: float | None = STRENGTH

    any_values = True
    default_base, default_prior = 1.0, "mfm"

    def __post_init__(self) -> None:
        for name in ("shape", "rate", "strength"):
            value = getattr(self, name)
            if value is not None and positive_array(name, value).ndim:
                raise ValueError(f"{name} must be one number")

    @property
    def prior(self) -> np.ndarray:
        """That of a column, see ``numeric``."""
        begin = [self.shape if self.rate is None else self.rate, 0.1 if self.strength is None else self.strength]
        fixed = (0.0, 0.0)
        rate, strength = (RATE_LAW if self.rate is None else fixed), (STRENGTH_LAW if self.strength is None else fixed)
        return np.array([NORMAL, self.shape, *begin, *rate, *strength])

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """Every column has numbers."""
        return _encoding(self, X, names, [self] * X.shape[1])

    def rows(self, X: Any, encoding: Encoding) -> Documents:
        """Numbers alone."""
        return _rows(X, encoding)


@dataclass(frozen=True)
class Mixed(Component):
    """What columns are: "gaussian", "categorical", "poisson" or a ``Gaussian``.

    A dictionary by name, or by number as text ("0"); or a list with one for each column. Columns that a dictionary does
    not name, or a list has None for, are looked at (``looks.column_kind``). Yes and no are categories.
    """

    columns: Any = None

    any_values = True
    default_base, default_prior = 1.0, "mfm"

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        if not isinstance(self.columns, dict | list | tuple):
            raise TypeError(
                f"component: columns must be a dictionary, or a list with one kind for each; got {self.columns!r}"
            )
        listed: Any = self.columns.items() if isinstance(self.columns, dict) else enumerate(self.columns)
        for name, kind in listed:
            if isinstance(self.columns, dict) and not isinstance(name, str):
                raise TypeError(f"component: columns are named by text, numbers too ('0'); got {name!r}")
            if kind is not None and not isinstance(kind, Gaussian) and kind not in KINDS:
                raise ValueError(
                    f"component: column {name!r} must be one of {', '.join(KINDS)} or a Gaussian(...); got {kind!r}"
                )

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """What each column is, and what is learnt of it."""
        width = X.shape[1]
        titles = [str(j) for j in range(width)] if names is None else list(names)
        if isinstance(self.columns, dict):
            for name in self.columns:
                if name not in titles:
                    raise ValueError(
                        f"component: there is no column {name!r}; the columns are {', '.join(titles[:SHOWN])}"
                        f"{', ...' if width > SHOWN else ''}"
                    )
            given = [self.columns.get(title) for title in titles]
        else:
            given = [None] * width if self.columns is None else list(self.columns)
        if len(given) != width:
            raise ValueError(f"component: a list must have one kind for each of {width} columns; got {len(given)}")
        return _encoding(self, X, names, [column_kind(X, j) if kind is None else kind for j, kind in enumerate(given)])

    def rows(self, X: Any, encoding: Encoding) -> Documents:
        """Features for categories, and numbers."""
        return _rows(X, encoding)


def _encoding(component: Component, X: Any, names: Sequence[str] | None, kinds: list[Any]) -> Encoding:
    titles = [str(j) for j in range(len(kinds))] if names is None else [str(name) for name in names]
    categories = [j for j, kind in enumerate(kinds) if kind == CATEGORICAL]
    places = [j for j, kind in enumerate(kinds) if kind != CATEGORICAL]
    own = [titles[j] for j in categories]
    features = Categorical().encoding(_some(X, categories), own) if categories else Categorical().encoded([], own)
    units = None
    if places:
        titled = [titles[j] for j in places]
        priors = np.array([_prior(kinds[j]) for j in places])
        units = Units.of(X, places, titled, priors)
        counted = priors[:, 0] == POISSON
        warn_of_skewed(numbers_of(X, places, titled)[:, ~counted], [titled[j] for j in np.flatnonzero(~counted)])
        priors[counted, 2] = 1 / np.maximum(np.nanmean(units.values(X), axis=0)[counted], 1e-6)
    said = [kind if isinstance(kind, str) else NORMALS for kind in kinds]
    return Encoding(component, features.groups, features.counted, features.names, features.categories, said, units)


def _prior(kind: Any) -> np.ndarray:
    if kind == COUNTED:  # a rate of the size of the column's mean, which is filled in
        return np.array([POISSON, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    own: Gaussian = kind if isinstance(kind, Gaussian) else Gaussian()
    return own.prior


def _rows(X: Any, encoding: Encoding) -> Documents:
    assert encoding.kinds is not None
    categories = [j for j, kind in enumerate(encoding.kinds) if kind == CATEGORICAL]
    if categories:
        features = Categorical().rows(_some(X, categories), encoding)
    else:
        features = Documents(np.zeros(len(X) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), 0)
    return features if encoding.units is None else Rows(**vars_of(features), values=encoding.units.values(X))


def _some(X: Any, columns: list[int]) -> Any:
    return X.iloc[:, columns] if hasattr(X, "iloc") else np.asarray(X)[:, columns]


COMPONENTS: dict[str, Component] = {
    "multinomial": Multinomial(), "categorical": Categorical(), "bernoulli": Bernoulli(), "poisson": Poisson(),
    "gaussian": Gaussian(), "mixed": Mixed(),
}  # fmt: skip
