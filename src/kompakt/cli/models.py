"""``inspect``, ``export``, ``compress`` and ``report``: commands on a model file."""

from __future__ import annotations

import math
import os
from argparse import Namespace
from dataclasses import replace
from typing import Any

import numpy as np

import kompakt
from kompakt.cli.console import Console, UsageError, two_columns
from kompakt.cli.predict import labels_like, load_model
from kompakt.cli.tables import check_output, dense_if_small, is_model, open_table, target_file
from kompakt.data.table import missing_targets
from kompakt.io import read_header
from kompakt.model import Model

_ENDINGS = {
    ".onnx": "onnx", ".c": "c", ".py": "numpy", ".js": "js", ".model": "libsvm", ".libsvm": "libsvm", ".txt": "libsvm",
}  # fmt: skip


def inspect(options: Namespace, console: Console) -> None:
    """``kompakt inspect MODEL``: what is inside; reading it runs no code."""
    path, model = options.model, load_model(options.model)
    classes, names = (None if values is None else values.tolist() for values in (model.classes, model.feature_names))
    if not is_model(path):
        facts: dict[str, Any] = {
            "file": path, "format": "LIBSVM text model", "kind": model.kind, "kernel": str(model.kernel),
            "vectors": model.n_basis_, "features": model.n_features, "classes": classes,
        }  # fmt: skip
        lines: list[tuple[str, Any]] = list(facts.items())
    else:
        header = read_header(path)
        arrays = header["arrays"]
        sizes = {name: math.prod(shape) * np.dtype(dtype).itemsize for name, (dtype, shape) in arrays.items()}
        facts = {**header, "classes": classes, "feature_names": names, "meta": model.meta}
        stored = {
            "fill": "fills missing values", "shift": "shifts", "scale": "scales", "pieces": "bends features",
            "map": "maps linearly",
        }  # fmt: skip
        kernel, inputs = str(model.kernel), model.inputs
        if inputs.bends is not None:
            kernel += f" of features bent in {inputs.arrays()['pieces'].sum():,} pieces"
        if inputs.map is not None:
            kernel += " after a learned linear map of rank {} over {} features".format(*inputs.map.shape)
        lines = [
            ("file", f"{path} ({os.path.getsize(path):,} bytes)"),
            ("written by", header["writer"]),
            ("kind", header["kind"]),
            ("kernel", kernel),
            ("basis vectors", f"{model.n_basis_} with {model.n_features} features, {arrays['basis'][0]}"),
            ("stored numbers", f"{sum(sizes.values()):,} bytes, of which " + _largest_first(sizes)),
            ("outputs", model.weights.shape[1]),
            ("classes", classes),
            ("features", names),
            ("table", None if inputs.schema is None else f"{len(inputs.schema.names)} columns, as below"),
            ("coding", model.coding if len(classes or ()) > 2 else None),
            ("inputs", ", ".join(step for name, step in stored.items() if name in inputs.arrays()) or "as they are"),
            ("probabilities", "yes" if header["calibrated"] else "no"),
            ("intervals", None if model.interval is None else f"{100 * model.interval.level:g} %"),
            *((str(name), value) for name, value in model.meta.items()),
            *(model.record.lines() if model.record is not None else ()),
            *(("array", f"{name} {dtype} {tuple(shape)}") for name, (dtype, shape) in arrays.items()),
            *(
                ("column", f"{column.name}: {column.describe()}")
                for column in (inputs.schema.columns if inputs.schema else ())
            ),
        ]
    console.result(facts, two_columns([(name, _shortened_list(value)) for name, value in lines if value is not None]))


def _largest_first(sizes: dict[str, int]) -> str:
    names = sorted(sizes, key=lambda name: -sizes[name])[:2]
    return ", ".join(f"{name} {sizes[name]:,}" for name in names)


def _shortened_list(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    shown = [
        repr(item) if isinstance(item, str) and ("," in item or item != item.strip()) else str(item) for item in value
    ]
    return ", ".join(shown[:12]) + (f", ... ({len(value)} in all)" if len(value) > 12 else "")


def export(options: Namespace, console: Console) -> None:
    """``kompakt export MODEL OUT --to FORMAT``."""
    to = options.to or _ENDINGS.get(os.path.splitext(options.out)[1])
    if to is None:
        formats = "onnx, c, arduino, js, libsvm or numpy"
        raise UsageError(f"the ending of {options.out!r} names no format; give --to {formats}.")
    if options.dtype is not None and to not in ("onnx", "c", "arduino"):
        raise UsageError(f"--dtype is for onnx, c and arduino; {to} keeps the numbers as they are.")
    if options.encoded and to != "onnx":
        raise UsageError(f"--encoded is for onnx; {to} always takes encoded features.")
    for ending in ("", ".schema.json", *((".range", ".labels") if to == "libsvm" else ())) if to != "arduino" else ():
        check_output(options.out + ending, options.model, options.check)
    model = load_model(options.model)
    settings: dict[str, Any] = {} if options.dtype is None else {"dtype": options.dtype}
    if options.encoded:
        settings["encoded"] = True
    if options.check is not None:
        if model.inputs.schema is not None and to == "onnx" and not options.encoded:
            settings["check_rows"] = open_table(options, console, options.check, model=model).file.head(100_000)
        else:
            settings["check_rows"] = _rows_for(options, console, options.check, model)
    done = getattr(kompakt, f"to_{to}")(model, options.out, **settings)
    files = [os.fspath(path) for path in done.files or (done.path,)]
    facts = {
        "format": done.format, "files": files, "bytes": done.n_bytes, "rows_checked": done.n_rows,
        "notes": list(done.notes), "max_difference": done.max_difference if done.n_rows else None,
        "label_agreement": done.label_agreement,
    }  # fmt: skip
    console.result(facts, str(done) + (f"\nalso written: {', '.join(files[1:])}" if files[1:] else ""))


def _rows_for(options: Namespace, console: Console, path: str, model: Model) -> Any:
    """Rows of a file as the model takes them."""
    table = open_table(options, console, path, model=model)
    X = table.read(0, 100_000).X
    table.check(X, impute=model.inputs.fill is not None)
    return dense_if_small(X)


def compress(options: Namespace, console: Console) -> None:
    """``kompakt compress MODEL OUT``."""
    if options.n_basis is None and options.loss is None and options.storage is None:
        raise UsageError("give -n VECTORS, --loss SHARE (such as 0.01) or both, or --storage to round the numbers.")
    check_output(options.out, options.model, options.rows)
    model = load_model(options.model)
    rows = None if options.rows is None else _rows_for(options, console, options.rows, model)
    if rows is None:
        console.remark("without --rows, agreement is measured on rows made from the model's own vectors")
    smaller = kompakt.compress(
        model, n_basis=options.n_basis, tol=options.loss, storage=options.storage, X=rows, random_state=options.seed
    )
    kompakt.save(smaller, options.out)
    agreement, n_rows = float(smaller.meta["agreement"]), int(smaller.meta["agreement_rows"])
    facts = {
        "from": model.n_basis_, "n_basis": smaller.n_basis_, "agreement": agreement, "agreement_rows": n_rows,
        "model": options.out, "storage": None if smaller.storage is None else smaller.storage.dtype,
    }  # fmt: skip
    measure = "equal labels" if model.kind == "classifier" else "agreement"
    kept = "" if smaller.storage is None else f" as {smaller.storage.dtype}"
    text = f"{model.n_basis_:,} vectors -> {smaller.n_basis_:,}{kept}; {measure} {100 * agreement:.4g} %"
    console.result(facts, f"{text} on {n_rows:,} rows held out; {options.out}")


def report(options: Namespace, console: Console) -> None:
    """``kompakt report DATA MODEL -o PAGE``."""
    if is_model(options.data):  # either order: one of the two files says that it is a model
        options.data, options.model = options.model, options.data
    check_output(options.out, options.model, options.data, target_file(options))
    model = load_model(options.model)
    table = open_table(options, console, options.data, model=model)
    if table.target is None:
        raise UsageError(f"{options.data} has no target to measure against; name its column with --target.")
    raw = table.read()
    table.check(raw.X, impute=model.inputs.fill is not None)
    table.warn_of_unseen_cells(console)
    assert raw.y is not None
    has_target = ~missing_targets(raw.y)
    X, y = dense_if_small(raw.X)[has_target], labels_like(raw.y[has_target], model.classes)
    if model.inputs.schema is not None and table.reader is not None:  # the page shows cells, as the file writes them
        model = replace(model, inputs=replace(model.inputs, schema=table.reader))
        X = {name: cells[has_target] for name, cells in table.cells().items()}
    file = os.path.basename(options.data)
    about = {
        "title": options.title or (f"{table.target} in {file}" if table.target else f"The target in {file}"),
        "target": table.target or None, "command": options.command_line, "model_path": options.model,
        "curves": not options.no_curves,
    }  # fmt: skip
    page = kompakt.report(model, X, y, options.out, **about)
    size = os.path.getsize(page)
    console.result({"page": os.fspath(page), "bytes": size, "rows": len(y)}, f"{page} ({size:,} bytes)")
