"""Every experiment at a size that says nothing about its claims: it still runs, and all of its report is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SHARED = {"common", "rating_chains"}  # what other files of the folder import
SLOW = {"spherical_topics"}  # eleven methods to compile; tests/experiments/test_experiments_sam.py has its pieces
NAMES = sorted(path.stem for path in EXPERIMENTS.glob("*.py") if path.stem not in SHARED)


def test_every_experiment_is_made_by_make():
    text = (EXPERIMENTS.parent / "Makefile").read_text()
    assert [name for name in NAMES if f"experiments/{name}.py --output results" not in text] == []


@pytest.mark.filterwarnings("default")  # so few draws are worth a warning
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NAMES])
def test_an_experiment_runs(play, name, ticking, monkeypatch):
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    ticking(0.001)
    module, found, claims = play(name, "tiny")
    assert set(module.MODES) == {"tiny", "short", "full"}
    assert claims
    assert all(claim.holds is None or isinstance(claim.holds, bool | np.bool_) for claim in claims)
    assert any(character.isdigit() for character in module.table(found))
