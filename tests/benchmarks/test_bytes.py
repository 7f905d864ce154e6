"""`benchmarks.peers.bytes`: what it counts is what a C file holds."""

import numpy as np
import pytest
from benchmarks.peers.bytes import Setting, n_outputs
from sklearn.datasets import make_blobs

from kompakt import CompactSVC, Refinement, compress, to_c
from kompakt.export.c_file import find_compiler


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("metric", ["learn", "ard", 2])
def test_models_of_the_counted_size_fit_into_the_budget(metric, tmp_path):
    X, y = make_blobs(300, n_features=5, centers=3, cluster_std=3.0, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    m = Setting(metric=metric).n_basis(256, 5, n_outputs(y))
    rank = None if isinstance(metric, str) else metric
    refine = Refinement(5, rank=rank)
    machine = CompactSVC(m, gamma=metric if rank is None else "full", refine=refine, random_state=0).fit(X, y)
    model = compress(machine, storage="int8", X=X, random_state=0)
    labels, powers = 4 * 3, 66  # labels are counted for nobody, and the table of powers is part of the program
    counted = to_c(model, tmp_path / "model.c", arithmetic="integer").data_bytes - labels - powers
    assert counted <= model.stored_bytes
    assert 0.8 * 256 < model.stored_bytes <= 256
    assert np.mean(model.predict(X) == y) > 0.6
