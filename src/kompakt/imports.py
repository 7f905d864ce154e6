"""Libraries that are imported when they are first needed, so that a plain prediction waits for none of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import sparse as sparse
else:

    class _Sparse:
        """`scipy.sparse`; before it is imported, nothing can be one of its matrices."""

        def issparse(self, X: Any) -> bool:
            module = sys.modules.get("scipy.sparse")
            return module is not None and module.issparse(X)

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("scipy.sparse"), name)

    sparse = _Sparse()

_uses_numba = True


def numba_available() -> bool:
    """Whether the extra `fast` is installed, and wanted."""
    return _uses_numba and find_spec("numba") is not None


@contextmanager
def without_numba() -> Iterator[None]:
    """Compute with NumPy alone: for work that is done before Numba is imported.

    Values agree to the errors told in `kompakt.kernels._exp`.
    """
    global _uses_numba
    before, _uses_numba = _uses_numba, False
    try:
        yield
    finally:
        _uses_numba = before
