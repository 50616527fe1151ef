"""The counts engine, in Numba: a local step makes counts, a simplex sampler moves weights."""
