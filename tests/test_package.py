"""What is published fits together: extras, versions, and the commands of the workflows."""

import re
import tomllib
from pathlib import Path

import pytest

import scirocco as sc

ROOT = Path(__file__).parents[1]
if not (ROOT / "Makefile").exists():
    pytest.skip("the files that are looked at are in the repository only", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert PROJECT["version"] == sc.__version__
    assert f"\nversion: {PROJECT['version']}\n" in citation


def test_all_extras_are_in_the_table():
    table = (ROOT / "docs" / "guides" / "installing.md").read_text()
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    inside = {"bench", "dev", "experiments", "test"}  # for work on the library
    assert set(named) == set(PROJECT["optional-dependencies"]) - inside
    together = re.search(r"\[(.*)\]", PROJECT["optional-dependencies"]["all"][0])[1].split(",")
    assert set(together) <= set(named)


def test_workflows_call_what_the_makefile_has():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / ".ci" / "run"]
    call = re.compile(r"(?:run: |entry: |^ *|! |if )make (?:--silent )?([a-z][\w-]*(?: [a-z][\w-]*)*)", re.MULTILINE)
    used = {path.name: set(" ".join(call.findall(path.read_text())).split()) for path in files}
    assert {"tests.yml", "docs.yml", "release.yml", "run"} <= {name for name, words in used.items() if words}
    assert {name: words - targets for name, words in used.items() if words - targets} == {}


def test_versions_of_python_are_those_that_are_tested():
    said = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    for file in (".github/workflows/tests.yml", ".ci/run"):
        assert said <= set(re.findall(r"\b3\.\d\d\b", (ROOT / file).read_text())), file
