"""Several accelerators: chains on some, the rows of minibatches on others.

Each group of chains runs on devices of its own, so that its draws are those that it makes anywhere. On more than one of
them the data are spread by rows, and what is summed over a minibatch is summed over devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scirocco.core.types import Data

CHAINS, ROWS = "chains", "rows"  # axes of a mesh


class Home:
    """The devices of a group of chains."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices = tuple(devices)
        self._placed: tuple[Data, Data] | None = None

    @property
    def rows(self) -> int:
        """Parts that the data are in."""
        return len(self.devices)

    def put(self, data: Data) -> Data:
        """Data there, put once; the program follows them."""
        if self._placed is None or self._placed[0] is not data:
            self._placed = None
            where: Any = self.devices[0]
            if self.rows > 1:
                where = NamedSharding(Mesh(np.array(self.devices), (ROWS,)), PartitionSpec(ROWS))
            self._placed = data, jax.device_put(data, where)
        return self._placed[1]


def homes(devices: Any) -> tuple[Home, ...]:
    """For ``devices=``: a number of them, a list, or a ``jax.sharding.Mesh`` with axes "chains" and "rows"."""
    if devices is None:
        return ()
    if isinstance(devices, Mesh):
        if not set(devices.axis_names) <= {CHAINS, ROWS}:
            raise ValueError(f'devices must have axes called "chains" or "rows"; got {devices.axis_names}')
        grid = devices.devices
        if devices.axis_names == (ROWS,):
            grid = grid[None]
        elif devices.axis_names == (ROWS, CHAINS):
            grid = grid.T
        return tuple(Home(row) for row in grid.reshape(grid.shape[0], -1).tolist())
    if isinstance(devices, int) and not isinstance(devices, bool):
        here = jax.devices()
        if not 1 <= devices <= len(here):
            raise ValueError(f"devices must be at most {len(here)}, as many as JAX sees; got {devices}")
        devices = here[:devices]
    if not isinstance(devices, Sequence) or not devices or not all(isinstance(d, jax.Device) for d in devices):
        raise TypeError(f"devices must be a number, a list of jax.devices(), or a jax.sharding.Mesh; got {devices!r}")
    return tuple(Home([device]) for device in devices)
