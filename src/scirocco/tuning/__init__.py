"""Mode finding, curvature, and the step sizes, weights and constants that follow from them."""

from scirocco.optimise import find_mode, glm_bounds, lipschitz_constants
from scirocco.tuning.glm import zigzag

__all__ = ["find_mode", "glm_bounds", "lipschitz_constants", "zigzag"]
