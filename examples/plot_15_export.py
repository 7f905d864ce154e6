"""
Save a model, or ship it without Python
=======================================

A trained model is a handful of arrays.  `save` writes them with a checksum, `load` reads them without running any
code; the exporters write the same model as ONNX, C99, a LIBSVM text model or one NumPy file, and compare its answers
with the original's before anything is left behind.
"""

# %%
import importlib.util
import tempfile
from pathlib import Path

import numpy as np

import kompakt
from kompakt.datasets import make_spirals

X, y = make_spirals(2000, turns=1.0, noise=0.05, random_state=0)
model = kompakt.CompactSVC(20, gamma="learn", random_state=0).fit(X, y)
folder = Path(tempfile.mkdtemp())

kompakt.save(model, folder / "spirals.kompakt")
loaded = kompakt.load(folder / "spirals.kompakt")
print(
    f"{(folder / 'spirals.kompakt').stat().st_size} bytes;",
    "same answers:",
    np.array_equal(loaded.predict(X), model.predict(X)),
)

# %%
# The exports.  Each line is the report that the function returns; a compiler or a runtime that is not there is said so.
reports = [
    kompakt.to_numpy(model, folder / "spirals.py", check_rows=X),
    kompakt.to_libsvm(model, folder / "spirals.model", check_rows=X),
    kompakt.to_c(model, folder / "spirals.c", check_rows=X),
]
if importlib.util.find_spec("onnxruntime"):
    reports.append(kompakt.to_onnx(model, folder / "spirals.onnx", check_rows=X))
for report in reports:
    print(report.format + ":", str(report).replace(f"{folder}/", ""))

# %%
# An eight-bit basis is smaller still; what it costs in answers is measured on the rows given.
sizes = {}
for dtype in ("double", "float", "int8"):
    report = kompakt.to_c(model, folder / f"{dtype}.c", dtype=dtype, check_rows=X, check_targets=y)
    print(
        f"{dtype:6} {report.data_bytes:5d} bytes of constants, {report.work_bytes:4d} on the stack, accuracy "
        f"{report.accuracy_exported} (model: {report.accuracy}), "
        f"decision values moved by {report.storage_difference:.1g}"
    )
    sizes[f"{dtype} basis"] = report.data_bytes

# %%
# Against the vectors that an exact SVM keeps of the same rows, as four-byte numbers:
import matplotlib.pyplot as plt
from sklearn.svm import SVC

exact = SVC(gamma=model.gamma_).fit(X, y)
sizes["SVC, float"] = 4 * (exact.support_vectors_.size + exact.dual_coef_.size)
figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
ax.bar_label(ax.barh(list(sizes), list(sizes.values()), color=["C0", "C0", "C0", "C3"]), fmt="{:,.0f}", padding=3)
ax.set(xlabel="bytes of constants")
ax.margins(x=0.2)

# %%
# The NumPy file stands alone: no kompakt, no scikit-learn.
print("\n".join((folder / "spirals.py").read_text().splitlines()[:14]))
