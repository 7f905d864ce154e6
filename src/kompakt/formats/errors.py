"""The exceptions of the file formats."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file that cannot be read: damaged, cut short, contradicting itself, or of an unknown version.

    Every malformed input, in kompakt's own format or in LIBSVM's, ends in this exception.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from kompakt.formats import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("no model")
    ...     try:
    ...         kompakt.load(path)
    ...     except ModelFileError as error:
    ...         print("not loaded:", str(error).split(": ", 1)[1])
    not loaded: not a kompakt model file: it has 8 bytes, and a model file has at least 64.
    """


class UnsupportedModelError(ModelFileError):
    """A sound model that the other side cannot express, such as a Laplacian kernel in LIBSVM's format.

    Examples
    --------
    >>> from kompakt.formats import ModelFileError, UnsupportedModelError
    >>> issubclass(UnsupportedModelError, ModelFileError)
    True
    """
