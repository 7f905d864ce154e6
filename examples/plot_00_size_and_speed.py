"""
Handwritten digits: error, size and time of six kinds of model
==============================================================

A kernel SVM reads the digits that come with scikit-learn well, but it keeps hundreds of them as support vectors, and
every prediction compares the new image with each.  How much of its accuracy remains with 10, 20 or 40 vectors, and
what do other small models reach?
"""

# %%
# Every number of a model is counted as four bytes; a tree as six bytes per split (feature, threshold) and four per
# leaf.  Times are those of a whole batch of test rows, divided by their number.  C and the widths of the kernel models
# are their defaults.  One half of the rows is trained on and the other tested on, then the other way round.
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from kompakt import CompactSVC

X, y = load_digits(return_X_y=True)
X = X / 16
d, classes = X.shape[1], 10


def numbers_of(model):
    """How many numbers the stored model has."""
    if isinstance(model, CompactSVC):
        mapped = 0 if model.model_.inputs.map is None else model.model_.inputs.map.size
        return model.model_.basis.size + model.dual_coef_.size + d + mapped
    if isinstance(model, SVC):
        return model.support_vectors_.size + model.dual_coef_.size
    if isinstance(model, MLPClassifier):
        return sum(part.size for part in model.coefs_ + model.intercepts_)
    if hasattr(model, "steps"):  # Nystroem keeps rows, a square matrix of their number, and a weight per class
        return model[0].components_.size + model[0].normalization_.size + model[1].coef_.size
    return model.coef_.size + classes


def bytes_of(model):
    if not isinstance(model, HistGradientBoostingClassifier):
        return 4 * numbers_of(model)
    trees = [tree.get_n_leaf_nodes() for one_round in model._predictors for tree in one_round]
    return sum(6 * (leaves - 1) + 4 * leaves for leaves in trees)


# %%
# Six families, each from small to large.
families = {
    "CompactSVC": [CompactSVC(m, gamma="ard", random_state=0) for m in (5, 10, 20, 40)],
    "SVC": [SVC()],
    "Nystroem + LinearSVC": [
        make_pipeline(Nystroem(n_components=m, gamma=0.03, random_state=0), LinearSVC(C=10)) for m in (20, 50, 100)
    ],
    "boosted trees": [
        HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=8, early_stopping=False, random_state=0)
        for rounds in (10, 50)
    ],
    "neural network": [
        MLPClassifier((hidden,), max_iter=400, learning_rate_init=0.01, random_state=0) for hidden in (10, 20, 50)
    ],
    "logistic regression": [LogisticRegression(max_iter=1000)],
}
points = {}
for name, models in families.items():
    for model in models:
        found = []
        for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # small networks say that they could train for longer
                model.fit(X[train], y[train])
            seconds = []
            for _ in range(20):
                start = time.perf_counter()
                labels = model.predict(X[test])
                seconds.append(time.perf_counter() - start)
            found.append((bytes_of(model) / 1024, 1e6 * min(seconds) / len(test), 100 * np.mean(labels != y[test])))
        points.setdefault(name, []).append(np.mean(found, axis=0))
        size, microseconds, error = points[name][-1]
        print(f"{name:22} {size:7.1f} kB {microseconds:7.1f} us per row, test error {error:5.2f} %")

# %%
# Lower is better, and so is further left.
looks = {
    "CompactSVC": ("o-", "#0b6e99"),
    "SVC": ("*", "#c02f1d"),
    "Nystroem + LinearSVC": ("v--", "#7a5195"),
    "boosted trees": ("^:", "#5b7f2b"),
    "neural network": ("s--", "#b4551d"),
    "logistic regression": ("D", "#666666"),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for axis, column, label in ((axes[0], 0, "kB of the stored model"), (axes[1], 1, "microseconds per prediction")):
    for name, found in points.items():
        style, colour = looks[name]
        values = np.array(found)
        axis.plot(
            values[:, column], values[:, 2], style, color=colour, label=name, markersize=9 if name == "SVC" else 6
        )
    axis.set(xscale="log", xlabel=label)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.grid(alpha=0.3)
axes[0].set_ylabel("test error (%)")
axes[0].set_ylim(bottom=0)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize="small")
plt.show()
