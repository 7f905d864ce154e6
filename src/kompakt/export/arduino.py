"""`to_arduino`: the files of `to_c` as a library for Arduino and PlatformIO, with a sketch that calls it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from kompakt.export.c_file import to_c
from kompakt.export.common import CReport
from kompakt.io.files import write_together
from kompakt.io.fitted import model_of

_SKETCH = """/* Predicts once a second, and prints the answer. */
#include <{name}.h>

/* A row of the {n_features} features: here {where}. Put yours into it. */
{kind} x[{upper}_FEATURES] = {{{row}}};

void setup() {{
  Serial.begin(9600);
}}

void loop() {{
{call}
  delay(1000);
}}
"""


def to_arduino(fitted: Any, folder: str | os.PathLike[str], *, name: str | None = None, **options: Any) -> CReport:
    """Write a machine as a library for Arduino and PlatformIO: `to_c`'s files, what describes them, and a sketch.

    Copy the folder into the libraries of the Arduino environment, or into ``lib`` of a PlatformIO project, and open
    the example *predict*.

    Parameters
    ----------
    fitted : fitted kompakt estimator, Model, pipeline, or SVM of scikit-learn
        On a chip without floating point, best one that `compress` rounded to int8: it is computed in integers.
    folder : path-like
        The folder of the library; it is made if it is not there.
    name : str, default=None
        Prefix of everything in the files; by default the folder's name.
    **options
        Passed on to `to_c`.

    Returns
    -------
    CReport

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> small = kompakt.compress(machine, storage="int8", X=X, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = kompakt.to_arduino(small, pathlib.Path(folder, "iris"), check_rows=X)
    ...     print(*sorted(path.relative_to(folder).as_posix() for path in report.files))
    iris/examples/predict/predict.ino iris/library.json iris/library.properties iris/src/iris.c iris/src/iris.h
    """
    target, model = Path(folder), model_of(fitted, svm=True)
    name = re.sub(r"[^A-Za-z0-9_]", "_", target.name)[:60] if name is None else name
    name = name if re.match(r"[A-Za-z_]", name) else f"m_{name}"
    with tempfile.TemporaryDirectory() as place:
        report = to_c(fitted, Path(place, f"{name}.c"), name=name, **options)
        texts: dict[Any, Any] = {target / "src" / path.name: [path.read_bytes()] for path in report.files}
    integers = report.score_bound is not None
    kind, upper = "int16_t" if integers else "float", name.upper()
    if model.kind == "regressor":
        unit = f" * {upper}_SCORE_UNIT" if integers else ""
        scores = "int32_t" if integers else "float"
        call = f"  {scores} scores[{upper}_SCORES];\n  {name}_scores(x, scores);\n  Serial.println(scores[0]{unit}, 4);"
    else:
        labels = "1 is an inlier, -1 an outlier"
        if model.classes is not None:
            shown = [ascii(str(label)) for label in model.classes[:10]]
            more = f" and so on, {len(model.classes)} in all" if len(model.classes) > 10 else ""
            labels = f"0 is {', then '.join(shown)}{more}".replace("*/", "* /")
        call = f"  /* {labels} */\n  Serial.println({name}_predict(x));"
    where = "zeros, in the units that the header tells" if integers else "zeros"
    sketch = _SKETCH.format(
        name=name, n_features=model.n_features, where=where, kind=kind, upper=upper, row="0", call=call
    )
    about = f"A {model.kind} of {model.n_features} features with {model.n_basis_} vectors, made by kompakt."
    facts = {
        "name": name, "version": "1.0.0", "author": "kompakt", "maintainer": "kompakt", "sentence": about,
        "paragraph": f"{report.data_bytes} bytes of flash for constants, {report.work_bytes} bytes of stack.",
        "category": "Data Processing", "url": "", "architectures": "*", "includes": f"{name}.h",
    }  # fmt: skip
    described = {"name": name, "version": "1.0.0", "description": about, "frameworks": "*", "platforms": "*"}
    texts |= {
        target / "library.properties": ["".join(f"{key}={value}\n" for key, value in facts.items()).encode()],
        target / "library.json": [json.dumps(described, indent=1).encode()],
        target / "examples" / "predict" / "predict.ino": [sketch.encode()],
    }
    for path in texts:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_together(texts)
    return replace(report, path=target, format="arduino", files=tuple(texts))
