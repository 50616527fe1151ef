"""Everything that can be wrong with a call: one line on the standard error, the right exit code, nothing begun."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

from scirocco.command_line import reproduce
from scirocco.command_line.app import run

TEXTS = ["sand and wind over dunes", "wind and sand", "dunes of sand", "wind over sand dunes"] * 3
MODEL = """
    import jax.numpy as jnp
    import scirocco as sc

    target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    number = 3

    def broken():
        return 1 / 0
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with files of all kinds, the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "model", raising=False)
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    (tmp_path / "fails.py").write_text("import numpy\nnumpy.no_such_name\n")
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in TEXTS))
    (tmp_path / "table.csv").write_text("id,age\n1,30\n2,40\n")
    (tmp_path / "gap.csv").write_text("name,age\na,\nb,\n")
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfePNG")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "one.txt").write_text("sand and wind")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("sand")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(np.ones((3, 4))))
    return tmp_path


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["topics"], 2, "Missing argument"),
        (["topics", "docs.jsonl", "--topics", "none"], 2, "--topics"),
        (["topics", "docs.jsonl", "--topics", "0"], 2, "--topics"),
        (["topics", "nowhere"], 2, "there is no nowhere"),
        (["topics", "folder"], 2, "folder has no documents"),
        (["topics", "docs.jsonl"], 2, "has no text in the field 'text'; --field names another"),
        (["topics", "table.csv"], 2, "has no column 'text': it has 'id', 'age'; --field names another"),
        (["topics", "empty.csv"], 2, "empty.csv is not a table"),
        (["topics", "docs.jsonl", "table.csv"], 2, "a corpus is of one kind"),
        (["topics", "broken.npz"], 2, "holds no sparse matrix of counts"),
        (["topics", "one.txt", "--min-documents", "1", "--max-share", "1", "-qk", "2"], 1, "exceed the number of doc"),
        (["topics", "docs.jsonl", "--field", "body", "--min-documents", "500"], 1, "no word is left"),
        (["topics", "docs.jsonl", "--field", "body", "--stop-words", "klingon"], 2, "'english', 'none' or a file"),
        (["topics", "docs.jsonl", "--field", "body", "--out", "full"], 2, "full is not empty: give another folder"),
        (["topics", "docs.jsonl", "--field", "body", "--sampler", "x"], 2, "--sampler x is none of auto, gibbs"),
        (["topics", "docs.jsonl", "--field", "body", "--by", "year"], 2, "no field 'year' in its first 12 records"),
        (["topics", "table.csv", "--field", "id", "--title", "name"], 2, "has no column 'name': it has 'id', 'age'"),
        (["topics", "letters", "--by", "year"], 2, "has no fields: records are .jsonl"),
        (["topics", "docs.jsonl", "--max-seconds", "0"], 2, "must be greater than 0"),
        (["topics", "docs.jsonl", "--max-share", "0"], 2, "must be greater than 0"),
        (["topics", "picture.csv"], 2, "picture.csv is not text in UTF-8"),
        (["cluster", "nowhere.csv"], 2, "there is no file"),
        (["cluster", "picture.png"], 2, "is none of .csv, .tsv, .parquet, .npz"),
        (["cluster", "empty.csv"], 1, "is not a table"),
        (["cluster", "table.csv", "--column", "height"], 2, "has no column 'height': it has 'id', 'age'"),
        (["cluster", "table.csv", "--leave-out", "id", "--leave-out", "age"], 2, "has no columns left"),
        (["cluster", "table.csv", "--component", "x"], 2, "--component x is none of auto, multinomial"),
        (["cluster", "gap.csv", "-q"], 1, "column age has no entry"),
        (["cluster", "counts.npz", "--column", "age"], 2, "no columns to choose"),
        (["sample", "model"], 2, "'model' is not module:name"),
        (["sample", "mo/del:target"], 2, "is not module:name"),
        (["sample", "nowhere:target"], 2, "there is no module nowhere"),
        (["sample", "model:goal"], 2, "model has no 'goal': it has target, number, broken"),
        (["sample", "model:number"], 2, "must be an sc.Target, or a function that makes one; it is 3"),
        (["sample", "model:broken"], 1, "model.py, line 9: ZeroDivisionError: division by zero"),
        (["sample", "fails:target"], 1, "AttributeError: module 'numpy' has no attribute"),
        (["sample", "model:target"], 2, "model has no 'initial', where chains start"),
        (["sample", "model:target", "--sampler", "best"], 2, "--sampler best is none of"),
        (["resume", "nowhere"], 2, "there is no nowhere"),
        (["resume", "folder"], 2, "folder holds no run of scirocco"),
        (["report", "folder"], 2, "folder holds no run of scirocco"),
        (["info", "folder"], 2, "folder holds no run of scirocco"),
        (["info", "picture.png"], 2, "is no run, and no saved model"),
        (["info", "broken.npz"], 2, "broken.npz is no saved model"),
        (["reproduce", "nonsense"], 2, "there is no experiment 'nonsense'"),
        (["data", "nonsense"], 2, "there is no data set 'nonsense'"),
        (["data", "mnist", "--folder", "folder"], 1, "folder has no mnist.npz: SCIROCCO_DATA or the argument folder"),
    ],
)
def test_a_wrong_call_is_one_line(here, call, code, words, capsys):
    before = {path for path in here.rglob("*") if "__pycache__" not in path.parts}
    assert run(call) == code
    out, line = capsys.readouterr()
    assert out == ""
    assert line.startswith("scirocco: error: ")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert words in line
    made = {path for path in here.rglob("*") if "__pycache__" not in path.parts} - before
    assert not made


def test_debug_shows_where(here):
    with pytest.raises(ZeroDivisionError):
        run(["sample", "model:broken", "--debug"])


def test_a_folder_that_was_not_written_by_this_version(here, capsys):
    from scirocco.run.checkpoint import write_json

    write_json(here / "folder" / "command.json", {"command": "dance", "steps": 3})
    assert run(["info", "folder"]) == 1
    assert "is not of a command that this version of scirocco knows" in capsys.readouterr().err
    (here / "folder" / "command.json").write_text("{")
    assert run(["resume", "folder"]) == 1
    assert "damaged" in capsys.readouterr().err


def test_experiments_without_the_repository(here, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "__file__", str(here / "a" / "b" / "c" / "d" / "reproduce.py"))
    assert run(["reproduce", "--list"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "experiments are in the repository, not in the installed package: clone it" in line


@pytest.mark.quick
def test_help_version_and_completion_are_quick():
    """As processes: neither JAX nor Numba is imported for them; examples and exit codes are in the help."""
    code = """
        import sys
        from scirocco.command_line.app import run
        assert run(["topics", "--help"]) == run(["--version"]) == run([]) == 0
        print(sorted({"jax", "numba", "sklearn", "zarr", "pandas", "pooch"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "$ scirocco topics letters/ --topics 20" in done.stdout
    assert "130 interrupted and resumable" in done.stdout


@pytest.mark.quick
def test_the_library_imports_no_command_line():
    code = "import sys, scirocco; print({'typer', 'rich', 'pooch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(("words", "found"), [("scirocco to", "topics"), ("scirocco data msw", "msweb")])
def test_the_shell_completes(words, found, monkeypatch):
    asked = {"_SCIROCCO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    code = "from scirocco.command_line.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [found]
