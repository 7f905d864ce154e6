"""
Regression, and which loss
==========================

Five losses for regression, on data where one row in ten is far off.
"""

# %%
import numpy as np

from kompakt import CompactSVR

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, size=(600, 1))
truth = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]
y = truth + 0.15 * rng.standard_normal(600)
wrong = rng.random(600) < 0.1
y[wrong] += rng.uniform(2, 6, size=wrong.sum())

settings = {
    "least_squares": {},
    "huber": {"epsilon": 0.2},
    "absolute": {},
    "epsilon_insensitive": {"epsilon": 0.2},
}
models = {loss: CompactSVR(12, loss=loss, C=10.0, random_state=0, **more).fit(X, y) for loss, more in settings.items()}
for loss, model in models.items():
    distance = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    print(f"{loss:20} {model.n_basis_:3d} vectors   root mean squared distance from the truth {distance:.3f}")

# %%
# Squares follow the outliers; the others hardly do.  `huber` is quadratic near zero and linear from `epsilon` on.
# The piecewise linear ones are solved to the exact minimum, not to a rounded one: the rows on their kinks carry
# multipliers that prove it.
import matplotlib.pyplot as plt

line = np.linspace(0, 6, 300)[:, None]
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.scatter(X, y, s=5, color="0.75")
ax.plot(line, np.sin(2 * line[:, 0]) + 0.3 * line[:, 0], color="black", linestyle=":", label="truth")
for loss, model in models.items():
    ax.plot(line, model.predict(line), label=loss)
ax.set(xlabel="x", ylabel="y")
ax.legend()

# %%
# Several targets share one basis; the answer has one column for each.
both = CompactSVR(15, C=10.0, random_state=0).fit(X, np.column_stack([truth, np.cos(2 * X[:, 0])]))
print("two targets:", both.predict(X[:2]).round(2).tolist(), f"with {both.n_basis_} vectors")
