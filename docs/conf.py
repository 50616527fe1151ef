"""The site: ``make docs``. Pages are Markdown; what Sphinx needs besides is in ``_extensions``, a file each."""

import sys
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(Path(__file__).parent / "_extensions"))
warnings.filterwarnings("ignore", ".*ArviZ is undergoing a major refactor.*")

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = "scirocco"
author = "The scirocco authors"
copyright = author
release = version = PYPROJECT["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "numpydoc",
    "docstrings",
    "gallery",
    "results",
    "sources",
]
exclude_patterns = ["_build", "_extensions"]

# Pages that are notebooks (the front matter says so) are executed, and their outputs kept until the page changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "docs" / "_build" / "executed")
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False, "exclude-members": "init, step"}
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "scirocco"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_align": "left",
}
