"""A NumPyro model with a plate over rows: its prior, its likelihood and its parameters (extra ``numpyro``).

    log p(theta)        = sum of the log densities of all sites outside the plate
    log p(x_i | theta)  = sum of those inside it, of row i

Rows are cut out of the model's arguments, so that data stay arguments of compiled programs and may come from disk: the
model is run on the rows of a minibatch, and its plate has as many. Latent sites take their values from free numbers by
NumPyro's own bijections, which may depend on sites before. Only public names of NumPyro are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist
from numpyro import validation_enabled
from numpyro.handlers import seed, substitute, trace
from numpyro.primitives import Messenger

from scirocco.constraints.base import Parametrisation
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Data, Params
from scirocco.interop.rows import NEAR, PLACES, ROWS, require_apart

FEW = (2, 3)  # rows on which a model is looked at
UNDERSTOOD = ("sample", "deterministic", "plate", "subsample", "prng_key")
FREE = ("Real", "RealVector", "RealMatrix")  # supports that need no bijection
MODULE = "$params"  # the name of a network's weights ends so, where samples take their place

Message = dict[str, Any]
Take = Callable[[int], Data]
"""The first so many rows."""


class _Rows(Messenger):  # type: ignore[misc]
    """The plate over rows has the rows that were given, whatever its size says; it is known by its name or size."""

    def __init__(self, function: Callable[..., Any], plate: str | int, rows: int) -> None:
        self.plate, self.rows = plate, rows
        self.entries: dict[str, int] = {}  # of the plates that were met
        super().__init__(function)

    def process_message(self, msg: Message) -> None:
        if msg["type"] == "plate":
            self.entries[msg["name"]] = msg["args"][0]
        if msg["type"] == "plate" and self.plate in (msg["name"], msg["args"][0]):
            msg["args"], msg["value"] = (msg["args"][0], self.rows), jnp.arange(self.rows)
        elif msg["type"] == "subsample":
            msg["kwargs"]["event_dim"] = None  # the rows are cut out already


class _FromFree(Messenger):  # type: ignore[misc]
    """Latent sites take their values from free numbers; adds up the determinants."""

    def __init__(self, function: Callable[..., Any], free: Params) -> None:
        self.free, self.log_det = free, jnp.zeros(())
        super().__init__(function)

    def process_message(self, msg: Message) -> None:
        if msg["type"] == "sample" and not msg["is_observed"] and msg["name"] in self.free:
            free, transform = self.free[msg["name"]], _bijection(msg["fn"])
            msg["value"] = transform(free)
            self.log_det = self.log_det + jnp.sum(transform.log_abs_det_jacobian(free, msg["value"]))


def _base(distribution: Any) -> Any:
    """The distribution of a single number, vector or matrix of a site."""
    while isinstance(distribution, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return distribution


def _bijection(distribution: Any) -> Any:
    """The way from free numbers to the support."""
    return dist.biject_to(_base(distribution).support)


def _is_bijective(distribution: Any) -> bool:
    try:
        _bijection(distribution)
    except NotImplementedError:
        return False
    return True


class Site(NamedTuple):
    """What is known of a site without any numbers."""

    kind: str
    observed: bool
    frames: tuple[Any, ...]  # of the plates around it
    shape: tuple[int, ...] = ()
    event_axes: int = 0
    event_dims: Sequence[str] | None = None
    discrete: bool = False
    support: str = ""
    free: bool = True  # all numbers are in the support
    bijective: bool = True  # free numbers lead to it
    entries: int = 0  # of a plate

    @classmethod
    def of(cls, message: Message) -> Site:
        """Of a site in a trace."""
        frames = tuple(message.get("cond_indep_stack", ()))
        if message["type"] == "plate":
            return cls("plate", False, frames, entries=message["args"][0])
        if message["type"] != "sample":
            return cls(message["type"], False, frames, np.shape(message["value"]))
        fn = message["fn"]
        support = type(_base(fn).support).__name__.strip("_")
        return cls(
            "sample", message["is_observed"], frames, np.shape(message["value"]), fn.event_dim,
            message["infer"].get("event_dims"), fn.is_discrete, support, support in FREE, _is_bijective(fn),
        )  # fmt: skip

    @property
    def latent(self) -> bool:
        """Whether it is sampled."""
        return self.kind == "sample" and not self.observed

    def inside(self, plate: str) -> bool:
        """Whether it belongs to the entries of a plate."""
        return any(frame.name == plate for frame in self.frames)

    def dims(self, name: str) -> tuple[str, ...]:
        """The names of its axes: plates, then those of the event."""
        first = len(self.shape) - self.event_axes
        dims = [f"{name}_dim_{k}" for k in range(len(self.shape))]
        if self.event_dims is not None and len(self.event_dims) == self.event_axes:
            dims[first:] = self.event_dims
        for frame in self.frames:
            if first + frame.dim >= 0 and self.shape[first + frame.dim] == frame.size:
                dims[first + frame.dim] = frame.name
        return tuple(dims)


def _looked_at(function: Callable[..., Any], data: Data, fixed: Message) -> dict[str, Site]:
    """The sites of a model, without computing anything."""
    found: dict[str, Site] = {}

    def run(data: Data) -> None:
        messages = trace(seed(function, jax.random.key(0))).get_trace(**data, **fixed)
        found.update({name: Site.of(message) for name, message in messages.items()})

    jax.eval_shape(run, data)
    return found


@dataclass(frozen=True, eq=False)
class NumPyroModel(Parametrisation):
    """A model that was looked at; equal to itself alone."""

    function: Callable[..., Any]
    plate: str
    fixed: dict[str, Any]
    row: Data  # one, on which the sites outside the plate are evaluated

    @classmethod
    def understood(
        cls, function: Callable[..., Any], take: Take, size: int, fixed: dict[str, Any], plate: str | None
    ) -> NumPyroModel:  # fmt: skip
        """Look at a model before any work, and refuse in words what cannot be sampled from minibatches."""
        try:
            found = plate or _plate_over_rows(function, take, size, fixed)
            model = cls(function, found, fixed, jax.tree.map(jnp.asarray, take(1)))
            _require_understood(model, take, size)
            _require_rows_apart(model, take(min(size, ROWS)))
        except Exception as error:
            long = [name for name, value in fixed.items() if tuple(getattr(value, "shape", ()))[:1] == (size,)]
            if long:
                error.add_note(f"scirocco: {', '.join(long)} in fixed has an entry for each row: give it in rows")
            raise
        return model

    # The model on some rows.

    def _over(self, data: Data) -> _Rows:
        return _Rows(self.function, self.plate, jax.tree.leaves(data)[0].shape[0])

    def _run(self, function: Callable[..., Any], data: Data, key: Any = None) -> dict[str, Message]:
        """The messages of all sites; a key is for those that nothing gives a value to."""
        seeded = seed(function, jax.random.key(0) if key is None else key)
        found: dict[str, Message] = trace(seeded).get_trace(**data, **self.fixed)
        return found

    def _given(self, params: Params, data: Data) -> dict[str, Message]:
        """With these values of the latent sites."""
        values = {name: jnp.asarray(params[name]) for name in self.latent}
        return self._run(substitute(self._over(data), data=values), data)

    def _inside(self, message: Message) -> bool:
        return any(frame.name == self.plate for frame in message["cond_indep_stack"])

    @cached_property
    def sites(self) -> dict[str, Site]:
        """All sites, of a single row."""
        return _looked_at(self._over(self.row), self.row, self.fixed)

    @cached_property
    def latent(self) -> tuple[str, ...]:
        """The names of the sites that are sampled."""
        return tuple(name for name, site in self.sites.items() if site.latent)

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """Those of deterministic sites that do not belong to rows."""
        sites = self.sites.items()
        return tuple(name for name, site in sites if site.kind == "deterministic" and not site.inside(self.plate))

    @cached_property
    def dims(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        """The names of the axes of sites in plates."""
        names = {name: name.replace("/", ".") for name in (*self.latent, *self.derived)}  # as draws are stored
        return {new: self.sites[name].dims(new) for name, new in names.items()}

    # Densities.

    def log_prior(self, params: Params) -> Array:
        """Of the sites outside the plate."""
        total = jnp.zeros(())
        for site in self._given(params, self.row).values():
            if site["type"] == "sample" and not self._inside(site):
                total = total + jnp.sum(_log_density(site))
        return total

    def log_likelihood(self, params: Params, data: Data) -> Array:
        """Of each row, of the sites inside the plate."""
        rows = jax.tree.leaves(data)[0].shape[0]
        sites, total = self._given(params, data), jnp.zeros(rows)
        size = sites[self.plate]["args"][0]
        for site in sites.values():
            if site["type"] == "sample" and self._inside(site):
                axis = next(frame.dim for frame in site["cond_indep_stack"] if frame.name == self.plate)
                # The plate's own factor N/n is the library's affair.
                values = jnp.moveaxis(_log_density(site) * (rows / size), axis, -1)
                total = total + values.reshape(-1, rows).sum(axis=0)
        return total

    # Parameters.

    def __bool__(self) -> bool:
        return True

    def constrain(self, position: Params) -> tuple[Params, Array]:
        """Latent and derived sites at a free position, and the log determinant."""
        inner = _FromFree(self._over(self.row), position)
        sites = self._run(inner, self.row)
        return {name: jnp.asarray(sites[name]["value"]) for name in (*self.latent, *self.derived)}, inner.log_det

    def parameters(self, position: Params) -> Params:
        """Latent and derived sites at a free position."""
        return self.constrain(position)[0]

    def free(self, params: Params) -> Params:
        """The free position of latent sites."""
        sites = self._given(params, self.row)
        return {name: jnp.asarray(_bijection(sites[name]["fn"]).inv(sites[name]["value"])) for name in self.latent}

    @cached_property
    def start(self) -> Params:
        """Where all free numbers are zero."""
        free = jax.eval_shape(self.free, self.shapes)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), free)
        params = jax.jit(self.parameters)(zeros)
        return {name: params[name] for name in self.latent}

    @cached_property
    def shapes(self) -> Params:
        """Of the latent sites."""
        return jax.eval_shape(self.sampled, jax.random.key(0))

    def sampled(self, key: Any) -> Params:
        """Latent sites from the prior."""
        sites = self._run(self._over(self.row), self.row, key)
        return {name: jnp.asarray(sites[name]["value"]) for name in self.latent}

    def constrained_names(self, position: Params) -> list[str]:
        """Those whose support is not all numbers."""
        names = named_leaves(position)
        return [name for name in self._bound if name in names]

    @cached_property
    def _bound(self) -> list[str]:
        return [name.replace("/", ".") for name in self.latent if not self.sites[name].free]

    def check(self, params: Params, *, values: bool = True) -> None:
        """Reject a start that lacks sites, has strange ones, or lies outside the support of one."""
        if (
            not isinstance(params, dict)
            or set(self.latent) - set(params)
            or set(params) - {*self.latent, *self.derived}
        ):
            names = sorted(params) if isinstance(params, dict) else type(params).__name__
            raise ValueError(f"initial must have the latent sites of the model, {sorted(self.latent)}; got {names}")
        for name in self.latent:
            value = jnp.asarray(params[name])
            if value.shape != self.shapes[name].shape:
                raise ValueError(f"initial: {name} must have the shape {self.shapes[name].shape}; got {value.shape}")
            if not jnp.issubdtype(value.dtype, jnp.floating):
                raise TypeError(f"initial: {name} has dtype {value.dtype}; sampled parameters must be floating")
        if not values:
            return
        supports: dict[str, Any] = {}

        def looked_at(params: Params) -> dict[str, Array]:
            with validation_enabled(False):  # which would complain of the sites that follow
                sites = self._given(params, self.row)
            supports.update({name: sites[name]["fn"].support for name in self.latent})
            return {name: jnp.all(supports[name](params[name])) for name in self.latent}

        for name, inside in jax.jit(looked_at)({name: jnp.asarray(params[name]) for name in self.latent}).items():
            if not inside:
                raise ValueError(f"initial: {name} is not in the support of its prior, {supports[name]!r}")

    def without(self, names: Any) -> Parametrisation:
        """Blocks update parameters of a target; those of a model belong together."""
        raise ValueError(f"blocks cannot update {list(names)}: they are sites of a NumPyro model")


def _log_density(site: Message) -> Array:
    value = site["fn"].log_prob(site["value"])
    return value if site["scale"] is None else value * site["scale"]


# What is refused before any work.


def _plate_over_rows(function: Callable[..., Any], take: Take, size: int, fixed: dict[str, Any]) -> str:
    """The plate that has as many entries as rows are given, or as there are."""
    looks = []
    for rows in _few(size):
        over = _Rows(function, size, rows)
        try:
            _looked_at(over, take(rows), fixed)
        except Exception as error:
            if over.entries and not {size, rows} & set(over.entries.values()):
                raise _no_plate(size, over.entries) from error
            error.add_note(f"scirocco: this happened when the model was run on {rows} of its rows")
            raise
        looks.append(over.entries)
    found = [
        name for name in looks[0]
        if looks[0][name] == size or [look.get(name) for look in looks] == list(_few(size))
    ]  # fmt: skip
    if len(found) == 1:
        return found[0]
    if not found:
        raise _no_plate(size, looks[0])
    raise ValueError(f"which plate is over rows? {found} have as many entries: give plate=")


def _no_plate(size: int, entries: dict[str, int]) -> ValueError:
    return ValueError(
        f"the model has no plate over the {size:,} rows (it has {entries or 'none'}): write the likelihood inside "
        "`with numpyro.plate('rows', len(y)):`, so that it can be told from the prior"
    )


def _few(size: int) -> tuple[int, ...]:
    return tuple(sorted({min(size, rows) for rows in FEW}))


def _require_understood(model: NumPyroModel, take: Take, size: int) -> None:
    """Refuse sites that minibatches cannot sample."""
    data = take(_few(size)[-1])
    try:
        sites = _looked_at(model._over(data), data, model.fixed)
    except Exception as error:
        error.add_note(
            f"scirocco: this happened when the model was run on {_few(size)[-1]} of its rows, with the plate "
            f"{model.plate!r} over them"
        )
        raise
    plates = {name: site.entries for name, site in sites.items() if site.kind == "plate"}
    if model.plate not in plates:
        raise ValueError(f"the model has no plate {model.plate!r}; it has {list(plates)}")
    if plates[model.plate] not in (size, _few(size)[-1]):
        raise ValueError(f"the plate {model.plate!r} has {plates[model.plate]:,} entries, and there are {size:,} rows")
    modules = {name.split("/")[0] for name in sites}
    for name, site in sites.items():
        if site.kind == "param" and name.endswith(MODULE) and name.removesuffix(MODULE) in modules:
            continue  # of a network whose weights have priors
        if site.kind not in UNDERSTOOD:
            raise ValueError(
                f"{name} is a {site.kind} site: of a model for minibatches only sample, deterministic and plate sites "
                "are understood"
            )
        if site.latent:
            _require_sampled(name, site, model.plate)
    if not model.latent:
        raise ValueError("the model has no latent sites: there is nothing to sample")
    if not any(site.observed and site.inside(model.plate) for site in sites.values()):
        raise ValueError(f"nothing is observed inside the plate {model.plate!r}: give the observations among the rows")


def _require_sampled(name: str, site: Site, plate: str) -> None:
    """Refuse latent sites that gradients from minibatches do not know."""
    if site.inside(plate):
        raise ValueError(
            f"{name} is a latent site of each row (inside the plate {plate!r}): sum or integrate it out, or give it a "
            "plate of its own that rows point into"
        )
    if site.discrete:
        raise ValueError(f"{name} is discrete: sum it out, by numpyro.distributions.MixtureSameFamily or logsumexp")
    if not site.bijective:
        raise ValueError(f"{name} has the support {site.support}, to which no free numbers lead")


def _require_rows_apart(model: NumPyroModel, data: Data) -> None:
    """Refuse a prior that depends on rows, and a row whose density depends on the others of its minibatch."""
    rows = jax.tree.leaves(data)[0].shape[0]
    likelihoods, sampled = jax.jit(model.log_likelihood), jax.jit(model.sampled)

    @jax.jit
    def prior(params: Params, row: Data) -> Array:
        return NumPyroModel(model.function, model.plate, model.fixed, row).log_prior(params)

    def piece(start: int, stop: int) -> Data:
        return jax.tree.map(lambda leaf: leaf[start:stop], data)

    for number in range(PLACES):
        params = sampled(jax.random.key(number))
        whole = np.asarray(likelihoods(params, data))
        priors = [float(prior(params, piece(k, k + 1))) for k in {0, rows // 2, rows - 1}]
        if not np.allclose(priors, priors[0], rtol=NEAR, atol=NEAR, equal_nan=True):
            outside = [name for name, site in model.sites.items() if site.observed and not site.inside(model.plate)]
            raise ValueError(
                f"the density of the sites outside the plate {model.plate!r} depends on the rows"
                + (f" ({', '.join(outside)} is observed there)" if outside else "")
                + ": a minibatch would say something else of it than all data"
            )
        alone = np.concatenate([np.asarray(likelihoods(params, piece(k, k + 1))) for k in range(min(rows, 8))])
        require_apart(whole[: len(alone)], alone)
        require_apart(whole[rows // 2 :], likelihoods(params, piece(rows // 2, rows)))
