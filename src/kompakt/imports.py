"""Libraries that are imported when they are first needed, so that a plain prediction waits for none of them."""

from __future__ import annotations

import sys
from importlib import import_module
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
