"""A fitted model in a notebook: its verdict and what ran, before scikit-learn's picture of the settings."""

from __future__ import annotations

from typing import Any

from scirocco.core.parts import part_named
from scirocco.run.trace import REPORT


class Reported:
    """The part of a model that notebooks ask; comes before scikit-learn's base."""

    def _repr_html_inner(self) -> str:
        settings: str = super()._repr_html_inner()  # type: ignore[misc]
        return part_named(REPORT)(self).notebook() + settings if hasattr(self, "posterior_") else settings

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})
