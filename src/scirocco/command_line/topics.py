"""``scirocco topics``: topics of a corpus, from texts to a page."""

from __future__ import annotations

import csv
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from scirocco.command_line.job import HIDDEN, MODEL, PAGE, Job, begin, free_name
from scirocco.command_line.options import (
    Chains,
    Jobs,
    Json,
    MaxSeconds,
    Out,
    Quiet,
    Seed,
    examples,
    positive,
    require_one_of,
)
from scirocco.command_line.outcome import remark, say, show_table
from scirocco.run.trace import Trace
from scirocco.run.verdict import Verdict

EXAMPLES = examples(
    "topics letters/ --topics 20",
    "topics articles.jsonl --field body --topics 50 --max-seconds 300 --out articles",
    "topics reviews.csv --field review --by year --title headline",
    "topics counts.npz --topics 100 --json > topics.json",
)
LARGE = 10**9  # tokens times topics, beyond which the page has no documents: they would take longer than the topics
WORDS, BEST = 8, 20  # words of a topic in the table, and in the file


@dataclass(frozen=True, kw_only=True)
class Topics(Job):
    """What ``scirocco topics`` was asked."""

    name: ClassVar[str] = "topics"
    options: ClassVar[dict[str, str]] = {
        "n_chains": "chains", "max_iter": "passes", "max_seconds": "max_seconds", "n_topics": "topics"
    }  # fmt: skip

    corpus: list[str] = dataclasses.field(metadata=HIDDEN)
    topics: int = 50
    field: str = "text"
    title: str | None = None
    by: str | None = None
    stop_words: str = "english"
    min_documents: int = 5
    max_share: float = 0.5
    max_words: int | None = None
    ngrams: int = 1
    sampler: str = "auto"
    passes: int | None = None
    max_seconds: float | None = None
    chains: int = 2
    seed: int = 0
    jobs: int | None = None

    @property
    def _paths(self) -> list[Path]:
        from scirocco.command_line.corpus import files_of

        return files_of([Path(path) for path in self.corpus])

    def source(self) -> tuple[str, ...]:
        """The paths of the corpus."""
        return tuple(self.corpus)

    def read(self, folder: Path) -> Any:
        """The corpus, counted once."""
        from scirocco.command_line.corpus import corpus_of

        return corpus_of(
            folder / "corpus", self._paths, field=self.field, stop_words=self.stop_words, ngrams=self.ngrams,
            min_documents=self.min_documents, max_share=self.max_share, max_words=self.max_words,
        )  # fmt: skip

    def begin(self, data: Any, path: Path, progress: bool) -> Any:
        """Fit the topics."""
        import scirocco as sc

        if progress:
            remark(f"{data.size:,} documents, {data.tokens:,} tokens, {data.width:,} words")
        model = sc.LDA(
            self.topics, sampler=self.sampler, max_iter=self.passes, max_seconds=self.max_seconds,
            n_chains=self.chains, n_jobs=self.jobs, random_state=self.seed, verbose=progress,
        )  # fmt: skip
        return model.fit(data, path=path)

    def verdict(self, result: Any) -> Verdict:
        """Of the topics."""
        verdict: Verdict = result.verdict()
        return verdict

    def trace(self, result: Any) -> Trace:
        """Of the fit."""
        trace: Trace = result.trace_
        return trace

    def keep(self, result: Any, folder: Path) -> dict[str, str]:
        """The fitted model."""
        result.save(folder / MODEL)
        return {MODEL: "the model, for sc.LDA.load"}

    def write(self, result: Any, data: Any, folder: Path) -> dict[str, str]:
        """Tables and the page."""
        result.topic_info(WORDS).to_csv(folder / "topics.csv", quoting=csv.QUOTE_NONNUMERIC)
        result.top_words(BEST).to_csv(folder / "words.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
        result.report(folder / PAGE, **self.given(data))
        return {
            PAGE: "the page to look at: topics, words, documents, whether to trust them",
            "topics.csv": "a row for each topic: share with interval, first words",
            "words.csv": f"the first {BEST} words of each topic, with intervals",
        }  # fmt: skip

    def given(self, corpus: Any) -> dict[str, Any]:
        """What the page is made of beside the model."""
        from scirocco.command_line.corpus import document_names, groups_of

        if corpus.tokens * self.topics > LARGE:
            return {}
        paths = self._paths
        given: dict[str, Any] = {"X": corpus, "names": document_names(paths, self.title)}
        return given if self.by is None else given | {"by": groups_of(paths, self.by)}

    def facts(self, result: Any) -> dict[str, Any]:
        """The topics."""
        info = result.topic_info(WORDS).reset_index()
        topics = [
            {"topic": row.topic, "share": row.share, "lower": row.lower, "upper": row.upper, "chains": row.chains,
             "words": row.words.split(" ")}
            for row in info.itertuples()
        ]  # fmt: skip
        return {"passes": result.n_iter_, "topics": topics}

    def show(self, result: Any) -> None:
        """The topics by their share."""
        info = result.topic_info(WORDS).sort_values("share", ascending=False, kind="stable").reset_index()
        columns = [name for name in ("topic", "share", "lower", "upper", "chains", "words") if name in info]
        shown = [[_percent(name, value) for name, value in zip(columns, row, strict=True)]
                 for row in info[columns].itertuples(index=False)]  # fmt: skip
        show_table(columns, shown, wide="words")
        say("", result.ended_)


def _percent(name: str, value: Any) -> Any:
    return f"{value:.1%}" if name in ("share", "lower", "upper") and value == value else value  # noqa: PLR0124


def topics(
    corpus: Annotated[list[Path], typer.Argument(help="A folder of texts, files of JSON lines, CSV or Parquet, or "
                                                      "counts: .npz of SciPy, a corpus of scirocco.",
                                                 show_default=False)],
    topics: Annotated[int, typer.Option("--topics", "-k", min=1, help="Number of topics.")] = 50,
    out: Out = None,
    field: Annotated[str, typer.Option(help="The field or column that has the text.")] = "text",
    title: Annotated[str | None, typer.Option(help="The field that names a document.", metavar="FIELD")] = None,
    by: Annotated[str | None, typer.Option(help="A field to show topics by: a year, a journal.",
                                           metavar="FIELD")] = None,
    stop_words: Annotated[str, typer.Option(help="Words to leave out: english, none, or a file with one a line.")]
    = "english",
    min_documents: Annotated[int, typer.Option(min=1, help="Documents that a word must occur in.")] = 5,
    max_share: Annotated[float, typer.Option(callback=positive, max=1, help="Share of documents that a word may occur "
                                                                            "in.")] = 0.5,
    max_words: Annotated[int | None, typer.Option(min=1, help="Words to keep, the most frequent.")] = None,
    ngrams: Annotated[int, typer.Option(min=1, max=5, help="With 2 also pairs of words, with 3 triples.")] = 1,
    sampler: Annotated[str, typer.Option(help="A sampler of sc.LDA: collapsed, gibbs, scir, ...")] = "auto",
    passes: Annotated[int | None, typer.Option(min=1, help="Passes over the documents; 100, or what time allows.")]
    = None,
    max_seconds: MaxSeconds = None, chains: Chains = 2, seed: Seed = 0, jobs: Jobs = None, json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Topics of a corpus of texts.

    Counts the words, samples the topics with several chains, and writes tables and a page to look at.
    """
    from scirocco.command_line.corpus import files_of, require_fields
    from scirocco.models.lda.sampler_names import SAMPLERS

    require_fields(files_of(corpus), title, by)
    require_one_of("sampler", sampler, SAMPLERS)
    job = Topics(
        corpus=[str(path.resolve()) for path in corpus], topics=topics, field=field, title=title, by=by,
        stop_words=stop_words, min_documents=min_documents, max_share=max_share, max_words=max_words, ngrams=ngrams,
        sampler=sampler, passes=passes, max_seconds=max_seconds, chains=chains, seed=seed, jobs=jobs,
    )  # fmt: skip
    return begin(job, out or free_name(corpus[0].resolve().stem, "topics"), as_json=json, quiet=quiet)
