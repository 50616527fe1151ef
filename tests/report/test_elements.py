"""Elements, numbers and data of pages, and what a page refuses."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest

import scirocco as sc
from scirocco.bias.report import BiasReport
from scirocco.report.elements import clean, element, markup, number, rounded
from scirocco.report.page import embedded
from scirocco.report.posterior import described_data, estimates_of
from scirocco.report.tables import told

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"), (1234, "1,234"), (0.012345, "0.0123"), (-1.5, "-1.50"), (123456.7, "123,457"), (1e-9, "1.00e-09"),
        (np.float32("nan"), "–"), (np.inf, "∞"), (-np.inf, "-∞"), (True, "yes"), (np.int64(7), "7"), ("word", "word"),
    ],
)  # fmt: skip
def test_numbers(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "sd", "shown"),
    [
        (-1.30712, 0.00346, "-1.3071"), (0.34544, 0.2, "0.35"), (1234.5, 12.0, "1,234"), (-0.001, 0.5, "0.00"),
        (2.5, 0.0, "2.50"), (3e-12, 1e-12, "3.00e-12"), (np.nan, 1.0, "–"),
    ],
)  # fmt: skip
def test_numbers_to_the_digits_that_their_sd_leaves(value, sd, shown):
    assert rounded(value, sd) == shown
    assert float(told([value], [sd])[0]) == pytest.approx(value, nan_ok=True)


def test_texts_and_attributes_are_escaped():
    title = '"><script>'
    found = markup(element("p", "<b>&", element("span", class_="a", title=title), "after"))
    assert found.startswith("<p>&lt;b&gt;&amp;<span ")
    seen = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append((tag, dict(attributes)))
    parser.feed(found)
    assert seen == [("p", {}), ("span", {"class": "a", "title": title})]


def test_characters_that_no_page_can_have():
    assert clean("a\x00b\ud800c\u202ed") == "a\ufffdb\ufffdcd"
    assert markup(element("p", "\x1b[31m")) == "<p>\ufffd[31m</p>"


def test_data_cannot_end_their_element():
    data = {"</script>": ["<!--", "\u2028", np.nan, np.float32(1) / 3, np.array([1, 2]), None, True]}
    text = embedded(data)
    assert not set("<>\u2028") & set(text)
    assert json.loads(text) == {"</script>": ["<!--", "\u2028", None, 0.33333, [1, 2], None, True]}


def test_what_fingerprints_say_of_data():
    arrays = {"x": ["float32", [20, 3], 4123], "disk": ["int8", 1000, [2], 99]}
    assert described_data(arrays) == "x: 20 x 3 float32; disk: 1,000 x 2 int8"
    counts = {"documents": 1500, "tokens": 9, "words": 2, "entries": [1, 2, 3], "values": 2_291_307_269}
    assert described_data(counts) == "1,500 documents; 9 tokens; 2 words"
    assert described_data(None) == ""


def test_an_unstable_step_has_no_estimate_of_its_bias():
    xarray = pytest.importorskip("xarray")
    draws = xarray.Dataset({"mu": (("chain", "draw"), RNG.normal(size=(2, 100)))})
    share, error = {"mu": np.zeros(())}, {"mu": np.array(0.01)}
    steady = BiasReport(share, error, 0.1)
    assert estimates_of(draws, steady)[0]["bias"].item() == 0.01
    assert "estimated error" in str(steady)
    leaping = BiasReport(share, error, 0.1, stiffest_error=np.inf)
    assert np.isnan(estimates_of(draws, leaping)[0]["bias"].item())
    assert "estimated error" not in str(leaping)


def test_wrong_calls(tmp_path):
    model = sc.LDA(2, max_iter=5, n_chains=1, random_state=0)
    with pytest.raises(Exception, match="not fitted"):
        model.report(tmp_path / "page.html")
    model.fit(RNG.poisson(2.0, (20, 4)))
    with pytest.raises(ValueError, match="is a folder"):
        model.report(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        model.report(tmp_path / "missing" / "page.html")
    with pytest.raises(ValueError, match="give X too"):
        model.report(tmp_path / "page.html", by=np.arange(20))
    with pytest.raises(TypeError, match="title must be text"):
        model.report(tmp_path / "page.html", title=3)
    assert list(tmp_path.iterdir()) == []
    assert model.report(tmp_path / "page.html") == tmp_path / "page.html"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_notebooks_have_the_verdict(tmp_path):
    model = sc.LDA(2, max_iter=5, n_chains=1, random_state=0)
    assert "verdict" not in model._repr_html_()
    model.fit(RNG.poisson(2.0, (20, 4)))
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert 'class="verdict' in shown
        assert "<script" not in shown[: shown.index("</details>")]
