"""The loop: candidates, schedules, cache, evaluations, hybrid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.basis.naive import column, data, grown, machine_for

from kompakt.basis import forward
from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import (
    CandidateStream,
    Growth,
    GrowthPlan,
    GrowthSelector,
    Schedule,
    expected_best_of_half,
)
from kompakt.basis.growing import GrowingMachine
from kompakt.data import ArrayRows, hash_rows
from kompakt.kernels import RBF, Kernel
from kompakt.losses import Hinge, SquaredHinge
from kompakt.run import Run
from kompakt.spec import Data, Spec


class Counting(Kernel):
    """A Gaussian kernel that counts the values it is asked for."""

    name = "counting"

    def __init__(self, gamma):
        self.inner, self.count = RBF(gamma), 0

    def pre(self, X, Z):
        self.count += X.shape[0] * len(Z)
        return self.inner.pre(X, Z)

    def finish(self, pre):
        return self.inner.finish(pre)

    def diag(self, X):
        self.count += X.shape[0]
        return self.inner.diag(X)

    def spec(self):
        return {}


def test_candidates_depend_on_the_step_and_the_seed_alone():
    hashes = hash_rows(np.random.default_rng(0).normal(size=(2000, 2)), 5)
    stream = CandidateStream.of(hashes, 5)
    first = [stream.draw(step, 10, set()).tolist() for step in range(5)]
    assert first == [stream.draw(step, 10, set()).tolist() for step in range(5)]
    assert len({tuple(draw) for draw in first}) == 5
    assert all(len(set(draw)) == 10 for draw in first)
    assert stream.draw(3, 20, set()).tolist()[:10] == first[3]  # a larger set contains the smaller one
    assert stream.draw(3, 10, set(first[3][:4])).tolist() == first[3][4:]
    assert CandidateStream.of(hashes, 6).draw(0, 10, set()).tolist() != first[0]


def test_candidates_do_not_depend_on_the_order_of_the_rows():
    X = np.random.default_rng(0).normal(size=(900, 2))
    order = np.random.default_rng(1).permutation(900)
    ours = CandidateStream.of(hash_rows(X, 5), 5).draw(7, 12, set())
    theirs = CandidateStream.of(hash_rows(X[order], 5), 5).draw(7, 12, set())
    assert np.array_equal(X[ours], X[order][theirs])


@pytest.mark.parametrize("n", [20, 700])
def test_the_stream_reaches_every_row(n):
    hashes = np.random.default_rng(0).permutation(n).astype(np.uint64)
    stream, taken = CandidateStream.of(hashes, 1), set()
    for step in range(n):
        taken.add(int(stream.draw(step, 3, taken)[0]))
    assert len(taken) == n
    assert len(stream.draw(n, 3, taken)) == 0


def test_folds_share_the_stream():
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[200:] = X[:100]
    hashes = hash_rows(X, 5)
    stream = CandidateStream.of(hashes, 5)
    allowed = np.arange(100, 300)
    inside = stream.within(allowed)
    for step in range(5):
        common = stream.draw(step, 300, set())
        assert np.array_equal(X[common], X[inside.draw(step, 300, set())])  # twins stand in for rows left out
        assert np.all(np.isin(inside.draw(step, 20, set()), allowed))


def test_fixed_schedules():
    assert [d for d in range(1, 40) if Schedule("powers", 5).retrain_at(d)] == [1, 2, 4, 8, 16, 32]
    quarter = sorted({int(2 ** (p / 4) + 1e-9) for p in range(40)} & set(range(1, 600)))
    assert [d for d in range(1, 600) if Schedule("quarter_powers", 5).retrain_at(d)] == quarter
    with pytest.raises(ValueError, match="retraining must be one of"):
        Schedule("sometimes", 5)


def test_expected_best_of_half():
    scores = np.random.default_rng(0).normal(size=9)
    rng = np.random.default_rng(1)
    drawn = [rng.choice(scores, 4, replace=False).max() for _ in range(40_000)]
    assert_allclose(expected_best_of_half(scores), np.mean(drawn), atol=0.02)


def test_adaptive_schedule_tries_more_where_scores_differ():
    varied, equal = Schedule("adaptive", 16), Schedule("adaptive", 16)
    for _ in range(6):
        varied.learn(np.r_[np.zeros(15), 10.0], 10.0, scoring=1.0, training=9.0, retraining=0.0)
        equal.learn(np.ones(16), 1.0, scoring=9.0, training=1.0, retraining=0.0)
    assert varied.n_candidates > 16 > equal.n_candidates
    assert varied.n_candidates <= 128


def test_adaptive_growth_retrains_less_than_always_and_ends_nearly_as_low():
    X, y, _ = data(800)
    ends = {}
    for retraining in ("always", "adaptive"):
        machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 10.0, capacity=60)
        stream = CandidateStream.of(hash_rows(X, 1), 1)
        records = Growth(machine, stream, GrowthPlan(60, n_candidates=10, retraining=retraining)).grow()
        ends[retraining] = (records[-1]["objective"], sum(record["retrained"] for record in records))
    assert ends["adaptive"][1] < ends["always"][1] == 60
    assert ends["adaptive"][0] < 1.02 * ends["always"][0]


def test_stale_gain_is_what_a_newton_step_promises():
    X, y, _ = data(300)
    machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 10.0)
    for index in range(12):
        if not machine.append(index, column(machine, index), 1.0):
            machine.retrain(1e-14, thorough=True)
    A, p = machine.lines, machine.penalty[: machine.width]
    slopes = machine.cost * machine.loss.gradient(machine.y, machine.f)
    gradient = p * machine.theta[0, : machine.width] + A @ slopes[0]
    H = np.diag(p) + (machine.curvatures * A) @ A.T
    assert machine.stale_gain() > 0
    assert_allclose(machine.stale_gain(), 0.5 * gradient @ np.linalg.solve(H, gradient), rtol=1e-6)
    machine.retrain(1e-12, thorough=True)
    assert machine.stale_gain() < 1e-9


@pytest.mark.parametrize("kappa", [5, 12])
def test_kernel_evaluations_per_step(kappa):
    """At most kappa (n_SV + d) + n + d + 1 with cache and shrinking off and retraining always (section 2.3 and 6.2)."""
    X, y, _ = data(400)
    kernel = Counting(0.5)
    machine = machine_for(X, y, kernel, SquaredHinge(), 3.0, capacity=30)
    stream = CandidateStream.of(hash_rows(X, 1), 1)
    for d in range(30):
        n_active, before = len(machine.active), kernel.count
        Growth(machine, stream, GrowthPlan(d + 1, n_candidates=kappa, retraining="always")).grow()
        assert kernel.count - before <= kappa * (n_active + d) + 400 + d + 1
    assert kernel.count == machine.columns.n_evals


def test_whole_row_criteria_evaluate_one_column_per_step():
    X, y, _ = data(200)
    kernel = Counting(0.5)
    grown(machine_for(X, y, kernel, SquaredHinge(), 3.0), 10, selection="bh")
    assert kernel.count == 200 + 10 * 200  # the diagonal once


def test_cache_keeps_columns_and_changes_nothing():
    X, y, _ = data(100)
    results = {}
    for slots in (0, 3, 100):
        kernel = Counting(0.5)
        columns = KernelColumns(ArrayRows(X, y), kernel, slots, 16)
        machine = GrowingMachine.on_rows(columns, Spec(kernel, SquaredHinge(), 3.0), 40)
        grown(machine, 40)
        results[slots] = machine.indices, float(machine.objective()[0]), kernel.count
    assert results[0][0] == results[3][0] == results[100][0]
    assert_allclose(results[100][1], results[0][1], rtol=1e-9)
    assert results[100][2] <= 100 * 100 + 40 * 10  # every column at most once, and some k(x, x)
    assert results[3][2] > results[100][2]


def test_hybrid_begins_with_method_1_and_leaves_it_when_it_becomes_dear(monkeypatch):
    X, y, _ = data(500)
    records = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0, capacity=60), 60, selection="hybrid")[1]
    methods = [record["method"] for record in records]
    switch = methods.index("sp2")
    assert 0 < switch < 59
    assert set(methods[switch:]) == {"sp2"}
    monkeypatch.setattr(forward, "_HYBRID_SHARE", 1e9)
    dear, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 30, selection="hybrid")
    sp1, _ = grown(machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0), 30, selection="sp1")
    assert dear.indices == sp1.indices


@pytest.mark.parametrize("selection", ["sp1", "sp2", "hybrid", "random", "cholesky", "gsvc", "bh", "mark", "kmp"])
def test_selector_protocol(selection):
    X, y, _ = data()
    selected = GrowthSelector(selection).select(Data(ArrayRows(X, y)), Spec(RBF(0.5), Hinge(), 2.0), 7, Run(key=1))
    assert selected.n_basis == 7
    assert np.array_equal(selected.vectors, X[selected.indices])
    assert_allclose(np.triu(selected.factor).T @ np.triu(selected.factor), RBF(0.5).gram(selected.vectors), atol=1e-10)


def test_plan_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="selection must be one of"):
        GrowthPlan(5, "best")
    with pytest.raises(ValueError, match="score_rows"):
        GrowthPlan(5, score_rows="some")
    with pytest.raises(ValueError, match="shrinking"):
        GrowthPlan(5, "bh", shrinking=True)


def test_deadline_stops_growth_with_a_sound_machine():
    X, y, _ = data()
    machine = machine_for(X, y, RBF(0.5), SquaredHinge(), 3.0)
    stream = CandidateStream.of(hash_rows(X, 1), 1)
    records = Growth(machine, stream, GrowthPlan(20, run=Run(deadline=0.0))).grow()
    assert len(records) == machine.n_basis == 1


def test_half_of_the_candidates_are_active_where_few_rows_are():
    """Two far clusters are done with one vector each; all else depends on the few rows between them."""
    from kompakt import GrowthSelector, SpSVC

    rng = np.random.default_rng(0)
    easy = np.concatenate([rng.normal(-6, 0.3, size=(1000, 2)), rng.normal(6, 0.3, size=(1000, 2))])
    hard = rng.uniform(-1, 1, size=(40, 2))
    X = np.concatenate([easy, hard])
    y = np.concatenate([np.repeat([0, 1], 1000), (np.sin(4 * hard[:, 0]) * np.sin(4 * hard[:, 1]) > 0).astype(int)])
    found = {
        name: SpSVC(30, gamma=5.0, C=100.0, selection=GrowthSelector(candidates=name), random_state=0).fit(X, y)
        for name in ("mixed", "all")
    }
    assert found["mixed"].objective_ < 0.5 * found["all"].objective_
    pooled = GrowthSelector(pool_size=300, candidates="mixed")
    assert SpSVC(20, gamma=2.0, C=10.0, selection=pooled, random_state=0).fit(X, y).n_basis_ == 20
    with pytest.raises(ValueError, match="candidates must be 'mixed' or 'all'; got 'active'"):
        GrowthSelector(candidates="active")
