"""The reader of range files: what svm-scale writes is read, applied alike, and anything else is refused."""

import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from kompakt.io import ModelFileError, read_range

needs_svm_scale = pytest.mark.skipif(shutil.which("svm-scale") is None, reason="svm-scale is not installed")


@needs_svm_scale
@pytest.mark.parametrize("flags", [["-l", "-1", "-u", "1"], ["-l", "0", "-u", "3", "-y", "-2", "2"]])
def test_a_file_of_svm_scale_is_applied_as_svm_scale_does(flags, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)) * [1.0, 50.0, 0.1, 3.0] + [0.0, 1e3, 0.0, -5.0], rng.normal(size=30)
    X[:, 2] = 7.0  # constant: svm-scale does not list it
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    made = subprocess.run(
        ["svm-scale", *flags, "-s", "saved.range", "data"], cwd=tmp_path, capture_output=True, check=True
    )
    (tmp_path / "scaled").write_bytes(made.stdout)
    expected, targets = load_svmlight_file(str(tmp_path / "scaled"), n_features=4, zero_based=False)
    ranges = read_range(tmp_path / "saved.range")
    assert ranges.index.tolist() == [0, 1, 3]
    assert_allclose(ranges.apply(X), expected.toarray(), atol=1e-5)
    assert (ranges.target is not None) == ("-y" in flags)
    if ranges.target is not None:
        lower, upper, minimum, maximum = ranges.target
        assert_allclose(lower + (upper - lower) * (y - minimum) / (maximum - minimum), targets, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends where x"),
        ("x\n", "ends where lower"),
        ("z\n0 1\n", "expected 'x'"),
        ("x\n1 0\n", "not below"),
        ("x\n0 1 2\n", "expected 2"),
        ("x\n0 1\n1 2\n", "expected 3"),
        ("x\n0 1\n1 nan 2\n", "no finite number"),
        ("x\n0 1\n2 0 1\n2 0 1\n", "must increase"),
        ("x\n0 1\n0 0 1\n", "start at 1"),
        ("x\n0 1\n1.5 0 1\n", "line 3"),
        ("x\n0 1\n1 3 2\n", "above the maximum"),
        ("y\n0 1\nx\n0 1\n", "line 3"),
        ("x\n0 1\n" + "1" * 70_000, "short lines"),
    ],
)
def test_what_is_no_range_file_is_refused_with_the_reason(text, message, tmp_path):
    path = tmp_path / "bad.range"
    path.write_text(text)
    with pytest.raises(ModelFileError, match=message) as caught:
        read_range(path)
    assert str(path) in str(caught.value)


def test_rows_narrower_than_the_file_are_refused(tmp_path):
    path = tmp_path / "good.range"
    path.write_text("x\n0 1\n3 0 2\n")
    assert read_range(path).apply(np.full((1, 3), 1.0)).tolist() == [[0.0, 0.0, 0.5]]
    with pytest.raises(ValueError, match="number 3"):
        read_range(path).apply(np.ones((1, 2)))
