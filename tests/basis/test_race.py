"""The race: what it compares, drops and chooses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kompakt import CompactSVC, CompactSVR, Refinement
from kompakt.basis.race import RULES, Arm, Lane, Part, Rules, _first_alike, _survivors, race
from kompakt.basis.refine import Replay
from kompakt.data import ArrayRows
from kompakt.heldout import Scorer
from kompakt.kernels import RBF
from kompakt.run import Run
from kompakt.spec import Data, Spec


def parts(n=400, seed=0):
    X, labels = make_moons(n, noise=0.2, random_state=seed)
    targets = np.where(labels[:, None] == 1, 1.0, -1.0)
    spec = Spec(RBF(1.0), n_classes=2)
    held = np.arange(n) % 4 == 0
    rows = [ArrayRows(X[chosen], targets[chosen]) for chosen in (~held, held)]
    scorer = Scorer.of(Data(rows[1], classes=np.array([0, 1]), labels=labels[held]), spec)
    return [Part(*rows, scorer, X[~held][:8])], spec


def lane_with(losses, arm, part):
    lane = Lane(arm, [part], RULES, Replay(Run().progress("evaluations")))
    lane.on_rows(10_000)
    lane.best.losses, lane.best.loss = losses, float(np.mean(losses))
    return lane


def test_worse_arms_of_a_setting_are_dropped_and_settings_are_compared_in_the_end():
    (part,), spec = parts()
    dear = Spec(RBF(1.0), C=10.0, n_classes=2)
    noise = np.random.default_rng(0).standard_normal(len(part.scorer.weights))
    losses = {"a": 1.0 + 0.1 * noise, "b": 1.05 + 0.1 * noise, "c": 0.5 + 0.1 * noise, "d": 0.9 + 0.1 * noise}
    lanes = {
        name: lane_with(losses[name], Arm(dear if name in "cd" else spec, learn), part)
        for name, learn in zip("abcd", ("each", "full", "each", "full"), strict=True)
    }
    assert _survivors(list(lanes.values()), RULES) == [lanes["a"], lanes["c"]]
    assert _first_alike([lanes["a"], lanes["c"]], RULES) is lanes["c"]
    # alike within chance: the first
    lanes["c"].best.losses = lanes["a"].best.losses + np.where(np.arange(len(noise)) % 2, 0.1, -0.1) - 1e-6
    lanes["c"].best.loss = float(np.mean(lanes["c"].best.losses))
    assert _first_alike([lanes["a"], lanes["c"]], RULES) is lanes["a"]


def test_the_winner_is_where_its_held_out_loss_is_lowest():
    splits, spec = parts()
    arms = [Arm(spec, "each"), Arm(spec, "full", bends=True)]
    finish = race(arms, splits, Run(), 40)
    point, part = finish.points[0], splits[0]
    values = point["kernel"].block(part.held.X, point["basis"])
    outputs = values @ point["weights"][0] + point["weights"][1]
    np.testing.assert_allclose(outputs, finish.outputs[0], atol=1e-9)
    assert part.scorer.mean(part.scorer.row_losses(outputs)) == pytest.approx(min(finish.curve))
    assert finish.trials.best.more["loss"] == pytest.approx(min(finish.curve))
    assert len(finish.table) == 2
    assert finish.rungs[0]["iterations"] == RULES.rungs[0]
    assert finish.rungs[-1]["iterations"] == 40


def test_a_winner_that_fits_noise_at_once_is_raced_at_lower_costs():
    splits, _ = parts()
    part = splits[0]
    rng = np.random.default_rng(0)
    part.train.targets[:] = rng.choice([-1.0, 1.0], part.train.targets.shape)
    dear = Spec(RBF(50.0), C=1000.0, n_classes=2)
    given = race([Arm(dear, "each")], splits, Run(), 30)
    lower = race([Arm(dear, "each")], splits, Run(), 30, lower=RULES.lower)
    assert len(given.table) == 1
    assert {row["params"]["C"] for row in lower.table} >= {1000.0, 100.0}
    assert lower.factor < 1.0
    assert min(lower.curve) < min(given.curve)


def test_the_same_race_again_is_the_same_to_the_last_bit():
    splits, spec = parts()
    arms = [Arm(spec, "each"), Arm(spec, "each", bends=True)]
    first, second = (race(arms, splits, Run(), 30) for _ in range(2))
    assert first.curve == second.curve
    assert np.array_equal(first.points[0]["basis"], second.points[0]["basis"])


def test_many_rows_are_raced_on_a_sample_that_grows():
    splits, spec = parts(1200)
    rules = Rules(first_rows=(100, 1), sample_rows=(300, 1))
    finish = race([Arm(spec, "each"), Arm(spec, "full")], splits, Run(), 40, rules=rules)
    assert finish.rungs[0]["rows"] == 100
    assert finish.rungs[-1]["rows"] == 300


def test_a_transform_is_learned_where_features_are_skewed():
    rng = np.random.default_rng(0)
    skewed = np.exp(2.5 * rng.standard_normal((1500, 3)))
    y = np.sin(1.5 * np.log(skewed[:, 0])) + 0.5 * np.log(skewed[:, 1]) + 0.05 * rng.standard_normal(1500)
    X, Xt, yt = skewed[:1000], skewed[1000:], y[1000:]
    left = {}
    for transform in ("identity", "learn", None):
        machine = CompactSVR(12, refine=Refinement(transform=transform), random_state=0).fit(X, y[:1000])
        left[transform] = 1 - machine.score(Xt, yt)
    assert left["learn"] < 0.5 * left["identity"]
    assert left[None] < 0.6 * left["identity"]


def test_the_table_of_the_race_is_cv_results():
    X, y = make_moons(600, noise=0.25, random_state=0)
    machine = CompactSVC(8, random_state=0).fit(X, y)
    table = machine.cv_results_
    assert set(table["learned"]) == {"widths", "widths and transform", "map", "map and transform"}
    assert set(table["param_C"]) >= {1.0, 10.0}
    chosen = int(np.argmin(table["rank_test_error"]))
    assert machine.C_ == table["param_C"][chosen]
    assert "won a race of" in machine.model_.record.why
    given = CompactSVC(8, C=2.0, gamma=0.5, random_state=0).fit(X, y).cv_results_
    assert given["param_C"].tolist() == [2.0]
    assert given["learned"].tolist() == ["vectors"]
