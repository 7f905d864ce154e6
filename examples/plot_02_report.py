"""
A page about a model
====================

`report` writes one HTML file that needs no network: which columns matter and how, a panel that runs the model on a case
of your own, a threshold with its costs, the error at every size under a slider, errors in detail, learning curves, the
settings tried and why these, the vectors, the time spent, and how to load and export the model.
"""

# %%
import html
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactSVC, report

cancer = load_breast_cancer(as_frame=True)
labels = cancer.target_names[cancer.target]
X_train, X_test, y_train, y_test = train_test_split(cancer.data, labels, random_state=0, stratify=labels)
model = make_pipeline(StandardScaler(), CompactSVC(20, tune=True, calibrate=True, random_state=0))
model.fit(X_train, y_train)
path = Path(tempfile.mkdtemp()) / "cancer.html"
page = report(model, X_test, y_test, path, target="diagnosis", title="Breast cancer")
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
# One of its figures can be had alone: the vectors by feature, the most relevant feature on top.
from kompakt.plots import BasisVectorsDisplay

display = BasisVectorsDisplay.from_estimator(model)

# %%
# What the search tried is part of the model, and of its file; `kompakt inspect` shows it in a terminal.
for name, value in model[-1].model_.record.lines():
    print(f"{name:16} {value}")
