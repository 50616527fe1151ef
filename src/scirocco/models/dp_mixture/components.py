"""What rows are made of: the protocol of a component, and four of them; ``mixed`` has those with numbers.

    Multinomial    counts of events; a row may have any number of them         theta ~ Dirichlet(base)
    Categorical    a table of categorical columns, missing entries left out    theta_j ~ Dirichlet(base), by column
    Bernoulli      a table of yes and no                                       p_j ~ Beta(base, base)
    Poisson        counts whose totals tell clusters apart too                 lambda_j ~ Gamma(base, rate)

A component turns a table into rows of features with numbers, and says which prior its features have: a Dirichlet
parameter for each group of features, or gamma shapes with a rate. Samplers see nothing else, so that a component of
your own is a class with ``encoding``: inherit from ``Component`` and give an instance to the model. Features of a group
must have neighbouring numbers, and a row has each feature at most once, in order.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from scirocco.core.checks import positive_array
from scirocco.core.parts import part
from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.looks import CATEGORICAL, warn_of_many
from scirocco.models.dp_mixture.rows import values_of
from scirocco.models.dp_mixture.units import Units


@dataclass(frozen=True, eq=False)
class Encoding:
    """How a table becomes rows of features; what is not ``counted`` stands for categories never seen in training."""

    component: Component
    groups: np.ndarray
    counted: np.ndarray
    names: list[str] | None
    categories: list[list[Any]] | None = None
    kinds: list[str] | None = None  # of the columns of a table that has several
    units: Units | None = None  # of its columns of numbers

    def fingerprint(self) -> int:
        """What tells its categories and units from others."""
        units = "" if self.units is None else repr((self.units.centers.tolist(), self.units.scales.tolist()))
        return zlib.crc32((repr(self.categories) + units).encode())

    def rows(self, X: Any) -> Documents:
        """A table as rows of features."""
        return self.component.rows(X, self)

    def named(self, names: Any, columns: int) -> Encoding:
        """The same with other names of the columns; categories keep theirs."""
        listed = [str(name) for name in names]
        if len(listed) != columns:
            raise ValueError(f"names must be one for each of {columns} columns; got {len(listed)}")
        if self.kinds is not None:
            units = self.units and replace(self.units, names=[listed[j] for j in self.units.places])
            shown = [name for name, kind in zip(listed, self.kinds, strict=True) if kind == CATEGORICAL]
            return replace(self, names=self._with_values(shown), units=units)
        several = self.groups.size != columns  # features of a column
        return replace(self, names=self._with_values(listed) if several else listed)

    def _with_values(self, titles: list[str]) -> list[str]:
        """Names of features: name=value."""
        values = ["yes", "no"] * len(titles)
        if self.categories is not None:
            values = [str(value) for own in self.categories for value in own]
        return [f"{titles[group]}={value}" for group, value in zip(self.groups, values, strict=False)]

    @property
    def priors(self) -> np.ndarray | None:
        """Of the columns of numbers, if there are some."""
        return None if self.units is None else self.units.priors

    def constants(self, rows: Documents) -> np.ndarray:
        """What the log density of a row has beside the part that clusters decide."""
        own = self.component.constants(rows)
        return own if self.units is None else own + self.units.constants(values_of(rows))

    def law(self, base: Any) -> Law:
        """The prior: ``base`` is a number, or one for each feature."""
        given = positive_array("base", base)
        shown = int(self.counted.sum())
        if given.shape not in ((), (shown,)):
            raise ValueError(f"base must be a number or {shown} of them, one for each feature; got shape {given.shape}")
        full = np.full(self.groups.size, float(given.mean()) if given.size else 1.0)
        full[self.counted] = given
        return Law.of(full, self.groups, self.counted, self.component.prior_rate, self.priors)


class Component(ABC):
    """A conjugate component; subclasses are frozen dataclasses and are registered by being defined."""

    any_values = False  # whether a table may have text and missing entries
    default_base, default_prior = 0.1, "dp"  # what does best on classes that are known: benchmarks/latent_classes.py

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        part(cls)

    @property
    def prior_rate(self) -> float:
        """The rate of gamma priors; 0 says that groups of features have Dirichlet priors."""
        return 0.0

    @abstractmethod
    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """Learn from training data what its features are."""

    def rows(self, X: Any, encoding: Encoding) -> Documents:
        """Rows of features: their numbers are counts."""
        del encoding
        return Documents.of(X)

    def constants(self, rows: Documents) -> np.ndarray:
        """What the log density of a row has beside the part that clusters decide."""
        return np.zeros(rows.size)


def _one_group(component: Component, X: Any, names: Sequence[str] | None) -> Encoding:
    width = X.shape[1]
    listed = None if names is None else [str(name) for name in names]
    return Encoding(component, np.zeros(width, np.int32), np.ones(width, bool), listed)


@dataclass(frozen=True)
class Multinomial(Component):
    """Counts of events that are independent given the cluster; a row's total says nothing about it."""

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """Columns are features."""
        return _one_group(self, X, names)


@dataclass(frozen=True)
class Poisson(Component):
    """Independent Poisson counts with rates lambda ~ Gamma(base, ``rate``): totals of rows tell clusters apart too."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        if positive_array("rate", self.rate).ndim:
            raise ValueError("rate must be one number")

    @property
    def prior_rate(self) -> float:
        """That of the gamma priors."""
        return float(self.rate)

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """Columns are features."""
        return _one_group(self, X, names)

    def constants(self, rows: Documents) -> np.ndarray:
        """Factorials of the counts."""
        owner = np.repeat(np.arange(rows.size), np.diff(rows.starts))
        return -np.bincount(owner, weights=gammaln(rows.numbers + 1.0), minlength=rows.size)


@dataclass(frozen=True)
class Categorical(Component):
    """Columns of categories, independent given the cluster: latent classes.

    Missing entries (NaN, None, pandas' NA) say nothing and are left out. A category that training did not have is
    predicted by what the base measure gives one without counts, base / (n + B).
    """

    any_values = True
    default_base, default_prior = 1.0, "mfm"

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """The categories of each column, sorted."""
        found: list[list[Any]] = []
        seen = [column[~_missing(column)] for column in _columns(X)]
        for column in seen:
            if not column.size:
                name = len(found) if names is None else names[len(found)]
                raise ValueError(f"column {name} has no entry: every one is missing")
            found.append(_sorted(column))
        warn_of_many(found, seen, names)
        return self.encoded(found, names)

    def encoded(self, categories: list[list[Any]], names: Sequence[str] | None) -> Encoding:
        """The encoding of known categories: those of all columns, then one of each for what is unseen."""
        sizes = [len(own) for own in categories]
        groups = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.arange(len(sizes))]).astype(np.int32)
        titles = [str(j) for j in range(len(sizes))] if names is None else [str(name) for name in names]
        listed = [f"{title}={value}" for title, own in zip(titles, categories, strict=True) for value in own]
        return Encoding(self, groups, np.arange(groups.size) < sum(sizes), listed, categories)

    def rows(self, X: Any, encoding: Encoding) -> Documents:
        """One feature for each entry that is not missing."""
        import pandas as pd

        assert encoding.categories is not None
        known = int(encoding.counted.sum())
        offset, codes = 0, []
        for j, (column, own) in enumerate(zip(_columns(X), encoding.categories, strict=True)):
            places = pd.Index(own, dtype=object).get_indexer(pd.Index(column, dtype=object))
            features = np.where(places < 0, known + j, places + offset)
            codes.append(np.where(_missing(column), -1, features))
            offset += len(own)
        table = np.stack(codes, axis=1)
        there = table >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        words = table[there].astype(np.int32)
        return Documents(starts, words, np.ones(words.size, np.int32), encoding.groups.size)


@dataclass(frozen=True)
class Bernoulli(Component):
    """Yes or no in every column, independent given the cluster: what a row does not have counts as well.

    Counts above 1 are a yes. A row has as many entries as there are columns.
    """

    default_base, default_prior = 1.0, "mfm"

    def encoding(self, X: Any, names: Sequence[str] | None) -> Encoding:
        """Two features for each column, yes and no."""
        width = X.shape[1]
        titles = [str(j) for j in range(width)] if names is None else [str(name) for name in names]
        listed = [f"{title}={answer}" for title in titles for answer in ("yes", "no")]
        return Encoding(self, np.repeat(np.arange(width, dtype=np.int32), 2), np.ones(2 * width, bool), listed)

    def rows(self, X: Any, encoding: Encoding) -> Documents:
        """Every column's answer."""
        del encoding
        yes = sp.csr_array(Documents.of(X).matrix()).toarray() > 0
        words = 2 * np.arange(yes.shape[1]) + ~yes
        starts = np.arange(len(yes) + 1) * yes.shape[1]
        return Documents(starts, words.astype(np.int32).ravel(), np.ones(words.size, np.int32), 2 * yes.shape[1])


def _columns(X: Any) -> list[np.ndarray]:
    if hasattr(X, "iloc"):
        return [_plain(np.asarray(X.iloc[:, j], dtype=object)) for j in range(X.shape[1])]
    return [_plain(column) for column in np.asarray(X, dtype=object).T]


def _plain(column: np.ndarray) -> np.ndarray:
    """Text, numbers and what is missing as they are, anything else (dates, intervals) by its name: JSON holds them."""
    out, missing = column.copy(), _missing(column)
    for i, value in enumerate(column):
        if not missing[i] and not isinstance(value, str | int | float):
            out[i] = value.item() if isinstance(value, np.number | np.bool_) else str(value)
    return out


def _missing(column: np.ndarray) -> np.ndarray:
    import pandas as pd

    return np.asarray(pd.isna(column))


def _sorted(seen: np.ndarray) -> list[Any]:
    """Different values, in order if they have one; numbers as plain numbers, so that JSON can hold them."""
    values = list(dict.fromkeys(seen))
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=str)
