"""The page in a browser: Debian's Chromium driven by playwright, nothing downloaded."""

import re
import shutil

import numpy as np
import pandas as pd
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
    page.get_by_role("slider", name="Number of vectors").focus()
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
    page.get_by_role("slider", name="Number of vectors").scroll_into_view_if_needed()
    box = page.get_by_role("slider", name="Number of vectors").bounding_box()
    page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    assert state(page)["error"] != whole["error"]


def test_numbers_under_the_slider_are_those_of_the_table(visit):
    page = visit("classes")
    page.get_by_role("slider", name="Number of vectors").focus()
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
    page.get_by_role("slider", name="Number of vectors").focus()
    page.keyboard.press("ArrowLeft")  # the ring is for those who use keys
    assert page.evaluate("getComputedStyle(document.getElementById('size')).outlineStyle") == "solid"


# -- the model in the page ---------------------------------------------------------------------------------------


def table_of(n, seed=0):
    """Numbers with gaps, words, dates, and a column that says nothing."""
    rng = np.random.default_rng(seed)
    days = pd.to_datetime("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    frame = pd.DataFrame({
        "age": rng.integers(18, 80, n), "city": rng.choice(["Rome", "Oslo", "New York", "Lima"], n), "day": days,
        "income": np.round(np.exp(rng.normal(10, 0.5, n)), 2), "noise": rng.normal(size=n),
    })  # fmt: skip
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    price = frame["age"] + 30.0 * (frame["city"] == "Oslo") + 3.0 * frame["day"].dt.month + rng.normal(0, 5, n)
    return frame, price.rename("price")


@pytest.fixture(scope="module")
def models():
    frame, price = table_of(300)
    kind = np.array(["cheap", "middle", "dear"])[np.digitize(price, [70, 95])]
    dear = np.array(["no", "yes"])[(price > 85).astype(int)]
    settings = {"refine": False, "random_state": 0}
    return {
        "price": (CompactSVR(30, **settings).fit(frame, price), price),
        "kind": (CompactSVC(30, **settings).fit(frame, kind), kind),
        "dear": (CompactSVC(30, calibrate=True, **settings).fit(frame, dear), dear),
    }


@pytest.fixture(scope="module")
def open_report(browser, models, tmp_path_factory):
    """Pages of three models of tables, opened once each."""
    opened = {}

    def page_of(name, width=1200):
        if (name, width) not in opened:
            machine, target = models[name]
            path = tmp_path_factory.mktemp("reports") / "page.html"
            report(machine, table_of(300)[0], target, path, target=name, curves=name == "price")
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.set_default_timeout(120_000)
            page.on("pageerror", lambda error: pytest.fail(str(error)))
            page.goto(path.as_uri())
            opened[name, width] = page
        return opened[name, width]

    yield page_of
    for page in opened.values():
        page.close()


ASKED = """(rows) => {
    const machine = kompaktMachine(JSON.parse(document.getElementById('path-data').textContent).panel.machine);
    return rows.map((row) => [machine.predict(row), machine.scores(row), machine.probabilities(row)]);
}"""


@pytest.mark.parametrize("name", ["price", "kind", "dear"])
def test_the_page_predicts_as_the_model_does(open_report, models, name):
    frame, _ = table_of(200, seed=1)
    rows = [
        {**row, "day": f"{row['day']:%Y-%m-%d}", "income": None if row["income"] != row["income"] else row["income"]}
        for row in frame.to_dict("records")
    ]
    machine = models[name][0]
    labels, scores, chances = zip(*open_report(name).evaluate(ASKED, rows), strict=True)
    assert len(labels) == 200
    if name == "price":
        np.testing.assert_allclose(labels, machine.predict(frame), atol=1e-6)
        return
    assert list(labels) == machine.predict(frame).tolist()
    expected = machine.decision_function(frame)
    np.testing.assert_allclose(np.reshape(scores, expected.shape), expected, atol=1e-6)
    if name == "dear":
        np.testing.assert_allclose(chances, machine.predict_proba(frame), atol=1e-6)


STEPS = """() => JSON.parse(document.getElementById('path-data').textContent).panel.controls
    .find((control) => control.kind === 'steps').levels"""


def test_the_panel_answers_what_is_set(open_report, models):
    page, machine = open_report("price"), models["price"][0]
    frame, price = table_of(300)
    start = page.locator("#what-if-start")
    number = int(start.locator("option").nth(3).inner_text().split(":")[0].removeprefix("row ")) - 1
    start.select_option("3")
    label = page.locator("#what-if-label")
    expected = machine.predict(frame.iloc[[number]])[0]
    sync_api.expect(label).to_have_text(f"{expected:.4g}")
    changed = frame.iloc[[number]].assign(age=70, city="Oslo", income=np.nan)
    page.get_by_label("age", exact=True).last.fill("70")
    page.get_by_label("city", exact=True).select_option(label="Oslo")
    page.get_by_label("income", exact=True).last.fill("")
    sync_api.expect(label).to_have_text(f"{machine.predict(changed)[0]:.4g}")
    changed = changed.assign(city=None)
    page.get_by_label("city", exact=True).select_option(label="(missing)")
    sync_api.expect(label).to_have_text(f"{machine.predict(changed)[0]:.4g}")
    low, high = np.quantile(price - machine.predict(frame), [0.05, 0.95]) + machine.predict(changed)[0]
    interval = page.locator("#what-if-lines").inner_text()
    assert interval.startswith(f"nine of ten: {low:.4g} to {high:.4g}")
    dates = page.get_by_role("slider", name="day")
    # the slider stands where the row's own date is among the steps
    steps = page.evaluate(STEPS)
    assert steps[int(dates.input_value())] == f"{frame['day'][number]:%Y-%m-%d}"
    assert steps == sorted(steps)
    dates.focus()
    page.keyboard.press("Home")
    day = page.locator(".steps output").inner_text()
    sync_api.expect(label).to_have_text(f"{machine.predict(changed.assign(day=pd.Timestamp(day)))[0]:.4g}")
    page.get_by_role("button", name="Start again").click()
    sync_api.expect(label).to_have_text(f"{expected:.4g}")


def test_typical_cases_are_given_rows_of_the_predicted_class(open_report, models):
    page = open_report("dear")
    frame, _ = table_of(300)
    page.locator("#what-if-start").select_option("2")
    page.wait_for_function("document.querySelectorAll('#what-if-cases li').length === 3")
    truths = models["dear"][1]
    said = page.locator("#what-if-label").inner_text()
    cases = page.locator("#what-if-cases li").all_inner_texts()
    for case in cases:
        number = int(re.search(r"row (\d+)", case).group(1)) - 1
        assert case.startswith(truths[number])
        assert f"age {frame['age'][number]}" in case
    assert sum(case.startswith(said) for case in cases) >= 2
    assert page.locator("#what-if-far").is_hidden()
    page.get_by_label("age", exact=True).last.fill("900")
    sync_api.expect(page.locator("#what-if-far")).to_be_visible()


def test_the_threshold_counts_rows_and_costs(open_report, models):
    page, (machine, truth) = open_report("dear"), models["dear"]
    chances = machine.predict_proba(table_of(300)[0])[:, 1]

    def shown(name):
        return page.locator(f"#threshold-{name}").inner_text()

    own = machine.predict(table_of(300)[0]) == "yes"
    assert int(shown("hits")) == np.sum(own & (truth == "yes"))
    assert int(shown("alarms")) == np.sum(own & (truth == "no"))
    assert shown("precision") == f"{100 * np.mean(truth[own] == 'yes'):.1f} %"
    page.get_by_label("cost of a missed case").fill("20")
    page.get_by_role("button", name="Go to the cheapest").click()
    hits, alarms, missed = (int(shown(name)) for name in ("hits", "alarms", "missed"))
    assert hits + missed == np.sum(truth == "yes")
    assert int(shown("cost").replace(",", "")) == alarms + 20 * missed
    best = min(
        np.sum((chances > at) & (truth == "no")) + 20 * np.sum((chances <= at) & (truth == "yes"))
        for at in np.quantile(chances, np.linspace(0, 1, 101))
    )
    assert alarms + 20 * missed <= best
    page.get_by_role("slider", name="Threshold").focus()
    page.keyboard.press("End")
    assert shown("precision") == "none announced"
    assert shown("recall") == "0.0 %"


CUT_OFF = """() => Array.from(document.querySelectorAll('main *')).filter((one) => {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const unseen = one.closest('.unseen, [hidden], template') || style.clipPath !== 'none' || box.width === 0;
    const leaves = box.right > document.documentElement.clientWidth + 1 && !one.closest('svg');
    return !unseen && (leaves || (style.overflowX !== 'visible' && one.scrollWidth > one.clientWidth + 1));
}).map((one) => one.tagName + '.' + one.className + ': ' + one.textContent.trim().slice(0, 60))"""


@pytest.mark.parametrize("width", [1200, 400])
@pytest.mark.parametrize("name", ["price", "kind", "dear"])
def test_nothing_is_cut_off(open_report, name, width):
    page = open_report(name, width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(CUT_OFF) == []
    # text of a figure stays inside its drawing
    outside = """() => Array.from(document.querySelectorAll('main svg text')).filter((one) => {
        const text = one.getBoundingClientRect(), box = one.closest('svg').getBoundingClientRect();
        const edges = [box.left - text.left, text.right - box.right, box.top - text.top, text.bottom - box.bottom];
        return Math.max(...edges) > 6;
    }).map((one) => one.textContent)"""
    assert page.evaluate(outside) == []
