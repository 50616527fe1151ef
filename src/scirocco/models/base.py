"""What the models on the gradient engine share: the settings of a run, the draws, and the file.

A model is a scikit-learn estimator: ``__init__`` only stores, ``fit`` checks and samples. It differs from others by its
target (``log_prior``, ``log_likelihood``, data) and by what it predicts from draws; how it is sampled is the same for
all and open to every sampler and estimator of the library.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import positive_array, require_budget, require_count, require_flag
from scirocco.core.forked import refuse_after_fork
from scirocco.core.parts import part_named
from scirocco.core.seeds import Purpose, key_words
from scirocco.core.types import Key, Params
from scirocco.gradient.blocks import Block, split
from scirocco.models import storage
from scirocco.models.fit_location import RESUMER, FitLocation, warn_if_interrupted
from scirocco.models.reported import Reported
from scirocco.optimise.mode import find_mode
from scirocco.run.description import RunOptions, StepSettings
from scirocco.run.trace import REPORT, Trace
from scirocco.run.verdict import NOT, Verdict
from scirocco.samplers.base import Sampler
from scirocco.target import Target
from scirocco.verbs.sample import GradientParts, GradientResumer, begin

Self = TypeVar("Self", bound="GradientModel")
Growing = TypeVar("Growing", bound="GrowingModel")
Rows = tuple[np.ndarray, ...]
LEAST_SECONDS = 0.01  # that a search for a start leaves to the chains


class GradientModel(Reported, BaseEstimator):  # type: ignore[misc]
    """The part of a model that is not the model: the settings of its run.

    Parameters
    ----------
    sampler
        Any gradient sampler, such as ``SGLD(step_size="auto")``; the model's own choice if None.
    estimator
        ``Plain()``, ``ControlVariate()``, ``SAGA()`` or ``SVRG()``; chosen with the sampler if None.
    batch_size
        Rows of a minibatch, a count (at most all are taken) or a share of all.
    n_draws, burn_in, thin
        Draws kept of each chain, steps before the first, steps from draw to draw.
    n_chains
        Independent chains.
    max_seconds
        Time budget of the chains, compiling not counted, nor the search for a start unless a model says so; None
        for none.
    random_state
        Seed.
    measure_bias
        Say how far the sampled law is from the posterior (``trace_.bias``), for about a tenth of the work.
    verbose
        Show progress.
    """

    _facts: ClassVar[tuple[str, ...]] = ()  # fitted attributes that are numbers, kept in the file as JSON
    _arrays: ClassVar[tuple[str, ...]] = ()  # and those that are arrays
    _bias_note: ClassVar[str] = ""  # what the bias report of this model is not about

    def _check_run(self) -> None:
        refuse_after_fork()
        for name, least in (("n_draws", 2), ("burn_in", 0), ("thin", 1), ("n_chains", 1)):
            require_count(name, getattr(self, name), least)
        require_budget(self.max_seconds)
        require_flag("measure_bias", self.measure_bias)

    def _sample(
        self, target: Target, initial: Params | Callable[..., Params], default: Callable[[], Sampler],
        location: FitLocation, *, blocks: Sequence[Block] = (), batch_size: int | float | None = None, seed: int,
        estimator: Any = None, batching: Any = None, collect: Callable[[Params], Any] | None = None, spent: float = 0.0,
        near: bool = False,
    ) -> None:  # fmt: skip
        """Run the chains, from their start or from checkpoints; sets ``trace_`` and ``posterior_``.

        ``default`` makes the model's own sampler, if none was given: its step size may need a start; ``estimator`` and
        ``batching`` are the model's own, ``collect`` as for ``sample``; of the budget so many seconds are ``spent``.
        ``near`` says that ``initial`` is from an earlier fit to some of the rows.
        """
        rows = self.batch_size if self.batch_size is not None else batch_size
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            rows = min(int(rows), target.size)  # a setting for large data should not break a small subset of it
        if location.description is not None:
            assert location.path is not None
            start = None if location.begun else initial
            given = replace(location.given, batching=batching, blocks=tuple(blocks), initial=start, collect=collect)
            self.trace_: Trace = GradientResumer()(location.path, location.description, target, None, given)
        else:
            seconds = self.max_seconds
            if spent and seconds is not None:
                seconds = max(seconds - spent, LEAST_SECONDS)
            own = self._given_sampler()
            parts = GradientParts(
                default() if own is None else own,
                estimator if self.estimator is None else self.estimator, batching, tuple(blocks), initial, collect,
                near=near,
            )  # fmt: skip
            settings = StepSettings(seed, self.n_chains, self.n_draws, self.burn_in, self.thin, self.n_chains, rows)
            options = RunOptions(max_seconds=seconds, progress=bool(self.verbose), report=self.measure_bias)
            self.trace_ = begin(
                target, parts, settings, options, location.path, resumer=RESUMER, model=location.model(self)
            )  # fmt: skip
        if not self.trace_.count:
            raise ValueError(
                f"the run ended before its first draw, in its burn-in of {self.burn_in} steps ({self.trace_.stopped}): "
                "give it more time or a shorter burn_in"
                + ("" if location.path is None else f"; scirocco.resume({str(location.path)!r}, ...) goes on with it")
            )
        self.posterior_ = self.trace_.posterior
        if self.trace_.bias is not None and self._bias_note:
            self.trace_.bias = replace(self.trace_.bias, note=self._bias_note)
        warn_if_interrupted(self.trace_)

    def _given_sampler(self) -> Any:
        """The sampler that was given; None for the model's own."""
        return self.sampler

    def _optimised(
        self, target: Target, initial: Callable[[Key], Params], blocks: Sequence[Block], seed: int
    ) -> Callable[[Key], Params]:
        """The start of a chain as a function of its key: where an optimiser brings its own random weights."""
        found: dict[bytes, Params] = {}

        def start(key: Key) -> Params:
            name = np.asarray(jax.random.key_data(key)).tobytes()
            if name not in found:
                weights, held = split(initial(key), blocks)
                found[name] = find_mode(target, weights, held=held, polish=False, seed=seed) | held
            return found[name]

        return start

    @staticmethod
    def _thermostat_step(target: Target, start: Callable[[Key], Params], rate: float, seed: int) -> float:
        """h = sqrt(rate / (N nu)): the precision nu of the noise, where there is one, says how steep the target is."""
        steepness = np.exp(float(start(jax.random.key(seed)).get("log_noise_precision", 0.0)))
        return float(np.sqrt(rate / (target.size * max(1.0, steepness))))

    def _draws(self, name: str, most: int | None = None) -> np.ndarray:
        """The draws of a variable, those of all chains in one row, evenly thinned to at most ``most``."""
        check_is_fitted(self, "posterior_")
        values = self.posterior_[name].values
        values = values.reshape(-1, *values.shape[2:])
        if most is None or len(values) <= most:
            return values
        return values[np.linspace(0, len(values) - 1, most).astype(int)]

    def verdict(self) -> Verdict:
        """Whether to use the fit, why, and what to do next; of a model that was loaded nothing is known."""
        check_is_fitted(self, "posterior_")
        if not hasattr(self, "trace_"):
            return Verdict(NOT, ("the model was loaded without its trace: nothing is known of its chains",))
        found = self.trace_.verdict()
        if is_classifier(self) or is_regressor(self):
            return replace(found, action=found.action.replace(".fit(X)", ".fit(X, y)"))
        return found

    def report(self, path: str | Path, X: Any = None, y: Any = None, *, title: str = "") -> Path:
        """Write a page to look at and to pass on, one file that needs no network; returns its path.

        The verdict and what to do next, what the model says, what ran, draws, bias and cost. With rows ``X`` and their
        outcomes ``y`` also how well they are predicted: rows that the model was not fitted to.
        """
        check_is_fitted(self)
        return part_named(REPORT)(self).write(path, title, X=X, y=y)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, arrays and JSON; nothing is pickled. The trace is not part of it."""
        check_is_fitted(self)
        facts: dict[str, Any] = {name: getattr(self, name) for name in self._facts}
        facts["features"] = int(self.n_features_in_)
        if hasattr(self, "feature_names_in_"):
            facts["names"] = [str(name) for name in self.feature_names_in_]
        arrays = {name: np.asarray(getattr(self, name)) for name in self._arrays if hasattr(self, name)}
        arrays |= {f"draws/{name}": values.values for name, values in self.posterior_.data_vars.items()}
        objects = [name for name, array in arrays.items() if array.dtype == object]
        if objects:
            facts["strings"] = {name: [str(v) for v in arrays.pop(name)] for name in objects}
        storage.write(self, Path(path), facts, arrays)

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """A model written by ``save``."""
        return storage.read(cls, Path(path), cls._restore)

    def _restore(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        import xarray as xr

        draws = {name.removeprefix("draws/"): arrays[name] for name in arrays if name.startswith("draws/")}
        if not draws:
            raise ValueError("it has no draws")
        self.posterior_ = xr.Dataset(
            {n: (("chain", "draw", *(f"{n}_dim_{i}" for i in range(a.ndim - 2))), a) for n, a in draws.items()}
        )
        self.n_features_in_ = meta["features"]
        if "names" in meta:
            self.feature_names_in_ = np.array(meta["names"], dtype=object)
        strings = {name: np.array(values, dtype=object) for name, values in meta.get("strings", {}).items()}
        for name in self._arrays:
            if name in arrays or name in strings:
                setattr(self, name, arrays[name] if name in arrays else strings[name])
        for name in self._facts:
            setattr(self, name, meta[name])


class GrowingModel(GradientModel):
    """A model whose rows may become more: ``partial_fit`` samples the posterior of all of them, from where it was.

    It keeps its rows, in memory. What it asks of a model are ``_look_at``, ``_fit_rows``, and checks of its settings.
    """

    _fit_rows: Callable[..., None]
    """Of (rows, location, known): fit all rows; ``known`` says that there is an earlier fit to some of them."""

    def _check_settings(self) -> None:
        self._check_run()

    def _look_at(self, X: Any, y: Any, *, reset: bool) -> Rows:
        """Rows as arrays, checked; those that join, without ``reset``, must have the columns of the others."""
        raise NotImplementedError

    def _fit(self: Growing, X: Any, y: Any, location: FitLocation) -> Growing:
        self._check_settings()
        return self._fitted(self._look_at(X, y, reset=True), location, known=False)

    def _join(self: Growing, X: Any, y: Any = None, **more: Any) -> Growing:
        """``partial_fit``; where it fails the model is left as it was."""
        self._check_settings()
        before, known = dict(self.__dict__), hasattr(self, "posterior_")
        try:
            rows = self._look_at(X, y, reset=not known)
            return self._fitted(self._with_earlier(rows), FitLocation.of(None), known, **more)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fitted(self: Growing, rows: Rows, location: FitLocation, known: bool, **more: Any) -> Growing:
        self._fit_rows(rows, location, known, **more)
        self._kept, self._checksum = rows, _checksum(rows[0])
        return self

    def _with_earlier(self, rows: Rows) -> Rows:
        """The rows of earlier calls of ``fit`` and ``partial_fit``, and these after them."""
        if not hasattr(self, "_kept"):
            if hasattr(self, "posterior_"):
                raise ValueError("a model that was loaded has no rows: they are not in its file; fit it to all rows")
            return tuple(np.array(a) for a in rows)  # a copy: the next may come in the same array
        if _checksum(self._kept[0]) != self._checksum:
            raise ValueError("the rows of the earlier fit have changed in place since: fit a copy of them")
        return tuple(np.concatenate(both) for both in zip(self._kept, rows, strict=True))

    def _last_draw(self, chain: int = 0) -> dict[str, np.ndarray]:
        """The last draw of a chain of the earlier fit: one arrangement of what has no names, unlike a mean."""
        last = self.posterior_.isel(chain=chain % self.posterior_.sizes["chain"], draw=-1)
        return {str(name): values.values for name, values in last.data_vars.items()}

    def _chain_of(self, key: Key, seed: int) -> int:
        """The number of the chain that starts with this key; 0 for other keys."""
        words = np.asarray(jax.random.key_data(key)).tobytes()
        own = [key_words(seed, Purpose.CHAIN_START, chain).tobytes() for chain in range(self.n_chains)]
        return own.index(words) if words in own else 0


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data)


def require_positive_setting(name: str, value: object) -> None:
    """Reject a setting that is not one positive number."""
    if positive_array(name, value).ndim:
        raise ValueError(f"{name} must be one number; got an array")
