"""What an export reports, and the error of one that does not answer as the machine does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ParityError(RuntimeError):
    """An exported machine that does not answer as the original; nothing was written.

    Examples
    --------
    >>> from kompakt.export import ParityError
    >>> issubclass(ParityError, RuntimeError)
    True
    """


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how near it is to the original on the rows of the check.

    Parameters
    ----------
    path : Path
        The file that was asked for.
    format : {"onnx", "c", "libsvm", "numpy"}
    n_bytes : int
        Size of that file.
    n_rows : int
        Number of rows of the check; 0 means that it could not be made, and `notes` say why.
    max_difference : float
        Largest absolute difference between the decision values (or predictions) of both; NaN without a check.
    relative_difference : float
        The same, divided by the largest decision value.
    label_agreement : float or None
        Share of the rows with the same label; None for a regressor.
    files : tuple of Path
        All that was written, `path` first.
    notes : tuple of str
        What the reader of the file must know.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kompakt.export import ExportReport
    >>> report = ExportReport(Path("iris.onnx"), "onnx", 2048, 64, 1e-15, 5e-16, 1.0)
    >>> print(report)
    iris.onnx: 2048 bytes; 64 rows checked, largest difference 1e-15, equal labels 100 %
    """

    path: Path
    format: str
    n_bytes: int
    n_rows: int
    max_difference: float
    relative_difference: float
    label_agreement: float | None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.path}: {self.n_bytes} bytes; " + ("" if self.n_rows else "unchecked")
        if self.n_rows:
            text += f"{self.n_rows} rows checked, largest difference {self.max_difference:.2g}"
        if self.label_agreement is not None and self.n_rows:
            text += f", equal labels {100 * self.label_agreement:.4g} %"
        return "; ".join([text, *self.notes])


@dataclass(frozen=True)
class CReport(ExportReport):
    """The report of `to_c`: sizes on the device, and what storing the basis in fewer bits costs.

    Parameters
    ----------
    data_bytes : int
        Bytes of the constant arrays (they may stay in read-only memory).
    work_bytes : int
        Bytes of the arrays that one prediction puts on the stack.
    storage_difference : float
        Largest change of a decision value because of the rounded numbers alone, computed in float64.
    accuracy, accuracy_exported : float or None
        Of the machine and of the exported one, where `check_targets` were given: share of right labels, or R squared.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kompakt.export import CReport
    >>> CReport(Path("iris.c"), "c", 4096, 64, 1e-6, 5e-7, 1.0, data_bytes=120, work_bytes=28).data_bytes
    120
    """

    data_bytes: int = 0
    work_bytes: int = 0
    storage_difference: float = 0.0
    accuracy: float | None = None
    accuracy_exported: float | None = None
