"""The spherical admixture model: topics and documents are directions."""

from scirocco.models.sam.estimator import SphericalAdmixture
from scirocco.models.sam.tf_idf import TfIdf

__all__ = ["SphericalAdmixture", "TfIdf"]
