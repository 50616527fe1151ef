"""How many components? Each candidate's mode on most of the rows, scored on the others.

Recommended is the smallest number whose score is within one standard error of the best, row by row. The score is that
of the mode, without chains: they would hardly change it, and take a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from scirocco.core.checks import require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.seeds import Purpose, generator
from scirocco.models.fit_location import FitLocation
from scirocco.models.von_mises_fisher import laws
from scirocco.models.von_mises_fisher.estimator import VonMisesFisherMixture
from scirocco.models.von_mises_fisher.search import SWEPT, Found

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT, MOST_HELD_OUT = 0.2, 10_000  # share of the rows, and how many at most
LEAST_ROWS = 20


@dataclass(eq=False)
class ComponentChoice:
    """What was found: ``table`` by number of components, ``recommended`` and the ``reason``.

    ``score`` is the mean log density of held-out rows, ``difference`` how far it is below the best, with its standard
    error over rows; ``concentration`` and ``dispersion`` are as in ``VonMisesFisherMixture``.
    """

    table: pd.DataFrame
    recommended: int
    reason: str

    def __str__(self) -> str:
        return f"{self.table.to_string(float_format=lambda x: f'{x:.4g}')}\n{self.reason}"

    __repr__ = __str__


@interruptible
def choose_components(
    X: Any, candidates: Iterable[int], *, random_state: Any = None, **settings: Any
) -> ComponentChoice:  # fmt: skip
    """Compare numbers of components by the log density of held-out rows.

    Parameters
    ----------
    X
        Unit vectors; a fifth of them, at most 10,000, is held out.
    candidates : Iterable[int]
        Numbers of components.
    random_state : optional
        Seed.
    settings
        What else ``VonMisesFisherMixture`` takes, such as concentration and normalize.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> X = sc.directional.sample(rng, np.eye(3).repeat(100, axis=0), 20.0)
    >>> sc.choose_components(X, [1, 2, 3, 4, 6], random_state=0).recommended
    3
    """
    import pandas as pd

    if "n_components" in settings:
        raise ValueError("n_components is chosen here: leave it out")
    reader = VonMisesFisherMixture(1, **settings)
    reader._check_settings()
    rows = reader._rows(X, reset=True)
    seed, held = FitLocation().seed(random_state), min(int(HELD_OUT * len(rows)), MOST_HELD_OUT)
    numbers = _candidates(candidates, len(rows) - held)
    order = generator(seed, Purpose.HELD_OUT).permutation(len(rows))
    train, test = rows[order[held:]], rows[order[:held]]
    scores: dict[int, np.ndarray] = {}
    found: dict[int, Found] = {}
    for k in numbers:
        found[k] = VonMisesFisherMixture(k, **settings)._start(train, seed, None)
        pieces = [logsumexp(logs, axis=1) for logs, _ in found[k].mixture.each_log_densities(test, SWEPT)]
        scores[k] = np.concatenate(pieces).astype(np.float64) - laws.log_area(rows.shape[1])
    best = max(numbers, key=lambda k: scores[k].mean())
    below = {k: scores[best] - scores[k] for k in numbers}
    errors = {k: below[k].std() / np.sqrt(held) for k in numbers}
    table = pd.DataFrame({
        "score": [scores[k].mean() for k in numbers], "difference": [below[k].mean() for k in numbers],
        "difference_error": [errors[k] for k in numbers], "concentration": [found[k].concentration for k in numbers],
        "dispersion": [found[k].dispersion for k in numbers],
    }, index=pd.Index(numbers, name="components"))  # fmt: skip
    recommended = min(k for k in numbers if below[k].mean() <= errors[k])
    if recommended == best:
        reason = f"{best} components predict held-out rows best, and no smaller number comes within a standard error"
    else:
        reason = f"{recommended} components are the fewest within a standard error of the best score, that of {best}"
    more = recommended == numbers[-1] and len(numbers) > 1
    return ComponentChoice(table, recommended, f"{reason}{'; it is the largest candidate: try more' if more else ''}.")


def _candidates(candidates: Iterable[int], rows: int) -> list[int]:
    numbers = list(candidates)
    if not numbers:
        raise ValueError("candidates is empty: give some numbers of components, such as [10, 20, 50]")
    for k in numbers:
        require_count("candidates", k)
    if rows < LEAST_ROWS:
        raise ValueError(f"{rows} rows beside those held out are too few to compare: at least {LEAST_ROWS}")
    if max(numbers) > rows:
        raise ValueError(f"candidates must not exceed the number of rows fitted, {rows}; got {max(numbers)}")
    return sorted({int(k) for k in numbers})
