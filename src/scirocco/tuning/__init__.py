"""Mode finding, curvature, and the step sizes, weights and constants that follow from them."""

from scirocco.optimise import find_mode, lipschitz_constants

__all__ = ["find_mode", "lipschitz_constants"]
