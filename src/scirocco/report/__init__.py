"""Pages of results, to look at and to pass on: ``trace.report("run.html")``, ``model.report("topics.html")``.

A page is one file that works without a network: plain HTML, pictures as SVG, one block of JSON, and one script.
It is made from what the run keeps; data are looked at only where they are given.
"""

from scirocco.report.page import Page, Section
from scirocco.report.report import Report

__all__ = ["Page", "Report", "Section"]
