"""
A page about a model
====================

`report` writes one HTML file that needs no network: the data, the parameters and why, the error at every size under a
slider, the vectors, the time spent, and how to load and export the model.
"""

# %%
import html
import tempfile
from pathlib import Path

from kompakt import CompactSVC, report
from kompakt.datasets import make_checkerboard

X, y = make_checkerboard(4000, n_cells=3, flip=0.02, random_state=0)
model = CompactSVC(30, C=10.0, calibrate=True, random_state=0).fit(X[:2000], y[:2000])
page = report(model, X[2000:], y[2000:], Path(tempfile.mkdtemp()) / "checkerboard.html", title="A checkerboard")
text = page.read_text()
print(f"{page.name}: {len(text) / 1024:.0f} kB; references to other places: {text.count('src=') + text.count('<link')}")

# %%
# The page itself, as it is:


class Page:
    """Shows a page inside another one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        inside = html.escape(self.path.read_text(), quote=True)
        return (
            f'<iframe title="report" style="width:100%;height:700px;border:1px solid #888" srcdoc="{inside}"></iframe>'
        )


Page(page)

# %%
# One of its figures can be had alone: the vectors on the decisions.
import matplotlib.pyplot as plt

from kompakt.plots import BasisVectorsDisplay

figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
BasisVectorsDisplay.from_estimator(model, X[2000:2600], ax=ax)
plt.show()
