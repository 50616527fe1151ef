"""Manifolds: geometry only, for samplers that move along geodesics."""

from scirocco.manifolds.base import Manifold
from scirocco.manifolds.euclidean import Euclidean
from scirocco.manifolds.geometry import FLAT, Geometry
from scirocco.manifolds.simplex import Simplex
from scirocco.manifolds.sphere import Sphere
from scirocco.manifolds.stiefel import Stiefel

__all__ = ["FLAT", "Euclidean", "Geometry", "Manifold", "Simplex", "Sphere", "Stiefel"]
