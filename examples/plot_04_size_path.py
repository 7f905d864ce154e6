"""
How many vectors? n_basis="auto"
================================

The number of basis vectors is the one thing that only you can know if it is a budget; if it is not, let the estimator
look for the smallest size that is as good as the best.
"""

# %%
# With `n_basis="auto"` a path of sizes is fitted on four fifths of the rows and measured on the others.  The size
# taken is the smallest whose error lies within one standard error of the lowest.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kompakt import CompactSVC
from kompakt.plots import SizePathDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
model = CompactSVC(n_basis="auto", random_state=0).fit(X_train, y_train)
print(f"chosen: {model.n_basis_} vectors, test error {100 * (1 - model.score(X_test, y_test)):.2f} %")

# %%
# The path is kept in `size_path_` and drawn by a display class.  The band is one standard error.
display = SizePathDisplay.from_estimator(model)
display.figure_.set_layout_engine("constrained")

# %%
# The choice depends on one split of the rows, and the curve is flat around it: another split may choose a neighbour.
# `n_basis=AutoSize(tol=...)` sets what "as good as the best" means, in units of the error (else: one standard error).
path = model.size_path_
errors = np.asarray(path.errors).reshape(len(path.sizes), -1).mean(axis=1)
for size, error in zip(path.sizes, errors, strict=True):
    print(f"{size:4d} vectors: validation error {100 * error:5.2f} %")
for tol in (0.0, 0.002, 0.05):
    chosen = next(size for size, error in zip(path.sizes, errors, strict=True) if error <= errors.min() + tol)
    print(f"tol={tol}: {chosen} vectors")
