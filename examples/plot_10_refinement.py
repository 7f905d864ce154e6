"""
Why the vectors move
====================

The papers choose basis vectors among the rows.  `CompactSVC` then moves them, and the widths, downhill on the objective
of the SVM itself.  That is worth a factor in size.
"""

# %%
from kompakt import CompactSVC, SpSVC
from kompakt.datasets import make_checkerboard

X, y = make_checkerboard(9000, n_cells=3, random_state=0)
X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
sizes = (6, 9, 13, 20, 40)
kinds = {
    "greedy on the objective (SpSVC)": lambda m: SpSVC(m, gamma=10.0, C=100.0, random_state=0),
    "Gram space, not refined": lambda m: CompactSVC(m, gamma=10.0, C=100.0, refine=False, random_state=0),
    "Gram space, refined": lambda m: CompactSVC(m, gamma=10.0, C=100.0, random_state=0),
}
errors = {
    name: [100 * (1 - make(m).fit(X_train, y_train).score(X_test, y_test)) for m in sizes]
    for name, make in kinds.items()
}
for name, values in errors.items():
    print(f"{name:32}", "  ".join(f"{m}: {error:5.2f} %" for m, error in zip(sizes, values, strict=True)))

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, values in errors.items():
    ax.plot(sizes, values, "o-", label=name)
ax.set(xscale="log", yscale="log", xlabel="vectors", ylabel="test error, %", xticks=sizes, xticklabels=sizes)
ax.set_xticks([], minor=True)
ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.set_yticks([], minor=True)
ax.legend()

# %%
# Six vectors before and after.  The descent is not convex: it ends in a local minimum, which is compared with its start
# on held-out rows and thrown away if it is worse there.  Where both curves above meet, that is what happened.
from kompakt.plots import BasisVectorsDisplay

figure, panels = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for panel, refine in zip(panels, (False, True), strict=True):
    model = CompactSVC(6, gamma=10.0, C=100.0, refine=refine, random_state=0).fit(X_train, y_train)
    BasisVectorsDisplay.from_estimator(model, X_train, y_train, ax=panel)
    panel.set_title(f"refine={refine}: test error {100 * (1 - model.score(X_test, y_test)):.2f} %")
print({key: model.history_[-2].get(key) for key in ("phase", "kept", "validation_before", "validation")})

# %%
# How the descent went: the objective on the training rows, and the mean loss of held-out rows, which decides how far it
# goes.
from kompakt.plots import ConvergenceDisplay

display = ConvergenceDisplay.from_estimator(model)
