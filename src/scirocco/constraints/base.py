"""What a constrained parameter is to a sampler: a free array of its own, and the way between both.

    x = constrained(u),    log p(u) = log p(x) + log |dx/du|

The last ``axes`` axes of an array make one value, and leading axes are independent copies: an array (50, 3) of
``simplex`` holds 50 points. Users write densities, starts and functions of x; chains move u.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from scirocco.core.types import Array, Params

Shape = tuple[int, ...]


class Constraint(ABC):
    """One kind of constraint: hashable, and equal to another one that does the same."""

    axes: int = 0
    """Axes of an array that make one value; 0 for a constraint on each number."""

    @abstractmethod
    def constrained(self, free: Array) -> Array:
        """The value of the parameter."""

    @abstractmethod
    def freed(self, value: Array) -> Array:
        """The inverse of ``constrained``."""

    @abstractmethod
    def log_det(self, free: Array, value: Array) -> Array:
        """log |dx/du|, added up over all values of an array."""

    @abstractmethod
    def contains(self, value: np.ndarray) -> np.ndarray:
        """Whether values obey, one answer for each; a value at the border does not."""

    @abstractmethod
    def __str__(self) -> str:
        """The name by which users know it."""

    def free_shape(self, shape: Shape) -> Shape:
        """The shape of the free array for a parameter of this one."""
        return shape

    def check_shape(self, shape: Shape) -> None:
        """Reject arrays that cannot hold values."""
        if len(shape) < self.axes:
            raise ValueError(f"{self} needs arrays with {self.axes} axes or more; got the shape {shape}")


class Parametrisation(ABC):
    """The way between the free position of a chain and the parameters that users see.

    Hashable, equal to another one that does the same, and false if both are the same. The position is a pytree whose
    leaves have the names of parameters; there may be more parameters, that follow from others.
    """

    start: Params = None
    """Parameters from which chains may start, if it knows some."""

    dims: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - replaced, never changed
    """The names of the axes of parameters, as far as it knows them."""

    @abstractmethod
    def __bool__(self) -> bool:
        """Whether any parameter is not free."""

    @abstractmethod
    def constrain(self, position: Params) -> tuple[Params, Array]:
        """The parameters at a free position, and the log of the determinant of the change of variables."""

    @abstractmethod
    def parameters(self, position: Params) -> Params:
        """The parameters at a free position."""

    @abstractmethod
    def free(self, params: Params) -> Params:
        """The free position of parameters."""

    @abstractmethod
    def constrained_names(self, position: Params) -> list[str]:
        """The names of leaves whose free numbers are not the parameter itself."""

    @abstractmethod
    def check(self, params: Params, *, values: bool = True) -> None:
        """Reject a start that does not obey, in words; without ``values`` look at shapes only."""

    @abstractmethod
    def without(self, names: Any) -> Parametrisation:
        """That of what is left when a dict of parameters loses some of its keys."""
