"""Unbiased estimates of the gradient of U from a minibatch."""

from scirocco.estimators.base import Estimator
from scirocco.estimators.control_variate import ControlVariate
from scirocco.estimators.plain import Plain
from scirocco.estimators.saga import SAGA
from scirocco.estimators.svrg import SVRG

__all__ = ["SAGA", "SVRG", "ControlVariate", "Estimator", "Plain"]
