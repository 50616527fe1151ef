"""Ready models, as scikit-learn estimators."""

from scirocco.models.gaussian_mixture import GaussianMixture
from scirocco.models.lda import LDA
from scirocco.models.logistic import LogisticRegression
from scirocco.models.matrix_factorization import MatrixFactorization
from scirocco.models.neural_network import NeuralNetworkClassifier, NeuralNetworkRegressor

__all__ = [
    "LDA",
    "GaussianMixture",
    "LogisticRegression",
    "MatrixFactorization",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
]
