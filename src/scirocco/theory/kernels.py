"""One step of SCIR and of its control variate forms, for each value that the estimate a_hat may take.

theta' = c Gamma(a_hat + Poisson(theta R / c))

scir           R = r,              c = 1 - r,              r = e^-h
main           R = r,              c = (1 - r) / b_hat     only if a_hat > 1
alternative    R = e^(-h b_hat),   c = (1 - R) / b_hat     any a_hat; c = h at b_hat = 0
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import exprel

from scirocco.core.checks import MOST_COUNTED, numbers, real_number, require_choice
from scirocco.theory.estimates import EstimateLaw, Floats

Form: TypeAlias = Literal["scir", "main", "alternative"]
FORMS: tuple[Form, ...] = ("scir", "main", "alternative")

NEGLIGIBLE = 1e-6
"""The form "main" does not exist at a_hat <= 1. Less probability than this is left out there, more is an error."""


class Kernel(NamedTuple):
    """One step, for each value of the estimate: R, 1 - R (not to lose it where R is close to 1) and c."""

    shape: Floats
    probability: Floats
    kept: Floats
    lost: Floats
    scale: Floats


def coefficients(estimates: Floats, step_size: float, form: Form, centre: float) -> tuple[Floats, Floats, Floats]:
    """R, 1 - R and c for each of the estimates."""
    require_form(form, step_size)
    if form != "scir" and not (np.isfinite(centre) and centre > 1):
        raise ValueError(f"centre must be finite and above 1 for the form {form!r}; got {centre!r}")
    if form == "alternative":
        exponent = -step_size * (estimates - 1) / (centre - 1)
        with np.errstate(over="ignore"):
            return np.exp(exponent), -np.expm1(exponent), step_size * exprel(exponent)
    ones = np.ones(estimates.shape)
    lost = -np.expm1(-step_size) * ones
    return np.exp(-step_size) * ones, lost, lost if form == "scir" else lost * (centre - 1) / (estimates - 1)


def kernel_of(law: EstimateLaw, step_size: float, form: Form, centre: float | None) -> Kernel:
    """The step of a form, with the law's mean as the centre if none is given."""
    require_law(law, centre)
    centre = law.mean if centre is None else centre
    if form == "main" and np.any(law.values <= 1):
        missing = float(law.probabilities[law.values <= 1].sum())
        if missing > NEGLIGIBLE:
            raise ValueError(
                f"law must have estimates above 1 for the form 'main', but for a probability of {NEGLIGIBLE}; this one "
                f"has {missing:.3g} at or below. Take 'alternative', or law.above(1) for the law given the others"
            )
        law = law.above(1)
    return Kernel(law.values, law.probabilities, *coefficients(law.values, step_size, form, centre))


def whole_steps(steps: int | ArrayLike) -> NDArray[np.int64]:
    """Numbers of steps, which may be zero."""
    counts = numbers("steps", steps)
    if counts.dtype.kind not in "iu" or np.any(counts < 0):
        raise ValueError(f"steps must be whole numbers of at least 0; got {steps!r}")
    if np.any(counts > MOST_COUNTED):
        raise ValueError(f"steps must be at most 2^63 - 1; got {steps!r}")
    return counts.astype(np.int64)


def require_law(law: EstimateLaw, centre: float | None) -> None:
    """Reject what is no law, and a centre that is no number, though the form "scir" has no use for it."""
    if not isinstance(law, EstimateLaw):
        raise TypeError(
            f"law must be an EstimateLaw, such as EstimateLaw.hypergeometric(...) or EstimateLaw.exact(parameter); "
            f"got {type(law).__name__}"
        )
    if centre is not None:
        real_number("centre", centre)


def require_form(form: Form, step_size: float) -> None:
    """Reject a form that does not exist, and step sizes that are not one positive number."""
    require_choice("form", form, FORMS)
    real_number("step_size", step_size, least=0.0, open_end=True)
