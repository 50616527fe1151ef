"""The Cox-Ingersoll-Ross process.

    dX = b (a - X) dt + sigma sqrt(X) dW,    a b > 0, sigma > 0

Its transition is a scaled noncentral chi-squared law. With k = 2 a b / sigma^2, c = sigma^2 (1 - e^{-bt}) / (2 b) and
lambda = X e^{-bt} / c,

    X_t = c Gamma(k + Poisson(lambda), 1)

which holds for a, b < 0 too (the process then grows and has no stationary law). For k > 1/2 the same law is drawn
without the Poisson number, as c (Gamma(k - 1/2) + (Z / sqrt 2 + sqrt lambda)^2). For b > 0 the stationary law is
Gamma(k) with rate 2 b / sigma^2. Steps with the same parameters compose, and independent processes with the same b and
sigma add: their sum is a process with the summed k. Cox, Ingersoll and Ross (1985); Baker et al. (2018), whose process
is ``CIR.gamma(a)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scirocco.core.checks import positive_array, real_array
from scirocco.core.compiled import BLOCK, ZERO, inner, jit
from scirocco.core.random import open_stream
from scirocco.core.random.bulk import exponentials_of, fill_uniforms, gammas, workspace
from scirocco.core.random.draws import normal, poisson_from
from scirocco.diffusions.base import SQRT_TWO, draw, states, times

SQRT_HALF = math.sqrt(0.5)


@inner
def transition_block(s: Any, x: Any, shape: Any, pull: Any, scale: Any, n: int, work: Any) -> None:
    """``x[i] <- scale[i] Gamma(shape[i] + Poisson(pull[i] x[i]))`` for i < n <= BLOCK; overwrites shape and pull."""
    words, lists, numbers = work
    counted, large = lists[0], lists[3]
    none, squares, u = numbers[0], numbers[5], numbers[6]
    fill_uniforms(s, words, u, n)
    for i in range(n):
        pull[i] *= x[i]  # the Poisson mean
    m, k = ZERO, ZERO
    for i in range(n):
        large[m], counted[k] = i, i
        m += shape[i] > 0.5
        # Below 1 - mean < exp(-mean) the Poisson number is surely 0: most entries of a sparse vector end here.
        k += (shape[i] <= 0.5) & (u[i] >= 1.0 - pull[i])
    for j in range(k):
        none[j] = -pull[counted[j]]
    exponentials_of(none, numbers[1], k)
    for j in range(k):
        shape[counted[j]] += poisson_from(s, u[counted[j]], pull[counted[j]], none[j])
    for j in range(m):
        root = SQRT_HALF * normal(s) + math.sqrt(pull[large[j]])
        squares[j] = root * root
        shape[large[j]] -= 0.5
    gammas(s, shape, x, n, work)
    for j in range(m):
        x[large[j]] += squares[j]
    for i in range(n):
        x[i] *= scale[i]


@inner
def _take(matrix: Any, start: int, n: int, columns: int, out: Any) -> None:
    """Entries ``start`` to ``start + n``, in the order of rows, of a matrix that may have one row or column for all."""
    # Loops: assigning to slices takes two seconds to compile, for the text of an error about their shapes.
    if matrix.size == 1:
        for j in range(n):
            out[j] = matrix[0, 0]
    elif matrix.shape[1] == columns and matrix.shape[0] > 1:
        part = matrix.reshape(-1)[start : start + n]  # an index start + j would be tested for its sign each time
        for j in range(n):
            out[j] = part[j]
    else:
        by_row = matrix.shape[0] > 1
        row, column = start // columns, start % columns
        for j in range(n):
            out[j] = matrix[row, 0] if by_row else matrix[0, column]
            column += 1
            if column == columns:
                row, column = row + 1, 0


@jit
def transition_kernel(key: Any, step: int, first: int, last: int, x: Any, parameters: Any, out: Any) -> None:
    """Blocks ``first`` to ``last`` of the entries of matrices; a parameter may have one row or column for all."""
    shapes, pulls, scales = parameters
    work = workspace()
    shape, pull, scale = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    columns, source, target = x.shape[1], x.reshape(-1), out.reshape(-1)
    for block in range(first, last):
        start = block * BLOCK
        n = min(BLOCK, x.size - start)
        _take(shapes, start, n, columns, shape)
        _take(pulls, start, n, columns, pull)
        _take(scales, start, n, columns, scale)
        old, new = source[start : start + n], target[start : start + n]
        for j in range(n):
            new[j] = old[j]
        transition_block(open_stream(key, step, block), new, shape, pull, scale, n, work)


@dataclass(frozen=True)
class CIR:
    """The process dX = b (a - X) dt + sigma sqrt(X) dW; parameters are numbers or arrays that broadcast with X.

    >>> process = CIR.gamma(shape=[0.1, 5.0])           # stationary laws Gamma(0.1, 1) and Gamma(5, 1)
    >>> process.transition([1.0, 1.0], time=0.5).shape
    (2,)
    >>> process.transition_mean(1.0, time=0.5).round(3)
    array([0.646, 2.574])
    """

    a: Any
    b: Any = 1.0
    sigma: Any = SQRT_TWO

    def __post_init__(self) -> None:
        a, b = real_array("a", self.a), real_array("b", self.b)
        positive_array("sigma", self.sigma)
        if not np.all(b):
            raise ValueError("b must not be 0: the process has no level to return to; b < 0 lets it grow")
        if not np.all(a * b > 0):
            raise ValueError(f"a b must be positive, or the process is stuck at 0; got a = {self.a!r}, b = {self.b!r}")

    @classmethod
    def gamma(cls, shape: Any, rate: Any = 1.0, speed: Any = 1.0) -> CIR:
        """The process with stationary law Gamma(shape, rate), which it forgets its start for at rate ``speed``.

        With estimated shape and rate take ``speed=rate``: the drift shape - rate X is then linear in both, so unbiased
        estimates give an unbiased drift; the rate may then be negative for a step.
        """
        shape, rate, speed = positive_array("shape", shape), real_array("rate", rate), real_array("speed", speed)
        if not np.all(rate * speed > 0):
            raise ValueError(f"rate must be positive (or negative together with speed); got {rate!r}")
        return cls(shape / rate, speed, np.sqrt(2 * speed / rate))

    @cached_property
    def shape(self) -> np.ndarray:
        """k = 2 a b / sigma^2."""
        return np.asarray(self.a) * (2 * np.asarray(self.b) / np.square(self.sigma))

    def _scale(self, time: np.ndarray) -> np.ndarray:
        """c: half the variance that a state of 1 gains, over its decay."""
        b = np.asarray(self.b)
        return -np.square(self.sigma) / (2 * b) * np.expm1(-b * time)

    def _pull(self, time: np.ndarray) -> np.ndarray:
        """e^{-bt} / c, without the overflow of its parts."""
        b = np.asarray(self.b)
        with np.errstate(over="ignore"):  # after a long time nothing is left of the start: 1 / inf
            return 2 * b / np.square(self.sigma) / np.expm1(b * time)

    def transition(self, x: Any, time: Any, *, seed: int = 0, step: int = 0, threads: int | None = None) -> np.ndarray:
        """The state after ``time``, drawn exactly; a function of (seed, step)."""
        x, t = states(x, positive=True), times(time, self, x)
        parameters = (self.shape, self._pull(t), self._scale(t))
        return draw(transition_kernel, x, parameters, seed=seed, step=step, threads=threads)

    def transition_mean(self, x: Any, time: Any) -> np.ndarray:
        """a + (x - a) e^{-bt}."""
        x, t, a = states(x, positive=True), times(time, self, x), np.asarray(self.a)
        return a + (x - a) * np.exp(-np.asarray(self.b) * t)

    def transition_variance(self, x: Any, time: Any) -> np.ndarray:
        """c^2 (k + 2 lambda)."""
        x, t = states(x, positive=True), times(time, self, x)
        c = self._scale(t)
        return c * (c * self.shape + 2 * x * np.exp(-np.asarray(self.b) * t))

    def transition_mgf(self, s: Any, x: Any, time: Any) -> np.ndarray:
        """(1 - s c)^{-k} exp(s x e^{-bt} / (1 - s c)), infinite for s >= 1/c."""
        s, x, t = real_array("s", s), states(x, positive=True), times(time, self, x)
        rest = 1 - s * self._scale(t)
        decayed = x * np.exp(-np.asarray(self.b) * t)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value = rest**-self.shape * np.exp(s * decayed / rest)
        return np.where(rest > 0, value, np.inf)

    def stationary(self) -> Any:
        """Gamma(k, rate 2 b / sigma^2)."""
        from scipy import stats

        if not np.all(np.asarray(self.b) > 0):
            raise ValueError("a process with b < 0 grows without limit and has no stationary law")
        return stats.gamma(self.shape, scale=np.square(self.sigma) / (2 * np.asarray(self.b)))
