"""SMS-UBU: symmetric minibatch splitting of underdamped Langevin dynamics.

    U, half a step: d theta = p dt,  dp = -A p dt + sqrt(2 A T) dW, exactly;    p <- p - h g(theta);    U, half a step

SGHMC's dynamics with the integrator "ubu", on minibatches in sweeps: those of an epoch, then the same ones in reverse
order, then a new shuffle. A sweep is its own mirror image, and so is each of its steps: the error is of second order in
h though every step sees one minibatch, where independent minibatches of variance V add h V / (2 A) to T in the
variance. With exact gradients on a Gaussian of precision lambda the variance is T/lambda (1 - h^2 lambda / 6) up to
O(h^4). The law is an average over the places within a sweep. Targets exp(-U/T). Paulin, Whalley, Chada and Leimkuhler
(2024), whose gamma is A here.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from scirocco.batches import Batching, Sweeps
from scirocco.samplers.sghmc import SGHMC


@dataclass(frozen=True)
class SMSUBU(SGHMC):
    """Underdamped Langevin dynamics on sweeps of minibatches; ``step_size`` is the time step h, ``friction`` A.

    >>> SMSUBU(step_size=0.1).default_batching()
    Sweeps(min_blocks=1000)
    """

    _: KW_ONLY
    integrator: str = "ubu"

    def default_batching(self) -> Batching:
        """Sweeps, unless a noise estimate asks for independent minibatches."""
        return super().default_batching() if self.independent_draws else Sweeps()
