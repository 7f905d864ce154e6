"""A slice of every attack, and proof that the attacks notice what they are there to notice."""

import ctypes
import os
import shutil
import sys

import numpy as np
import pytest
from benchmarks.attack import files as fuzz
from benchmarks.attack.__main__ import ROUND
from benchmarks.attack.files import TARGETS, Target, damaged
from benchmarks.attack.fits import ATTACKS, FAULTS, fits
from benchmarks.attack.writes import faulted

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and reads /proc")
SHARES = {
    "model files": 600, "svmlight rows": 400, "CSV rows": 400, "LIBSVM models": 200, "range files": 100,
    "rows of commands": 200, "array files": 100,
}  # fmt: skip
#: few of these are read to the end, or few are refused
OTHERS = {"Parquet rows": 100, "exports": 20, "checkpoints": 30, "numbers": 40}


def test_the_slice_has_cases_of_every_attack():
    assert {*SHARES, *OTHERS} == set(TARGETS)
    assert {*TARGETS, "writes", *ATTACKS} == set(ROUND)
    assert sum(SHARES.values()) == 2000


@pytest.mark.parametrize("name", SHARES)
def test_damaged_files_end_in_a_documented_exception(name):
    # Cases that the full run does not reach, so that its result and this one support each other.
    start = 10_000_000
    found = fuzz.fuzz(TARGETS[name], start, start + SHARES[name], batch=200)
    assert found.failures == []
    assert found.cases == SHARES[name]
    # The mutator must reach deep: some files stay readable, and refusals come from different checks.
    assert found.accepted >= 0.02 * found.cases
    assert len(found.reasons) >= 8
    assert found.megabytes < 512


@pytest.mark.parametrize("name", OTHERS)
def test_other_attacks_find_nothing(name):
    if name == "Parquet rows":
        pytest.importorskip("pyarrow")
    found = fuzz.fuzz(TARGETS[name], 10_000_000, 10_000_000 + OTHERS[name])
    assert found.failures == []
    assert found.cases == OTHERS[name]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_faults_of_the_disk_leave_old_or_new_files():
    found = faulted(10_000_000, 10_000_060)
    assert found.failures == []
    assert 0 < found.accepted < found.cases == 60


def test_killed_fits_go_on_to_the_same_machine():
    found = fits("killed fits", 10_000_000, 10_000_010)
    assert found.failures == []
    assert found.cases == len(found.reasons) == 10  # of every machine
    assert found.accepted > 0  # a checkpoint was left; how often depends on what else the processor does


def test_faults_of_a_cluster_end_in_the_same_machine_or_a_named_error():
    pytest.importorskip("distributed")
    first = 10_000_000 - 10_000_000 % len(FAULTS)
    found = fits("Dask fits", first, first + 3)  # workers killed, reads that fail
    assert found.failures == []
    assert found.cases == 3


def test_a_case_is_made_again_from_its_number():
    target = TARGETS["CSV rows"]
    assert damaged(target, 17) == damaged(target, 17) != damaged(target, 20)


# -- what the fuzzer notices -----------------------------------------------------------------------------


def reader(act):
    """A reader that accepts sound files and does `act` at case 3."""

    def read(path):
        with open(path, "rb") as file:
            if file.read() == b"3":
                act()

    return Target(read, lambda raw, rng: b"%d" % fuzz_case(rng), lambda: [b"sound"], (ValueError,))


def fuzz_case(rng):
    return int(rng.bit_generator.seed_seq.entropy[1])


def spin():
    while True:
        pass


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: {}["absent"], "KeyError"),
        (lambda: ctypes.string_at(0), "died"),
        (lambda: os._exit(0), "died"),
        (spin, "more than"),
        (lambda: np.ones(1 << 30), "emory"),
        (lambda: os.read(os.pipe()[0], 1), "no answer"),
    ],
    ids=["undocumented", "crash", "exit", "busy", "memory", "asleep"],
)
def test_failures_are_named_and_the_run_goes_on(act, said, monkeypatch):
    monkeypatch.setattr(fuzz, "SILENCE", 2.0)
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.3)
    found = fuzz.fuzz(reader(act), 0, 8, batch=6)
    assert [case for case, _ in found.failures] == [3]
    assert said in found.failures[0][1]
    assert found.cases == 8


def test_mutators_do_not_remember_earlier_cases():
    target = TARGETS["model files"]
    alone = damaged(target, 7133)
    for case in range(7000, 7133):
        damaged(target, case)
    assert damaged(target, 7133) == alone
