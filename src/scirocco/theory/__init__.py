"""What minibatches do to the samplers, exactly: moments, bias and step sizes, known before anything is run."""

from scirocco.theory.estimates import EstimateLaw
from scirocco.theory.generating import mgf, mgf_given_path
from scirocco.theory.omega import OmegaLaw, omega_law
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
from scirocco.theory.sgld_cv import cost_bound, optimisation_steps, sufficient_settings, wasserstein_bound

__all__ = [
    "EstimateLaw",
    "Moments",
    "OmegaLaw",
    "approximate_bias",
    "asymptotic_bias",
    "conditional_variance",
    "cost_bound",
    "largest_step_size",
    "mgf",
    "mgf_given_path",
    "moments",
    "omega_law",
    "optimisation_steps",
    "prefers_control_variate",
    "scir_step_size",
    "stationary_moments",
    "sufficient_settings",
    "variance_inflation",
    "wasserstein_bound",
]
