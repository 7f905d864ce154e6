"""
Which estimator for me?
=======================

The short answer is `CompactSVC` or `CompactSVR`.  This example runs every classifier of the package on the same rows
with the same kernel, and shows what each is good for.
"""

# %%
# Two interlocking spirals, a tenth of the labels wrong.  Width and C are the same for all.
import time

import numpy as np
from sklearn.svm import SVC

import kompakt
from kompakt.datasets import make_spirals

X, y = make_spirals(7000, turns=1.5, noise=0.04, random_state=0)
rng = np.random.default_rng(0)
y = np.where(rng.random(len(y)) < 0.1, -y, y)
X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
same = {"gamma": 10.0, "C": 1.0}

models = {
    "SVC (scikit-learn)": SVC(**same),
    "CompactSVC, 20 vectors": kompakt.CompactSVC(20, **same, random_state=0),
    "CompactSVC, not refined": kompakt.CompactSVC(20, **same, refine=False, random_state=0),
    "SpSVC": kompakt.SpSVC(40, **same, random_state=0),
    "FEESVC": kompakt.FEESVC(60, **same, random_state=0),
    "FixedSizeLSSVC": kompakt.FixedSizeLSSVC(60, **same, random_state=0),
    "ProjectedSVC": kompakt.ProjectedSVC(60, **same, random_state=0),
    "ProjectedKernelFisher": kompakt.ProjectedKernelFisher(60, gamma=10.0, reg=1e-3, random_state=0),
    "LocalSamplingSVC": kompakt.LocalSamplingSVC(**same, random_state=0),
    "CGLQSVC": kompakt.CGLQSVC(**same, random_state=0),
}
rows = []
for name, model in models.items():
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    size = len(model.support_) if name.startswith("SVC") else model.n_basis_
    rows.append((name, size, 100 * np.mean(model.predict(X_test) != y_test), seconds))
    print(f"{name:24} {size:5d} vectors   test error {rows[-1][2]:5.2f} %   fit {seconds:5.2f} s")

# %%
# Size against error: below and to the left is better.  The dashed line joins the models that no other beats in both.
import matplotlib.pyplot as plt

from kompakt.plots import ParetoDisplay

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
points = [{"contender": name, "size": size, "error": error} for name, size, error, _ in rows]
ParetoDisplay.from_points(points, ax=ax)
ax.set(xlabel="vectors that every prediction looks at")
ticks = [size for size in (20, 50, 100, 200, 500, 1000) if size < 1.2 * max(row[1] for row in rows)]
ax.set_xticks(ticks, map(str, ticks))
ax.set_xticks([], minor=True)
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")

# %%
# How to read it:
#
# ==============================================  ==========================================
# you want                                        take
# ==============================================  ==========================================
# the least error for a number of vectors         `CompactSVC`, `CompactSVR`
# vectors that are rows of your data              the same with `refine=False`, or `SpSVC`
# a model that grows until it is good enough      `FEESVC`, `FEESVR`, `SpSVC`
# C and width found by exact cross-validation     `FixedSizeLSSVC`, `FixedSizeLSSVR`
# features for a linear method of your own        `GreedyProjection`
# a discriminant with class-wise covariances      `KernelFisher`, `ProjectedKernelFisher`
# the exact SVM, on fewer rows                    `LocalSamplingSVC`, `CGLQSVC`
# fewer vectors for a model you already have      `compress`
# ==============================================  ==========================================
#
# The two that reduce the training set keep an exact SVM's habit of many support vectors: they save training time,
# not prediction time.
