"""Every snippet of the README and of the documentation runs, in the order of its page.

What a page takes for granted (data, functions, a smaller budget) stands in a comment of it, ``invisible-code-block``.
"""

import ast
import importlib
import inspect
import re
from contextlib import suppress
from pathlib import Path
from unittest import SkipTest

import pytest

pytest.importorskip("sybil", reason="snippets are found by Sybil")

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

import scirocco as sc

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").exists():
    pytest.skip("the archive of sources has no docs", allow_module_level=True)
IN_TEXT = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
NAME = re.compile(r"(?<![\w.])sc(?:\.\w+)+")
RESULT = re.compile(r"\{result\}`([^`]+)`")
SNIPPET = re.compile(r"^```(python|\{code-cell\})", re.MULTILINE)
BLOCK = re.compile(r"^(?:```python|<!-- invisible-code-block: python)\n(.*?)(?:^```|-->)", re.MULTILINE | re.DOTALL)
FOUND = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("[!_]*/*.md"))]
QUICK = {"README.md", "docs/start/own_model.md", "docs/start/topics.md"} | {
    f"docs/guides/{name}.md" for name in ("data", "partitions", "pictures", "verdict")
}  # the others compile much
PAGES = [
    page if page in QUICK else pytest.param(page, marks=pytest.mark.slow)
    for page in FOUND
    if SNIPPET.search((ROOT / page).read_text())
]
SYBIL = Sybil([SkipParser(), PythonCodeBlockParser()], path=str(ROOT), patterns=["*.md"])


@pytest.mark.filterwarnings("default")  # so few rows and draws are worth a warning
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch, ticking):
    monkeypatch.chdir(tmp_path)
    ticking(0.01)  # budgets of seconds end after so many looks at the clock
    examples = list(SYBIL.parse(ROOT / page).examples())
    assert len(examples) >= len(SNIPPET.findall((ROOT / page).read_text()))
    for example in examples:
        with suppress(SkipTest):  # what needs a library that is not here
            example.evaluate()


@pytest.mark.parametrize("page", FOUND)
def test_the_snippets_of_a_page_are_code(page):
    """Those of pages whose snippets run in the slow tests alone, too."""
    text = (ROOT / page).read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) >= len(re.findall(r"^```python$", text, re.MULTILINE))
    assert all(ast.parse(block).body for block in blocks if block.strip())


def test_results_that_pages_quote_are_stored(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    value = importlib.import_module("stored").value
    quoted = {name for page in (ROOT / "docs").glob("[!_]*/**/*.md") for name in RESULT.findall(page.read_text())}
    assert quoted
    assert all(value(name) for name in quoted)
    with pytest.raises((OSError, LookupError)):
        value("double_well no such entry")


def named(name):
    """What a name that begins with ``sc.`` stands for."""
    found = sc
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("page", FOUND)
def test_code_within_sentences_names_what_there_is(page):
    """It does not run, as snippets do; but its names exist, and its calls have settings of these names."""
    for code in (found.replace("\\|", "|") for found in IN_TEXT.findall((ROOT / page).read_text())):
        for name in NAME.findall(code):
            named(name)
        with suppress(SyntaxError):  # of words, and of shortened code
            for call in ast.walk(ast.parse(code)):
                if isinstance(call, ast.Call) and NAME.fullmatch(ast.unparse(call.func)):
                    settings = inspect.signature(named(ast.unparse(call.func))).parameters
                    assert {word.arg for word in call.keywords} <= set(settings), code
