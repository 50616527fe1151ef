"""Pages of every kind as their readers meet them: in a browser, without a network, with hostile names in them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from pages import HOSTILE, KINDS, counts, page

import scirocco as sc

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FIRST = "\u2714\u25d0\u21bb\u2716"  # marks of verdicts
MOST = 500_000  # bytes of a page but for its data


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the texts of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self._inside = [], {"script": [], "style": []}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self._inside = tag if tag in self.texts else None
        if self._inside:
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.texts[self._inside][-1] += data

    def count(self, tag):
        return sum(found == tag for found, _ in self.found)


@pytest.fixture(scope="module")
def chromium():
    """A browser; without one the tests that need it say so."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Opens a page, and looks at what it asked for and complained of when the test is over."""
    asked, said, contexts = [], [], []

    def opens(kind, **settings):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, "offline": True} | settings)
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.goto(page(kind).as_uri())
        return tab

    yield opens
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []
    assert said == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_one_file_with_the_verdict_first(kind):
    text = page(kind).read_text(encoding="utf-8")
    elements = Elements(text)
    scripts, (style,) = elements.texts["script"], elements.texts["style"]
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    data, script = scripts
    assert _digest(script) in policy
    assert _digest(style) in policy
    assert isinstance(json.loads(data), dict)
    assert len(text.encode()) - len(data.encode()) < MOST
    for tag, attributes in elements.found:
        assert tag not in ("img", "link", "iframe", "object", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert "src" not in attributes
    assert elements.count("script") == 2
    main = text.index("<main")
    assert main < text.index('id="verdict"') < text.index("</section>")
    assert re.search(f"[{FIRST}]", text[main:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_no_number_that_is_none(kind):
    assert not re.search(r">[^<]*\b(nan|inf|None)\b", page(kind).read_text(encoding="utf-8").partition("<script")[0])


def test_a_page_says_what_ran_in_the_words_of_its_model():
    clusters, topics = (page(kind).read_text(encoding="utf-8") for kind in ("clusters", "topics"))
    assert "<dd>120 rows</dd>" in clusters
    assert "<dd>90 documents; 1,911 tokens; 15 words</dd>" in topics
    for text in (clusters, topics):
        assert "<dt>sampler</dt><dd>collapsed</dd>" in text
        assert re.search(r"<dt>passes over the data</dt><dd>[\d.]+ of each chain</dd>", text)
    assert "<dt>draws</dt><dd>none</dd>" in page("diverged").read_text(encoding="utf-8")


def test_what_nuts_would_cost_is_in_the_time_of_this_run():
    text = page("posterior").read_text(encoding="utf-8")

    def found(pattern):
        return float(re.search(pattern, text)[1].replace(",", ""))

    seconds, passes = found(r"<dd>([\d.e-]+) s, compiling not counted"), found(r"<dd>([\d.,]+), each chain its own")
    wanted, cost = found(r"about ([\d,]+) passes over the data for"), found(r"gradients; ([\d.,e-]+) s at the time")
    assert cost == pytest.approx(wanted * seconds / passes, rel=0.05)  # rounded, all four


def test_one_chain_has_no_ranks():
    """They would be flat whatever it did."""
    one, four = (page(kind).read_text(encoding="utf-8") for kind in ("ratings", "posterior"))
    assert "Ranks by chain" in four
    assert "Ranks by chain" not in one
    assert "A shape for each chain" not in one
    assert "1 chain" in one


def test_topics_of_one_word(tmp_path):
    """It has no pair of words that could be coherent."""
    X = counts()[:, :1]
    model = sc.LDA(1, n_chains=1, max_iter=4, random_state=0).fit(X)
    text = model.report(tmp_path / "topics.html", X).read_text(encoding="utf-8")
    assert "coherence" not in text.partition("<script")[0]


def _digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_script_makes_no_markup_of_texts():
    script = Elements(page("topics").read_text(encoding="utf-8")).texts["script"][1]
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert name not in script


def test_a_diverged_run_says_so_before_all_else():
    text = page("diverged").read_text(encoding="utf-8")
    main = text[text.index("<main") :]
    assert re.search(r"Do not use it</p><ul><li>diverged: (beta|sigma)", main)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_its_window_and_names_its_parts(opened, kind):
    for width, scheme in ((390, "dark"), (1280, "light")):
        tab = opened(kind, viewport={"width": width, "height": 900}, color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ink, paper = tab.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert _contrast(ink, paper) > 7
        assert (_brightness(paper) < 0.2) == (scheme == "dark")
        for selector in ("pre", "caption:visible"):
            for wide in tab.locator(selector).evaluate_all("all => all.map(one => [one.scrollWidth, one.clientWidth])"):
                assert wide[0] <= wide[1] <= width
    assert tab.locator("main").count() == tab.locator("nav").count() == tab.locator("h1").count() == 1
    assert tab.locator("section:not([aria-labelledby])").count() == 0
    tables = "table:not(.u-legend)"  # which is part of a picture
    assert tab.locator(f"{tables} th:not([scope]), {tables}:not(:has(caption))").count() == 0
    assert tab.locator("svg[role=img]:not([aria-label])").count() == 0
    assert tab.locator("button").evaluate_all("all => all.every(one => one.textContent.trim())")
    ids = tab.locator("[id]").evaluate_all("all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))
    for link in tab.locator("nav a").evaluate_all("all => all.map(one => one.hash)"):
        assert link[1:] in ids


def _brightness(colour):
    shares = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(first, second):
    low, high = sorted([_brightness(first), _brightness(second)])
    return (high + 0.05) / (low + 0.05)


def test_hostile_names_are_text(opened):
    for kind in ("posterior", "topics", "clusters", "logistic", "directions", "components", "admixture"):
        tab = opened(kind)
        tab.wait_for_timeout(50)
        assert HOSTILE in tab.locator("body").text_content(), kind
        assert tab.locator("img").count() == 0


def test_tables_sort(opened):
    tab = opened("posterior")
    table = tab.locator("#estimates table").first
    heads = table.locator("thead th button")
    names = heads.all_text_contents()
    mean = names.index("mean")

    def column():
        cells = table.locator(f"tbody tr > :nth-child({mean + 1})")
        return cells.evaluate_all("all => all.map(one => Number(one.dataset.sort))")

    before = column()
    heads.nth(mean).click()
    assert column() == sorted(before)
    assert table.locator("thead th").nth(mean).get_attribute("aria-sort") == "ascending"
    heads.nth(mean).press("Enter")
    assert column() == sorted(before, reverse=True)
    assert table.locator("thead th").nth(mean).get_attribute("aria-sort") == "descending"
    assert len(set(before)) == len(before) == 4
    with tab.expect_download() as download:
        tab.locator("#estimates .save").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert lines[0].split(",")[: mean + 1] == names[: mean + 1]


def test_traces_are_drawn(opened):
    tab = opened("posterior")
    assert tab.locator(".trace canvas").count() == 4
    ink = "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(value => value)"
    assert tab.locator(".trace canvas").first.evaluate(ink)


def test_topics_by_relevance(opened):
    tab = opened("topics")
    first = tab.locator("#topic-words tbody th")

    def lifts():
        return [float(v) for v in tab.locator("#topic-words tbody td:last-child").all_text_contents()]

    def probabilities():
        return [float(v) for v in tab.locator("#topic-words tbody td:nth-child(3)").all_text_contents()]

    slider = tab.locator("#relevance")
    slider.fill("1")
    assert probabilities() == sorted(probabilities(), reverse=True)
    by_probability = first.all_text_contents()
    slider.press("Home")  # the keyboard moves it too
    assert tab.locator("#relevance-value").text_content() == "0.00"
    assert lifts() == sorted(lifts(), reverse=True)
    assert sorted(first.all_text_contents()) == sorted(by_probability)  # of so few words all are there


def _await_topic(tab):
    """The browser tells the page of a click some time after it; the page's policy forbids to wait for an expression."""
    from playwright.sync_api import expect

    expect(tab.locator("#topic-name")).to_be_focused()


def test_topics_one_at_a_time(opened):
    tab = opened("topics")
    name = tab.locator("#topic-name")
    shown = {name.text_content()}
    for _ in range(2):
        tab.get_by_role("button", name="next topic").click()
        _await_topic(tab)
        shown.add(name.text_content())
    assert len(shown) == 3
    number = tab.evaluate("location.hash").removeprefix("#topic-")
    assert tab.locator("[data-topic]:not([hidden])").evaluate_all("all => all.map(one => one.dataset.topic)") == [
        number
    ]
    place = tab.locator("a[data-place]").first
    place.focus()
    place.press("Enter")
    _await_topic(tab)
    assert tab.evaluate("location.hash") == f"#topic-{place.get_attribute('data-place')}"
    assert place.get_attribute("aria-current") == "true"


def test_search_finds_words_and_documents(opened):
    tab = opened("topics")
    search, found = tab.get_by_label("words and documents"), tab.locator("#found li")
    search.fill("RIVER")
    assert {text.split(":")[0] for text in found.all_text_contents()} == {"river"}
    assert tab.locator("#found-count").text_content() == f"{found.count()} found"
    search.fill("onerror")
    assert len(found.all_text_contents()) > 3
    assert all(HOSTILE in text for text in found.all_text_contents())
    found.locator("a").first.click()
    _await_topic(tab)
    assert tab.locator("#topic-name").text_content() == found.locator("a").first.text_content()
    search.fill("no such thing")
    assert found.count() == 0


def test_the_keyboard_goes_through_in_order(opened):
    tab = opened("topics")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.hash") == "#main"
    seen = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate("document.activeElement.getBoundingClientRect().top + scrollY"))
        if tab.evaluate("document.activeElement.id") == "search":
            break
    else:
        pytest.fail("the search is not reached")
    assert seen[0] < seen[-1]
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_what_is_unlikely_beyond_interest_is_not_told_to_the_last_zero(opened):
    tab = opened("topics")
    tab.locator("#relevance").fill("0")
    cells = tab.locator("#topic-words tbody td.num").all_text_contents()
    assert not [text for text in cells if re.search(r"e-([7-9]|\d\d)", text)]
    assert any("<1e-6" in text for text in cells)


def test_the_topic_that_is_shown_can_be_read_on_the_map(opened):
    for scheme in ("dark", "light"):
        place = opened("topics", color_scheme=scheme).locator("a[data-place][aria-current]")
        colours = [
            place.locator(part).evaluate("one => [getComputedStyle(one).fill, getComputedStyle(one).fillOpacity]")
            for part in ("circle", "text")
        ]
        assert [opacity for _, opacity in colours] == ["1", "1"]
        assert _contrast(colours[0][0], colours[1][0]) > 4.5


def test_printed(opened):
    tab = opened("posterior", color_scheme="dark")  # paper is white for all that
    tab.emulate_media(media="print")
    assert _brightness(tab.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    assert not tab.locator("nav").is_visible()
    assert not tab.locator(".save").first.is_visible()
    assert tab.locator(".verdict").is_visible()
    assert tab.pdf().startswith(b"%PDF")
