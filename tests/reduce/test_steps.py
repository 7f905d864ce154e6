"""Every step of local sampling and CGLQ against a plain re-implementation, and the draws against their expectation."""

import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC, LinearSVC
from tests.reduce import naive

from kompakt.methods.cglq import CGLQ, fit_cglq
from kompakt.methods.local_sampling import LocalSampling, fit_local_sampling
from kompakt.parallel import block_threads
from kompakt.reduce import (
    ReductionWarning,
    SubsamplePlan,
    draw_subsamples,
    plan_subsamples,
)
from kompakt.reduce.local_sampling import (
    INTENSITY,
    BallSearch,
    best_while_improving,
    draw_from_balls,
    intensities,
    kth_distances,
    median_radius,
    nearest_index,
    neighbour_rank,
    search_method,
    support_of_subsamples,
    support_positions,
    with_every_class,
)
from kompakt.run import Run

steps = sys.modules["kompakt.reduce.local_sampling"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    return X, y


# -- subsamples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stratify", [False, True])
def test_subsamples_are_disjoint_and_of_the_planned_size(data, stratify):
    _, y = data
    drawn = draw_subsamples(y, SubsamplePlan(0.5, 6, 25), np.random.default_rng(1), stratify=stratify)
    assert [len(rows) for rows in drawn] == [25] * 6
    assert len(np.unique(np.concatenate(drawn))) == 150


def test_stratified_subsamples_hold_the_classes_in_their_shares():
    y = np.repeat(["a", "b", "c"], [200, 80, 20])
    drawn = draw_subsamples(y, SubsamplePlan(0.5, 5, 30), np.random.default_rng(1), stratify=True)
    for rows in drawn:
        for label, share in (("a", 20), ("b", 8), ("c", 2)):
            assert abs(int(np.sum(y[rows] == label)) - share) <= 1
    others = draw_subsamples(y, SubsamplePlan(0.5, 5, 30), np.random.default_rng(2), stratify=True)
    assert not np.array_equal(drawn[0], others[0])


def test_plain_subsamples_are_uniform():
    y = np.zeros(40, dtype=int)
    hits = np.zeros(40)
    for seed in range(1000):
        for rows in draw_subsamples(y, SubsamplePlan(0.25, 2, 5), np.random.default_rng(seed), stratify=False):
            hits[rows] += 1
    assert np.all(np.abs(hits / 1000 - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 1000))


def test_the_plan_follows_the_guidance():
    plan = plan_subsamples(np.array([400_000, 400_000]), 8)
    assert (plan.delta, plan.n_subsamples) == (0.01, 50)
    assert plan_subsamples(np.array([200_000, 200_000]), 254).delta == 0.10
    small = plan_subsamples(np.array([100, 100]), 2)  # ten subsamples of 50 rows would be more than half of the rows
    assert (small.delta, small.n_subsamples, small.size) == (0.5, 2, 50)
    rare = plan_subsamples(np.array([99_000, 1_000]), 2)
    assert rare.size >= 500
    given = plan_subsamples(np.array([29_690, 14_845]), 8, delta=0.02, n_subsamples=7)
    assert given.size == int(0.02 * 44_535 / 7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"delta": 1.5}, "delta must be"),
        ({"delta": "some"}, "delta must be"),
        ({"n_subsamples": 0}, "n_subsamples must be"),
        ({"min_subsample_size": 1}, "min_subsample_size must be"),
    ],
)
def test_an_impossible_plan_is_a_named_error(words, message):
    with pytest.raises(ValueError, match=message):
        plan_subsamples(np.array([50, 50]), 2, **words)


# -- support vectors -------------------------------------------------------------------------------------


def test_the_union_of_support_vectors(data):
    X, y = data
    drawn = draw_subsamples(y, SubsamplePlan(0.5, 5, 30), np.random.default_rng(1), stratify=False)
    fit = lambda rows: SVC(C=2.0, gamma=0.5).fit(X[rows], y[rows])  # noqa: E731
    found, one_class = support_of_subsamples(fit, X, y, drawn, Run())
    assert found.tolist() == naive.support_union(X, y, drawn, C=2.0, gamma=0.5)
    assert one_class == 0


def test_one_class_subsamples_are_left_out_and_reported(data):
    X, y = data
    one, two = np.flatnonzero(y == 0)[:10], np.arange(20)
    fit = lambda rows: SVC().fit(X[rows], y[rows])  # noqa: E731
    with pytest.warns(ReductionWarning, match="1 of 2 subsamples hold one class"):
        found, one_class = support_of_subsamples(fit, X, y, [one, two], Run())
    assert one_class == 1
    assert set(found) <= set(two)
    with pytest.raises(ValueError, match=r"all 1 subsamples .* one class only"):
        support_of_subsamples(fit, X, y, [one], Run())


def test_margins_stand_in_for_support_vectors(data):
    X, y = data
    exact = SVC(kernel="linear", C=0.3, tol=1e-6).fit(X, y)

    class Bare:
        classes_ = exact.classes_
        decision_function = exact.decision_function

    assert np.array_equal(support_positions(Bare(), X, y), np.sort(exact.support_))
    labels = np.array([0, 1, 2])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    many = LinearSVC(C=1.0, random_state=0).fit(X, labels)
    values = many.decision_function(X)
    expected = [
        i for i in range(len(X))
        if any((1 if labels[i] == c else -1) * values[i, c] <= 1.001 for c in range(3))
    ]  # fmt: skip
    assert support_positions(many, X, labels).tolist() == expected
    with pytest.raises(TypeError, match="neither"):
        support_positions(object(), X, y)


def test_lost_classes_come_back_with_a_warning():
    y = np.array([0] * 10 + [1] * 10 + [2] * 3)
    with pytest.warns(ReductionWarning, match=r"1 of the classes \(\[2\]\)"):
        rows = with_every_class(np.array([0, 11]), y, np.arange(22), np.random.default_rng(0))
    assert rows.tolist() == [0, 11, 20, 21]


# -- radii and balls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_type", [np.asarray, sparse.csr_matrix], ids=["tree", "brute"])
def test_radii(data, as_type):
    V = data[0][:60].copy()
    V[7] = V[3]  # a copy is a neighbour at distance zero
    expected = [naive.kth_distance(V, j, 4) for j in range(60)]
    np.testing.assert_allclose(kth_distances(as_type(V), 4), expected, rtol=1e-6, atol=1e-7)


def test_rank_weights_and_median():
    assert [neighbour_rank(m) for m in (2, 7, 8, 395, 7779)] == [1, 1, 2, 5, 8]
    radii = np.array([0.5, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(intensities(radii), naive.eta(radii))
    assert median_radius(radii) == 1.5
    assert intensities(np.zeros(4)).tolist() == [0.25] * 4
    weights = intensities(np.array([0.0, 1.0, 2.0]))
    assert weights[0] == weights[1] == 2 * weights[2]
    with pytest.warns(ReductionWarning, match="2 of 3 support vectors have so many exact copies"):
        assert median_radius(np.array([0.0, 0.0, 3.0])) == 3.0
    with pytest.warns(ReductionWarning, match="copies of one another"):
        assert median_radius(np.zeros(3)) == 0.0


@pytest.mark.parametrize("method", ["kd_tree", "brute", "sparse"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_balls(data, method, offset, monkeypatch):
    monkeypatch.setattr(steps, "_BLOCK_ENTRIES", 700)  # 35 rows per block, which does not divide 300
    X = np.round(data[0] + offset, 1)  # a grid: many rows lie exactly on the edge
    centres = X[:20]
    if method == "sparse" and offset:
        pytest.skip("sparse rows are not centred")
    X_given = sparse.csr_matrix(X) if method == "sparse" else X
    C_given = sparse.csr_matrix(centres) if method == "sparse" else centres
    search = BallSearch(X_given, C_given, "brute" if method == "sparse" else method)
    expected = naive.balls(X, centres, 0.55, np.ones(300, dtype=bool))
    for n_jobs in (1, 2):
        found = [[] for _ in range(20)]
        with block_threads(n_jobs):
            for pairs in search.blocks(0.55):
                for row, centre in zip(*pairs, strict=True):
                    found[centre].append(int(row))
        assert [sorted(rows) for rows in found] == expected


def test_the_method_follows_the_dimension():
    assert search_method(np.zeros((5, 15))) == "kd_tree"
    assert search_method(np.zeros((5, 16))) == "brute"
    assert search_method(sparse.csr_matrix((5, 3))) == "brute"


def test_an_index_of_the_rows_holds_no_copy():
    X = np.random.default_rng(0).normal(size=(200, 4))
    assert np.shares_memory(nearest_index(X, 3)._fit_X, X)
    assert np.shares_memory(np.asarray(nearest_index(X, 3)._tree.data), X)
    narrow = X.astype(np.float32)
    assert np.shares_memory(nearest_index(narrow, 3)._fit_X, narrow)


def test_every_reading_of_the_weights():
    eta, counts = np.array([0.5, 0.3, 0.2]), np.array([10, 100, 1000])
    wanted = {name: reading(eta, counts, 60).tolist() for name, reading in INTENSITY.items()}
    assert wanted["literal"] == [5.0, 30.0, 200.0]
    np.testing.assert_allclose(wanted["relative"], [10.0, 90.0, 600.0])
    np.testing.assert_allclose(wanted["peak"], [10.0, 60.0, 400.0])
    assert wanted["count"] == [10, 18.0, 12.0]
    assert wanted["all"] == [10, 100, 1000]


@pytest.mark.parametrize("kept", [1 << 24, 50], ids=["pairs kept", "pairs found again"])
def test_draws_meet_their_expectation(data, kept, monkeypatch):
    """Every row of a lone ball is drawn with the ball's share, and the number drawn is that share up to one row."""
    monkeypatch.setattr(steps, "_KEPT_PAIRS", kept)
    monkeypatch.setattr(steps, "_BLOCK_ENTRIES", 222)
    X = data[0]
    allowed = np.ones(300, dtype=bool)
    allowed[:50] = False
    search = BallSearch(X, np.array([[-1.0, 0.0, 0.0], [1.2, 0.0, 0.0]]), "brute")
    members = [np.array(rows) for rows in naive.balls(X, search.centres, 1.0, allowed)]
    assert not set(members[0]) & set(members[1])
    share = np.array([0.37, 0.61])
    hits, n_draws = np.zeros(300), 500
    for seed in range(n_draws):
        rows, counts = draw_from_balls(search, 1.0, lambda c: share * c, allowed, np.random.default_rng(seed))
        assert counts.tolist() == [len(rows) for rows in members]
        for ball, part in zip(members, share, strict=True):
            assert abs(np.isin(rows, ball).sum() - part * len(ball)) < 1
        hits[rows] += 1
    for ball, part in zip(members, share, strict=True):
        assert np.all(np.abs(hits[ball] / n_draws - part) < 5 * np.sqrt(part * (1 - part) / n_draws))
    assert hits.sum() == hits[np.concatenate(members)].sum()


# -- the whole procedure ---------------------------------------------------------------------------------


def problem_of(X, y, pool, fit, held=None):
    """Rows to be reduced, whose machines are those of `fit` and are judged on rows that the test holds out."""
    return SimpleNamespace(
        X=X,
        y=y,
        pool=pool,
        fit=fit,
        class_counts=np.unique(y[pool], return_counts=True)[1],
        hold_out=lambda share, key: held,
        error=lambda machine, rows: naive.error(machine, X[rows], y[rows]),
    )


def test_local_sampling_is_its_steps(data):
    X, y = data
    words = {"C": 2.0, "gamma": 0.5}
    fit = lambda rows: SVC(**words).fit(X[rows], y[rows])  # noqa: E731
    options = LocalSampling("paper", delta=0.4, n_subsamples=4, beta=1.0, intensity="all")
    sample, plan = fit_local_sampling(problem_of(X, y, np.arange(300), fit), options, Run(5))
    assert (plan.n_subsamples, plan.size) == (4, 30)
    V = naive.support_union(X, y, sample.subsamples, **words)
    assert sample.initial_support.tolist() == V
    k = int(np.log(len(V)))
    radii = [naive.kth_distance(X[V], j, k) for j in range(len(V))]
    np.testing.assert_allclose(sample.radii, radii)
    unused = np.ones(300, dtype=bool)
    unused[np.concatenate(sample.subsamples)] = False
    drawn = set().union(*naive.balls(X, X[V], np.median(radii), unused))
    assert sample.n_drawn == len(drawn)
    assert sample.rows.tolist() == sorted(set(V) | drawn)
    final = SVC(**words).fit(X[sample.rows], y[sample.rows])
    assert sample.support.tolist() == sorted(sample.rows[final.support_].tolist())


def test_the_search_of_beta_ends_at_the_first_that_is_no_better(data):
    X, y = data
    pool, held = np.arange(200), np.arange(200, 300)
    fit = lambda rows: SVC(C=2.0).fit(X[rows], y[rows])  # noqa: E731
    problem = problem_of(X, y, pool, fit, held)
    sample, _ = fit_local_sampling(problem, LocalSampling("paper", delta=0.4, n_subsamples=2), Run(3))
    errors = [step["error"] for step in sample.history]
    assert [step["beta"] for step in sample.history] == [round(0.1 * (i + 1), 9) for i in range(len(errors))]
    assert all(a > b for a, b in pairwise(errors[:-1]))
    assert errors[-1] >= errors[-2] or len(errors) == 10
    assert sample.error == min(errors)
    assert not set(sample.rows) & set(held)
    given = LocalSampling("paper", delta=0.4, n_subsamples=2, beta=sample.beta)
    alone, _ = fit_local_sampling(problem, given, Run(3))
    assert np.array_equal(alone.rows, sample.rows)  # what a beta draws does not depend on those tried before it


def test_best_while_improving():
    assert best_while_improving(iter([5, 3, 4, 1]), float, patience=2) == 1
    assert best_while_improving(iter([100, 99.5, 10]), float, tol=0.01) == 99.5
    with pytest.raises(ValueError, match="no step"):
        best_while_improving(iter([]), float)


def test_cglq_is_its_steps(data):
    X, y = data
    pool, held = np.arange(0, 300, 2), np.arange(1, 300, 2)
    machines = []

    def fit(rows):
        machines.append((rows, SVC(C=2.0).fit(X[rows], y[rows])))
        return machines[-1][1]

    options = CGLQ(0.2, n_neighbors=3, fresh=0.04, max_rounds=3, min_improvement=0.0, n_iter_no_change=9)
    result, _ = fit_cglq(problem_of(X, y, pool, fit, held), options, Run(1))
    assert len(machines) == 4
    assert len(machines[0][0]) == 30
    for (rows, machine), (following, _) in pairwise(machines):
        support = rows[machine.support_]
        near = set().union(*(naive.nearest(X, row, pool, 3) for row in support))
        assert near <= set(following) <= set(pool)
        assert len(set(following) - near) <= 6  # the fresh rows, 4 % of 150
    errors = [step["error"] for step in result.history]
    assert result.error == min(errors)
    assert np.array_equal(result.rows, machines[int(np.argmin(errors))][0])
    assert np.array_equal(result.initial_support, np.sort(machines[0][0][machines[0][1].support_]))


def test_cglq_needs_two_classes_in_its_first_subsample():
    X, y = np.arange(200.0)[:, None], np.r_[np.zeros(199), 1]
    with pytest.raises(ValueError, match="holds one class only"):
        fit_cglq(problem_of(X, y, np.arange(200), None, np.array([0])), CGLQ(delta=0.02), Run())


@pytest.mark.parametrize("method", ["kd_tree", "brute"])
def test_remembered_balls_are_the_same(data, method):
    X, _ = data
    plain, knowing = BallSearch(X, X[:20], method), BallSearch(X, X[:20], method)
    knowing.remember(1.0)
    for radius in (0.3, 1.0, 1.2):
        for expected, found in zip(plain.blocks(radius), knowing.blocks(radius), strict=True):
            assert np.array_equal(expected, found)


def test_a_reduced_set_is_thinned_and_counts_for_all_rows(data):
    X, y = data
    seen = []

    def fit(rows, weight=1.0):
        seen.append((len(rows), weight))
        return SVC(C=2.0).fit(X[rows], y[rows], sample_weight=np.full(len(rows), weight))

    pool, held = np.arange(200), np.arange(200, 300)
    draws = {"delta": 0.4, "n_subsamples": 4, "beta_step": 1.0, "max_beta": 2.0, "intensity": "all"}
    options = LocalSampling("reweighted", **draws, max_train=110, search_train=90)
    sample, _ = fit_local_sampling(problem_of(X, y, pool, fit, held), options, Run(3))
    assert set(sample.initial_support) <= set(sample.rows)
    assert all(step["n_train"] <= 90 for step in sample.history[:-1])
    assert 90 < sample.history[-1]["n_train"] <= 110
    assert sample.factor == 200 / len(sample.rows)
    # subsamples as they are, everything after them with the weight of the rows that each row stands for
    assert all(weight == 1.0 for size, weight in seen if size == 20)
    assert all(weight == 200 / size for size, weight in seen[4:])
