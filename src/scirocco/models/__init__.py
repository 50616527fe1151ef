"""Ready models, as scikit-learn estimators."""

from scirocco.models.lda import LDA

__all__ = ["LDA"]
