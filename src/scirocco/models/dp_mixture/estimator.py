"""Mixtures of an unknown number of clusters as a scikit-learn estimator.

    z_i | weights ~ weights,    x_i | z_i ~ f(x | theta_{z_i}),    theta_k ~ Dirichlet(base)
    weights: a Dirichlet process with concentration alpha, or a mixture of finite mixtures

The posterior of the partition is sampled: draws have different numbers of clusters, and nothing is truncated.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from scirocco.core.checks import positive_array, require_choice, require_count
from scirocco.corpora.documents import Documents
from scirocco.corpora.parts import every_nth
from scirocco.corpora.store import Corpus
from scirocco.counts.settling import AGREED, Settling
from scirocco.models.count_model import AUTO, SamplerChoice
from scirocco.models.dp_mixture import storage
from scirocco.models.dp_mixture.base_measure import WAYS
from scirocco.models.dp_mixture.components import Component, Encoding
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.fitting import (
    IN_MEMORY,
    STICKS,
    fit_mixture,
    fit_resident_mixture,
    keeps,
    partition_law,
)
from scirocco.models.dp_mixture.looks import component_for, holds_text, listed, warn_of_codes
from scirocco.models.dp_mixture.mixed import COMPONENTS, Mixed
from scirocco.models.dp_mixture.readings import MixtureReadings
from scirocco.models.dp_mixture.resident import Table, sampled_every
from scirocco.models.dp_mixture.rows import entries_in, values_of
from scirocco.models.dp_mixture.search import STARTS, Start
from scirocco.models.dp_mixture.stream import Stream
from scirocco.models.fit_location import FitLocation, require_no_more_shards
from scirocco.models.inputs import COUNTS, names_of, refuse_text, validate_data
from scirocco.partitions.losses import LOSSES
from scirocco.simplex import SCIRCV, Exact, SimplexSampler

SAMPLERS = (AUTO, *IN_MEMORY, *STICKS)
ALLOCATIONS = ("auto", "kept", "estimated")
PRIORS = ("dp", "mfm")
SEVERAL_THREADS = 10**7  # entries from which "auto" takes the sampler that uses them


class DirichletProcessMixture(MixtureReadings):
    """A Dirichlet process mixture of counts, or of tables of categories and numbers.

    Parameters
    ----------
    component : default "multinomial"
        What rows are made of: "multinomial" (counts; the number of events of a row may be any), "categorical" (a
        table of categories, missing entries allowed), "bernoulli" (a table of yes and no), "poisson" (counts whose
        totals matter too), "gaussian" (numbers), "mixed" (columns of several kinds; a dictionary says which, such
        as {"age": "gaussian", "job": "categorical", "visits": "poisson"}), or a ``Component`` of your own. "auto"
        looks at the table; ``component_`` and ``summary`` say what it took.
    base : optional
        Parameter of the base measure: Dirichlet(base), a number or one for each feature. None is 0.1 for counts,
        and 1 for tables. Columns of numbers have priors of their own (``Gaussian``).
    learn_base : default False
        Learn the base measure: "concentration" its total, "full" its mean too. True is "full".
    concentration : float, optional
        Of the Dirichlet process, or the Dirichlet parameter gamma of weights of "mfm"; None learns it (of "mfm" it
        is 1 then).
    concentration_prior : tuple[float, float], default (1.0, 1.0)
        Shape and rate of its gamma prior.
    n_components_prior : str, default "auto"
        "dp", a Dirichlet process, or "mfm", a mixture of finite mixtures, whose number of clusters does not grow
        with the rows. "auto" is "dp" for counts, and "mfm" for tables.
    sampler : default "auto"
        "collapsed" integrates weights and parameters out, one thread; "gibbs" draws them given all rows and then
        new clusters of a minibatch, on all threads. "slice" is the slice sampler with sticks; "scir", "scir_cv" and
        "sgrld", or a simplex sampler such as ``SCIR(step_size)``, move its sticks and components by small steps (a
        Dirichlet process of multinomial rows only). "auto" takes "collapsed", for 10^7 entries or more "gibbs".
    stick_sampler : optional
        Another simplex sampler for the sticks, such as one with its own step size.
    allocations : str, default "auto"
        "kept" counts the clusters of all rows, which makes every sampler but "sgrld" exact; "estimated" those of a
        minibatch, as in the literature on stochastic gradients. "auto" estimates for "scir", "scir_cv", "sgrld".
    batch_size : int, optional
        Rows of a minibatch; chosen by the sampler if None.
    split_merge : bool, default True
        Add moves that split and merge clusters; with rows on workers in the search alone.
    start : default "one"
        Where the search begins: "one" cluster, rows that join one by one ("sequential"), "random" clusters, or an
        array of labels.
    search : bool, default True
        Look for a good start; otherwise sampling begins right at ``start``.
    max_iter : int, optional
        Passes over the rows, at most. None: as many as ``max_seconds`` allows; if that is None too, 300, and twice
        as many again and again until R-hat of the number of clusters and of the log posterior is at most 1.05 over
        the second half, up to 4,800 or 10^8 entries looked at by each chain.
    max_seconds : float, optional
        Time budget of ``fit``, which then stops with what it has; None for none. If both budgets are given, both
        bind.
    n_chains : int, default 2
        Independent chains.
    n_draws : int, optional
        Draws to keep from each chain; None for 100, or as many as take 256 MB for very many rows.
    loss : str, default "vi"
        Of the point partition, "vi" (variation of information) or "binder".
    n_jobs : int, optional
        Threads; -1 or None for all cores. The result does not depend on it.
    random_state : optional
        Seed.
    verbose : bool, default False
        Show progress.

    Attributes
    ----------
    membership_
        Probabilities of the clusters for each training row and, last, of others, averaged over draws.
    labels_
        The most probable cluster of each training row, the largest cluster first.
    n_clusters_
        How many clusters these are: the most frequent number of the draws.
    posterior_
        Draws with ``n_clusters``, ``concentration``, ``log_density`` (of rows and partition) and ``labels``, an
        ``xarray.Dataset`` (chain, draw, ...).
    component_
        The name of the component: "auto" decided.
    agreement_
        Whether the chains find the same partitions; printed as a report.
    label_stride_
        Labels and memberships are of every so many-th training row: 1 unless there are many and they were on workers.
    trace_
        The run: draws, those of changing size in ``trace_.ragged``, statistics; not after ``load``.
    sampler_
        The sampler that ran: "auto" decided.
    n_iter_
        Passes that were made.
    ended_
        Which budget ended the fit; ``summary`` says so too.
    seconds_
        Time that ``fit`` took.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson([[5.0, 0.0, 1.0]] * 60 + [[0.0, 4.0, 1.0]] * 30)
    >>> model = sc.DirichletProcessMixture(max_iter=50, random_state=0).fit(counts)
    >>> model.n_clusters_, model.predict([[6, 0, 0], [0, 5, 0]])
    (2, array([0, 1]))
    """

    default_passes: ClassVar[int] = 300
    _facts: ClassVar[tuple[str, ...]] = (
        *MixtureReadings._facts,
        "n_features_in_",
        "rows_seen_",
        "label_stride_",
        "component_",
        "looked_",
    )

    encoding_: Encoding
    component_: str
    looked_: str
    rows_seen_: int
    label_stride_: int
    _found: MixtureDraws
    _stream: Stream | None = None
    _settling: Settling | None = None

    def __init__(
        self, component: Any = "multinomial", *, base: Any = None, learn_base: Any = False,
        concentration: float | None = None, concentration_prior: tuple[float, float] = (1.0, 1.0),
        n_components_prior: str = "auto", sampler: Any = "auto", stick_sampler: Any = None, allocations: str = "auto",
        batch_size: int | None = None, split_merge: bool = True, start: Any = "one", search: bool = True,
        max_iter: int | None = None, max_seconds: float | None = None, n_chains: int = 2, n_draws: int | None = None,
        loss: str = "vi", n_jobs: int | None = None, random_state: Any = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.component = component
        self.base = base
        self.learn_base = learn_base
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.n_components_prior = n_components_prior
        self.sampler = sampler
        self.stick_sampler = stick_sampler
        self.allocations = allocations
        self.batch_size = batch_size
        self.split_merge = split_merge
        self.start = start
        self.search = search
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.loss = loss
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        any_values = self.component == AUTO or self._component.any_values
        tags.input_tags.sparse = not any_values
        tags.input_tags.positive_only = not any_values
        tags.input_tags.allow_nan = any_values
        tags.input_tags.categorical = any_values
        tags.input_tags.string = any_values
        return tags

    # Fitting.

    def _read(
        self, X: Any, choice: SamplerChoice, location: FitLocation
    ) -> tuple[Documents | Table, SamplerChoice]:  # fmt: skip
        remote = location.cluster is not None
        if remote:
            choice = SamplerChoice("gibbs") if choice.name == AUTO else choice
            self._require_resident(choice)
        every = sampled_every(X.size, X.tokens) if remote and isinstance(X, Corpus) else 1
        rows = self._rows(X, reset=True, every=every)
        self._settings(rows)
        if choice.name == AUTO:
            choice = SamplerChoice("collapsed" if entries_in(rows) < SEVERAL_THREADS else "gibbs")
        _require_countable(rows.word_counts() if every == 1 else X.word_counts())
        if not rows.tokens and np.isnan(values_of(rows)).all():
            raise ValueError("there is nothing in the rows: every count is 0, or every entry is missing")
        if not remote:
            return rows, choice
        if isinstance(X, Corpus):
            return Table(X, rows, every, self.encoding_), choice
        return Table.here(rows, self.encoding_), choice

    def _run(self, data: Documents | Table, choice: SamplerChoice, location: FitLocation) -> None:
        if isinstance(data, Table):
            require_no_more_shards(location, data.size, "rows")
            fit_resident_mixture(self, data, choice, location)
        else:
            fit_mixture(self, data, choice, location)
        self._stream, self.rows_seen_ = None, data.size
        self.label_stride_ = data.every if isinstance(data, Table) else 1

    def _ended(self, *, given: bool) -> str:
        """Which budget ended the run; if there was none, whether the chains agree."""
        settling, self._settling = self._settling, None
        if settling is None or self.trace_.stopped is not None:
            return super()._ended(given=given)
        agreed = f"R-hat of the number of clusters and of the log posterior is {settling.rhat():.2f}"
        most = "" if settling.rhat() <= AGREED else f", and {settling.most:g} are the most that so many rows get"
        return f"the fit ended after {self.n_iter_:.4g} passes: {agreed}{most}"

    def partial_fit(self, X: Any, y: Any = None) -> DirichletProcessMixture:
        """One minibatch of a stream: its rows are allocated given the clusters of all rows before, and then forgotten.

        The first 20,000 rows are kept, allocated anew with every minibatch, and searched again when they have doubled.
        There is one draw, which the next minibatch changes. After ``fit`` or ``load`` the stream goes on from the last
        draw. Of a table the first minibatch says which categories there are; others are left out as if missing. What
        else is said of the search and its start, of moves and budgets is for ``fit``.
        """
        del y
        began = time.perf_counter()
        fitted = hasattr(self, "_found")
        rows = self._rows(X, reset=not fitted)
        self._settings(None if fitted else rows)
        if SamplerChoice.of(self.sampler).name not in (AUTO, "collapsed"):
            raise ValueError("partial_fit has one collapsed chain: leave sampler as it is")
        stream = self._stream or self._begun_stream()
        rows = _only(rows, self.encoding_.counted)
        before = 0 if stream.tables is None else stream.tables.counts.sum(axis=1, dtype=np.int64)
        _require_countable(before + rows.word_counts())
        labels = stream.follow(rows)
        order = np.flatnonzero(stream.tables.sizes)  # clusters keep their numbers, but for gaps
        rank = np.zeros(stream.tables.sizes.size, np.int32)
        rank[order] = np.arange(order.size)
        self._stream, self.rows_seen_ = stream, stream.rows_seen
        self._keep(
            MixtureDraws(
                rank[labels][None, None], np.array([[float(order.size)]]), np.array([[stream.partition.concentration]]),
                stream.law.base[None, None], np.zeros((1, 1)), [[stream.tables.sizes[order].astype(np.int64)]],
                [[np.ascontiguousarray(stream.tables.counts[:, order].T)]],
                [[np.ascontiguousarray(stream.tables.moments[:, :, order].transpose(2, 0, 1))]],
                stream.law.columns[None, None], stream=True,
            )
        )  # fmt: skip
        self._forget("trace_", "ended_")
        self.sampler_, self.n_iter_ = "collapsed", 1.0
        self.seconds_ = (self.seconds_ if fitted else 0.0) + time.perf_counter() - began
        return self

    def _begun_stream(self) -> Stream:
        """At its beginning, or at the last draw of a fit."""
        law, counted = self.encoding_.law(self._base), self.encoding_.counted
        concentration = float(self._found.concentration[0, -1]) if hasattr(self, "_found") else None
        stream = Stream(
            law, counted, partition_law(self, concentration), seed=FitLocation().seed(self.random_state),
            threads=self._threads, learn_base=self._base_way,
        )  # fmt: skip
        if hasattr(self, "_found"):
            if not self._found.kept:
                raise ValueError("partial_fit goes on from counts: fit with sampler='collapsed', 'gibbs' or 'slice'")
            last = self._snapshots[-1]
            stream.law, stream.tables, stream.rows_seen = last.law, last.tables, self.rows_seen_
            stream.batches = 1
        return stream

    @property
    def _component(self) -> Component:
        if isinstance(self.component, Component):
            return self.component
        if isinstance(self.component, dict | list | tuple):
            return Mixed(self.component)
        if not isinstance(self.component, str):
            raise TypeError(
                f"component must be one of {', '.join(COMPONENTS)}, a dictionary or list of kinds, a Component; got "
                f"{self.component!r}"
            )
        require_choice("component", self.component, (AUTO, *COMPONENTS))
        return COMPONENTS[self.component_ if self.component == AUTO else self.component]

    def _look(self, X: Any) -> None:
        """Which component the table gets, and whether it is fit for it."""
        self.looked_ = ""
        if self.component == AUTO:
            self.component_, why = component_for(X)
            self.looked_ = f"component: {self.component_}, since {why}."
            return
        component = self._component
        self.component_ = self.component if isinstance(self.component, str) else type(component).__name__.lower()
        if not component.any_values and holds_text(X):
            raise TypeError(
                f"component={self.component_!r} takes counts, and X holds text: a table of categories has "
                "component='categorical'; of documents count words with CountVectorizer first"
            )

    @property
    def _base(self) -> Any:
        return self._component.default_base if self.base is None else self.base

    @property
    def _prior(self) -> str:
        return self._component.default_prior if self.n_components_prior == AUTO else self.n_components_prior

    @property
    def _base_way(self) -> str | None:
        if isinstance(self.learn_base, bool | np.bool_):
            return "full" if self.learn_base else None
        if not isinstance(self.learn_base, str):
            raise TypeError(f"learn_base must be True, False or one of {', '.join(WAYS)}; got {self.learn_base!r}")
        require_choice("learn_base", self.learn_base, WAYS)
        return self.learn_base

    def _rows(self, X: Any, *, reset: bool, every: int = 1) -> Documents:
        if reset:
            self._look(X)
        component = self._component
        if component.any_values:
            checked = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            checked = X if hasattr(X, "iloc") else checked
        elif isinstance(X, Corpus):
            checked = (X.load() if every == 1 else every_nth(X, every)).matrix()
            if not reset and checked.shape[1] != self.n_features_in_:
                raise ValueError(f"the corpus has {checked.shape[1]} words, but the model {self.n_features_in_}")
            self.n_features_in_ = checked.shape[1]
        else:
            refuse_text(X, type(self).__name__)
            checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=COUNTS)
            if reset:
                warn_of_codes(checked, self.component_)
        if reset:
            names = X.vocabulary if isinstance(X, Corpus) else names_of(X)
            self.encoding_ = component.encoding(checked, names)
            if isinstance(component, Mixed) and not self.looked_:
                self.looked_ = f"columns: {listed(X, self.encoding_.kinds or [])}."
        return self.encoding_.rows(checked)

    def _settings(self, rows: Documents | None) -> None:
        """Check everything that ``__init__`` only stored; labels to start from only where there are ``rows``."""
        self._require_run()
        if self.n_draws is not None:
            require_count("n_draws", self.n_draws)
        if self.concentration is not None and positive_array("concentration", self.concentration).ndim:
            raise ValueError("concentration must be one number; got an array")
        if positive_array("concentration_prior", self.concentration_prior).shape != (2,):
            raise ValueError(f"concentration_prior must be a shape and a rate; got {self.concentration_prior!r}")
        self._require_sampler()
        require_choice("n_components_prior", self.n_components_prior, (AUTO, *PRIORS))
        require_choice("loss", self.loss, LOSSES)
        start = Start.of(self.start)
        if start.labels is None:
            require_choice("start", start.name, STARTS)
        elif rows is not None:
            labels = start.labels
            if labels.shape != (rows.size,) or labels.dtype.kind not in "iu" or labels.min() < 0:
                raise ValueError(
                    f"start must be one of {', '.join(STARTS)} or a label from 0 on for each of {rows.size} rows"
                )
        if self._base_way is not None and (self._component.prior_rate or not self.encoding_.counted.any()):
            raise ValueError(f"learn_base learns Dirichlet parameters: component {self.component_!r} has none here")
        self.encoding_.law(self._base)

    def _require_sampler(self) -> None:
        choice = SamplerChoice.of(self.sampler)
        choice.require(SAMPLERS, (SimplexSampler,), " or a simplex sampler such as sc.SCIR(0.1)")
        require_choice("allocations", self.allocations, ALLOCATIONS)
        if self.stick_sampler is not None and not isinstance(self.stick_sampler, SimplexSampler):
            raise TypeError(f"stick_sampler must be a simplex sampler such as sc.SCIR(0.1); got {self.stick_sampler!r}")
        if choice.name in (AUTO, *IN_MEMORY):
            if self.allocations == "estimated":
                raise ValueError("estimated allocations need sampler='scir', 'scir_cv' or 'sgrld'")
            return
        if self.encoding_.law(self._base).totals.size != 1 or self._component.prior_rate or self.encoding_.units:
            raise ValueError(f"sampler={self.sampler!r} moves sticks and one simplex a cluster: multinomial rows only")
        if self._prior != "dp" or self._base_way is not None:
            raise ValueError(
                f"sampler={self.sampler!r} has sticks of a Dirichlet process and a fixed base measure: take "
                "'collapsed' or 'gibbs' for 'mfm' and learn_base"
            )
        exact = choice.name == "slice" or isinstance(choice.given, Exact)
        if exact and not keeps(self, choice):
            raise ValueError("exact draws need allocations='kept'")
        for own in (choice.given, self.stick_sampler):
            if isinstance(own, SCIRCV) and own.recentre_every is None:
                raise ValueError("SCIRCV needs recentre_every in a mixture: the counts its centre stands for change")

    def _require_resident(self, choice: SamplerChoice) -> None:
        """Reject what rows on workers do not allow."""
        if choice.name != "gibbs":
            raise ValueError(f"client= is for sampler='gibbs', whose rows are independent; got {choice.name!r}")
        if not isinstance(self.start, str):
            raise ValueError("with client= the search begins in a sample of the rows: give the name of a start")
        if self.batch_size is not None:
            raise ValueError("with client= a round is over all rows: leave out batch_size")

    # Keeping.

    def _packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return storage.packed(self)

    def _restore(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        storage.restore(self, meta, arrays)


def _require_countable(counts: np.ndarray) -> None:
    """Counts of a cluster are 32 bits wide."""
    if counts.size and counts.max() >= 2**31:
        raise ValueError(f"the counts of a column must sum to less than 2^31; got {counts.max():.4g}")


def _only(rows: Documents, counted: np.ndarray) -> Documents:
    """Rows without features that stand for what was never seen."""
    known = counted[rows.words]
    if known.all():
        return rows
    ends = np.concatenate([[0], np.cumsum(known)])
    return replace(rows, starts=ends[rows.starts], words=rows.words[known], numbers=rows.numbers[known])
