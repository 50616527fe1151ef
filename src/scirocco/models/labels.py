"""Names of topics that a reader gives, shown wherever topics are listed and saved with the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Labelled(Protocol):
    """A model whose topics have labels, "" where there is none."""

    labels_: list[str]


def checked_labels(labels: Any, known: list[str]) -> list[str]:
    """A text for each topic, ``known`` where nothing new is said; "" is none."""
    if isinstance(labels, str) or not isinstance(labels, Mapping | list | tuple | np.ndarray):
        raise TypeError(f"labels must be {{topic: text}} or a list of texts, one for each topic; got {labels!r}")
    if not isinstance(labels, Mapping):
        if len(labels) != len(known):
            raise ValueError(f"labels must name all {len(known)} topics, or be {{topic: text}}; got {len(labels)}")
        labels = dict(enumerate(labels))
    found = list(known)
    for topic, text in labels.items():
        found[checked_topic("labels", topic, len(known))] = text
        if not isinstance(text, str):
            raise TypeError(f"labels must be texts; got {text!r} for topic {topic}")
    return [str(text) for text in found]


def checked_topic(name: str, topic: Any, topics: int) -> int:
    """The number of a topic; ``name`` is the argument that it stands in."""
    if isinstance(topic, bool) or not isinstance(topic, int | np.integer) or not 0 <= topic < topics:
        raise ValueError(f"{name} must have numbers of topics, from 0 to {topics - 1}; got {topic!r}")
    return int(topic)


def shown(model: Labelled, topic: int) -> str:
    """A topic by its number and its label, if it has one."""
    return f"{topic} {model.labels_[topic]}".rstrip()


def with_labels(model: Labelled, table: pd.DataFrame) -> pd.DataFrame:
    """A table with a column ``label`` after that of the topic, if there are labels."""
    if any(model.labels_):
        table.insert(list(table).index("topic") + 1, "label", np.asarray(model.labels_, object)[table["topic"]])
    return table
