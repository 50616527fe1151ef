"""Mode finding and the constants that step sizes and weights are chosen from."""

from scirocco.tuning.lipschitz import lipschitz_constants
from scirocco.tuning.mode import find_mode

__all__ = ["find_mode", "lipschitz_constants"]
