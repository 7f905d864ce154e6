"""
From SVC to kompakt in three lines
==================================

Change the import, change the class, say how many vectors you can afford.  The rest stays as it was: `fit`, `predict`,
`decision_function`, `score`, pipelines, searches, sample weights and class weights.
"""

# %%
# Handwritten digits, half of them to train.  An exact SVM keeps every row on the wrong side of its margin, and many
# beside it, as support vectors; each prediction compares the new image with all of them.
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)

exact = SVC().fit(X_train, y_train)
print(f"SVC: {len(exact.support_):,} vectors, test error {100 * (1 - exact.score(X_test, y_test)):.2f} %")

# %%
# The three lines:
from kompakt import CompactSVC

compact = CompactSVC(n_basis=40, random_state=0).fit(X_train, y_train)
print(f"CompactSVC: {compact.n_basis_} vectors, test error {100 * (1 - compact.score(X_test, y_test)):.2f} %")

# %%
# A prediction costs one kernel value per vector:
for model in (exact, compact):
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        model.predict(X_test)
        seconds.append(time.perf_counter() - start)
    print(f"{type(model).__name__:>10}: {1e6 * min(seconds) / len(X_test):7.2f} microseconds per row")

# %%
# The basis vectors of `CompactSVC` are chosen among the rows and then moved, if that helps on held-out rows; then
# `basis_indices_` is None, and they need not look like rows any more.
import matplotlib.pyplot as plt

print("the vectors", "have moved" if compact.basis_indices_ is None else "are rows")
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
kept = {
    f"40 of the {len(exact.support_):,} support vectors of SVC": exact.support_vectors_[:: len(exact.support_) // 40],
    f"the {compact.n_basis_} basis vectors of CompactSVC": compact.basis_vectors_,
}
for panel, (title, vectors) in zip(panels, kept.items(), strict=True):
    images = np.pad(vectors[:40].reshape(5, 8, 8, 8), [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=np.nan)
    panel.imshow(images.transpose(0, 2, 1, 3).reshape(50, 80), cmap="gray_r")
    panel.set(title=title)
    panel.axis("off")

# %%
# What changes for someone who comes from `SVC`:
#
# - The default loss is the squared hinge; `loss="hinge"` is that of `SVC`.  With every row in the basis
#   (`selection="all", refine=False, loss="hinge"`) the two models are the same.
# - There is no `support_`; there are `basis_vectors_` and, where they are rows, `basis_indices_`.
# - Several classes share one basis (one-vs-rest by default), and `decision_function` has one column per class.
# - Probabilities come from `calibrate=True`, see the example on calibration.
