"""What minibatches do to the samplers, exactly: moments, bias and step sizes, known before anything is run."""

from scirocco.theory.estimates import EstimateLaw
from scirocco.theory.generating import mgf, mgf_given_path
from scirocco.theory.scir import (
    Moments,
    approximate_bias,
    asymptotic_bias,
    conditional_variance,
    largest_step_size,
    moments,
    prefers_control_variate,
    scir_step_size,
    stationary_moments,
    variance_inflation,
)

__all__ = [
    "EstimateLaw",
    "Moments",
    "approximate_bias",
    "asymptotic_bias",
    "conditional_variance",
    "largest_step_size",
    "mgf",
    "mgf_given_path",
    "moments",
    "prefers_control_variate",
    "scir_step_size",
    "stationary_moments",
    "variance_inflation",
]
