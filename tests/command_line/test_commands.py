"""Commands as their users have them: on a terminal, in a pipe, interrupted, and gone on with."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pexpect
import pytest

import scirocco as sc
from scirocco.command_line import demo, reproduce
from scirocco.command_line.app import run
from scirocco.command_line.outcome import WrongCall
from scirocco.command_line.sample import Sample
from scirocco.command_line.topics import Topics

SCIROCCO = [sys.executable, "-m", "scirocco"]
WORDS = [["wind", "sand", "dune", "storm", "heat"], ["puck", "goal", "team", "stick", "rink"]]
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"
MODEL = """
    import jax.numpy as jnp
    import numpy as np
    import scirocco as sc

    data = np.random.default_rng(0).normal(2.0, 1.0, (500, 2)).astype(np.float32)
    target = sc.Target(lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum((x - m) ** 2), data)
    initial = jnp.zeros(2)
    short, wild = sc.SGLD(step_size=1e-4), sc.SGHMC(step_size=10.0)
"""
SETTINGS = ["--sampler", "model:short", "--burn-in", "50", "--thin", "1", "--batch-size", "50", "--chains", "2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts of two topics, a survey of two kinds of people, and a model."""
    folder, rng = tmp_path_factory.mktemp("commands"), np.random.default_rng(0)
    kinds = rng.integers(2, size=200)
    with (folder / "docs.jsonl").open("w") as lines:
        for d, k in enumerate(kinds):
            words = [WORDS[k if rng.random() < 0.95 else 1 - k][j] for j in rng.integers(5, size=30)]
            record = {"text": " ".join(words), "year": 2000 + int(k), "title": f"{HOSTILE} {d}"}
            lines.write(json.dumps(record) + "\n")
    with (folder / "survey.csv").open("w") as lines:
        lines.write("id,age,job\n")
        lines.writelines(f"{i},{rng.normal(30 + 30 * k, 3):.1f},{'baker' if k else 'sailor'}\n"
                         for i, k in enumerate(kinds))  # fmt: skip
    (folder / "model.py").write_text(textwrap.dedent(MODEL))
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.delitem(sys.modules, "model", raising=False)  # of another folder
    return place


def spoken(call, capsys):
    """What a command prints as JSON."""
    code = run([*call, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # the child becomes another program at once
def test_ctrl_c_on_a_terminal_and_the_way_on(here, capsys):
    """What was stopped goes on bit for bit: the draws are those of a run that never stopped."""
    call = ["sample", "model:target", *SETTINGS, "--draws", "20000", "--seed", "3", "--out", "run"]
    terminal = pexpect.spawn(
        SCIROCCO[0], [*SCIROCCO[1:], *call], timeout=120, encoding="utf-8", codec_errors="replace", dimensions=(40, 140)
    )
    terminal.expect("compiling")  # noted now, obeyed when the compiler is done
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130
    assert re.search(r"interrupted at step [\d,]+ of 20,050; [\d,]+ draws of each chain so far\r\n", terminal.before)
    assert "stopped, and nothing is lost; to go on: scirocco resume run\r\n" in terminal.before
    assert "Traceback" not in terminal.before

    code, facts = spoken(["info", "run"], capsys)
    assert (facts["what"], facts["kind"], facts["finished"]) == ("scirocco sample", "sample", False)
    assert facts["draws"] < facts["draws_wanted"] == 20000
    assert code in (0, 3)

    code, facts = spoken(["resume", "run", "--quiet"], capsys)
    assert (facts["stopped"], facts["draws"], facts["chains"]) == (None, 20000, 2)
    assert [row["name"] for row in facts["parameters"]] == ["theta[0]", "theta[1]"]
    import model

    trace = sc.sample(
        model.target, model.short, model.initial, num_samples=20000, burn_in=50, thin=1, batch_size=50, chains=2, seed=3
    )
    np.testing.assert_array_equal(sc.Trace.load(here / "run" / "run").posterior["theta"], trace.posterior["theta"])
    assert facts["verdict"] == trace.verdict().kind
    assert code == (3 if trace.verdict().kind == "do not use it" else 0)
    assert (here / "run" / "report.html").read_text().startswith("<!doctype html>")

    assert run(["info", "run"]) == code
    assert "scirocco sample model:target --seed 3 --sampler model:short" in capsys.readouterr().out
    (here / "elsewhere").mkdir()
    os.chdir("elsewhere")
    assert run(["resume", "../run"]) == 2
    assert "change to that folder first" in capsys.readouterr().err


def test_topics_in_a_pipe(place, here, capsys):
    """JSON on the one stream, lines of progress on the other; the page has the titles as text."""
    call = ["topics", "docs.jsonl", "--topics", "2", "--passes", "60", "--max-share", "1", "--title", "title", "--by",
            "year", "--out", "piped", "--json"]  # fmt: skip
    done = subprocess.run([*SCIROCCO, *call], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["verdict"] == "use it"
    assert facts["stopped"] is None
    found = sorted(sorted(topic["words"][:5]) for topic in facts["topics"])
    assert found == sorted(map(sorted, WORDS))
    lines = done.stderr.splitlines()
    assert lines[0] == "scirocco: 200 documents, 6,000 tokens, 10 words"
    assert lines[-1].startswith("sampling 100%, 60.0/60 passes")
    assert "\x1b" not in done.stderr
    page = (place / "piped" / "report.html").read_text()
    assert "<img" not in page
    assert "\x1b" not in page
    assert "Share of topic 0 by year" in page
    assert 'class="band"' in page  # years are joined, as numbers that have an order
    table = (place / "piped" / "topics.csv").read_text().splitlines()
    assert len(table) == 3

    assert run(["report", "piped", "--to", "again.html"]) == 0
    assert "<img" not in (place / "again.html").read_text()
    before = (place / "piped" / "model.npz").read_bytes()
    assert run(["resume", "piped", "-q"]) == 0  # all is done: the same results are written again
    assert re.search(r"^ +\d  \d+\.\d%  .*(wind|sand|dune|storm|heat)", capsys.readouterr().out, re.MULTILINE)
    model = sc.LDA.load(place / "piped" / "model.npz")
    (place / "before.npz").write_bytes(before)
    np.testing.assert_array_equal(model.components_, sc.LDA.load(place / "before.npz").components_)
    assert spoken(["info", "piped/model.npz"], capsys)[1]["what"] == "a fitted LDA"


def test_a_run_of_python_goes_on_by_the_name_of_its_target(here, capsys):
    import model

    sc.sample(model.target, model.short, model.initial, num_samples=200, burn_in=50, thin=1, batch_size=50, chains=2,
              max_seconds=1e-9, path="python-run", progress=False)  # fmt: skip
    assert run(["resume", "python-run"]) == 2
    assert "runs hold no data: scirocco resume python-run module:target" in capsys.readouterr().err
    code, facts = spoken(["resume", "python-run", "model:target", "--max-seconds", "1000", "-q"], capsys)
    assert (facts["draws"], facts["stopped"]) == (200, None)
    assert code in (0, 3)
    assert run(["report", "python-run"]) == code
    assert (here / "python-run.html").is_file()


def test_a_diverged_run_says_do_not_use_it(here, capsys):
    call = ["sample", "model:target", "--sampler", "model:wild", "--draws", "100", "--burn-in", "0", "--thin", "1",
            "--batch-size", "50", "--chains", "2", "--out", "wild", "-q"]  # fmt: skip
    assert run(call) == 3
    out, err = capsys.readouterr()
    assert out.startswith("verdict: do not use it\n")
    assert err.startswith("scirocco: error: ")
    assert "step" in err
    first = out.partition("\n\n")[0]
    assert run(["info", "wild"]) == 3
    assert first in capsys.readouterr().out  # the same verdict, with the same next step
    assert run(["report", "wild"]) == 3
    assert capsys.readouterr().out.startswith(f"{first}\n\n")
    assert "do not use it" in (here / "wild" / "report.html").read_text().partition("</section>")[0].lower()


def test_clusters(here, capsys):
    code, facts = spoken(["cluster", "survey.csv", "--leave-out", "id", "--passes", "100", "--out", "people", "-q"],
                         capsys)  # fmt: skip
    assert code == 0
    assert facts["clusters"] == 2
    assert sum(facts["numbers"].values()) == pytest.approx(1)
    rows = np.genfromtxt(here / "people" / "rows.csv", delimiter=",", names=True)
    jobs = [line.split(",")[2] == "baker" for line in (here / "survey.csv").read_text().split()[1:]]
    same = np.mean(rows["cluster"] == np.array(jobs))
    assert max(same, 1 - same) > 0.95
    assert {"clusters.csv", "profiles.csv", "report.html", "model.npz"} <= set(os.listdir(here / "people"))
    assert run(["cluster", "survey.csv", "--column", "age", "--out", "people"]) == 2
    assert "people is not empty: give another folder with --out, or go on with it: scirocco resume people" in (
        capsys.readouterr().err
    )


def test_the_corpus_of_the_demo():
    found = list(demo.docstrings(("platformdirs", "no_such_package")))
    assert {record["package"] for record in found} == {"platformdirs"}
    assert any("user_cache" in record["text"] or "directory" in record["text"] for record in found)
    assert all(len(record["text"]) > demo.SHORTEST for record in found)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # topics of noise are worth a warning
def test_the_demo(here, capsys, monkeypatch):
    """Both jobs on little data; the pages are named at the end."""
    rng, words = np.random.default_rng(0), [a + b + "nd" for a in "bfhlmsw" for b in "aeiou"]
    records = [{"name": "n", "package": "p", "text": " ".join(rng.choice(words, 8))} for _ in range(200)]
    monkeypatch.setattr(demo, "docstrings", lambda: iter(records))
    code = run(["demo", "--out", "tour", "--max-seconds", "1", "--rows", "2000", "-q"])
    out, err = capsys.readouterr()
    assert code in (0, 3)
    assert all(line.startswith("scirocco: warning: ") for line in err.splitlines())
    assert out.count("verdict: ") == 2
    assert "Logistic regression on 2,000 rows" in out
    for page in ("topics", "regression"):
        assert (here / "tour" / page / "report.html").is_file()
        assert f"tour/{page}/report.html" in out.splitlines()[-1]
    assert run(["demo", "--out", "tour"]) == 2


def test_advice_is_a_command():
    topics = Topics(corpus=["a b.txt"], topics=20, max_seconds=10.0)
    assert topics.next_command("model.set_params(n_chains=4).fit(X)", Path("out")) == (
        "scirocco topics 'a b.txt' --max-seconds 10.0 --topics 20 --chains 4 --out out-2"
    )
    assert topics.next_command("model.set_params(max_seconds=50).fit(X)", Path("out")) == (
        "scirocco resume out --max-seconds 50"
    )
    sample = Sample(target="m:t", directory="/")
    longer = "sc.sample(target, sampler, initial, num_samples=1000, chains=4, seed=0, thin=3, burn_in=1500)"
    assert sample.next_command(longer, Path("out")) == ("scirocco sample m:t --burn-in 1500 --thin 3 --out out-2")
    other = 'sc.sample(target, sc.UnderdampedLangevin(step_size="auto"), initial, num_samples=1000)'
    assert sample.next_command(other, Path("out")) == "scirocco sample m:t --sampler UnderdampedLangevin --out out-2"
    for other in ("sc.NUTS(acceptance=0.95)", "sc.UnderdampedLangevin(step_size=sc.Auto(sd_error=0.02))"):
        code = f"sc.sample(target, {other}, initial, num_samples=1000)"
        assert sample.next_command(code, Path("out")) == code  # no option says that
    for name in ("zigzag", "Preconditioned"):
        with pytest.raises(WrongCall, match="is none of Barker, GMC"):
            Sample(target="m:t", directory="/", sampler=name)._sampler()
    chosen = "sc.sample(target, sc.NUTS(), initial, num_samples=2000, chains=4, seed=0, burn_in=1000, thin=1)"
    assert sample.next_command(chosen, Path("out")) == (
        "scirocco sample m:t --sampler NUTS --draws 2000 --thin 1 --out out-2"
    )
    assert sample.next_command("", Path("out")) == ""


def test_experiments_are_listed_and_run(tmp_path, capfd, monkeypatch):
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "common.py").write_text('"""Shared."""\ndef main(): ...\n')
    (folder / "flow.py").write_text('"""How sand flows."""\nimport sys\ndef main(): ...\nprint(sys.argv[1:])')
    (folder / "helper.py").write_text('"""No experiment."""')
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "src" / "scirocco" / "command_line" / "reproduce.py"))
    assert run(["reproduce", "--list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"flow": "How sand flows."}
    assert run(["reproduce", "flow", "--mode", "tiny", "--output", "pictures"]) == 0
    assert capfd.readouterr().out == "['--mode', 'tiny', '--output', 'pictures']\n"
    (folder / "flow.py").write_text("def main(): ...\nraise SystemExit('no sand')")
    assert run(["reproduce", "flow"]) == 1
