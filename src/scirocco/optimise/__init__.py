"""The mode of a posterior, the curvature there, and the constants that follow from them."""

from scirocco.optimise.lipschitz import glm_bounds, lipschitz_constants
from scirocco.optimise.mode import find_mode
from scirocco.optimise.noise import noise_directions

__all__ = ["find_mode", "glm_bounds", "lipschitz_constants", "noise_directions"]
