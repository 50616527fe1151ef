"""A PyMC model: its prior, its likelihood of a row and its parameters (extra ``pymc``).

    log p(theta)        = sum of the log densities of variables and potentials that do not depend on rows
    log p(x_i | theta)  = sum of those that do, with row i in place of all rows

The graph of the model is taken as it is, but for inputs in place of the rows, so that data are arguments of compiled
programs and may come from disk. PyTensor and PyMC translate it to JAX. JAX wants shapes that are known: the graph is
that of a single row, which is mapped over minibatches. Free variables have PyMC's own transforms.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Arrays, Stream, as_source
from scirocco.batches.base import Source
from scirocco.batches.frames import is_frame
from scirocco.constraints.base import Parametrisation
from scirocco.core.trees import named_leaves, normal_like
from scirocco.core.types import Array, Data, Params
from scirocco.interop.rows import PLACES, ROWS, require_apart


@contextmanager
def _settings_of_jax() -> Iterator[None]:
    """PyTensor asks JAX for double precision and PyMC for a hundred devices when they are imported: not here."""
    flags, double = os.environ.get("XLA_FLAGS"), jax.config.read("jax_enable_x64")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", double)
        os.environ.pop("XLA_FLAGS", None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags


with _settings_of_jax():
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt
    from pymc.data import MinibatchOp
    from pymc.logprob import transformed_conditional_logp
    from pymc.sampling.jax import get_jaxified_graph
    from pymc.variational.minibatch_rv import MinibatchRandomVariable
    from pytensor.compile import SharedVariable
    from pytensor.compile.builders import OpFromGraph
    from pytensor.graph.basic import Apply
    from pytensor.graph.rewriting.utils import rewrite_graph
    from pytensor.graph.traversal import ancestors, io_toposort
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.scalar.math import Erfcx
    from pytensor.tensor.basic import Alloc
    from pytensor.tensor.shape import Reshape, SpecifyShape
    from pytensor.tensor.variable import TensorConstant

if hasattr(jax.scipy.special, "erfcx"):  # censored and truncated normal laws need it; PyTensor looks for it elsewhere
    jax_funcify.register(Erfcx, lambda op, **_: jax.scipy.special.erfcx)

Graph = Any
"""A variable of PyTensor."""

SHAPES = {Alloc: slice(1, None), Reshape: slice(1, 2)}
"""The inputs of operations that are shapes."""


# Graphs.


def _rebuilt(
    graphs: Sequence[Graph], given: Mapping[Graph, Graph], lengths: Sequence[int] = (), rows: int | None = None
) -> list[Graph]:  # fmt: skip
    """Graphs with other variables in place of some.

    If they are rows, of ``lengths`` in the model, ``pm.Minibatch`` is all of them, and shapes have so many ``rows``.
    Shapes that were noted are forgotten.
    """
    known = dict(given)
    for node in io_toposort(list(given), graphs):
        inputs = [known.get(v, v) for v in node.inputs]
        if rows is not None and isinstance(node.op, tuple(SHAPES)):
            at = SHAPES[type(node.op)]
            inputs[at] = [_recounted(v, lengths, rows) for v in inputs[at]]
        if isinstance(node.op, SpecifyShape):
            outputs = inputs[:1]
        elif lengths and isinstance(node.op, MinibatchOp):
            outputs = inputs
        elif isinstance(node.op, OpFromGraph) and any(new.type != old.type for new, old in _pairs(inputs, node)):
            inner = dict(zip(node.op.inner_inputs, inputs, strict=True))
            outputs = _rebuilt(node.op.inner_outputs, inner, lengths, rows)  # its types are those of all rows
        elif not isinstance(node, Apply) or any(new is not old for new, old in _pairs(inputs, node)):  # frozen, or new
            outputs = node.op.make_node(*inputs).outputs
        else:
            continue
        known.update({old: new for old, new in zip(node.outputs, outputs, strict=False) if old not in given})
    return [known.get(graph, graph) for graph in graphs]


def _pairs(inputs: Sequence[Graph], node: Any) -> list[tuple[Graph, Graph]]:
    return list(zip(inputs, node.inputs, strict=True))


def _recounted(shape: Graph, lengths: Sequence[int], rows: int) -> Graph:
    """A shape of so many rows in place of all."""
    held = {v: _value(v) for v in ancestors([shape]) if isinstance(v, TensorConstant | SharedVariable)}
    where = {v: np.isin(a, lengths) for v, a in held.items()}
    new = {v: pt.constant(np.where(at, rows, held[v]), dtype=v.dtype) for v, at in where.items() if at.any()}
    return _rebuilt([shape], new)[0] if new else shape


def _value(variable: Graph) -> np.ndarray:
    """What a constant or a container of data holds."""
    held = variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
    return np.asarray(held)


def _roots(graph: Graph) -> list[Graph]:
    """The arrays that a graph without randomness is made of."""
    whole = _rebuilt([graph], {}, [0])  # of which a minibatch is drawn
    data = (v for v in ancestors(whole) if isinstance(v, TensorConstant | SharedVariable))
    return [v for v in dict.fromkeys(data) if getattr(v, "ndim", 0)]


def _sees(graph: Graph, variables: Any) -> bool:
    return not set(variables).isdisjoint(ancestors([graph]))


def _jaxified(inputs: Sequence[Graph], outputs: Sequence[Graph]) -> Callable[..., list[Array]]:
    """A function of JAX."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping")  # of checks of parameters
        function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))

    def call(*arguments: Any) -> list[Array]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Explicitly requested dtype")  # single precision is what we want
            return [jnp.asarray(v) for v in function(*map(jnp.asarray, arguments))]

    return call


# The rows of a model.


class Rows(NamedTuple):
    """The data of a model: by the name of a column the variables of the graph that it takes the place of."""

    source: Arrays | Stream
    variables: dict[str, list[Graph]]
    lengths: tuple[int, ...]  # of the model's own, and of its minibatches

    @property
    def length(self) -> int:
        """Of the model's own."""
        return self.lengths[0]

    def inputs(self, rows: int | None) -> dict[Graph, Graph]:
        """Inputs of so many rows in place of the variables."""
        found = {}
        for name, variables in self.variables.items():
            first = variables[0]
            new = pt.TensorType(first.dtype, shape=(rows, *_value(first).shape[1:]))(name)
            found.update(dict.fromkeys(variables, new))
        return found

    @property
    def all(self) -> list[Graph]:
        """The variables of all columns."""
        return [v for variables in self.variables.values() for v in variables]


def _variable_of(model: Any, name: str) -> Graph:
    """The container of data, or the values of the observed variable, of this name."""
    possible = [v.name for v in (*model.data_vars, *model.observed_RVs)]
    if name not in possible:
        raise ValueError(
            f"rows name {name!r}, which is neither data nor an observed variable of the model; these are {possible}"
        )
    variable = model.named_vars[name]
    roots = _roots(model.rvs_to_values.get(variable, variable))
    if len(roots) != 1:
        raise ValueError(f"{name} is made of {len(roots)} arrays: name the pm.Data that it is made of")
    return roots[0]


def _name_of(model: Any, variable: Graph, rv: Any) -> str:
    return str(variable.name if variable in model.data_vars else rv.name)


def _rows_of(model: Any, given: Any, terms: Sequence[Graph]) -> Rows:
    """The rows: what is given, or what the model holds."""
    own = given is None or isinstance(given, list | tuple)
    if own:
        variables = _own(model, given)
        length = {name: _length(name, v) for name, v in variables.items()}
        if len(set(length.values())) > 1:
            raise ValueError(f"which data are rows? Their lengths differ, {length}: give rows=, a list of names")
        columns: Any = {name: _value(v) for name, v in variables.items()}
        source = as_source(columns)
    else:
        if isinstance(given, Mapping) and not isinstance(given, dict):
            given = dict(given)
        if not isinstance(given, dict | Source) and not is_frame(given):
            raise TypeError(
                "rows must be a list of names of the model's data and observed variables, or columns by these names; "
                f"got {type(given).__name__}"
            )
        if isinstance(given, dict):
            given = {k: _value(_variable_of(model, k)) if v is None else v for k, v in given.items()}
        source = as_source(given)
        if not isinstance(source.example, dict):
            raise TypeError(f"rows must be columns by name; a row is {type(source.example).__name__}")
        variables = {name: _variable_of(model, name) for name in source.example}
    length = {name: _length(name, v) for name, v in variables.items()}
    drawn = {v.owner.op: v for v in ancestors(terms) if v.owner and isinstance(v.owner.op, MinibatchOp)}
    lengths = (next(iter(length.values())), *(v.owner.outputs[0].type.shape[0] for v in drawn.values()))
    rows = Rows(source, {name: [v] for name, v in variables.items()}, lengths)
    if not own:
        _require_like(rows)
        return rows
    # Arrays that were not wrapped in pm.Data are constants of the graph.
    for constant in dict.fromkeys(ancestors(terms)):
        if not isinstance(constant, TensorConstant) or constant in rows.all or not constant.ndim:
            continue
        value = _value(constant)
        if value.shape[0] == rows.length:
            same = (name for name, a in columns.items() if a.dtype == value.dtype and np.array_equal(a, value))
            name = next(same, None)
            if name is None:
                name = constant.name if constant.name and constant.name not in columns else f"constant_{len(columns)}"
                columns[name] = value
            rows.variables.setdefault(name, []).append(constant)
    return rows._replace(source=as_source(columns))


def _own(model: Any, names: Any) -> dict[str, Graph]:
    """By name the data of the model that are rows: all that are as long as what is observed, if no names are given."""
    if names is not None:
        found = {_name_of(model, v, model.named_vars[name]): v for name in names for v in [_variable_of(model, name)]}
    else:
        observed = {rv: _roots(model.rvs_to_values[rv]) for rv in model.observed_RVs}
        found = {_name_of(model, roots[0], rv): roots[0] for rv, roots in observed.items() if len(roots) == 1}
        lengths = {_length(name, v) for name, v in found.items()}
        found.update({v.name: v for v in model.data_vars if v.ndim and len(_value(v)) in lengths})
    if not found:
        raise ValueError("the model has no observed variables: give rows=, the names of its pm.Data that are rows")
    return found


def _length(name: str, variable: Graph) -> int:
    shape = _value(variable).shape
    if not shape or shape[0] < 2:
        raise ValueError(f"{name} has the shape {shape}: rows are two or more entries along its first axis")
    return shape[0]


def _require_like(rows: Rows) -> None:
    """Refuse columns that cannot stand where the model's own values do."""
    for name, (variable,) in rows.variables.items():
        given, own = rows.source.example[name], _value(variable)
        if given.shape != own.shape[1:]:
            raise ValueError(f"rows: a row of {name} has the shape {given.shape}; in the model it is {own.shape[1:]}")
        if np.issubdtype(given.dtype, np.floating) and not np.issubdtype(own.dtype, np.floating):
            raise TypeError(f"rows: {name} has dtype {given.dtype}; in the model it is {own.dtype}")


# Bambi.


def _bambi_intercepts(model: Any) -> dict[str, Graph]:
    """Intercepts as Bambi shows them: its PyMC model has those of centred predictors."""
    found, named = {}, model.backend.model.named_vars
    for component in model.backend.distributional_components.values():
        intercept, terms = component.component.intercept_term, component.component.common_terms
        if model.center_predictors and intercept and terms:
            means = component.design_matrix_without_intercept.mean(axis=0)
            slopes = [pt.reshape(named[_alias(t)], (np.atleast_2d(t.data.T).shape[0], -1)) for t in terms.values()]
            own = named[_alias(intercept)]
            found[own.name] = own - pt.reshape(pt.dot(means, pt.concatenate(slopes)), own.shape)
    return found


def _alias(term: Any) -> str:
    return str(term.alias or term.name)


def _is_bambi(model: object) -> bool:
    return any(f"{kind.__module__}.{kind.__name__}" == "bambi.models.Model" for kind in type(model).__mro__)


# The model.


@dataclass(frozen=True, eq=False)
class PyMCModel(Parametrisation):
    """A model that was looked at; equal to itself alone."""

    rows: Rows
    latent: tuple[str, ...]  # the names of free variables
    derived: tuple[str, ...]  # those of deterministic ones that do not depend on rows
    bound: tuple[str, ...]  # free variables with a transform
    start: Params = field()
    dims: dict[str, tuple[str, ...]] = field()
    coords: dict[str, Any]
    prior: Callable[..., list[Array]]
    likelihood: Callable[..., list[Array]]
    to_params: Callable[..., list[Array]]
    to_free: Callable[..., list[Array]]

    @classmethod
    def understood(cls, model: Any, rows: Any = None) -> PyMCModel:
        """Look at a model before any work, and refuse in words what cannot be sampled from minibatches."""
        with pytensor.config.change_flags(cxx="", traceback__limit=0):  # what is computed here needs no compiler
            intercepts: dict[str, Graph] = {}
            if _is_bambi(model):
                if not model.built:
                    model.build()
                intercepts, model = _bambi_intercepts(model), model.backend.model
            if not isinstance(model, pm.Model):
                raise TypeError(f"model must be a pymc.Model or a bambi.Model; got {type(model).__name__}")
            _require_sampled(model)
            return _Look(model, rows, intercepts).model()

    # Densities.

    def log_prior(self, params: Params) -> Array:
        """Of what does not depend on rows."""
        return self.prior(*self.given(params))[0]

    def log_likelihood(self, params: Params, row: Data) -> Array:
        """Of one row."""
        terms = self.likelihood(*self.given(params), *self.columns({name: a[None] for name, a in row.items()}))
        return sum((jnp.sum(term) for term in terms), start=jnp.zeros(()))

    def given(self, params: Params) -> list[Array]:
        """Free variables in the order of the model."""
        return [params[name] for name in self.latent]

    def columns(self, data: Data) -> list[Array]:
        """Rows as the model's graph wants them: whole numbers may stand for others."""
        kinds = {name: variables[0].dtype for name, variables in self.rows.variables.items()}
        real = jnp.zeros(()).dtype
        return [jnp.asarray(data[name], real if kinds[name].startswith("float") else None) for name in kinds]

    # Parameters.

    def __bool__(self) -> bool:
        return True

    def constrain(self, position: Params) -> tuple[Params, Array]:
        """Free and deterministic variables at a free position, and the log determinant."""
        *values, log_det = self.to_params(*self.given(position))
        return dict(zip((*self.latent, *self.derived), values, strict=True)), log_det

    def parameters(self, position: Params) -> Params:
        """Free and deterministic variables at a free position."""
        return self.constrain(position)[0]

    def free(self, params: Params) -> Params:
        """The free position."""
        return dict(zip(self.latent, self.to_free(*self.given(params)), strict=True))

    def constrained_names(self, position: Params) -> list[str]:
        """Those of variables with a transform."""
        names = named_leaves(position)
        return [name for name in (name.replace("/", ".") for name in self.bound) if name in names]

    def check(self, params: Params, *, values: bool = True) -> None:
        """Reject a start that lacks variables, has strange ones, or that no free numbers lead to."""
        known = {*self.latent, *self.derived}
        if not isinstance(params, dict) or set(self.latent) - set(params) or set(params) - known:
            names = sorted(params) if isinstance(params, dict) else type(params).__name__
            raise ValueError(f"initial must have the free variables of the model, {sorted(self.latent)}; got {names}")
        for name in self.latent:
            value, own = jnp.asarray(params[name]), self.start[name]
            if value.shape != own.shape:
                raise ValueError(f"initial: {name} must have the shape {own.shape}; got {value.shape}")
            if not jnp.issubdtype(value.dtype, jnp.floating):
                raise TypeError(f"initial: {name} has dtype {value.dtype}; sampled parameters must be floating")
        if not values:
            return
        back = self.parameters(self.free(params))
        for name in self.latent:
            if not np.allclose(back[name], params[name], rtol=1e-3, atol=1e-4):
                raise ValueError(f"initial: {name} is not in the support of its prior")

    def without(self, names: Any) -> Parametrisation:
        """Blocks update parameters of a target; those of a model belong together."""
        raise ValueError(f"blocks cannot update {list(names)}: they are variables of a PyMC model")


class _Look:
    """A model while it is looked at: its graph with inputs for free numbers, for values of variables and for rows."""

    def __init__(self, model: Any, rows: Any, intercepts: dict[str, Graph]) -> None:
        self.pymc, self.intercepts = model, intercepts
        self.shown = {rv: f"{rv.name}_centered" if rv.name in intercepts else rv.name for rv in model.free_RVs}
        self.numbers = [model.rvs_to_values[rv] for rv in model.free_RVs]
        place = model.initial_point(random_seed=0)
        self.place = [np.asarray(place[value.name]) for value in self.numbers]
        self.frees = [_input(value, a) for value, a in zip(self.numbers, self.place, strict=True)]
        self.start = self.jaxified(self.moved(model.free_RVs))(*self.place)
        self.values = {rv: _input(rv, a) for rv, a in zip(model.free_RVs, self.start, strict=True)}
        self.terms = self.log_densities()
        observed = [graph for name, graph in self.terms.items() if name not in {rv.name for rv in model.free_RVs}]
        self.rows = _rows_of(model, rows, observed)

    # The graph.

    def moved(self, graphs: Sequence[Graph]) -> list[Graph]:
        """As functions of free numbers."""
        given = dict(zip(self.numbers, self.frees, strict=True))
        return _rebuilt(self.pymc.replace_rvs_by_values(list(graphs)), given)

    def log_densities(self) -> dict[str, Graph]:
        """Of all variables and potentials, by name, as functions of the values of free variables."""
        observed = {_unscaled(rv): self.pymc.rvs_to_values[rv] for rv in self.pymc.observed_RVs}
        known = {**{rv: rv.type(name=rv.name) for rv in self.values}, **observed}
        terms = transformed_conditional_logp(list(known), rvs_to_values=known, rvs_to_transforms={}, jacobian=False)
        found = _rebuilt(terms, {known[rv]: value for rv, value in self.values.items()})
        found += _rebuilt(self.pymc.potentials, {**self.values, **observed})
        names = (v.name for v in (*self.pymc.free_RVs, *self.pymc.observed_RVs, *self.pymc.potentials))
        return dict(zip(names, found, strict=True))

    def log_det(self) -> Graph:
        """Of the transforms of all variables."""
        moved = [(rv, transform) for rv, transform in self.pymc.rvs_to_transforms.items() if transform is not None]
        parts = [pt.sum(t.log_jac_det(self.pymc.rvs_to_values[rv], *rv.owner.inputs)) for rv, t in moved]
        return self.moved([sum(parts, start=pt.constant(0.0))])[0]

    def free(self) -> list[Graph]:
        """Free numbers as functions of values."""
        moved = self.pymc.rvs_to_transforms
        return [
            value if moved[rv] is None else moved[rv].forward(value, *_rebuilt(rv.owner.inputs, self.values))
            for rv, value in self.values.items()
        ]

    def jaxified(self, graphs: Sequence[Graph]) -> Callable[..., list[Array]]:
        """Functions of free numbers."""
        return _jaxified(self.frees, graphs)

    # What depends on rows.

    def require_sizes(self) -> None:
        """Refuse a ``total_size`` that is not the number of rows, by which the library multiplies."""
        for rv in self.pymc.observed_RVs:
            for size in rv.owner.inputs[1:] if isinstance(rv.owner.op, MinibatchRandomVariable) else ():
                known = (self.rows.length, self.rows.source.size)
                if isinstance(size, TensorConstant) and int(size.data) not in known:
                    raise ValueError(f"{rv.name} has total_size={int(size.data):,}, and there are {known[-1]:,} rows")

    @cached_property
    def any_rows(self) -> dict[Graph, Graph]:
        """Inputs for an unknown number of rows."""
        return self.rows.inputs(None)

    def spared(self, graph: Graph) -> Graph | None:
        """A graph without its rows, if it has no use but for the shape of one; else None."""
        if not _sees(graph, self.rows.all):
            return graph
        found = rewrite_graph(
            _rebuilt([graph], self.any_rows, self.rows.lengths)[0], include=("ShapeOpt", "canonicalize")
        )
        return None if _sees(found, self.any_rows.values()) else found

    def outside(self, name: str, graph: Graph) -> Graph:
        """A part of the prior, or of a transform."""
        found = self.spared(graph)
        if found is None:
            raise ValueError(
                f"the prior of {name} depends on the rows: a minibatch would say something else of it than all data"
            )
        return found

    def likelihood(self, inside: Sequence[str], rows: int) -> Callable[..., list[Array]]:
        """The log densities of so many rows."""
        inputs = self.rows.inputs(rows)
        given = [*self.values.values(), *(inputs[variables[0]] for variables in self.rows.variables.values())]
        try:
            function = _jaxified(
                given, _rebuilt([self.terms[name] for name in inside], inputs, self.rows.lengths, rows)
            )
            shapes = jax.eval_shape(
                function, *(jax.ShapeDtypeStruct(v.type.shape, jax.dtypes.canonicalize_dtype(v.dtype)) for v in given)
            )
        except NotImplementedError as error:
            error.add_note("scirocco: PyTensor cannot translate the model to JAX")
            raise
        except Exception as error:
            what = f"the model cannot be made of {rows} of its {self.rows.length:,} rows"
            self.refuse_row_sized(what, error)
            raise ValueError(
                f"{what}: its likelihood is no sum over rows, or their number is written into it ({error})"
            ) from error
        for name, found in zip(inside, shapes, strict=True):
            if found.shape[:1] != (rows,):
                what = f"the log density of {name} has the shape {found.shape} for {rows} rows, not one value a row"
                self.refuse_row_sized(what)
                raise ValueError(f"{what}: it is no sum over rows")
        return function

    def refuse_row_sized(self, what: str, error: Exception | None = None) -> None:
        """Name what is as long as the rows of the model, and is none of them."""
        length = self.rows.length
        for rv, a in zip(self.values, self.start, strict=True):
            if length in a.shape:
                raise ValueError(
                    f"{rv.name} is a latent variable of each row (its shape is {a.shape}): sum or integrate it out, or "
                    f"give it groups that rows point into; {what}"
                ) from error
        for v in dict.fromkeys(v for term in self.terms.values() for v in _roots(term)):
            if v not in self.rows.all and length in _value(v).shape:
                name = f"{v.name}" if v.name else "a constant"
                raise ValueError(
                    f"{name} of shape {_value(v).shape} is as long as the rows and not among them: wrap it in "
                    f"pm.Data, with rows along its first axis, and name it in rows=; {what}"
                ) from error

    def require_rows_apart(self, found: PyMCModel, inside: Sequence[str]) -> None:
        """Refuse a row whose density depends on the others of its minibatch."""
        rows = min(ROWS, self.rows.length - 1, self.rows.source.size)
        function = self.likelihood(inside, rows)
        data = jax.tree.map(jnp.asarray, self.rows.source.first(rows))

        @jax.jit
        def both(position: Params) -> tuple[Array, Array]:
            params = found.parameters(position)
            terms = function(*found.given(params), *found.columns(data))
            alone = jax.vmap(found.log_likelihood, in_axes=(None, 0))(params, data)
            return sum((term.reshape(rows, -1).sum(axis=1) for term in terms), start=jnp.zeros(rows)), alone

        place = found.free(found.start)
        for number in range(PLACES):
            noise = normal_like(jax.random.key(number), place)
            require_apart(*both(jax.tree.map(jnp.add, place, noise)))

    # The model.

    def dims(self, name: str, axes: int) -> tuple[str, ...]:
        """The names of the axes of a variable."""
        own = {shown: rv.name for rv, shown in self.shown.items()}.get(name, name)
        named = self.pymc.named_vars_to_dims.get(own) or [None] * axes
        stored = name.replace("/", ".")  # as draws are
        return tuple(dim or f"{stored}_dim_{k}" for k, dim in enumerate(named))

    def model(self) -> PyMCModel:
        """What chains need."""
        self.require_sizes()
        own = {rv.name for rv in self.values}
        spared = {name: self.outside(name, t) if name in own else self.spared(t) for name, t in self.terms.items()}
        inside = [name for name, graph in spared.items() if graph is None]
        if not inside:
            raise ValueError(f"nothing is observed of the rows {list(self.rows.variables)}")
        prior = [pt.sum(graph) for graph in spared.values() if graph is not None]
        shown = [self.shown[rv] for rv in self.values]
        follows = {v.name: v for v in self.pymc.deterministics} | self.intercepts
        derived = {name: self.spared(g) for name, g in zip(follows, self.moved(list(follows.values())), strict=True)}
        latent = dict(zip(shown, self.moved(self.pymc.free_RVs), strict=True))
        graphs = {name: self.outside(name, graph) for name, graph in latent.items()}
        graphs |= {name: graph for name, graph in derived.items() if graph is not None}
        log_det = self.outside("a transform", self.log_det())
        values, frees = list(self.values.values()), [self.outside("a transform", graph) for graph in self.free()]
        dims = {name: self.dims(name, graph.type.ndim) for name, graph in graphs.items()}
        used = {dim for names in dims.values() for dim in names}
        found = PyMCModel(
            rows=self.rows,
            latent=tuple(latent),
            derived=tuple(name for name in graphs if name not in latent),
            bound=tuple(self.shown[rv] for rv in self.values if self.pymc.rvs_to_transforms[rv] is not None),
            start=dict(zip(shown, self.start, strict=True)),
            dims={name.replace("/", "."): names for name, names in dims.items()},
            coords={dim: c for dim, c in self.pymc.coords.items() if dim in used and c is not None},
            prior=_jaxified(values, [sum(prior, start=pt.constant(0.0))]),
            likelihood=self.likelihood(inside, 1),
            to_params=self.jaxified([*graphs.values(), log_det]),
            to_free=_jaxified(values, frees),
        )
        self.require_rows_apart(found, inside)
        return found


def _input(variable: Graph, value: Any) -> Graph:
    """An input in place of a variable, of the shape of a value."""
    return pt.TensorType(variable.dtype, shape=np.shape(value))(variable.name)


def _unscaled(rv: Graph) -> Graph:
    """An observed variable without the factor of a ``total_size``, which is the library's affair."""
    return rv.owner.inputs[0] if isinstance(rv.owner.op, MinibatchRandomVariable) else rv


def _require_sampled(model: Any) -> None:
    """Refuse variables that gradients from minibatches do not know."""
    if not model.free_RVs:
        raise ValueError("the model has no free variables: there is nothing to sample")
    observed = {rv.name for rv in model.observed_RVs}
    for rv in model.free_RVs:
        if rv.name.removesuffix("_unobserved") + "_observed" in observed:
            raise ValueError(f"{rv.name} are missing values of rows, which would be sampled: drop those rows")
        if not np.issubdtype(rv.dtype, np.floating):
            raise ValueError(f"{rv.name} is discrete: sum it out, by pm.Mixture or logsumexp in a pm.Potential")
