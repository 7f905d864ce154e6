"""
Quantiles: an interval instead of a number
==========================================

With `loss="quantile"` the model estimates a conditional quantile, and two of them make an interval.
"""

# %%
# Noise that grows with x, so one interval of constant width would be wrong nearly everywhere.
import numpy as np

from kompakt import CompactSVR

rng = np.random.default_rng(0)


def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0, 6, size=(n, 1))
    return X, np.sin(X[:, 0]) + (0.05 + 0.15 * X[:, 0]) * rng.standard_normal(n)


X, y = draw(1500)
X_test, y_test = draw(5000)
levels = (0.1, 0.5, 0.9)
models = {level: CompactSVR(10, loss="quantile", quantile=level, C=1.0, random_state=0).fit(X, y) for level in levels}
for level, model in models.items():
    print(f"quantile {level}: {100 * np.mean(y_test <= model.predict(X_test)):.1f} % of the test rows lie below")
inside = (models[0.1].predict(X_test) < y_test) & (y_test <= models[0.9].predict(X_test))
print(f"between the outer two: {100 * inside.mean():.1f} % (asked for 80 %)")

# %%
import matplotlib.pyplot as plt

line = np.linspace(0, 6, 300)[:, None]
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.scatter(X, y, s=4, color="0.75")
ax.fill_between(line[:, 0], models[0.1].predict(line), models[0.9].predict(line), alpha=0.25, label="0.1 to 0.9")
ax.plot(line, models[0.5].predict(line), label="median")
ax.plot(line, np.sin(line), color="black", linestyle=":", label="true median")
ax.set(xlabel="x", ylabel="y")
ax.legend()

# %%
# Each quantile is a model of its own: nothing keeps two of them from crossing where rows are few.
crossing = np.mean(models[0.1].predict(X_test) > models[0.9].predict(X_test))
print(f"crossings on the test rows: {100 * crossing:.1f} %")
