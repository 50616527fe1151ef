"""Random numbers for the Numba engine: the same for a seed whatever the number of threads."""

from scirocco.core.random.draws import exponential, gamma, normal, poisson, uniform
from scirocco.core.random.streams import below, make_key, open_stream

__all__ = ["below", "exponential", "gamma", "make_key", "normal", "open_stream", "poisson", "uniform"]
