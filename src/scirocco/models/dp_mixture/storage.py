"""What a fitted mixture keeps in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.models.dp_mixture.components import Categorical, Encoding
from scirocco.models.dp_mixture.draws import MixtureDraws
from scirocco.models.dp_mixture.fitting import STATISTICS
from scirocco.models.dp_mixture.units import Units

if TYPE_CHECKING:
    from scirocco.models.dp_mixture.estimator import DirichletProcessMixture

ARRAYS = ("labels", "number", "concentration", "base", "log_density")
UNITS = ("places", "centers", "scales", "priors")


def packed(model: DirichletProcessMixture) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is known of the features, and the draws."""
    found, encoding = model._found, model.encoding_
    facts: dict[str, Any] = {
        "names": encoding.names, "categories": encoding.categories, "kept": found.kept, "stream": found.stream,
    }  # fmt: skip
    if hasattr(model, "feature_names_in_"):
        facts["feature_names"] = [str(name) for name in model.feature_names_in_]
    arrays: dict[str, np.ndarray] = {name: getattr(found, name) for name in ARRAYS}
    arrays |= {"groups": encoding.groups, "counted": encoding.counted}
    if encoding.kinds is not None:
        facts["kinds"] = encoding.kinds
    if encoding.units is not None:
        facts |= {"numeric": encoding.units.names, "step": encoding.units.step}
        arrays |= {f"unit_{name}": getattr(encoding.units, name) for name in UNITS} | {"columns": found.columns}
        arrays["moments"] = np.concatenate([own for chain in found.moments for own in chain])
    arrays["sizes"] = np.concatenate([own for chain in found.sizes for own in chain])
    arrays["counts"] = np.concatenate([own for chain in found.counts for own in chain])
    if not found.stream:
        arrays["membership"] = model.membership_
    return facts, arrays


def restore(model: DirichletProcessMixture, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """The inverse of ``packed``."""
    if "feature_names" in meta:
        model.feature_names_in_ = np.array(meta["feature_names"], dtype=object)
    component = model._component
    units = None
    if "numeric" in meta:
        units = Units(names=meta["numeric"], step=meta["step"], **{name: arrays[f"unit_{name}"] for name in UNITS})
    model.encoding_ = Encoding(
        component, arrays["groups"], arrays["counted"], meta["names"], meta["categories"], meta.get("kinds"), units
    )
    if isinstance(component, Categorical) and meta["categories"] is None:
        raise ValueError("it has no categories")
    number = arrays["number"]
    ends = np.cumsum(number.astype(np.int64).ravel())
    draws, columns = number.shape[1], arrays["columns"] if units is not None else None
    by_chain = [slice(c * draws, (c + 1) * draws) for c in range(len(number))]
    every = {name: np.split(arrays[name], ends[:-1]) for name in STATISTICS if name in arrays}
    tables: dict[str, Any] = {name: [own[part] for part in by_chain] for name, own in every.items()}
    fixed: dict[str, Any] = {name: arrays[name] for name in ARRAYS if name in arrays or name != "log_density"}
    fixed.setdefault("log_density", np.zeros(number.shape))
    model._keep(MixtureDraws.made_of(fixed | tables, columns, kept=meta["kept"], stream=meta["stream"]))
    if "membership" in arrays:
        model._found.made["membership"] = arrays["membership"]
    if "log_density" not in arrays:  # a file of the first versions: what it lacks follows from what it has
        model.component_ = str(model.component)
        known = [snapshot.log_density for snapshot in model._snapshots]
        model._found.log_density[:] = np.reshape(known, number.shape)
