"""
Many classes on one basis, and three codings
============================================

All classes share the basis vectors, so ten classes cost one kernel block and ten dot products per row.
"""

# %%
# Handwritten digits, 8 x 8 pixels; the set comes with scikit-learn.
import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kompakt import CompactSVC, FixedSizeLSSVC, Refinement

digits = load_digits()
X_train, X_test, y_train, y_test = train_test_split(
    digits.data / 16.0, digits.target, test_size=0.5, random_state=0, stratify=digits.target
)
models = {}
for coding in ("one_vs_rest", "one_vs_one", "minimum_output"):
    start = time.perf_counter()
    model = CompactSVC(30, C=10.0, coding=coding, gamma="learn", refine=Refinement(40), random_state=0)
    models[coding] = model.fit(X_train, y_train)
    print(
        f"{coding:15} {model.dual_coef_.shape[0]:3d} outputs, {model.n_basis_} vectors, "
        f"test error {100 * (1 - model.score(X_test, y_test)):.2f} %, fit {time.perf_counter() - start:.1f} s"
    )

# %%
# One-vs-one has 45 outputs for ten classes, minimum output coding four: the number of bits that tell ten classes
# apart.  That is quick, and has no redundancy: one wrong bit is a wrong class.  `decision_function` has a column per
# class under each of them, and `predict` is its argmax.
print("decision_function:", model.decision_function(X_test[:3]).shape)
quick = FixedSizeLSSVC(200, coding="minimum_output", tune=True, random_state=0).fit(X_train, y_train)
print(f"FixedSizeLSSVC, minimum output: test error {100 * (1 - quick.score(X_test, y_test)):.2f} % with 200 vectors")

# %%
# Sixteen of the vectors of the first model, as pictures, under the class that each speaks for most.
from kompakt.plots import BasisVectorsDisplay

model = models["one_vs_rest"]
BasisVectorsDisplay.from_estimator(model, kind="images", image_shape=(8, 8), max_vectors=16)
print("they", "have moved off the rows" if model.basis_indices_ is None else "are rows: moving them did not help")
