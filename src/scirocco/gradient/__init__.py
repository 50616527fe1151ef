"""The gradient engine: chains of any differentiable model, in JAX."""
