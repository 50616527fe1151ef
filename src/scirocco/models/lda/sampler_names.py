"""Which sampler: the names that users may give, their default step sizes, and what "auto" takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.models.count_model import AUTO, SamplerChoice
from scirocco.models.lda.cells import MOST_GROUPS
from scirocco.models.lda.collapsed import are_many
from scirocco.run.second_half import STRETCHES
from scirocco.samplers import SGHMC, SGLD, SGNHT
from scirocco.samplers.base import Sampler
from scirocco.schedules import Decreasing
from scirocco.simplex import SCIR, SCIRCV, SGRLD, Natural, SimplexSampler

if TYPE_CHECKING:
    from scirocco.models.lda.estimator import LDA

IN_MEMORY = ("gibbs", "collapsed")
NATURAL = ("sgld", "sgld_cv", "sghmc", "sgnht")
SAMPLERS = (AUTO, *IN_MEMORY, "scir", "scir_cv", "sgrld", *NATURAL)
# With two threads collapsed sampling on one of them was better at 2, 15 and 35 million tokens; where a sweep takes
# seconds, more threads than it has groups of words are worth its better mixing.
SEVERAL_THREADS = 10**8  # tokens
MEMORY_SHARE = 0.5  # of the free memory that "auto" lets kept assignments take


def stream_sampler(choice: SamplerChoice, *, warm: bool) -> SimplexSampler:
    """The sampler that the user gave or named. From good topics steps need only keep them; else they must find them."""
    if isinstance(choice.given, SimplexSampler):
        return choice.given
    if isinstance(choice.given, Sampler):
        return Natural(choice.given)
    if choice.name in NATURAL:
        return natural_sampler(choice.name, np.array([1.0]), 1.0)  # until there is a start to choose a step size at
    schedule = Decreasing(0.05, tau=100.0, kappa=0.6) if warm else Decreasing(0.5, tau=10.0, kappa=0.6)
    if choice.name == "scir_cv":
        return SCIRCV(schedule, recentre_every=20, centre_batch=1000)
    return SGRLD(Decreasing(0.005, tau=1000.0, kappa=0.6)) if choice.name == "sgrld" else SCIR(schedule)


def natural_sampler(name: str, parameter: np.ndarray, fraction: float) -> Natural:
    """A gradient sampler with a step size for these topics, words x topics.

    The curvature of a natural parameter is its count a, the variance of its gradient about a D/n. SGLD is stable for
    h < 2/a, and minibatches add h a D/2n to each variance: both are moderate at h = 1 / (a (1 + D/n)), a the largest.
    """
    eta = 1 / (float(parameter.max()) * (1 + 1 / fraction))
    if name in ("sgld", "sgld_cv"):
        return Natural(SGLD(eta))
    h = float(np.sqrt(eta))  # of momenta; a tenth of them is lost in a step
    return Natural(SGHMC(h, friction=0.1 / h) if name == "sghmc" else SGNHT(h, diffusion=0.1 / h))


def automatic(documents: Documents | Corpus, model: LDA) -> SamplerChoice:
    """What "auto" takes: it must not depend on the threads, so that the draws do not."""
    if np.ndim(model.beta) == 2:
        return SamplerChoice("gibbs")
    if not fits_in_memory(documents, model):
        return SamplerChoice("scir")
    return SamplerChoice("collapsed" if documents.tokens < SEVERAL_THREADS else "gibbs")


def fits_in_memory(documents: Documents | Corpus, model: LDA) -> bool:
    """Whether kept assignments, the tables of their counts and the records leave half of the free memory alone."""
    records = model.n_chains * (2 * model._kept_draws(documents.width) + STRETCHES) * 4
    each = 10 if are_many(model.n_topics) else 6  # bytes a token: the tokens of each word are listed too
    documents_need = 4 * (MOST_GROUPS + 1) * model.n_chains * documents.size
    needed = (
        documents.tokens * (25 + each * model.n_chains)
        + documents_need
        + documents.width * model.n_topics * (48 + records)
    )
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    except (OSError, StopIteration, ValueError):  # not on this system: be modest
        free = 4 * 2**30
    return needed < MEMORY_SHARE * free
