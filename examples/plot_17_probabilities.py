"""
Probabilities
=============

`calibrate=True` fits a sigmoid to decision values of held-out rows, and then offers `predict_proba`.
"""

# %%
import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

from kompakt import CompactSVC
from kompakt.datasets import make_ringnorm

X, y = make_ringnorm(12_000, n_features=2, random_state=0)
X_train, y_train, X_test, y_test = X[:3000], y[:3000], X[3000:], y[3000:]
model = CompactSVC(10, calibrate=True, random_state=0).fit(X_train, y_train)
probability = model.predict_proba(X_test)[:, 1]

# how the rows were made: one normal cloud of variance 4, one of variance 1 around (sqrt 2, sqrt 2)
wide = np.exp(-np.sum(X_test**2, axis=1) / 8) / 4
narrow = np.exp(-np.sum((X_test - np.sqrt(2)) ** 2, axis=1) / 2)
truth = wide / (wide + narrow)
for name, score in (("Brier score", brier_score_loss), ("log loss", log_loss)):
    print(f"{name:12} {score(y_test, probability):.4f}, of the true probabilities {score(y_test, truth):.4f}")

# %%
# Of the rows that are given a probability near p, a share of p should be positive.
import matplotlib.pyplot as plt

edges = np.quantile(probability, np.linspace(0, 1, 11))
place = np.clip(np.searchsorted(edges, probability) - 1, 0, 9)
said = [probability[place == k].mean() for k in range(10)]
was = [(y_test[place == k] == 1).mean() for k in range(10)]
figure, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", linestyle=":")
ax.plot(said, was, "o-")
ax.set(xlabel="probability given", ylabel="share of positives", aspect="equal")
print(f"largest gap between the two: {np.max(np.abs(np.subtract(said, was))):.3f}")

# %%
# A sigmoid of the decision value has two parameters.  Where the true probabilities are another function of it, such as
# a step from 0.2 to 0.8 at the boundary, they come out too soft near the boundary; `CalibratedClassifierCV` with
# `method="isotonic"` then does better, at the cost of further fits.
