"""svmlight files: numbers as Python writes them are no numbers here, and rows may be labels alone."""

import pytest

from kompakt import open_rows


@pytest.mark.parametrize("line", ["1_0 1:2", "1 1:2_0", "1 1_0:2"])
def test_underscores_are_refused_and_named(line, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(f"2 1:3 # a_b\n{line}\n")
    with pytest.raises(ValueError, match="underscore") as found:
        open_rows(path)
    assert str(path) in str(found.value)
    path.write_text("2 1:3 # a_b\n")
    assert open_rows(path).n_rows == 1


def test_rows_of_labels_alone_are_read(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1\n2\n1\n")
    rows = open_rows(path).read(0, 3)
    assert rows.y.tolist() == [1, 2, 1]
    assert rows.X.toarray().tolist() == [[0], [0], [0]]
    assert open_rows(path, n_features=4).read(0, 3).X.shape == (3, 4)
