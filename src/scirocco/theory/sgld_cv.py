"""What SGLD with control variates costs: bounds for strongly log-concave posteriors.

    m I <= Hessian of U <= M I,    R = M/m,    accuracy e:  W_2(law of theta_K, posterior) <= e / sqrt(m)

``wasserstein_bound`` is Proposition 3.3.6 of Baker's thesis (2019), ``sufficient_settings`` Theorem 3.3.7 and
``cost_bound`` Corollary 3.3.8, each with its misprints corrected: the variance term of A has M^2, the last term of the
bound is B^2 / (C + sqrt(A) B), the conditions on h all have to hold (a minimum is meant), so C_1 is a maximum.
``optimisation_steps`` is Lemma 3.3.9. R and the errors of the start and of the centre in units of 1/sqrt(m) stay the
same as the data grows, and so does the cost. As bounds go they are loose: ``h`` is far smaller than what works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scirocco.core.checks import real_number, require_count

ALPHA = 7 * math.sqrt(2) / 6


@dataclass(frozen=True)
class Settings:
    """The step size, minibatch size and number of steps that suffice, and the examples that they read."""

    step_size: float
    batch_size: int
    steps: int

    @property
    def cost(self) -> int:
        """Examples in all minibatches, Kn."""
        return self.batch_size * self.steps


def _require(m: float, M: float, d: int, **errors: float) -> float:
    """Check what all of them take; the ratio R."""
    real_number("m", m, least=0.0, open_end=True)
    real_number("M", M, least=0.0, open_end=True)
    require_count("d", d)
    if m > M:
        raise ValueError(f"M, the largest curvature, must not be below m, the smallest; got M={M!r}, m={m!r}")
    for name, value in errors.items():
        real_number(name, value, least=0.0)
    return M / m


def wasserstein_bound(
    step_size: float, batch_size: int, steps: int, *, m: float, M: float, d: int, start_error: float,
    centre_error: float,
) -> float:  # fmt: skip
    """A bound on W_2 between the law after ``steps`` and the posterior.

    ``start_error`` is E|theta_0 - mean|^2 and ``centre_error`` E|centre - mean|^2, with the mean of the posterior.

    >>> round(wasserstein_bound(1e-6, 100, 10**6, m=10.0, M=20.0, d=2, start_error=0.1, centre_error=0.1), 3)
    0.005
    """
    _require(m, M, d, start_error=start_error, centre_error=centre_error)
    real_number("step_size", step_size, least=0.0, open_end=True)
    require_count("batch_size", batch_size)
    require_count("steps", steps, least=0)
    contraction = 2 * step_size**2 * M**2 / batch_size + (1 - m * step_size) ** 2
    if not contraction < 1:
        largest = 2 * m / (2 * M**2 / batch_size + m**2)
        raise ValueError(f"step_size must be below {largest:.3g} for this bound; got {step_size!r}")
    a = 1 - math.sqrt(contraction)
    b = math.sqrt(2 * step_size**2 * M**2 / batch_size * (centre_error + d / m))
    c = ALPHA * M * math.sqrt(step_size**3 * d)
    first = math.sqrt(start_error + d / m)  # of a point: W_2 to the posterior, whose total variance is at most d/m
    return (1 - a) ** steps * first + c / a + b**2 / (c + math.sqrt(a) * b)


def sufficient_settings(
    accuracy: float, *, m: float, M: float, d: int, start_error: float, centre_error: float
) -> Settings:
    """A step size, a minibatch size and a number of steps that reach W_2 <= ``accuracy`` / sqrt(m).

    Of the minibatch sizes that need the fewest examples, the largest one.

    >>> sufficient_settings(0.5, m=10.0, M=20.0, d=2, start_error=0.1, centre_error=0.1)
    Settings(step_size=1.793686224489796e-05, batch_size=1, steps=21583)
    """
    real_number("accuracy", accuracy, least=0.0, open_end=True)
    ratio = _require(m, M, d, start_error=start_error, centre_error=centre_error)
    # In units of 1/m the step size may be at most n/(2R^2 + n), ``smooth`` and n / ``noise``.
    smooth = accuracy**2 / (64 * ratio**2 * ALPHA**2 * d)
    noise = 64 * ratio**2 / accuracy**2 * (m * centre_error + d)
    largest = min(noise - 2 * ratio**2, noise * smooth)
    n = max(1, math.floor(largest))
    h = min(n / (2 * ratio**2 + n), smooth, n / noise) / m
    time = max(0.0, math.log(4 / accuracy**2 * (m * start_error + d))) / m
    return Settings(h, n, max(1, math.ceil(time / h)))


def cost_bound(accuracy: float, *, m: float, M: float, d: int, start_error: float, centre_error: float) -> float:
    """A bound on the examples, Kn, that reach W_2 <= ``accuracy`` / sqrt(m)."""
    real_number("accuracy", accuracy, least=0.0, open_end=True)
    ratio = _require(m, M, d, start_error=start_error, centre_error=centre_error)
    slow = max(2 * ratio**2 + 1, 64 * ratio**2 * ALPHA**2 * d / accuracy**2)
    many = 64 * ratio**2 / accuracy**2 / slow
    time = max(0.0, math.log((m * start_error + d) * 4 / accuracy**2))
    return (slow * time + 1) * (many * (m * centre_error + d) + 1)


def optimisation_steps(error: float, *, m: float, gradient_bound: float) -> int:
    """Steps of stochastic gradient descent, h_k = 1/(m k), until E|theta - mode|^2 <= ``error``.

    ``gradient_bound`` is D with E|gradient estimate|^2 <= D^2. Within a posterior sd, error = 1/m, and with D of order
    N / sqrt(n), this is of order N/n steps: one pass over the data.

    >>> optimisation_steps(0.1, m=10.0, gradient_bound=50.0)
    1000
    """
    real_number("error", error, least=0.0, open_end=True)
    real_number("m", m, least=0.0, open_end=True)
    real_number("gradient_bound", gradient_bound, least=0.0, open_end=True)
    return math.ceil(4 * gradient_bound**2 / (m**2 * error))
