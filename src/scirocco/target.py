"""The posterior to sample: a log prior and a sum of log likelihoods over data of known size.

    U(theta) = - log p(theta) - sum_i log p(x_i | theta)

is the potential, on the scale of the full data. The library owns the factor N/n of a minibatch; users never multiply.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco import constraints
from scirocco.batches import Arrays, Batch, Shards, Stream, as_source
from scirocco.batches.base import check_rows, row_bytes
from scirocco.batches.frames import plain
from scirocco.batches.keyed import Keyed, keyed
from scirocco.batches.shards import Part
from scirocco.constraints import Constraints, Parametrisation
from scirocco.core.axes import Axes, names_given
from scirocco.core.beyond import BEYOND, beyond, codes_in, extremes
from scirocco.core.executors import Portable
from scirocco.core.interrupt import poll
from scirocco.core.program import QUICK
from scirocco.core.seeds import Purpose, generator
from scirocco.core.trees import all_finite, named_leaves, shown
from scirocco.core.types import Array, Data, Params
from scirocco.density import NONE, Density, FreeLikelihood, FreePrior, PureDensity, RandomLikelihood, flat, merge
from scirocco.manifolds import Geometry

AT_ONCE = 2**21  # log likelihoods of many positions
REMEMBERED_BYTES = 2**16  # of a position, up to which what was summed there is remembered
MOST_SHOWN = 10  # parameters in a message
FIRST, TRIAL_ROWS = 8, 4096  # rows of a trial, and of those on disk among which extremes are looked for
PASS_BYTES = 4 * 2**20  # rows of a pass over all data are taken in pieces of this size: they stay in the cache


@dataclass(frozen=True, eq=False)
class Target(PureDensity):
    """A posterior ``exp(-U)`` known through its prior, its likelihood and its data.

    ``log_prior(params)`` and ``log_likelihood(params, example)`` return scalars; ``params`` is any pytree of floating
    arrays, ``example`` one row of the data. With ``batched=True`` the likelihood takes a batch of rows and returns one
    value per row instead. A likelihood of three arguments, ``log_likelihood(params, example, key)``, is random: an
    estimate whose mean over keys is what is sampled. ``data`` is a pytree of arrays with a common leading axis,
    ``numpy.memmap`` arrays, or a source from ``scirocco.batches``. ``manifold`` says where parameters live that are not
    free, such as ``{"topics": manifolds.Sphere()}``; the density is then with respect to the Hausdorff measure there.
    ``constraints``, such as ``{"sigma": constraints.positive}``, say so of parameters that chains move by free numbers
    of their own: functions, starts, draws and moments are in the space of the parameters. ``dims`` names the axes of
    parameters, ``coords`` the entries of these, as ArviZ has them: ``dims={"beta": ["column"]}``,
    ``coords={"column": ["age", "income"]}``; those of a category of a table are its labels. ``log_prior=None`` is a
    flat prior, which ``summary()`` says.

    >>> import jax.numpy as jnp
    >>> target = Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(4.0))
    >>> target.size, round(target.log_posterior(jnp.array(1.0)), 3)
    (4, -3.5)
    """

    log_prior: Any  # a function of the parameters, or None
    log_likelihood: Callable[..., Any]
    data: Any
    batched: bool = False
    manifold: Any = None
    constraints: Any = None
    dims: Mapping[str, Sequence[str]] | None = None
    coords: Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        if self.log_prior is None:
            object.__setattr__(self, "log_prior", flat)
        for name in ("log_prior", "log_likelihood"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function; got {type(getattr(self, name)).__name__}")
        if _required(self.log_prior) == 2 and _required(self.log_likelihood) == 1:
            raise TypeError(
                "log_prior takes two arguments and log_likelihood one: they were given in the wrong order, "
                "Target(log_prior, log_likelihood, data)"
            )
        if _required(self.log_likelihood) == 3:
            object.__setattr__(self, "log_likelihood", RandomLikelihood(self.log_likelihood))
        _ = self.source, self.geometry, self.change, self.axes  # look at them now, not at the first step
        if isinstance(self.change, Constraints):
            both = {path for path, _ in self.change.parts} & {path for path, _ in self.geometry.parts}
            if both:
                names = ", ".join(sorted(".".join(path) for path in both))
                raise ValueError(f"{names} has a manifold and a constraint: give it one of them")

    @classmethod
    def from_numpyro(
        cls, model: Callable[..., Any], rows: Any, *, fixed: dict[str, Any] | None = None, plate: str | None = None,
        dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Sequence[Any]] | None = None,
    ) -> Target:  # fmt: skip
        """The posterior of a NumPyro model with a plate over rows (extra ``numpyro``).

        ``rows`` are the arguments of the model that have one entry a row, by name: arrays, or a source of a dictionary
        of columns; ``fixed`` are its other arguments. The model is run on the rows of a minibatch. ``plate`` names the
        plate over rows, if there are several of the same size. Latent sites are sampled, with the bijections of
        NumPyro; draws have latent and deterministic sites, with the names of their plates as dimensions; ``dims`` and
        ``coords`` name other axes and the entries along them. Refused are latent sites of rows, discrete ones, and
        models whose rows do not stand apart.

        >>> import numpy as np, numpyro, numpyro.distributions as dist, scirocco as sc
        >>> def model(x, y):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 10))
        ...     sigma = numpyro.sample("sigma", dist.HalfNormal(5))
        ...     with numpyro.plate("rows", len(x)):
        ...         numpyro.sample("y", dist.Normal(slope * x, sigma), obs=y)
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=5000).astype(np.float32)
        >>> y = (2 * x + rng.normal(size=5000)).astype(np.float32)
        >>> trace = sc.sample(sc.Target.from_numpyro(model, {"x": x, "y": y}))
        >>> trace.verdict().kind, sorted(trace.posterior)
        ('use it', ['sigma', 'slope'])
        """
        if importlib.util.find_spec("numpyro") is None:
            raise ImportError("models of NumPyro need it: pip install 'scirocco[numpyro]'")
        from scirocco.interop.numpyro import NumPyroModel

        if not callable(model):
            raise TypeError(f"model must be a function with NumPyro's primitives; got {type(model).__name__}")
        source = as_source(rows, {name: plain(entries) for name, entries in names_given("coords", coords).items()})
        if not isinstance(source.example, dict):
            raise TypeError(f"rows must be arguments of the model by name; got {type(rows).__name__}")
        found = NumPyroModel.understood(model, source.first, source.size, dict(fixed or {}), plate)
        return cls(
            found.log_prior, found.log_likelihood, source, batched=True, constraints=found, dims=dims, coords=coords
        )

    @classmethod
    def from_pymc(cls, model: Any, rows: Any = None) -> Target:
        """The posterior of a PyMC model, or of a Bambi model, sampled from minibatches (extra ``pymc``).

        ``rows`` are the names of the ``pm.Data`` and observed variables of the model that have one entry a row, along
        their first axis; None for all that are as long as what is observed. Arrays of that length that are plain
        constants of the model go with them. With columns by these names instead, arrays, a table or a source on disk,
        the model is that of those rows: it may have been written on a few of them. Free variables are sampled, with
        the transforms of PyMC; draws have free and deterministic variables, with their dims and coords, but for those
        that depend on rows. Refused are variables of rows, discrete ones, and models whose rows do not stand apart.

        >>> import numpy as np
        >>> import pymc as pm, scirocco as sc  # doctest: +SKIP
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=5000)
        >>> with pm.Model() as model:  # doctest: +SKIP
        ...     slope = pm.Normal("slope", 0, 10)
        ...     sigma = pm.HalfNormal("sigma", 5)
        ...     pm.Normal("y", slope * x, sigma, observed=2 * x + rng.normal(size=5000))
        >>> trace = sc.sample(sc.Target.from_pymc(model))  # doctest: +SKIP
        >>> trace.verdict().kind, sorted(trace.posterior)  # doctest: +SKIP
        ('use it', ['sigma', 'slope'])
        """
        if importlib.util.find_spec("pymc") is None:
            raise ImportError("models of PyMC need it: pip install 'scirocco[pymc]'")
        from scirocco.interop.pymc import PyMCModel

        found = PyMCModel.understood(model, rows)
        return cls(found.log_prior, found.log_likelihood, found.rows.source, constraints=found, coords=found.coords)

    @cached_property
    def source(self) -> Arrays | Stream:
        """Where the data lives."""
        source = as_source(self.data, self._entries)
        for name, labels in source.labels.items():
            strange = [label for label in labels if label not in self._entries.get(name, labels)]
            if strange:
                raise ValueError(f"coords: the column {name} of the data has {strange[0]!r}, which is not among {name}")
        if not isinstance(self.log_likelihood, RandomLikelihood):
            return source
        if isinstance(source, Shards):
            raise ValueError("a likelihood that is random takes data of one piece: not Shards")
        return keyed(source)

    def executor_at(self, place: int) -> Executor | None:
        """The executor whose workers have a shard of the data; None if all are here."""
        return self.source.executor_at(place) if isinstance(self.source, Shards) else None

    @property
    def random(self) -> bool:
        """Whether the likelihood is random: rows then come with keys."""
        return isinstance(self.source.example, Keyed)

    @cached_property
    def geometry(self) -> Geometry:
        """The manifolds on which the parameters live."""
        return Geometry.of(self.manifold)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a result should know of the posterior."""
        return ("the prior is flat: log_prior=None",) if self.log_prior is flat else ()

    @property
    def axes(self) -> Axes:
        """The names of the axes of parameters and of their entries."""
        return Axes({**self.change.dims, **names_given("dims", self.dims)}, {**self.source.labels, **self._entries})

    @cached_property
    def _entries(self) -> dict[str, tuple[Any, ...]]:
        """The names of entries that were given; the codes of a column of categories that is called so follow them."""
        return {name: plain(entries) for name, entries in names_given("coords", self.coords).items()}

    @cached_property
    def change(self) -> Parametrisation:
        """The way between parameters and the free numbers that chains move."""
        given = self.constraints
        return given if isinstance(given, Parametrisation) else Constraints.of(given)

    def ordered(self, name: str | None = None) -> Target:
        """The same posterior where the entries of a vector of parameters rise; ``name`` in a dictionary of parameters.

        Where components may change their names, as those of a mixture, this keeps one order of all.

        >>> import jax.numpy as jnp, numpy as np
        >>> x = np.repeat([-2.0, 2.0], 100).astype(np.float32)
        >>> target = Target(None, lambda p, x: jnp.logaddexp(-(x - p["m"][0])**2, -(x - p["m"][1])**2), x)
        >>> print(target.ordered("m").constraints["m"])
        ordered_vector
        """
        if name is None:
            return replace(self, constraints=constraints.ordered)
        if not (self.constraints is None or isinstance(self.constraints, Mapping)):
            raise ValueError(f"the parameters have constraints of their own already: put {name} in order among these")
        return replace(self, constraints={**(self.constraints or {}), name: constraints.ordered})

    def free(self, temperature: Any = 1.0, held: Sequence[str] = ()) -> Target:
        """The posterior of the free numbers that chains move in place of the parameters, but those that are ``held``.

        exp(-U/T) is a density of the parameters: so the temperature matters.
        """
        change = self.change.without(held) if held else self.change
        if not change:
            return self
        if callable(temperature):
            raise ValueError("parameters with constraints need one temperature: give the sampler a number")
        t, names = float(np.asarray(temperature)), tuple(held)
        if (t, names) not in self._free_targets:
            own = self.density
            prior, likelihood = FreePrior(own.log_prior, change, t), FreeLikelihood(own.log_likelihood, change)
            self._free_targets[t, names] = FreeTarget(
                prior, likelihood, self.source, self.batched, self.manifold, whole=self, moved=change
            )
        return self._free_targets[t, names]

    @cached_property
    def _free_targets(self) -> dict[tuple[float, tuple[str, ...]], Target]:
        """Those that were made: they remember sums over all data."""
        return {}

    @property
    def size(self) -> int:
        """The number of examples N."""
        return self.source.size

    @cached_property
    def density(self) -> Density:
        """The functions alone, for compiled programs."""
        prior, likelihood = (_hashable(f) for f in (self.log_prior, self.log_likelihood))
        return Density(prior, likelihood, self.batched, self.size, self.geometry, self.to_parameters)

    @property
    def to_parameters(self) -> Parametrisation:
        """The way from positions of this target to what users see; they are the same but for a ``free`` target."""
        return NONE

    def freed(self, params: Params) -> Params:
        """The position at parameters of the user's, after a look at whether they obey their constraints."""
        if not self.to_parameters:
            return params
        self.to_parameters.check(params)
        return self.to_parameters.free(jax.tree.map(jnp.asarray, params))

    # Sums over the whole data set, accumulated in float64 on the host: at N = 10^6 float32 loses the differences that
    # control variates live on.

    @property
    def pass_rows(self) -> int:
        """Rows of one batch of a pass over all data."""
        longest = int(self.source.sizes.max()) if isinstance(self.source, Shards) else self.size
        return max(1, min(longest, PASS_BYTES // row_bytes(self.source.example)))

    def passes(self) -> Iterator[Batch]:
        """All rows once, in batches of equal shape; the padding of the last one has weight 0."""
        return _passes(self.source, self.pass_rows, self.density.size / self.size)

    def summed(self, part: Callable[..., Any], *given: Any) -> Any:
        """The sum of ``part(density, *given, batch)`` over all rows, in float64: of shards each where it is."""
        source = self.source
        if not isinstance(source, Shards):
            return _sum(part(self.density, *given, batch) for batch in self.passes())
        work = Portable(self.density), self.pass_rows, self.density.size / self.size, part, jax.tree.map(_sent, given)
        return _sum(source.each_part(partial(_sum_of_shard, *work)))

    def shuffled(self, rows: int, seed: int, epoch: int = 0) -> Iterator[Data]:
        """Minibatches of an epoch in random order, on the host, for work before a run."""
        source = self.source
        if isinstance(source, Arrays):
            order = generator(seed, Purpose.SEARCH_ROWS, epoch).permutation(source.size)
            for k in range(source.size // rows):
                poll()
                yield jax.tree.map(lambda a, k=k: a[order[k * rows : (k + 1) * rows]], source.arrays)
            return
        assert isinstance(source, Stream)
        block = min(source.resident_rows, source.size) // rows * rows
        for b in range(max(1, source.size // block)):
            data = source.block(seed, block, epoch * (source.size // block) + b)
            for k in range(block // rows):
                poll()
                yield jax.tree.map(lambda a, k=k: a[k * rows : (k + 1) * rows], data)

    @cached_property
    def _remembered(self) -> dict[str, tuple[bytes, Any]]:
        """The last sum over all data of each kind, and where it was taken: several parts ask for the same."""
        return {}

    def _once(self, kind: str, position: Params, held: Params, compute: Callable[[], Any]) -> Any:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((position, held))]
        place = b"".join(leaf.tobytes() for leaf in leaves)
        if len(place) > REMEMBERED_BYTES:
            return compute()
        known = self._remembered.get(kind)
        if known is None or known[0] != place:
            known = self._remembered[kind] = place, compute()
        return known[1]

    def full_likelihood_gradient(self, position: Params, held: Params = None) -> Params:
        """The gradient of - sum_i log likelihood_i over all data, in float64."""

        def compute() -> Params:
            return self.summed(likelihood_gradient, position, held)

        return self._once("gradient", position, held, compute)

    def full_gradient(self, position: Params, held: Params = None) -> Params:
        """Grad U over all data, in float64."""
        prior = _prior_gradient(self.density, position, held)
        return jax.tree.map(
            lambda a, b: a + np.asarray(b, dtype=np.float64), self.full_likelihood_gradient(position, held), prior
        )

    def likelihood_hessian(
        self, position: Params, held: Params = None, batches: Iterable[Batch] | None = None
    ) -> np.ndarray:
        """The Hessian of - sum_i log likelihood_i over all data, or over ``batches``, in float64.

        The gradient over all data comes from the same pass, and is remembered.
        """

        def compute() -> Any:
            if batches is not None:
                return _sum(likelihood_hessian(self.density, position, held, batch)[1] for batch in batches)
            slope, total = self.summed(likelihood_hessian, position, held)
            self._once("gradient", position, held, lambda: _like(position, slope))
            return total

        found: np.ndarray = self._once("Hessian", position, held, compute) if batches is None else compute()
        return found

    def log_posterior(self, params: Params) -> float:
        """-U over all data, accumulated in float64."""
        return float(self.log_prior(params)) + float(self.summed(likelihood_sum, params))

    def log_posteriors(self, positions: Params, reference: Params) -> np.ndarray:
        """log p(position) - log p(reference) of many positions, along the leading axis, in one pass over the data.

        Differences are taken row by row: log posteriors of a million rows leave single precision no digits for them.
        """
        shapes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(positions)}
        if len(shapes) != 1 or () in shapes:
            raise ValueError(f"positions must share a leading axis; got {sorted(shapes)}")
        prior = np.asarray(_prior_differences(self.density, positions, reference), np.float64)
        at_once = max(1, AT_ONCE // self.pass_rows)
        return np.asarray(prior + self.summed(likelihood_differences, positions, reference, at_once))

    def check(self, position: Params, held: Params = None, *, values: bool = True) -> None:
        """Evaluate once at ``position`` and say in words what is wrong; without ``values`` look at shapes only."""
        params = merge(position, held)
        for name, leaf in named_leaves(position).items():
            if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
                raise TypeError(
                    f"initial: {name} has dtype {jnp.asarray(leaf).dtype}; sampled parameters must be floating"
                )
        if not all_finite(params):
            bad = [name for name, leaf in named_leaves(params).items() if not all_finite(leaf)]
            raise ValueError(f"initial has NaN or infinite values in {', '.join(bad)}")
        if values:
            self.geometry.without(held or ()).check(position)
        trial = jax.device_put(self._trial[1])
        rows = jax.tree.leaves(trial)[0].shape[0]
        prior = _shape("log_prior", self.log_prior, params)
        if prior.shape != ():
            raise ValueError(f"log_prior must return a scalar; it returned shape {prior.shape}: sum over its axes")
        if self.batched:
            found = _shape("log_likelihood", self.log_likelihood, params, trial)
            if found.shape != (rows,):
                raise ValueError(
                    f"log_likelihood with batched=True must return one value per row, shape ({rows},) for {rows} rows; "
                    f"it returned shape {found.shape}"
                )
        else:
            found = _shape("log_likelihood", self.log_likelihood, params, self.source.example)
            if found.shape != ():
                raise ValueError(
                    f"log_likelihood must return a scalar for one example; it returned shape {found.shape}: "
                    "sum over its axes, or pass batched=True if it takes a batch of rows"
                )
        for name, value in (("log_prior", prior), ("log_likelihood", found)):
            if not jnp.issubdtype(value.dtype, jnp.floating):
                raise TypeError(f"{name} must return floating values; it returned {value.dtype}")
        if values:
            self._check_values(position, held, trial)

    @cached_property
    def _trial(self) -> tuple[np.ndarray, Data]:
        """Rows that tell whether functions are in order, and their numbers: the first, and extremes of all columns."""
        if isinstance(self.source, Arrays):
            some = self.source.first(self.size)
        else:
            some = self.source.first(TRIAL_ROWS)
            check_rows(some)
        which = np.unique([*range(min(FIRST, self.size)), *itertools.chain(*extremes(some).values())])
        return which, jax.tree.map(lambda a: a[which], some)

    def _check_values(self, position: Params, held: Params, trial: Data) -> None:
        prior, values, strange, gradient = jax.tree.map(np.asarray, _evaluate(self.density, position, held, trial))
        if not np.isfinite(prior):
            params = named_leaves(self.to_parameters.parameters(merge(position, held)))
            values = "; ".join(f"{name} = {shown(leaf)}" for name, leaf in itertools.islice(params.items(), MOST_SHOWN))
            raise ValueError(f"log_prior is {prior} at the initial position, {values}: start inside the support")
        if not np.all(np.isfinite(values)):
            worst = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"log_likelihood is {values[worst]} at the initial position for example {self._trial[0][worst]} of the "
                "data"
            )
        if np.any(strange):
            worst = int(np.argmax(strange))
            codes = codes_in(jax.tree.map(lambda a: a[worst], self._trial[1]), self.source.labels)
            raise ValueError(f"log_likelihood of row {self._trial[0][worst]} of the data{codes} {BEYOND}")
        for name, leaf in named_leaves(gradient).items():
            if not all_finite(leaf):
                raise ValueError(
                    f"the gradient with respect to {name} is not finite at the initial position, though the log "
                    "density is: look for sqrt, log or a norm at zero"
                )


@dataclass(frozen=True, eq=False)
class FreeTarget(Target):
    """A target as chains see it: its parameters are free, and ``moved`` leads to those of the user, of ``whole``."""

    whole: Target = field(kw_only=True)
    moved: Parametrisation = field(kw_only=True)

    @property
    def to_parameters(self) -> Parametrisation:
        """That of the target of which it was made."""
        return self.moved

    @property
    def axes(self) -> Axes:
        """Those of the target of which it was made."""
        return self.whole.axes

    @property
    def _trial(self) -> tuple[np.ndarray, Data]:
        """Those of the target of which it was made."""
        return self.whole._trial


@dataclass(frozen=True, eq=False)
class Sample(Target):
    """Some rows of a target, in memory, that stand for all of them: sums over them are estimates of sums over all.

    Functions and shapes are those of the ``whole``, so that its compiled programs serve.
    """

    whole: Target = field(kw_only=True)

    @classmethod
    def of(cls, target: Target, rows: int, seed: int) -> Sample:
        """Random rows, each at most once."""
        source = target.source
        if isinstance(source, Arrays):
            data = source.rows(np.sort(generator(seed, Purpose.SEARCH_ROWS).choice(source.size, rows, replace=False)))
        else:
            assert isinstance(source, Stream)
            data = jax.tree.map(np.asarray, source.block(seed, rows, 0))
        return cls(target.log_prior, target.log_likelihood, data, target.batched, target.manifold, whole=target)

    @property
    def density(self) -> Density:
        """That of the whole."""
        return self.whole.density

    @property
    def pass_rows(self) -> int:
        """As many as of the whole."""
        return self.whole.pass_rows


def _passes(source: Arrays | Stream, rows: int, each: float) -> Iterator[Batch]:
    """All rows of a source once; ``each`` is what a row counts."""
    indices = jax.device_put(np.arange(rows, dtype=np.int32))
    for piece in source.in_order(rows):
        poll()
        missing = rows - jax.tree.leaves(piece)[0].shape[0]
        weights = np.float32(each) * (np.arange(rows) < rows - missing).astype(np.float32)
        padded = jax.tree.map(lambda a, k=missing: np.concatenate([a, np.repeat(a[:1], k, 0)]) if k else a, piece)
        yield Batch(padded, jax.device_put(weights), indices)


def _sum(parts: Iterable[Any]) -> Any:
    """Of trees of arrays, in their order."""
    total: Any = None
    for found in parts:
        own = jax.tree.map(lambda a: np.asarray(a, np.float64), found)
        total = own if total is None else jax.tree.map(np.add, total, own)
    return total


def _sum_of_shard(
    density: Portable[Density], rows: int, each: float, part: Callable[..., Any], given: Any, shard: Part
) -> Any:  # fmt: skip
    """Where a shard is."""
    return _sum(part(density.value, *given, batch) for batch in _passes(shard.source, rows, each))


def _sent(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, jax.Array) else value


@partial(jax.jit, static_argnums=0)
def likelihood_gradient(density: Density, position: Params, held: Params, batch: Batch) -> Params:
    """The gradient of - sum_i log likelihood_i over a batch, for ``Target.summed``; so are the others."""
    return density.likelihood_gradient(position, held, batch)


@partial(jax.jit, static_argnums=0)
def _prior_gradient(density: Density, position: Params, held: Params) -> Params:
    return density.prior_gradient(position, held)


@partial(jax.jit, static_argnums=0)
def likelihood_hessian(density: Density, position: Params, held: Params, batch: Batch) -> tuple[Array, Array]:
    """The gradient, as a vector, and the Hessian."""
    flat, unravel = ravel_pytree(position)

    def gradient(x: Array) -> Array:
        return ravel_pytree(density.likelihood_gradient(unravel(x), held, batch))[0]

    def along(v: Array) -> tuple[Array, Array]:
        first, second = jax.jvp(gradient, (flat,), (v,))
        return first, second

    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(flat.size, dtype=flat.dtype))


def _like(tree: Params, flat: np.ndarray) -> Params:
    """A vector of the host as a tree of arrays of these shapes, in its own precision."""
    leaves, structure = jax.tree.flatten(tree)
    borders = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = np.split(flat, borders)
    return jax.tree.unflatten(structure, [a.reshape(np.shape(leaf)) for a, leaf in zip(parts, leaves, strict=True)])


@partial(jax.jit, static_argnums=0)
def likelihood_sum(density: Density, params: Params, batch: Batch) -> Array:
    """The log likelihood of a batch."""
    return jnp.sum(density.log_likelihoods(params, batch.data) * batch.weights)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _prior_differences(density: Density, positions: Params, reference: Params) -> Array:
    there = density.log_prior(reference)
    return jax.vmap(lambda params: jnp.asarray(density.log_prior(params) - there))(positions)


@partial(jax.jit, static_argnums=(0, 3))
def likelihood_differences(
    density: Density, positions: Params, reference: Params, at_once: int, batch: Batch
) -> Array:  # fmt: skip
    """log p(rows | position) - log p(rows | reference) of a batch, of many positions."""
    there = density.log_likelihoods(reference, batch.data)

    def one(params: Params) -> Array:
        return jnp.sum((density.log_likelihoods(params, batch.data) - there) * batch.weights)

    return jax.lax.map(one, positions, batch_size=at_once)


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _evaluate(density: Density, position: Params, held: Params, trial: Data) -> tuple[Array, Array, Array, Params]:
    """Log prior, log likelihoods, which of them are of entries that are not there, and gradient on a few rows."""
    params, rows = merge(position, held), jax.tree.leaves(trial)[0].shape[0]
    batch = Batch(trial, jnp.float32(1), jnp.arange(rows, dtype=jnp.int32))
    gradient = density.potential_gradient(position, held, batch)
    values, strange = beyond(density.log_likelihoods, params, trial)
    return jnp.asarray(density.log_prior(params)), values, strange, gradient


def _required(function: Callable[..., Any]) -> int | None:
    """Arguments that a function must be given by position; None if it does not say."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in by_place and p.default is inspect.Parameter.empty for p in found)


def _hashable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a table of compiled programs can hold: as it is, or under a name of its own."""
    try:
        hash(function)
    except TypeError:
        return partial(function)
    return function


def require_target(target: object) -> None:
    """Reject what is no target."""
    if not isinstance(target, Target):
        raise TypeError(f"target must be a scirocco.Target; got {type(target).__name__}")


def said(tree: Any) -> str:
    """The names and shapes of the leaves of a pytree."""
    leaves = named_leaves(tree, bare="one array")
    return ", ".join(f"{name} {list(np.shape(leaf))}" if np.shape(leaf) else name for name, leaf in leaves.items())


def _shape(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        value = jax.eval_shape(function, *arguments)
    except Exception as error:
        given = " and ".join(
            f"{what} {said(tree)}" for what, tree in zip(("the parameters", "a row with"), arguments, strict=False)
        )
        error.add_note(f"scirocco: this happened when {name} was first evaluated, given {given}")
        if isinstance(error, jax.errors.NonConcreteBooleanIndexError):
            error.add_note("scirocco: booleans choose no entries here: make them numbers, row['member'].astype(int)")
        raise
    if not hasattr(value, "shape"):
        raise TypeError(f"{name} must return one array; it returned {type(value).__name__}")
    return value
