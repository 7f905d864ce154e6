"""``inspect``, ``export``, ``compress`` and ``report``: commands about a model that is there."""

from __future__ import annotations

import os
from typing import Any

from kompakt.cli.console import Console, UsageError, table

_ENDINGS = {".onnx": "onnx", ".c": "c", ".py": "numpy", ".model": "libsvm", ".libsvm": "libsvm", ".txt": "libsvm"}


def inspect(options: Any) -> int | None:
    """``kompakt inspect MODEL``: what is inside; reading it runs no code."""
    from kompakt.cli.tables import is_model

    console = Console(options)
    if not is_model(options.model):
        _inspect_libsvm(options.model, console)
        return None
    from kompakt.io import load, read_header

    header, model = read_header(options.model), load(options.model)
    arrays = header["arrays"]
    (m, L) = arrays["weights"][1]
    lines: list[tuple[str, Any]] = [
        ("file", f"{options.model} ({os.path.getsize(options.model):,} bytes)"),
        ("written by", header["writer"]),
        ("kind", header["kind"]),
        ("kernel", str(model.kernel)),
        ("basis vectors", f"{m} with {header['n_features']} features, {arrays['basis'][0]}"),
        ("outputs", L),
    ]
    classes = None if model.classes is None else model.classes.tolist()
    names = None if model.feature_names is None else model.feature_names.tolist()
    lines += [(name, _short(value)) for name, value in (("classes", classes), ("features", names)) if value is not None]
    if model.coding is not None and len(classes or ()) > 2:
        lines.append(("coding", model.coding))
    stored = {"input_fill": "fills missing values", "input_shift": "shifts", "input_scale": "scales"}
    done = [word for name, word in stored.items() if name in arrays]
    lines.append(("inputs", ", ".join(done) if done else "as they are"))
    lines.append(("probabilities", "yes" if header["calibrated"] else "no"))
    lines += [(str(name), _short(value)) for name, value in model.meta.items()]
    lines += [("array", f"{name} {dtype} {tuple(shape)}") for name, (dtype, shape) in arrays.items()]
    console.result({**header, "classes": classes, "feature_names": names, "meta": model.meta}, table(lines))
    return None


def _inspect_libsvm(path: str, console: Console) -> None:
    from kompakt.cli.predict import load_model

    model = load_model(path)
    facts: dict[str, Any] = {
        "file": path,
        "format": "LIBSVM text model",
        "kind": model.kind,
        "kernel": str(model.kernel),
        "vectors": model.n_basis_,
        "features": model.n_features,
        "classes": None if model.classes is None else model.classes.tolist(),
    }
    console.result(facts, table([(name, _short(value)) for name, value in facts.items() if value is not None]))


def _short(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > 12:
        return f"{', '.join(map(_word, value[:12]))}, ... ({len(value)} in all)"
    return ", ".join(map(_word, value)) if isinstance(value, list | tuple) else str(value)


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, str) and ("," in value or value != value.strip()) else str(value)


def export(options: Any) -> int | None:
    """``kompakt export MODEL OUT --to FORMAT``."""
    import kompakt
    from kompakt.cli.predict import load_model
    from kompakt.cli.tables import check_output

    console = Console(options)
    to = options.to or _ENDINGS.get(os.path.splitext(options.out)[1])
    if to is None:
        raise UsageError(f"cannot tell the format from {options.out!r}; say --to onnx, c, libsvm or numpy.")
    if options.dtype is not None and to not in ("onnx", "c"):
        raise UsageError(f"--dtype is for onnx and c; {to} keeps the numbers as they are.")
    for ending in ("", ".range", ".labels") if to == "libsvm" else ("",):
        check_output(options.out + ending, options.model, options.check)
    model = load_model(options.model)
    words: dict[str, Any] = {} if options.dtype is None else {"dtype": options.dtype}
    if options.check is not None:
        words["check_rows"] = _rows_for(options, console, options.check, model)
    done = getattr(kompakt, f"to_{to}")(model, options.out, **words)
    facts = {
        "format": done.format, "files": [os.fspath(path) for path in done.files or (done.path,)],
        "bytes": done.n_bytes, "rows_checked": done.n_rows, "notes": list(done.notes),
        "max_difference": done.max_difference if done.n_rows else None, "label_agreement": done.label_agreement,
    }  # fmt: skip
    others = [os.fspath(path) for path in done.files[1:]]
    console.result(facts, str(done) + (f"\nalso written: {', '.join(others)}" if others else ""))
    return None


def _rows_for(options: Any, console: Console, path: str, model: Any) -> Any:
    """Rows of a file as the model takes them."""
    from kompakt.cli.tables import check_rows, dense_if_small, open_for_model

    opened = open_for_model(options, console, path, model)
    raw = opened.read(0, min(opened.n_rows, 100_000))
    check_rows(raw, opened, impute=model.input_fill is not None)
    return dense_if_small(raw.X)


def compress(options: Any) -> int | None:
    """``kompakt compress MODEL OUT``."""
    import kompakt
    from kompakt.cli.predict import load_model
    from kompakt.cli.tables import check_output

    console = Console(options)
    if options.n_basis is None and options.loss is None:
        raise UsageError("say how far: -n VECTORS, --loss SHARE (such as 0.01), or both.")
    check_output(options.out, options.model, options.rows)
    model = load_model(options.model)
    rows = None if options.rows is None else _rows_for(options, console, options.rows, model)
    if rows is None:
        console.remark("without --rows, agreement is measured on rows made from the model's own vectors")
    smaller = kompakt.compress(model, n_basis=options.n_basis, tol=options.loss, X=rows, random_state=options.seed)
    kompakt.save(smaller, options.out)
    agreement = float(smaller.meta["agreement"])
    rows_measured = int(smaller.meta["agreement_rows"])
    facts = {
        "from": model.n_basis_, "n_basis": smaller.n_basis_, "agreement": agreement, "agreement_rows": rows_measured,
        "model": options.out,
    }  # fmt: skip
    what = "equal labels" if model.kind == "classifier" else "agreement"
    text = f"{model.n_basis_:,} vectors -> {smaller.n_basis_:,}; {what} {100 * agreement:.4g} %"
    text += f" on {rows_measured:,} rows held out; {options.out}"
    console.result(facts, text)
    return None


def report(options: Any) -> int | None:
    """``kompakt report MODEL DATA -o PAGE``."""
    import kompakt
    from kompakt.cli.predict import comparable, load_model
    from kompakt.cli.tables import (
        check_output,
        check_rows,
        dense_if_small,
        missing_targets,
        open_for_model,
        target_file,
    )
    from kompakt.cli.train import command_line

    console = Console(options)
    check_output(options.out, options.model, options.data, target_file(options))
    model = load_model(options.model)
    opened = open_for_model(options, console, options.data, model)
    if not opened.has_target:
        raise UsageError(f"{options.data} has no target to measure against; name its column with --target.")
    raw = opened.read()
    check_rows(raw, opened, impute=model.input_fill is not None)
    assert raw.y is not None
    known = ~missing_targets(raw.y)
    X, y = dense_if_small(raw.X)[known], comparable(raw.y[known], model)
    page = kompakt.report(
        model, X, y, options.out, title=options.title, command=command_line(options), model_path=options.model
    )
    size = os.path.getsize(page)
    console.result({"page": os.fspath(page), "bytes": size, "rows": len(y)}, f"{page} ({size:,} bytes)")
    return None
