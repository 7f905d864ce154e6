"""
Rows that stay in their files
=============================

`open_rows` opens files; `fit` passes over them block by block and never holds them all.  The formats are npy, npz, CSV,
Parquet, svmlight and zarr, and any re-iterable of blocks.
"""

# %%
# Some files, as a daily export would leave them: a header, three features in very different units, a label.
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from kompakt import CompactSVC, FixedSizeLSSVC, open_rows

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())


def draw(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame(rng.standard_normal((n, 3)) * [1.0, 100.0, 0.01], columns=["first", "second", "third"])
    return X, np.where(X["first"] ** 2 + (X["second"] / 100) ** 2 < 1.5, "in", "out")


for day in range(4):
    X, y = draw(2500)
    X.assign(label=y).to_csv(folder / f"day{day}.csv", index=False)

# %%
# Rows of all files together, with the scaling found in the first pass and stored in the model.
rows = open_rows(folder / "day*.csv", target="label", scale=True)
model = CompactSVC(15, random_state=0).fit(rows)
X_test, y_test = draw(5000)
print(f"{model.n_basis_} vectors, classes {model.classes_.tolist()}, passes over the files: {model.n_passes_}")
print(f"test error {100 * (1 - model.score(X_test, y_test)):.2f} % on rows in their own units")

# %%
# Blocks that a function makes, such as a database cursor would.  It is called once per pass, so it must give the same
# blocks each time.


def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for path in sorted(folder.glob("*.csv")):
        table = pd.read_csv(path)
        yield table[["first", "second", "third"]].to_numpy(), table["label"].to_numpy(dtype=str)


least_squares = FixedSizeLSSVC(60, random_state=0).fit(open_rows(blocks, scale=True))
print(f"FixedSizeLSSVC from blocks: test error {100 * (1 - least_squares.score(X_test.to_numpy(), y_test)):.2f} %")

# %%
# What is held in memory is a sample for selection and refinement, and one block at a time for the rest.
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
known = model.predict(X_test)
for label, colour in (("in", "#d9702b"), ("out", "#3b6fb6")):
    ax.scatter(
        X_test["first"][known == label], X_test["second"][known == label], s=2, color=colour, label=f"predicted {label}"
    )
angle = np.linspace(0, 2 * np.pi, 200)
ax.plot(np.sqrt(1.5) * np.cos(angle), 100 * np.sqrt(1.5) * np.sin(angle), color="black", linewidth=1, label="truth")
ax.set(xlabel="first", ylabel="second")
ax.legend()
