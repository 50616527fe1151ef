"""The state of a simplex sampler: unnormalised weights that may be behind the clock.

A point of the simplex is omega = theta / sum theta, with one row of weights theta for each point. Categories that a
minibatch does not touch all move by the same law, a CIR process with the prior as its parameter; two steps of it are
one step of the summed time. So they are left alone, and each carries the time it is current at. ``catch_up`` brings
categories to the present by one exact transition; the joint law is that of updating all of them at every step, at the
cost of those that are read.

A reader in between needs the total of a row, to which all categories contribute. Its expectation is known without
touching them: deviations from the prior decay as e^-t. ``totals`` keeps this expectation, in which categories that are
current count with their values. The true total differs by the noise of those that are behind, whose variance is at
most their expected sum: relative to the total at most 1/sqrt(total), a quarter of a percent at 150,000 tokens.
``proportions`` brings everything up to date first and divides by the true total.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, real_array, require_count, require_seed
from scirocco.core.compiled import BLOCK, over_blocks
from scirocco.core.random import make_key
from scirocco.diffusions.cir import transition_kernel


class Weights:
    """Unnormalised weights, rows x categories.

    ``prior`` is the Dirichlet parameter of the prior: a number, one for each category, or rows x categories. Weights
    start at a draw from the prior unless ``initial`` is given. All randomness comes from ``seed`` and ``path``.

    >>> weights = Weights(prior=0.1, rows=2, categories=5)
    >>> weights.proportions().sum(axis=1)
    array([1., 1.])
    """

    def __init__(
        self, prior: Any, rows: int = 1, categories: int | None = None, *, initial: Any = None, seed: int = 0,
        path: tuple[int, ...] = (), threads: int | None = None,
    ) -> None:  # fmt: skip
        alpha = positive_array("prior", prior)
        if categories is None:
            if not alpha.ndim:
                raise ValueError("categories must be given when the prior is one number")
            categories = alpha.shape[-1]
        require_count("rows", rows)
        require_count("categories", categories, least=2)
        if alpha.shape not in ((), (categories,), (rows, categories)):
            raise ValueError(
                f"prior must be a number or have shape ({categories},) or ({rows}, {categories}); got {alpha.shape}"
            )
        if threads is not None:
            require_count("threads", threads)
        self.rows, self.categories, self.threads = rows, categories, threads
        # Stored with a category's weights side by side: a minibatch touches categories, in all rows at once.
        shape = (rows, categories) if alpha.ndim == 2 else (1, categories)
        self.prior = np.ascontiguousarray(np.broadcast_to(alpha, shape).T)
        self.key, self.calls, self.steps = make_key(require_seed(seed), *path), 0, 0
        self.clock, self.time, self.behind = np.zeros(categories), 0.0, False  # the clock counts while some are behind
        if initial is None:
            self.theta = np.zeros((categories, rows))
            self.transition(self.theta, self.prior, 0.0, 1.0)
        else:
            given = real_array("initial", initial, least=0.0)
            if given.shape not in ((categories,), (rows, categories)):
                allowed = f"({categories},) or ({rows}, {categories})"
                raise ValueError(f"initial must have shape {allowed}; got {given.shape}")
            self.theta = np.array(np.broadcast_to(given, (rows, categories)).T, order="C")
        self._prior_total = np.broadcast_to(self.prior, self.theta.shape).sum(axis=0)
        self._deviation = np.zeros(rows)  # of the expected totals from those of the prior, while some are behind

    # Moving.

    def transition(self, theta: np.ndarray, shape: Any, pull: Any, scale: Any) -> None:
        """``theta <- scale Gamma(shape + Poisson(pull theta))``, in place; parameters broadcast with theta."""
        parameters = tuple(_matrix(p) for p in (shape, pull, scale))
        call, self.calls = self.calls, self.calls + 1
        over_blocks(
            lambda first, last: transition_kernel(self.key, call, first, last, theta, parameters, theta),
            -(-theta.size // BLOCK),
            self.threads,
        )

    def catch_up(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Bring categories (all, by default) to the present; their weights, categories x rows."""
        theta = self._taken(self.theta, columns)
        if not self.behind:
            return theta
        prior, elapsed = self._taken(self.prior, columns), self.time - self._taken(self.clock, columns)
        late = np.flatnonzero(elapsed > 0)
        if len(late):
            moved, gone, alpha = theta[late], -np.expm1(-elapsed[late, None]), prior[late]
            expected = ((moved - alpha) * (1 - gone)).sum(axis=0)
            self.transition(moved, alpha, (1 - gone) / gone, gone)
            theta[late] = moved
            if columns is not None:
                self._deviation += (moved - alpha).sum(axis=0) - expected
                self.theta[columns], self.clock[columns] = theta, self.time
        if columns is None:
            self.behind = False
        return theta

    def advance(self, columns: np.ndarray | None, shape: Any, pull: Any, scale: Any, time: float) -> None:
        """One transition of these categories over ``time``, with parameters like theta[columns]; the others wait."""
        theta = self.catch_up(columns)
        self.steps += 1
        if columns is None:
            self.transition(theta, shape, pull, scale)
            self.time += time
            return
        if not self.behind:  # from here on the expected totals follow what changes
            self._deviation, self.behind = self.theta.sum(axis=0) - self._prior_total, True
            self.clock[:] = self.time
        before = theta.sum(axis=0)
        self.transition(theta, shape, pull, scale)
        self.time += time
        self.theta[columns], self.clock[columns] = theta, self.time
        rest = self._taken(self.prior, columns).sum(axis=0)
        self._deviation = (self._deviation - (before - rest)) * np.exp(-time) + theta.sum(axis=0) - rest

    def replace(self, theta: np.ndarray, time: float = 0.0) -> None:
        """New weights, categories x rows, all current, after a step of another kind."""
        if np.shape(theta) != self.theta.shape:
            raise ValueError(f"theta must have shape {self.theta.shape}, categories x rows; got {np.shape(theta)}")
        self.theta[:] = theta
        self.time += time
        self.behind = False

    def grow(self, prior: Any) -> None:
        """Add categories with these Dirichlet parameters of the prior, at draws from it, which is their law unseen."""
        alpha = positive_array("prior", prior)
        if alpha.ndim != 1 or self.prior.shape[1] != 1:
            raise ValueError("new categories need one parameter each, the same for all rows")
        self.catch_up()
        theta = np.zeros((alpha.size, self.rows))
        self.transition(theta, np.broadcast_to(alpha[:, None], theta.shape), 0.0, 1.0)
        self.prior, self.theta = (np.concatenate(pair) for pair in ((self.prior, alpha[:, None]), (self.theta, theta)))
        self.clock = np.concatenate([self.clock, np.full(alpha.size, self.time)])
        self.categories += alpha.size
        self._prior_total = self._prior_total + alpha.sum()

    def redraw_totals(self, parameter: np.ndarray) -> None:
        """Redraw each row's total from Gamma(sum of ``parameter``, categories x rows); the proportions stay.

        A Dirichlet point is independent of its total. In a Gibbs scan the parameter changes from step to step, and a
        total that stays behind biases the chain: it must be drawn anew before each step.
        """
        normalised(self.theta.T)  # a row without weight has no proportions to keep
        total = np.zeros((1, self.rows))
        self.transition(total, parameter.sum(axis=0, keepdims=True), 0.0, 1.0)
        self.theta *= total / self.theta.sum(axis=0)

    # Reading.

    @property
    def totals(self) -> np.ndarray:
        """The expected total of each row, given everything that is current."""
        return self._prior_total + self._deviation if self.behind else self.theta.sum(axis=0)

    def read(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Current points of the simplex at these categories, rows x columns, over the expected totals."""
        return self.catch_up(columns).T / self.totals[:, None]

    def proportions(self) -> np.ndarray:
        """The points of the simplex, rows x categories, everything up to date."""
        return normalised(self.catch_up().T)

    # Keeping.

    def copy(self) -> Weights:
        """A copy with the same state, which shares nothing that changes."""
        new = copy.copy(self)
        new.unpack(self.pack())
        return new

    def pack(self) -> dict[str, np.ndarray]:
        """Everything that changes from step to step, as named arrays, for a checkpoint."""
        return {
            "theta": self.theta, "clock": self.clock, "deviation": self._deviation,
            "counters": np.array([self.calls, self.steps, self.behind]), "time": np.array(self.time),
        }  # fmt: skip

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Take the state from arrays that ``pack`` made."""
        if arrays["theta"].shape != self.theta.shape:
            raise ValueError(f"the saved weights have shape {arrays['theta'].shape}; expected {self.theta.shape}")
        self.theta, self.clock, self._deviation = (arrays[n].copy() for n in ("theta", "clock", "deviation"))
        self.calls, self.steps = (int(n) for n in arrays["counters"][:2])
        self.behind = bool(arrays["counters"][2])
        self.time = float(arrays["time"])

    @staticmethod
    def _taken(array: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
        return array if columns is None else array[columns]


def normalised(theta: np.ndarray) -> np.ndarray:
    """Weights divided by the sums of their rows."""
    total = theta.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(total)):
        row = int(np.argmin(np.isfinite(total)))
        raise FloatingPointError(f"a weight of row {row} is no longer finite: take a smaller step_size, or SCIR")
    if not np.all(total > 0):
        row = int(np.argmin(total))
        raise FloatingPointError(
            f"all weights of row {row} have underflowed to 0: the sum of its Dirichlet parameter is too small for "
            "unnormalised weights in double precision; take a larger prior"
        )
    return theta / total


def _matrix(parameter: Any) -> np.ndarray:
    array = np.asarray(parameter, np.float64)
    return np.ascontiguousarray(array if array.ndim == 2 else array.reshape(1, 1))
