"""Every kind of index and identifier is left out of a table, and no measurement with it."""

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from benchmarks.identifiers import IDENTIFIERS, MEASUREMENTS, measure


@pytest.mark.parametrize("case", [*IDENTIFIERS, *MEASUREMENTS], ids=lambda case: case.name)
def test_identifiers_are_left_out_and_measurements_kept(case):
    assert measure(case, [120])["wrong"] == []
