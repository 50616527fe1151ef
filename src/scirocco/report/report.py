"""The page of a result: of a trace, of shards, or of a model, whose own sections come before those of its trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scirocco.core.parts import part
from scirocco.report.elements import element, markup
from scirocco.report.page import Page, asset
from scirocco.report.posterior import add_posterior, run_facts, verdict_block
from scirocco.report.shards import add_shards
from scirocco.report.tables import facts
from scirocco.run.trace import Trace
from scirocco.verbs.sample_shards import Sharded


@part
@dataclass(frozen=True)
class Report:
    """What makes pages of ``result``, a trace, shards or a fitted model."""

    result: Any

    def page(self, title: str = "", **given: Any) -> Page:
        """All sections; what a model's page may be ``given`` are data, of which the run keeps nothing."""
        result = self.result
        page = Page(title or _name(result), "" if not title else _name(result))
        page.add("verdict", "Verdict", verdict_block(result.verdict()))
        if isinstance(result, Trace):
            add_posterior(page, result)
        elif isinstance(result, Sharded):
            add_shards(page, result)
        else:
            from scirocco.report.models import add_model  # with all models

            add_model(result, page, **given)
        return page

    def write(self, path: str | Path, title: str = "", **given: Any) -> Path:
        """Write the page to a file."""
        if not isinstance(title, str):
            raise TypeError(f"title must be text; got {title!r}")
        return self.page(title, **given).write(Path(path))

    def notebook(self) -> str:
        """The first block, the verdict and what ran, for a notebook: without script, in a style of its own."""
        result = self.result
        trace = result if isinstance(result, Trace) else getattr(result, "trace_", getattr(result, "trace", None))
        known = [] if trace is None else run_facts(trace)
        block = element(
            "div", element("p", element("strong", _name(self.result))),
            verdict_block(self.result.verdict(), script=False),
            element("details", element("summary", "What ran"), facts(known)) if known else None, class_="scirocco",
        )  # fmt: skip
        return f"<style>{asset('verdict.css')}</style>{markup(block)}"


def _name(result: Any) -> str:
    if isinstance(result, Sharded):
        return f"Posterior from {result.shards} shards"
    if not isinstance(result, Trace):
        return type(result).__name__
    known = result.description
    if known is not None and known.model is not None:
        return f"{known.model.name}: the run"
    return "Posterior"
