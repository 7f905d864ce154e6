"""The journal of a fit: steps, progress, the file, and what is refused."""

import os
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
from benchmarks.attack.mutators import mutate_model_file, seal

from kompakt import checkpoint
from kompakt.basis.refine import Replay
from kompakt.checkpoint import CheckpointError, checkpointing
from kompakt.io import ModelFileError, load
from kompakt.io.container import padded
from kompakt.kernels import RBF, Laplacian
from kompakt.run import Run
from kompakt.solve import Solution


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def run(path, program, kill_after=None, identity=None):
    """Run a program of steps, killed after some of them; returns what it computed, in order."""
    computed = []

    def once(name, compute, **more):
        def counted():
            value = compute()
            computed.append(name)
            return value

        value = Run(checkpoint=journal).step(name, counted, **more)
        if kill_after is not None and len(computed) >= kill_after:
            raise Killed
        return value

    try:
        with checkpointing(path, identity or {"data": "a"}) as journal:
            return program(once), computed
    except Killed:
        return None, computed


def test_a_killed_sequence_computes_only_what_is_left(path):
    def program(once):
        a = once("a", lambda: 1)
        b = once("b", lambda: a + 1)
        return once("c", lambda: b * 10)

    for kill in (1, 2, 3):
        assert run(path, program, kill)[1] == ["a", "b", "c"][:kill]
        assert path.exists()
        result, computed = run(path, program)
        assert result == 20
        assert computed == ["a", "b", "c"][kill:]
        assert not path.exists()


def test_steps_inside_a_step(path):
    def program(once):
        def outer():
            return once("inner 1", lambda: 2) * once("inner 2", lambda: 3)

        return once("outer", outer) + once("last", lambda: 1)

    assert run(path, program)[1] == ["inner 1", "inner 2", "outer", "last"]
    for kill, left in ((1, ["inner 2", "outer", "last"]), (2, ["outer", "last"]), (3, ["last"])):
        run(path, program, kill)
        result, computed = run(path, program)
        assert result == 7
        assert computed == left


def test_values_come_back_as_they_were(path):
    value = {
        "numbers": [1, 2.5, float("inf"), True, None, "text", np.float64(0.1)],
        "arrays": (
            np.arange(6.0).reshape(2, 3),
            np.zeros((0, 3)),
            np.array([True, False]),
            np.arange(3, dtype=np.int32),
        ),
        "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "scalar": np.array(3.0),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "kernel": RBF(np.array([0.1, 0.7])) + 1.0,
        "other": Laplacian(0.3),
    }
    run(path, lambda once: once("values", lambda: value), 1)
    with checkpointing(path, {"data": "a"}) as journal:
        first = Run(checkpoint=journal).step("values", lambda: pytest.fail("computed again"))
    with checkpointing(path, {}) as journal:
        again = Run(checkpoint=journal).step("values", lambda: value)  # what a fit goes on with that is not killed
    for found in (first, again):
        assert found["numbers"] == value["numbers"]
        assert isinstance(found["arrays"], tuple)
        for name in ("cube", "scalar", "fortran"):
            assert found[name].dtype == value[name].dtype
            assert found[name].shape == value[name].shape
            assert found[name].flags.c_contiguous == value[name].flags.c_contiguous
            assert np.array_equal(found[name], value[name])
        for one, other in zip(found["arrays"], value["arrays"], strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
        assert repr(found["kernel"]) == repr(value["kernel"])
        assert found["other"] == Laplacian(0.3)


def test_dataclasses_and_values_that_cannot_be_kept(path):
    solution = Solution(np.ones((2, 1)), np.zeros(1), np.ones((3, 1)), np.zeros(1), 3, True, np.zeros(1), 0.0)
    with checkpointing(path, {}) as journal:
        found = Run(checkpoint=journal).step("weights", lambda: solution, Solution)
        assert isinstance(found, Solution)
        assert np.array_equal(found.weights, solution.weights)
        with pytest.raises(TypeError, match="got object"):
            Run(checkpoint=journal).step("strange", object)


def test_what_is_not_complete_is_not_written_and_the_file_stays(path):
    with checkpointing(path, {}) as journal:
        assert Run(checkpoint=journal).step("rounds", lambda: "half", complete=lambda value: value == "all") == "half"
    assert path.exists()
    with checkpointing(path, {}) as journal:
        assert Run(checkpoint=journal).step("rounds", lambda: "all", complete=lambda value: value == "all") == "all"
    assert not path.exists()


def test_progress_goes_on_from_the_last_save(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SHARE", 1e9)  # write every time
    seen = []

    def work(journal, kill=None):
        place = Run(checkpoint=journal).progress("rounds")
        for number in range(place.last or 0, 6):
            seen.append(number)
            place.save(number + 1)
            if number == kill:
                raise Killed
        return "done"

    with pytest.raises(Killed), checkpointing(path, {}) as journal:
        Run(checkpoint=journal).step("work", lambda: work(journal, kill=2))
    with checkpointing(path, {}) as journal:
        assert Run(checkpoint=journal).step("work", lambda: work(journal)) == "done"
        assert seen == [0, 1, 2, 3, 4, 5]
        assert Run(checkpoint=journal).step("after", lambda: 1) == 1


def test_without_a_checkpoint_nothing_is_kept():
    place = Run().progress("rounds")
    place.save(3)
    assert place.last is None
    assert not place.due()
    assert Run().step("a", lambda: 1) == 1
    with checkpointing(None, {}) as nothing:
        assert nothing is None


def test_slow_writing_takes_a_twentieth_of_the_time(path, monkeypatch):
    clock = [0.0]
    written = []

    def slow(*_):
        clock[0] += 1.0
        written.append(clock[0])

    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "write_atomically", slow)

    def program(once):
        for number in range(100):
            once(f"step {number}", lambda: None)
            clock[0] += 1.0

    run(path, program, 100)
    assert 5 <= len(written) <= 8  # at the start, every 20 seconds, and when the fit ends early


def test_other_data_and_parameters_are_refused_by_name(path):
    run(path, lambda once: once("a", lambda: 1), 1, {"C": "1.0", "inputs": "abc", "kernel": "'rbf'"})
    with pytest.raises(CheckpointError, match=r"C was '1\.0', is '2\.0'; inputs was '\w{16}', is '\w{16}'") as found:
        run(path, lambda once: 0, None, {"C": "2.0", "inputs": "xyz", "kernel": "'rbf'"})
    assert "kernel" not in str(found.value)
    assert "delete the file" in str(found.value)
    assert path.exists()


def test_other_steps_are_refused(path):
    run(path, lambda once: once("a", lambda: 1), 1)
    with pytest.raises(CheckpointError, match="the step 'a' where this fit comes to 'b'"):
        run(path, lambda once: once("b", lambda: 1))


def test_damaged_and_foreign_files_are_refused(path, tmp_path):
    run(path, lambda once: once("a", lambda: np.arange(100.0)), 1)
    whole = path.read_bytes()
    for damage in (b"not a checkpoint", whole[:-3], whole[:200] + b"?" + whole[201:], b""):
        path.write_bytes(damage)
        with pytest.raises(CheckpointError, match="cannot be used as a checkpoint"):
            run(path, lambda once: 0)
    path.write_bytes(whole)
    with pytest.raises(ModelFileError):
        load(path)  # a checkpoint is no model
    with pytest.raises(FileNotFoundError):
        run(tmp_path / "nowhere" / "fit.checkpoint", lambda once: 0)


def test_leftovers_of_a_killed_write_are_removed(path):
    leftover = path.with_name(f".{path.name}.0123456789abcdef.tmp")
    other = path.with_name(".something.tmp")
    leftover.write_bytes(b"half")
    other.write_bytes(b"whole")
    run(path, lambda once: 0)
    assert not leftover.exists()
    assert other.exists()


def test_the_file_is_replaced_whole(path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    run(path, lambda once: once("a", lambda: 1), 1)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        run(path, lambda once: once("a", lambda: 1) + once("b", lambda: 2))
    assert path.read_bytes() == before


def test_a_changed_journal_is_refused_even_with_a_right_checksum(path):
    def program(once):
        return once("a", lambda: {"x": np.arange(4.0), "n": 3}) and once("b", lambda: (1.5, RBF(0.5)))[0]

    identity = {"inputs": "1-2-3", "C": "1.0"}
    run(path, program, 2, identity)
    whole = path.read_bytes()
    assert b"1-2-3" not in whole  # who has not seen the data cannot seal a journal
    rng, refused = np.random.default_rng(3), 0
    for _ in range(200):
        path.write_bytes(mutate_model_file(whole, rng))
        try:
            assert run(path, program, None, identity)[0] == 1.5
        except CheckpointError:
            refused += 1
    assert refused > 150


def test_bytes_read_as_another_type_are_refused(path):
    def program(once):
        return once("a", lambda: np.arange(4.0)).sum() + once("b", lambda: 1.0)

    run(path, program, 1)
    whole = path.read_bytes()
    length = struct.unpack_from("<I", whole, 12)[0]
    text, numbers = whole[64 : 64 + length], whole[padded(64 + length) :]
    changed = text.replace(b'"dtype":"<f8"', b'"dtype":"<i8"')
    assert seal(text, numbers, version=whole[8]) == whole
    assert changed != text
    path.write_bytes(seal(changed, numbers, version=whole[8]))
    with pytest.raises(CheckpointError, match="not those that were written"):
        run(path, program)


def test_one_fit_at_a_time_uses_a_checkpoint(path):
    with checkpointing(path, {"data": "a"}) as journal:
        Run(checkpoint=journal).step("first", lambda: 1)
        before = path.read_bytes()
        for identity in ({"data": "a"}, {"data": "b"}):
            with pytest.raises(CheckpointError, match="in use by another fit"), checkpointing(path, identity):
                pass
        assert path.read_bytes() == before
    assert os.listdir(path.parent) == []


def test_the_lock_of_a_killed_process_does_not_stay(path):
    program = (
        "import os, signal, sys; from kompakt.checkpoint import checkpointing\n"
        "with checkpointing(sys.argv[1], {'data': 'a'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)]).returncode == -signal.SIGKILL
    with checkpointing(path, {"data": "a"}) as journal:
        assert journal.resumed
    assert os.listdir(path.parent) == []


def test_replayed_evaluations_must_be_at_the_same_points(path):
    with pytest.raises(Killed), checkpointing(path, {}) as journal:
        _step(journal, [np.array([1.0]), np.array([2.0])], kill=True)
    with checkpointing(path, {}) as journal:
        assert _step(journal, [np.array([1.0]), np.array([2.0])]) == [1.0, 4.0]
    with pytest.raises(Killed), checkpointing(path, {}) as journal:
        _step(journal, [np.array([1.0]), np.array([2.0])], kill=True)
    with pytest.raises(CheckpointError, match="evaluation 2 of the descent"), checkpointing(path, {}) as journal:
        _step(journal, [np.array([1.0]), np.array([2.5])])


def _step(journal, points, kill=False):
    run = Run(checkpoint=journal)
    return run.step("descent", lambda: _descend(run, points, kill))


def _descend(run, points, kill):
    replay = Replay(run.progress("evaluations"))
    values = []
    for x in points:
        evaluation = replay.recall(x)
        if evaluation is None:
            evaluation = {"value": float(x @ x)}
            replay.add(x, evaluation["value"], 2 * x, ())
        values.append(evaluation["value"])
    if kill:
        replay.place.save(replay._evaluations)
        raise Killed
    return values
