"""
Training-set approximation: projection and kernel Fisher
========================================================

`GreedyProjection` replaces rows by their coordinates in the span of a few of them.  Any linear method on the
coordinates is a kernel method on few vectors; `ProjectedSVC` and `ProjectedKernelFisher` are two.
"""

# %%
# The representation error of the rows falls as vectors are added.  Taking the row with the largest error keeps the
# worst row well represented; drawing rows in proportion to their error is better on average.
import numpy as np

from kompakt import GreedyProjection, KernelFisher, ProjectedKernelFisher, ProjectedSVC
from kompakt.datasets import make_ringnorm

X, y = make_ringnorm(5000, n_features=5, random_state=0)
X_train, y_train, X_test, y_test = X[:1500], y[:1500], X[1500:], y[1500:]

import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for pivot in ("max", "random"):
    projection = GreedyProjection(150, gamma=0.1, pivot=pivot, random_state=0).fit(X_train)
    panels[0].plot(projection.mse_, label=f'pivot="{pivot}"')
    panels[1].plot(projection.se_max_, label=f'pivot="{pivot}"')
panels[0].set(yscale="log", xlabel="vectors", title="mean representation error")
panels[1].set(yscale="log", xlabel="vectors", title="largest representation error")
for panel in panels:
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter("{x:g}")
panels[0].legend()

# %%
# Dot products of the coordinates approximate the kernel:
Z = projection.transform(X_test[:500])
exact = np.exp(-0.1 * ((X_test[:500, None, :] - X_test[None, :500, :]) ** 2).sum(axis=2))
print(f"{Z.shape[1]} coordinates: kernel values of new rows are off by {np.abs(Z @ Z.T - exact).mean():.4f} on average")

# %%
# Two models on the projected rows, and the discriminant on all of them for comparison.
models = {
    "KernelFisher (all rows)": KernelFisher(gamma=0.1, reg=1e-2),
    "ProjectedKernelFisher": ProjectedKernelFisher(60, gamma=0.1, reg=1e-2, random_state=0),
    "ProjectedSVC": ProjectedSVC(60, gamma=0.1, random_state=0),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    print(f"{name:24} {model.n_basis_:5d} vectors, test error {100 * (1 - model.score(X_test, y_test)):.2f} %")
