r"""Kernel Stein discrepancy: how far samples are from a target of which only the score is known.

    KSD^2 = sum_ij w_i w_j k0(x_i, x_j),        s = grad log p
    k0(x, y) = k s(x).s(y) + s(x).grad_y k + s(y).grad_x k + tr grad_x grad_y k

k0 has mean zero under the target, whatever its normalising constant. For k = f(u), u = |x - y|^2 / l^2:

    k0 = f s_x.s_y + (2 f'/l^2) (s_y - s_x).(x - y) - (2/l^2) (d f' + 2 u f'')

With the inverse multiquadric f = (1 + u)^beta, -1 < beta < 0, a discrepancy that goes to zero means convergence to the
target for a large class of targets; with the Gaussian f = exp(-u/2) it does not from three dimensions on. Neither sees
wrong weights of well separated modes. Gorham and Mackey (2017).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scirocco.core.checks import numbers, require_count
from scirocco.core.types import Array

Floats: TypeAlias = NDArray[np.float64]
Kernel: TypeAlias = Callable[[Any, float], tuple[Any, Any, Any]]


def _imq(u: Any, exponent: float) -> tuple[Any, Any, Any]:
    f = (1 + u) ** exponent
    first = exponent * f / (1 + u)
    return f, first, (exponent - 1) * first / (1 + u)


def _rbf(u: Any, _: float) -> tuple[Any, Any, Any]:
    f = jnp.exp(-u / 2)
    return f, -f / 2, f / 4


KERNELS: dict[str, Kernel] = {"imq": _imq, "rbf": _rbf}
"""f, f' and f'' as functions of u = |x - y|^2 / l^2 and the exponent."""


def ksd(
    draws: ArrayLike,
    scores: ArrayLike,
    *,
    kernel: Literal["imq", "rbf"] = "imq",
    scale: float | None = None,
    exponent: float = -0.5,
    statistic: Literal["V", "U"] = "V",
    weights: ArrayLike | None = None,
    block: int = 1024,
) -> float:
    """The kernel Stein discrepancy of ``draws`` (n, d) with ``scores`` grad log p at them, in float64.

    ``statistic="V"`` averages over all pairs and returns the KSD itself, the root of a nonnegative number that is
    still positive for perfect draws: it falls like n^(-1/2). ``statistic="U"`` leaves out the pairs i = j and returns
    an unbiased estimate of KSD^2, which may be negative.

    Scores may be unbiased minibatch estimates (Gorham, Raj and Mackey, 2020). k0 is linear in each score, so noise with
    mean zero that is independent between draws leaves the expectation of every pair i != j alone and adds its
    variance to the pairs i = j. V is then biased upwards, U is not: use U, with a fresh minibatch for each sample; the
    minibatch that moved the chain is not independent of where the chain went next.

    ``scale`` is l, by default the median distance between (up to 1000 of) the draws; fix it to compare sets of
    them. ``weights`` are nonnegative and are normalised here. Time is O(n^2 d), memory O(block^2 + n d).

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> good, bad = ksd(x, -x, scale=1.0), ksd(x + 1, -(x + 1), scale=1.0)       # the target is N(0, I)
    >>> bool(5 * good < bad)
    True
    """
    x, s, w = _validated(draws, scores, weights)
    n, d = x.shape
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {sorted(KERNELS)}; got {kernel!r}")
    if statistic not in {"U", "V"}:
        raise ValueError(f"statistic must be 'U' or 'V'; got {statistic!r}")
    if kernel == "imq" and not -1 < exponent < 0:
        raise ValueError(f"exponent must lie strictly between -1 and 0; got {exponent!r}")
    require_count("block", block)
    length = _median_distance(x) if scale is None else float(scale)
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"scale must be positive and finite; got {scale!r}")

    # In units of l the kernel has scale one. Centring keeps |x|^2 + |y|^2 - 2 x.y from losing digits far from zero.
    x, s = (x - x.mean(axis=0)) / length, s * length
    size = min(int(block), n)
    pad = -n % size  # points of weight zero, so that every block has one shape and one compilation
    xs, ss = (np.pad(a, ((0, pad), (0, 0))).reshape(-1, size, d) for a in (x, s))
    ws = np.pad(w, (0, pad)).reshape(-1, size)
    total = 0.0
    with jax.enable_x64(True):
        for i in range(len(ws)):
            for j in range(i, len(ws)):
                part = _block(xs[i], ss[i], ws[i], xs[j], ss[j], ws[j], exponent, kernel=kernel)
                total += (1 if i == j else 2) * float(part)
        f, first, _ = (float(v) for v in KERNELS[kernel](jnp.zeros(()), exponent))
    if statistic == "V":
        return float(np.sqrt(max(total, 0.0))) / length
    diagonal = float(np.sum(w**2 * (f * np.sum(s**2, axis=1) - 2 * d * first)))
    return (total - diagonal) / float(1 - np.sum(w**2)) / length**2


@partial(jax.jit, static_argnames="kernel")
def _block(x: Array, sx: Array, wx: Array, y: Array, sy: Array, wy: Array, exponent: float, *, kernel: str) -> Array:
    """sum_ij w_i w_j k0(x_i, y_j) with l = 1."""
    u = jnp.maximum(jnp.sum(x**2, 1)[:, None] + jnp.sum(y**2, 1) - 2 * x @ y.T, 0.0)
    f, first, second = KERNELS[kernel](u, exponent)
    cross = x @ sy.T + sx @ y.T - jnp.sum(x * sx, 1)[:, None] - jnp.sum(y * sy, 1)
    stein = f * (sx @ sy.T) + 2 * first * cross - 2 * (x.shape[1] * first + 2 * u * second)
    return jnp.dot(wx, stein @ wy)


def _validated(draws: ArrayLike, scores: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    x, s = (numbers(n, a).astype(np.float64, copy=False) for n, a in (("draws", draws), ("scores", scores)))
    if x.shape != s.shape:
        raise ValueError(f"scores must have the shape of draws, {x.shape}; got {s.shape}")
    if x.ndim not in {1, 2} or len(x) < 2 or not x.size:
        raise ValueError(f"draws must have shape (n,) or (n, d) with n of at least 2; got {x.shape}")
    w = np.ones(len(x)) if weights is None else numbers("weights", weights).astype(np.float64)
    if w.shape != (len(x),):
        raise ValueError(f"weights must have shape ({len(x)},), one for each sample; got {w.shape}")
    for name, values in (("draws", x), ("scores", s), ("weights", w)):
        if bad := int(np.sum(~np.isfinite(values))):
            raise ValueError(f"{name} must be finite; {bad} of {values.size} values are NaN or infinite")
    if np.any(w < 0) or np.sum(w > 0) < 2:
        raise ValueError("weights must be nonnegative and at least two of them positive")
    x, s = (a.reshape(len(a), -1) for a in (x, s))
    return x, s, w / np.sum(w)


def _median_distance(x: Floats) -> float:
    from scipy.spatial.distance import pdist

    some = x[np.linspace(0, len(x) - 1, min(len(x), 1000)).astype(int)]
    if (median := float(np.median(pdist(some)))) > 0:
        return median
    raise ValueError("scale must be given here: the median distance between the draws is zero")
