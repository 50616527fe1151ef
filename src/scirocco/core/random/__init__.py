"""Random numbers for the Numba engine: the same for a seed whatever the number of threads."""

from scirocco.core.random.draws import exponential, gamma, normal, poisson, uniform
from scirocco.core.random.streams import below, open_stream
from scirocco.core.seeds import make_key

__all__ = ["below", "exponential", "gamma", "make_key", "normal", "open_stream", "poisson", "uniform"]
