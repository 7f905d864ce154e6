"""
Growing by fast error estimation
================================

`FEESVC` starts from the class means and adds one support vector after the other.  At every step it tries ten of them,
estimates the validation error of the model that each would make without training it, and adds the best.
"""

# %%
# Every thin line is the boundary that a candidate would make, estimated with the present weights of the rows; the
# thick one belongs to the candidate that was added.
from kompakt import FEESVC
from kompakt.datasets import make_checkerboard
from kompakt.plots import CandidateBoundariesDisplay

X, y = make_checkerboard(4000, n_cells=2, random_state=0)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[600:], y[600:]
model = FEESVC(gamma=10.0, C=100.0, random_state=0)
display = CandidateBoundariesDisplay.from_estimator(model, X_train, y_train, steps=(3, 4, 6, 10), resolution=60)

# %%
# Growth stops 20 steps after the lowest validation error (`AutoSize` sets another number); that model is returned.
model.fit(X_train, y_train)
error = 100 * (1 - model.score(X_test, y_test))
print(f"{model.n_basis_} vectors after {len(model.history_)} sizes, test error {error:.2f} %")
print("one record of the history:", {key: model.history_[3][key] for key in sorted(model.history_[3])[:6]})

# %%
# The estimate and what the trained model then had, size by size.
from kompakt.plots import ConvergenceDisplay

display = ConvergenceDisplay.from_estimator(model)
display.figure_.set_layout_engine("constrained")

# %%
# Choosing by the error of held-out rows costs little more than choosing by geometry (`selection="sgma"`):
for selection in ("fee", "sgma", "gsvc"):
    other = FEESVC(gamma=10.0, C=100.0, selection=selection, random_state=0).fit(X_train, y_train)
    print(f"{selection:5} {other.n_basis_:3d} vectors, test error {100 * (1 - other.score(X_test, y_test)):.2f} %")
