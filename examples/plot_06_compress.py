"""
Fewer vectors for an SVM you already have
=========================================

`compress` takes a trained `SVC` (or `SVR`, `OneClassSVM`, a LIBSVM model file, ...) and gives a model that decides
like it with few vectors.  It needs no labels: it imitates the function, and is
measured by how often the two agree.
"""

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kompakt import compress

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y >= 5, test_size=0.5, random_state=0, stratify=y)
svc = SVC().fit(X_train, y_train)

smaller, path = compress(svc, n_basis=[5, 8, 12, 18, 27, 40], X=X_train, random_state=0, return_path=True)
print(f"the SVM: {len(svc.support_)} vectors, test error {100 * (1 - svc.score(X_test, y_test)):.2f} %")
measured = []
for step in path:
    same = np.mean(step["model"].predict(X_test) == svc.predict(X_test))
    error = np.mean(step["model"].predict(X_test) != y_test)
    measured.append(same)
    print(
        f"{step['n_basis']:3d} vectors: same labels on {100 * same:5.1f} % of the test rows, error {100 * error:.2f} %"
    )

# %%
# `agreement` in the path is measured on a quarter of the given rows and may be trusted as far as they are like the
# rows to come.
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
sizes = [step["n_basis"] for step in path]
ax.plot(sizes, [100 * step["agreement"] for step in path], "o-", label="measured by compress")
ax.plot(sizes, [100 * same for same in measured], "s--", label="on test rows")
ax.set(xlabel="vectors", ylabel="same labels as the SVM, %")
ax.legend()

# %%
# Or say how much agreement may be lost, and take the first size that keeps to it.
smaller = compress(svc, tol=0.02, X=X_train, random_state=0)
print(
    f"tol=0.02: {smaller.n_basis_} of {smaller.meta['compressed_from']} vectors, "
    f"agreement {100 * smaller.meta['agreement']:.1f} %"
)
