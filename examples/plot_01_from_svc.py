"""
From SVC to kompakt in three lines
==================================

Change the import, change the class, say how many vectors you can afford.  The rest stays as it was: `fit`, `predict`,
`decision_function`, `score`, pipelines, searches, sample weights and class weights.
"""

# %%
# An exact SVM keeps every row on the wrong side of its margin as a support vector: on noisy data their number grows
# with the number of rows, and so does the time of every prediction.
import time

import numpy as np
from sklearn.svm import SVC

from kompakt.datasets import make_checkerboard

X, y = make_checkerboard(13_000, n_cells=4, flip=0.05, random_state=0)
X_train, y_train, X_test, y_test = X[:3000], y[:3000], X[3000:], y[3000:]

exact = SVC(gamma=30.0, C=10.0).fit(X_train, y_train)
print(f"SVC: {len(exact.support_):,} vectors, test error {100 * (1 - exact.score(X_test, y_test)):.2f} %")

# %%
# The three lines.  `gamma` is the width to start from here; without it, one width per feature is learned.
from kompakt import CompactSVC

compact = CompactSVC(n_basis=60, gamma=30.0, C=10.0, random_state=0).fit(X_train, y_train)
print(f"CompactSVC: {compact.n_basis_} vectors, test error {100 * (1 - compact.score(X_test, y_test)):.2f} %")

# %%
# The labels of 5 % of the rows were turned round, so nothing can have an error below 5 %.  A prediction costs one
# kernel value per vector:
for model in (exact, compact):
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model.predict(X_test)
        seconds.append(time.perf_counter() - start)
    print(f"{type(model).__name__:>10}: {1e6 * min(seconds) / len(X_test):7.2f} microseconds per row")

# %%
# Both boundaries, and what each model keeps.  The basis vectors of `CompactSVC` are chosen among the rows and then
# moved, if that helps on held-out rows; then `basis_indices_` is None.  They need not lie near the boundary.
import matplotlib.pyplot as plt

print("the vectors", "have moved" if compact.basis_indices_ is None else "are rows")

side = np.linspace(0, 1, 200)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
figure, panels = plt.subplots(1, 2, figsize=(9, 4.6), sharex=True, sharey=True, layout="constrained")
kept = {
    f"SVC: {len(exact.support_):,} support vectors": (exact, exact.support_vectors_),
    f"CompactSVC: {compact.n_basis_} basis vectors": (compact, compact.basis_vectors_),
}
for panel, (title, (model, vectors)) in zip(panels, kept.items(), strict=True):
    values = model.decision_function(grid).reshape(len(side), len(side))
    panel.contourf(side, side, values, levels=[-np.inf, 0, np.inf], colors=["#d7e3f4", "#f8dfd0"])
    panel.contour(side, side, values, levels=[0], colors="black", linewidths=1.2)
    panel.scatter(*vectors.T, facecolors="none", edgecolors="black", s=14, linewidths=0.7)
    panel.set(title=title, xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])

# %%
# What changes for someone who comes from `SVC`:
#
# - The default loss is the squared hinge; `loss="hinge"` is that of `SVC`.  With every row in the basis
#   (`selection="all", refine=False, loss="hinge"`) the two models are the same.
# - There is no `support_`; there are `basis_vectors_` and, where they are rows, `basis_indices_`.
# - Several classes share one basis (one-vs-rest by default), and `decision_function` has one column per class.
# - Probabilities come from `calibrate=True`, see the example on calibration.
