"""
C and the width: tune=True, or a search of your own
===================================================

`tune=True` chooses C and the width to start from by cross-validation: a table of both with models that are not refined,
then a few refined ones. A linear model and a constant are measured beside them.
"""

# %%
# Handwritten digits again, as two classes: 0 to 4 against 5 to 9.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactSVC, FixedSizeLSSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y >= 5, test_size=0.5, random_state=0, stratify=y)

plain = CompactSVC(20, C=0.01, random_state=0).fit(X_train, y_train)
tuned = CompactSVC(20, tune=True, random_state=0).fit(X_train, y_train)
print(f"C = 0.01 (too small): test error {100 * (1 - plain.score(X_test, y_test)):.2f} %")
print(f"tuned, C = {tuned.C_:g}: test error {100 * (1 - tuned.score(X_test, y_test)):.2f} %")
results = tuned.cv_results_
print(f"{len(results['param_C'])} evaluations; columns: {', '.join(sorted(results))}")

# %%
# The fixed-size estimators have a shorter way: the predictions for every left-out fold of a least-squares model follow
# from one factorisation, so a whole path of C costs about as much as one fit, and only the width is searched.
for selection in ("random", "renyi"):
    fixed = FixedSizeLSSVC(100, selection=selection, tune=True, random_state=0).fit(X_train, y_train)
    print(
        f"prototypes by {selection}: C = {fixed.C_:.3g}, gamma = {fixed.gamma_:.3g}, cross-validated error "
        f"{100 * fixed.cv_error_:.2f} %, test error {100 * (1 - fixed.score(X_test, y_test)):.2f} %"
    )

# %%
# The cross-validation is exact for the prototypes at hand.  But those were chosen among all rows, those of the left-out
# fold too; where they are chosen for being far out, as by entropy here, the validated error is too good to be true.
# Rows that took no part in anything are the last word.
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
points = ax.scatter(
    fixed.cv_results_["param_gamma"],
    fixed.cv_results_["param_C"],
    s=12,
    c=100 * np.asarray(fixed.cv_results_["mean_test_error"]),
    cmap="viridis_r",
)
ax.plot(fixed.gamma_, fixed.C_, "*", color="black", markersize=14)
ax.set(xscale="log", yscale="log", xlabel="gamma", ylabel="C", title="what the search of FixedSizeLSSVC looked at")
figure.colorbar(points, label="cross-validated error, %")

# %%
# scikit-learn's searches work as with any estimator; `refine=False` makes a grid quick.
grid = GridSearchCV(
    make_pipeline(StandardScaler(), CompactSVC(30, refine=False, random_state=0)),
    {"compactsvc__C": [0.1, 1.0, 10.0], "compactsvc__gamma": [0.005, 0.01, 0.02]},
    cv=3,
)
grid.fit(X_train, y_train)
print(grid.best_params_, f"test error {100 * (1 - grid.score(X_test, y_test)):.2f} %")
