"""Pictures for papers, with matplotlib (``pip install 'scirocco[plots]'``).

    axes = sc.plots.traces(trace)
    axes[0].figure.savefig("traces.pdf")

Each function draws what a trace or a model says of itself, ``trace.summary()``, ``model.top_words()`` and so on, and
computes no quantity of its own. Each takes the axes to draw on as ``ax`` and returns them: one, or an array where there
is a panel for each parameter or topic; without ``ax`` it makes a figure. Colours are Okabe and Ito's, and what they
tell apart differs in line, mark or place too. Names and words are shown as they are: no mathematics, no TeX.
"""

from scirocco.plots.calibration import calibration, coverage
from scirocco.plots.chains import ranks, traces
from scirocco.plots.clusters import cluster_numbers, co_clustering
from scirocco.plots.cost import bias_against_cost
from scirocco.plots.intervals import intervals
from scirocco.plots.topics import hierarchy, shares_by, topic_choice, topics

__all__ = [
    "bias_against_cost",
    "calibration",
    "cluster_numbers",
    "co_clustering",
    "coverage",
    "hierarchy",
    "intervals",
    "ranks",
    "shares_by",
    "topic_choice",
    "topics",
    "traces",
]
