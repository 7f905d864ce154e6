"""
An exact SVM on the rows that matter
====================================

`LocalSamplingSVC` solves small subsamples exactly, takes their support vectors, draws more rows from balls around them,
and trains one exact SVM on what it has.  It reduces the training set, not the number of vectors.
"""

# %%
import time

import numpy as np
from sklearn.svm import SVC

from kompakt import CGLQSVC, LocalSamplingSVC, indecision_probability
from kompakt.datasets import make_spirals

X, y = make_spirals(14_000, turns=1.0, noise=0.1, random_state=0)
y = np.where(np.random.default_rng(0).random(len(y)) < 0.05, -y, y)
X_train, y_train, X_test, y_test = X[:8000], y[:8000], X[8000:], y[8000:]
same = {"gamma": 10.0, "C": 1.0}
models = {
    "SVC": SVC(**same),
    "LocalSamplingSVC": LocalSamplingSVC(**same, random_state=0),
    "CGLQSVC": CGLQSVC(**same, random_state=0),
}
for name, model in models.items():
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    used = len(model.training_indices_) if hasattr(model, "training_indices_") else len(X_train)
    print(
        f"{name:17} trained on {used:6,} rows, {len(model.support_):5,} support vectors, "
        f"test error {100 * np.mean(model.predict(X_test) != y_test):.2f} %, {seconds:.2f} s"
    )

# %%
# The rows that local sampling kept lie along the boundary.  It finds few of the full SVM's own support vectors: in
# noise, many sets of rows give nearly the same boundary.
import matplotlib.pyplot as plt

local = models["LocalSamplingSVC"]
print(f"share of the full SVM's support vectors that it has as well: {100 * local.overlap_with(models['SVC']):.1f} %")
figure, panels = plt.subplots(1, 2, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
colours = np.where(y_train == 1, "#d9702b", "#3b6fb6")
panels[0].scatter(*X_train.T, c=colours, s=1)
panels[0].set(title=f"all {len(X_train):,} rows", aspect="equal")
kept = local.training_indices_
panels[1].scatter(*X_train[kept].T, c=colours[kept], s=1)
panels[1].set(title=f"the {len(kept):,} that were trained on", aspect="equal")

# %%
# How often a model is nearly undecided, which the paper uses to compare the reduced with the full one:
for eps in (0.1, 0.5):
    shares = {name: indecision_probability(model, X_test, eps) for name, model in models.items()}
    print(f"|f| < {eps}:", ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()))
