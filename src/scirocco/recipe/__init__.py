"""Any SDE sampler from (H, D, Q), and a checker that a drift and a diffusion keep exp(-H)."""

from scirocco.recipe.invariance import InvarianceReport, check_invariance
from scirocco.recipe.sampler import Recipe, RecipeState

__all__ = ["InvarianceReport", "Recipe", "RecipeState", "check_invariance"]
