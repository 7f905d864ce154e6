"""The page in a browser: Debian's Chromium driven by playwright, nothing downloaded."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from kompakt import CompactSVC, CompactSVR, report

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser test needs the extra `browser` (playwright)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser test needs Chromium (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=120_000)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    X, y = make_moons(300, noise=0.25, random_state=0)
    names = np.array(["<script>document.title='broken'</script>", "x" * 300])
    classifier = CompactSVC(20, refine=False, random_state=0).fit(X, names[y])
    iris = load_iris()
    return {
        "classes": report(classifier, X, names[y], folder / "classes.html"),
        "values": report(
            CompactSVR(12, refine=False, random_state=0).fit(X, X[:, 0] * X[:, 1]),
            X,
            X[:, 0] * X[:, 1],
            folder / "v.html",
        ),
        "lines": report(
            CompactSVC(9, refine=False).fit(iris.data, iris.target),
            iris.data,
            iris.target,
            folder / "l.html",
        ),
    }


@pytest.fixture
def visit(browser, pages):
    """Open a page and fail on any console message, script error or request beyond the file itself."""
    contexts, complaints, requests = [], [], []

    def open_page(name, width=1200, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        context.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        page.goto(pages[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in requests), requests
    assert sum(url.startswith("file:") for url in requests) == len(contexts)


def state(page):
    return page.evaluate(
        """() => ({
            shown: document.getElementById('size-output').textContent,
            error: document.getElementById('now-error').textContent,
            time: document.getElementById('now-time').textContent,
            rule: document.getElementById('marker-rule').getBoundingClientRect().x,
            cells: Array.from(document.querySelectorAll('#confusion td'), (cell) => cell.textContent).join(),
            dots: Array.from(document.querySelectorAll('#residuals use'), (dot) => dot.getAttribute('y')).join(),
            faded: document.querySelectorAll('.vector.off').length,
            said: document.getElementById('size').getAttribute('aria-valuetext'),
        })"""
    )


@pytest.mark.parametrize(("name", "figure"), [("classes", "cells"), ("values", "dots")])
def test_the_keyboard_moves_the_figures(visit, name, figure):
    page = visit(name)
    whole = state(page)
    assert whole["faded"] == 0
    assert page.get_by_role("slider", name="Number of vectors").count() == 1
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    smaller = state(page)
    for key in ("shown", "error", "rule", figure, "said", "faded"):
        assert smaller[key] != whole[key], key
    assert smaller["said"] == f"{smaller['shown']} vectors"
    page.keyboard.press("Home")
    assert state(page)["shown"] == "1"
    sync_api.expect(page.locator("#live")).to_contain_text("1 vectors: error ", timeout=60_000)
    page.keyboard.press("End")
    assert state(page) == whole


def test_the_pointer_moves_the_figures_too(visit):
    page = visit("classes")
    whole = state(page)
    box = page.get_by_role("slider").bounding_box()
    page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    assert state(page)["error"] != whole["error"]


def test_numbers_under_the_slider_are_those_of_the_table(visit):
    page = visit("classes")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    now = state(page)
    counts = [int(cell) if cell != "·" else 0 for cell in now["cells"].split(",")]
    assert now["error"] == f"{100 * (counts[1] + counts[2]) / sum(counts):.1f} %"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["classes", "values", "lines"])
def test_a_phone_needs_no_sideways_scroll(visit, name, scheme):
    page = visit(name, width=360, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.title() != "broken"
    paper, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    light = [sum(int(part) for part in colour[4:-1].split(",")) for colour in (paper, ink)]
    assert abs(light[0] - light[1]) > 550
    assert (light[0] > light[1]) == (scheme == "light")
    drawn = page.evaluate("Array.from(document.querySelectorAll('svg text'), (one) => getComputedStyle(one).fill)")
    assert drawn.count(ink) > 10  # the figures have the colours of the page
    lines = page.evaluate("Array.from(document.querySelectorAll('svg path'), (one) => getComputedStyle(one).stroke)")
    assert ("rgb(0, 114, 178)" in lines, "rgb(86, 180, 233)" in lines) == (scheme == "light", scheme == "dark")


def test_the_tab_key_reaches_what_can_be_used(visit):
    page = visit("classes")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + (document.activeElement.id || '')"))
    assert "INPUTsize" in reached
    assert "SUMMARY" in reached
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")  # the ring is for those who use keys
    assert page.evaluate("getComputedStyle(document.getElementById('size')).outlineStyle") == "solid"
