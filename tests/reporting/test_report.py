"""The page as text: what it says must be what was measured, and nothing of a user's may become markup."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

import kompakt
from kompakt import CompactSVC, CompactSVR, FixedSizeLSSVC, GridSearch, KernelFisher, LocalSamplingSVC, SpSVC, report
from kompakt.estimators.records import seconds_of
from kompakt.kernels import Linear
from kompakt.reporting.measure import measure, nested_models, reliability, subject_of, worst_rows
from kompakt.reporting.text import number
from kompakt.reporting.training import search_of
from kompakt.search import Trials
from kompakt.search.fee import FeeSearch, Point

pytest.importorskip("matplotlib", reason="reports need the extra report")
pytest.importorskip("jinja2", reason="reports need the extra report")

X, y = make_moons(240, noise=0.25, random_state=0)
VOID = {"meta", "input", "img", "br", "link"}


class Reader(HTMLParser):
    """Checks that elements nest, and collects them."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text, self.inside = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
            self.inside.append(dict(attributes).get("id"))

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes) | {"inside": tuple(filter(None, self.inside))}))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.inside.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def read(path):
    reader = Reader()
    content = path.read_text(encoding="utf-8")
    reader.feed(content)
    assert reader.open == []
    identities = [attributes["id"] for _, attributes in reader.seen if "id" in attributes]
    assert len(identities) == len(set(identities))
    data = re.search(r'<script type="application/json" id="path-data">(.*?)</script>', content, re.S).group(1)
    return reader, json.loads(data), " ".join(" ".join(reader.text).split())


@pytest.fixture
def page(tmp_path):
    def write(machine, rows, targets, **options):
        path = report(machine, rows, targets, tmp_path / "page.html", **options)
        assert path.stat().st_size < 400_000
        assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]  # nothing half-written is left
        return read(path)

    return write


def test_the_last_size_is_the_machine_itself(page):
    machine = CompactSVC(12, random_state=0).fit(X, y)
    _, data, text = page(machine, X, y)
    assert data["sizes"] == [1, 2, 3, 5, 8, 12]
    wrong = int(np.sum(machine.predict(X) != y))
    cells = [int(cell) if cell != "·" else 0 for cell in data["cells"][-1]]
    assert cells[1] + cells[2] == wrong
    assert sum(cells) == len(y)
    assert f"{100 * wrong / len(y):.1f} %" in text
    for section in ("The data", "Settings tried, and why these", "Calibration", "The vectors", "Time per phase"):
        assert section in text
    assert "kompakt.load(" in text
    assert "CompactSVC(n_basis=12, random_state=0)" in text


def test_smaller_machines_match_the_outputs_by_least_squares():
    model = CompactSVC(9, gamma="ard", random_state=0).fit(X, y).model_
    models, order, _ = nested_models(model, X)
    assert sorted(order) == list(range(9))
    F = model.outputs(X)
    for one, size in zip(models[:-1], (1, 2, 3, 5, 8), strict=True):
        np.testing.assert_array_equal(one.basis, model.basis[order[:size]])
        K = np.column_stack([model.kernel.block(X, one.basis), np.ones(len(X))])
        best = K @ np.linalg.lstsq(K, F, rcond=None)[0]
        np.testing.assert_allclose(one.outputs(X), best, atol=1e-6 * np.abs(F).max())
    # the first vector is the one that matches best alone
    fits = []
    for j in range(9):
        K = np.column_stack([model.kernel.block(X, model.basis[[j]]), np.ones(len(X))])
        fits.append(np.sum((F - K @ np.linalg.lstsq(K, F, rcond=None)[0]) ** 2))
    assert order[0] == np.argmin(fits)


def test_all_sizes_are_measured_as_if_one_by_one():
    iris = load_iris()
    machine = CompactSVC(15, refine=False, random_state=0).fit(iris.data, iris.target)
    subject = subject_of(machine, iris.data, iris.target, 10_000, 0)
    models, _, _ = nested_models(subject.model, subject.X)
    measured = measure(models, subject)
    for s, model in enumerate(models):
        guess = model.predict(iris.data)
        assert measured.errors[s] == pytest.approx(np.mean(guess != iris.target))
        expected = np.histogram2d(iris.target, guess, bins=[np.arange(4) - 0.5] * 2)[0]
        np.testing.assert_array_equal(measured.confusion[s], expected)
    assert (measured.seconds > 0).all()


def test_regression_shows_residuals(page):
    target = np.sin(3 * X[:, 0]) + X[:, 1]
    machine = CompactSVR(10, C=10.0, random_state=0).fit(X, target)
    reader, data, text = page(machine, X, target)
    assert float(data["now"]["error"][-1]) == pytest.approx(
        np.sqrt(np.mean((machine.predict(X) - target) ** 2)), rel=1e-2
    )
    assert float(data["now"]["r2"][-1]) == pytest.approx(machine.score(X, target), abs=1e-3)
    points = [at for tag, at in reader.seen if tag == "use" and "residuals" in at["inside"]]
    assert len(points) == len(data["rx"][0]) == 240
    # drawn where the slider's last step puts them
    np.testing.assert_allclose([float(at["x"]) for at in points], data["rx"][-1], atol=0.1)
    np.testing.assert_allclose([float(at["y"]) for at in points], data["ry"][-1], atol=0.1)
    assert "confusion" not in text.lower()


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></script><h1>x",
    "a & b <i>",
    "\x00\x1b\ud800 ends",
    "x" * 5000,
    "$\\frac{1}$",
    "_\u6f22\u5b57\u202e \U0001f600",
]


def test_names_and_labels_never_become_markup(page):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 8)), columns=[name.replace("\ud800", "") for name in HOSTILE])
    labels = np.array(HOSTILE, dtype=object)[rng.integers(0, 8, 120)]
    machine = CompactSVC(12, refine=False, random_state=0).fit(table, labels)
    reader, data, text = page(
        machine, table, labels, title=HOSTILE[2], command=" ".join(HOSTILE), model_path="</code><script>x</script>"
    )
    assert sum(tag == "script" for tag, _ in reader.seen) == 2
    assert not any(name.startswith("on") for _, attributes in reader.seen for name in attributes)
    assert not {tag for tag, _ in reader.seen} & {"img"}
    assert sum(tag == "i" for tag, _ in reader.seen) == 16 * 8  # bars of the small histograms, none of a name
    assert sum(tag == "h1" for tag, _ in reader.seen) == 1
    assert len(data["cells"][0]) == 64
    drawn = text[
        text.index("The vectors") : text.index("Each column is a vector")
    ]  # names in a figure are text as well
    for name in ("<script>alert(1)", '"><img src=x onerr', "$\\frac{1}$", "_\u6f22\u5b57"):
        assert name in drawn


def test_nothing_is_loaded_from_elsewhere(tmp_path):
    digits = load_digits()
    machine = CompactSVC(12, refine=False, random_state=0).fit(digits.data, digits.target)
    report(machine, digits.data, digits.target, tmp_path / "page.html")
    reader, *_ = read(tmp_path / "page.html")
    assert sum(tag == "image" for tag, _ in reader.seen) == 12  # rows of digits are pictures
    assert not {tag for tag, _ in reader.seen} & {"link", "iframe", "object", "embed", "base"}
    (policy,) = (at["content"] for tag, at in reader.seen if tag == "meta" and "http-equiv" in at)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for tag, attributes in reader.seen:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        for name, value in attributes.items():
            assert value is None or "url(" not in value or value.startswith("url(#"), (tag, name, value)
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search("https?:|@import|url\\([^#]", content)


def test_figures_have_names_and_are_the_same_again(tmp_path):
    """Whatever a user's Matplotlib settings are, and whenever the page is made."""
    import matplotlib

    iris = load_iris()
    machine = CompactSVC(8, refine=False, tune=True, random_state=0).fit(iris.data, iris.target)
    found = []
    for settings in ({}, {"axes.facecolor": "black", "text.usetex": True, "font.size": 30.0, "svg.fonttype": "path"}):
        with matplotlib.rc_context(settings):
            report(machine, iris.data, iris.target, tmp_path / "page.html")
        found.append(re.findall("<svg.*?</svg>", (tmp_path / "page.html").read_text(encoding="utf-8"), re.S))
    assert len(found[0]) == 6 + 4 + 2 + 1  # and the curves of four columns, of rows and sizes, of the what-if panel
    assert found[0] == found[1]
    reader, *_ = read(tmp_path / "page.html")
    pictures = [attributes for tag, attributes in reader.seen if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in pictures)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_the_extra_the_error_names_it(monkeypatch, tmp_path, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "kompakt.reporting.figures", raising=False)
    with pytest.raises(ImportError, match=rf"needs {package}.*pip install 'kompakt\[report\]'"):
        report(CompactSVC(5, refine=False).fit(X, y), X, y, tmp_path / "page.html")


def test_a_model_from_a_file_shows_what_its_record_keeps(page, tmp_path_factory):
    machine = CompactSVC(8, calibrate=True, tune=True, random_state=0).fit(X[:120], np.array(["no", "yes"])[y[:120]])
    stored = tmp_path_factory.mktemp("model") / "m.kompakt"
    kompakt.save(machine, stored)
    model, labels = kompakt.load(stored), np.array(["no", "yes"])[y[120:]]
    command = "kompakt report m.kompakt rows.csv -o page.html"
    _, data, text = page(model, X[120:], labels, model_path="m.kompakt", command=command)
    assert command in text
    assert "CompactSVC: report" in text
    assert model.record.why in text
    assert f"of {model.record.n_tried} settings tried" in text
    assert f"digest {model.record.digest}" in text
    assert "training rows 120" in text
    assert "The fit:" in text
    assert "Brier score" in text
    assert data["sizes"][-1] == 8
    _, _, text = page(replace(model, record=None), X[120:], labels)
    assert "its file has no record" in text


def test_errors_on_training_rows_stand_beside_those_on_the_given_rows(page):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(400, 5)), rng.integers(0, 2, 400)  # nothing to learn but by heart
    machine = CompactSVC(60, gamma=1.0, C=1000.0, refine=False, random_state=0).fit(rows[:100], labels[:100])
    _, _, text = page(machine, rows[100:], labels[100:])
    before, after = (1.0 - machine.score(rows[part], labels[part]) for part in (slice(100), slice(100, None)))
    assert before < 0.6 * after
    percents = [f"{100 * error:.1f} %" for error in (before, after)]
    assert f"training rows 100 {percents[0]} given rows 300 {percents[1]}" in text
    assert "much larger than on the training rows" in text
    _, _, text = page(machine, rows[:100], labels[:100])
    assert "much larger than on the training rows" not in text


def test_a_chosen_plain_model_is_shown_though_a_refined_one_had_its_setting():
    trials = Trials()
    for model, C, error in (("plain", 1.0, 0.2), ("plain", 10.0, 0.1), ("refined", 10.0, 0.15), ("linear", 5.0, 0.05)):
        trials.add({"gamma": 0.5, "epsilon": None, "C": C}, error, model=model)
    trials.choose(trials.rows[1])
    search = search_of(SimpleNamespace(cv_results_=trials.as_dict()), None)
    assert search.C.tolist() == [1.0, 10.0]
    assert search.error.tolist() == [0.2, 0.1]
    assert search.chosen == 1


def test_reliability_of_probabilities():
    """The curve of a calibrated machine counts what it says it counts."""
    machine = CompactSVC(8, calibrate=True, random_state=0).fit(X, y)
    found = reliability(subject_of(machine, X, y, 1000, 0), machine.model_.outputs(X), n_bins=4)
    p = machine.predict_proba(X)[:, 1]
    cuts = np.quantile(p, [0.25, 0.5, 0.75])
    first = p < cuts[0]
    assert found.predicted[0] == pytest.approx(p[first].mean())
    assert found.observed[0] == pytest.approx(y[first].mean())
    assert found.brier == pytest.approx(np.mean((p - y) ** 2))
    assert (found.low <= found.observed).all()
    assert (found.observed <= found.high).all()


def test_searches_are_shown_with_their_choice(page):
    few = slice(0, 120)
    machines = [
        SpSVC(5, tune=GridSearch(C=[0.1, 10.0], gamma=[0.5, 2.0]), random_state=0),
        FixedSizeLSSVC(6, tune=True, cv=3, random_state=0),
        CompactSVC("auto", tune=True, refine=False, random_state=0),
    ]
    for machine in machines:
        search = search_of(machine.fit(X[few], y[few]), None)
        assert search.C[search.chosen] == pytest.approx(machine.C_)
        assert search.gamma[search.chosen] == pytest.approx(machine.gamma_)
        _, _, text = page(machine, X[few], y[few])
        assert "The ring is the one chosen" in text
    assert "During the fit, models trained at each size" in text
    assert set(seconds_of(machine)) >= {"search", "path of sizes", "selection"}


def test_the_search_of_fast_error_estimation():
    points = [Point(sigma, 10.0, np.array([0.2, sigma / 10]), np.array([5, 6])) for sigma in (1.0, 0.5, 2.0)]
    found = FeeSearch(points[1], points, [(3, 1)], 6, 30, 1.5, 1.0)
    machine = SimpleNamespace(search_=found, cv_results_=found.trials.as_dict())
    search = search_of(machine, None)
    assert search.chosen == 1
    np.testing.assert_allclose(search.gamma, [0.5, 2.0, 0.125])
    np.testing.assert_allclose(search.error, [0.15, 0.125, 0.2])
    assert seconds_of(machine) == {"search": 1.5}


@pytest.mark.parametrize(
    "machine",
    [
        LocalSamplingSVC(random_state=0),
        KernelFisher(),
        SVC(),
        make_pipeline(StandardScaler(), CompactSVC(1, refine=False)),
        make_pipeline(StandardScaler(), PCA(2), CompactSVC(4, refine=False)),
    ],
    ids=["local", "fisher", "svc", "scaled", "pca"],
)
def test_every_kind_of_machine(page, machine):
    machine.fit(X, y)
    _, data, _ = page(machine, X, y)
    wrong = int(np.sum(machine.predict(X) != y))
    cells = data["cells"][-1]
    assert sum(int(cells[k].replace("·", "0")) for k in (1, 2)) == wrong


def test_other_inputs(page):
    precomputed = CompactSVC(5, kernel="precomputed", refine=False).fit(X @ X.T, y)
    assert "cannot be saved or exported" in page(precomputed, X @ X.T, y)[2]
    csr = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    assert "stored entries" in page(CompactSVC(5, refine=False, random_state=0).fit(csr, y), csr, y)[2]
    outliers = kompakt.compress(OneClassSVM(nu=0.2).fit(X), n_basis=5, X=X, random_state=0)
    assert page(outliers, X, np.ones(len(X), dtype=int))[1]["sizes"][-1] == 5
    two = np.column_stack([X[:, 0], X[:, 1] ** 2])
    assert "of the first output" in page(CompactSVR(5, refine=False, random_state=0).fit(X, two), X, two)[2]


def test_odd_data(page):
    machine = CompactSVC(5, refine=False, random_state=0).fit(X, y)
    page(machine, X[:1], y[:1])
    page(machine, np.ones((20, 2)), np.tile([0, 1], 10))
    filled = replace(machine.model_, inputs=replace(machine.model_.inputs, fill=np.zeros(2)))
    assert "missing values" in page(filled, np.where(np.arange(2) == 0, np.nan, X), y)[2]
    constant = kompakt.Model(Linear(), np.zeros((0, 3)), np.zeros((0, 1)), np.ones(1), "regressor", n_features=3)
    assert "its answer is a constant" in page(constant, np.ones((9, 3)), np.ones(9))[2]
    only = kompakt.Model(
        Linear(), np.zeros((0, 3)), np.zeros((0, 1)), np.ones(1), "classifier", n_features=3, classes=np.array([7])
    )
    assert "0: 100" in page(only, np.ones((9, 3)), np.full(9, 7))[2]  # every prediction is right


def test_many_classes_are_gathered_and_rows_drawn(page):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 40, 600)
    rows = rng.normal(size=(600, 3)) + labels[:, None]
    machine = CompactSVC(20, refine=False, selection="random", random_state=0).fit(rows, labels)
    _, data, text = page(machine, rows, labels, max_rows=500)
    assert len(data["cells"][0]) == 26 * 26
    assert "the remaining 15" in text
    assert "500 of the 600 given rows" in text


def test_training_rows_are_recognised(page):
    for refine in (False, True):
        machine = CompactSVC(5, refine=refine, random_state=0).fit(X[:120], y[:120])
        assert "are the training rows" in page(machine, X[:120], y[:120], curves=False)[2]
        assert "are the training rows" in page(machine.model_, X[:120], y[:120], curves=False)[2]  # as from a file
        assert "are the training rows" not in page(machine, X[120:], y[120:], curves=False)[2]
    regressor = make_pipeline(StandardScaler(), CompactSVR(5, random_state=0)).fit(X, 10 * X[:, 0] + y)
    assert "are the training rows" in page(regressor, X, 10 * X[:, 0] + y, curves=False)[2]
    assert "are the training rows" not in page(regressor, X, 11 * X[:, 0] + y, curves=False)[2]


def test_labels_are_compared_as_the_machine_knows_them(page):
    machine = CompactSVC(5, refine=False, random_state=0).fit(X, y)
    assert page(machine, X, y.astype(str))[1]["cells"] == page(machine, X, y)[1]["cells"]
    assert "1 label(s) in y are unknown" in page(machine, X, np.where(np.arange(len(y)) < 3, 9, y))[2]
    with pytest.raises(NotFittedError):
        report(CompactSVC(), X, y, "never.html")
    with pytest.raises(FileNotFoundError, match="folder of the page does not exist"):
        report(machine, X, y, "not/there/never.html")
    with pytest.raises(ValueError, match="no label in y is known"):
        report(machine, X, y + 7, "never.html")
    with pytest.raises(ValueError, match="3 features, but the model expects 2"):
        report(machine, np.zeros((4, 3)), [0, 1, 0, 1], "never.html")
    with pytest.raises(ValueError, match="one target per row"):
        report(machine, X, y[:-1], "never.html")


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    machine = CompactSVC(5, refine=False, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        report(machine, np.where(X > 1, np.nan, X), y, path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("rows", ["dense", "sparse", "missing values"])
def test_relevance_is_in_the_units_of_the_kernel(page, rows):
    """Noise in large units is scaled down before the kernel sees it: the ranking must not scale it up again."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(300, 2))
    labels = (signal[:, 0] * signal[:, 1] > 0).astype(int)
    values = np.column_stack([signal[:, 0], 1000.0 * rng.normal(size=(300, 2)), 0.01 * signal[:, 1]])
    steps = [StandardScaler(with_mean=rows != "sparse")]
    if rows == "missing values":
        values[rng.random(300) < 0.05, 1] = np.nan
        steps.insert(0, SimpleImputer())
    table = pd.DataFrame(values, columns=["first", "noise a", "noise b", "second"])
    machine = make_pipeline(*steps, CompactSVC(12, gamma="ard", random_state=0)).fit(table, labels)
    _, _, text = page(machine, sparse.csr_matrix(values) if rows == "sparse" else table, labels)
    shares = dict(re.findall(r"(first|second|noise a|noise b) (< 0\.1 %|[\d.]+ %)", text))
    assert list(shares)[:2] in (["first", "second"], ["second", "first"])
    assert next(iter(shares.values())) in ("100 %", "100.0 %")
    assert all(shares[name] == "< 0.1 %" or float(shares[name][:-2]) < 50 for name in ("noise a", "noise b"))
    # the lines of the vectors go across the features in the same order
    drawn = re.findall("first|second|noise a|noise b", text[text.index("The vectors") :])
    assert set(drawn[:2]) == {"first", "second"}


def test_directions_of_a_learned_map(page):
    """What a map weighs most is drawn: here the difference of two features, and not the noise."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 4))
    target = np.sin(2.0 * (values[:, 0] - values[:, 1]))
    table = pd.DataFrame(values, columns=["first", "second", "noise a", "noise b"])
    machine = CompactSVR(12, gamma="full", C=100.0, random_state=0).fit(table, target)
    _, _, text = page(machine, table, target)
    part = text[text.index("relevance") if "relevance" in text else 0 :]
    shown = part[: part.index("Direction 1 of the learned map")]
    loadings = dict(re.findall(r"(first|second|noise a|noise b) ([+-]\d\.\d\d)", shown))
    assert {name for name, value in loadings.items() if abs(float(value)) > 0.5} == {"first", "second"}
    assert float(loadings["first"]) * float(loadings["second"]) < 0
    assert "rbf after a learned linear map of rank 4 over 4 features" in text


def test_errors_in_detail_are_those_of_scikit_learn(page):
    machine = CompactSVC(8, random_state=0).fit(X[:120], y[:120])
    _, _, text = page(machine, X[120:], y[120:])
    Xt, yt = X[120:], y[120:]
    guess, scores = machine.predict(Xt), machine.decision_function(Xt)
    for k in (0, 1):
        precision, recall = (metric(yt, guess, pos_label=k) for metric in (precision_score, recall_score))
        area = roc_auc_score(yt == k, scores if k else -scores)
        average = average_precision_score(yt == k, scores if k else -scores)
        row = f"{k} {np.sum(yt == k)} {100 * precision:.1f} % {100 * recall:.1f} %"
        assert row in text
        assert f"{area:.3f} {average:.3f}" in text
    wrong = np.flatnonzero(guess != yt)
    worst = wrong[np.argmax(np.abs(scores[wrong]))]
    heads = r"row true predicted wrong by feature \d feature \d"
    assert re.search(rf"{heads} {worst + 1} {yt[worst]} {guess[worst]} {abs(scores[worst]):#.3g}", text)


def test_errors_in_detail_of_a_regressor(page):
    t = np.sin(2 * X[:, 0]) + X[:, 1]
    machine = CompactSVR(5, refine=False, random_state=0).fit(X[:120], t[:120])
    residuals = np.abs(t[120:] - machine.predict(X[120:]))
    _, _, text = page(machine, X[120:], t[120:])
    assert f"mean absolute error {number(residuals.mean())}" in text
    first = np.argmax(residuals)
    assert re.search(rf"off by feature \d feature \d {first + 1} {number(t[120:][first])}", text)


def test_errors_in_detail_with_classes_that_are_missing_or_unknown(page):
    iris = load_iris()
    machine = CompactSVC(6, refine=False, random_state=0).fit(iris.data, iris.target)
    targets = iris.target[:100].copy()
    targets[:3] = 7
    _, _, text = page(machine, iris.data[:100], targets)
    assert "7 3 0.0 % 0.0 % 0.0 % ? ?" in text  # in y, not in the model
    assert "2 0 0.0 % 0.0 % 0.0 % ? ?" in text  # in the model, not in y
    only = CompactSVC(6, refine=False, random_state=0).fit(X, y)
    _, _, text = page(only, X[y == 1], y[y == 1])
    assert "Errors in detail" in text


def test_worst_rows_are_numbered_among_all_given_rows(tmp_path):
    machine = SpSVC(4, random_state=0).fit(X, y)
    subject = subject_of(machine, X, y, 60, 0)
    outputs = subject.model.outputs(subject.X)
    assert worst_rows(subject, outputs)
    for row, truth, said, lead in worst_rows(subject, outputs):
        assert (str(y[row]), str(machine.predict(X[[row]])[0])) == (truth, said)
        np.testing.assert_allclose(abs(machine.decision_function(X[[row]])[0]), lead, rtol=1e-6)
