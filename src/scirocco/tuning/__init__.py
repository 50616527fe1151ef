"""Mode finding, curvature, and the step sizes, weights and constants that follow from them."""

from scirocco.tuning.lipschitz import lipschitz_constants
from scirocco.tuning.mode import find_mode

__all__ = ["find_mode", "lipschitz_constants"]
