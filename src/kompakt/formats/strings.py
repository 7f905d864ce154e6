"""Lists of strings as two arrays: their UTF-8 bytes, and where each of them ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kompakt.formats.errors import ModelFileError

# An array of strings takes four bytes per character of its LONGEST string in every row: one long string among
# many short ones could ask for far more memory than the file has bytes.
_MAX_EXPANDED = 256 << 20


def encode_strings(arrays: dict[str, np.ndarray], name: str, strings: list[str]) -> None:
    """Add the two arrays; lone surrogates are kept."""
    parts = [text.encode("utf-8", "surrogatepass") for text in strings]
    _check_expanded(name, len(strings), max(map(len, strings), default=0))
    arrays[f"{name}.text"] = np.frombuffer(b"".join(parts), dtype=np.uint8)
    arrays[f"{name}.ends"] = np.cumsum([0, *map(len, parts)], dtype=np.int64)[1:]


def decode_strings(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Take the two arrays and return an array of strings."""
    text, ends = arrays.pop(f"{name}.text", None), arrays.pop(f"{name}.ends", None)
    if text is None or ends is None or text.ndim != 1 or ends.ndim != 1 or (text.dtype, ends.dtype) != ("u1", "i8"):
        raise ModelFileError(f"the strings of {name!r} need the arrays {name}.text (uint8) and {name}.ends (int64).")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    if np.any(starts[1:] < starts[:-1]) or starts[-1] != len(text):
        raise ModelFileError(f"the strings of {name!r} do not follow one another to the end of their text.")
    raw = text.tobytes()
    try:
        strings = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts.tolist())]
    except UnicodeDecodeError:
        raise ModelFileError(f"the strings of {name!r} are not valid UTF-8.") from None
    longest = max(map(len, strings), default=0)
    _check_expanded(name, len(strings), longest)
    return np.array(strings, dtype=f"<U{max(longest, 1)}")


def _check_expanded(name: str, count: int, longest: int) -> None:
    if 4 * count * longest > _MAX_EXPANDED:
        raise ModelFileError(
            f"{name}: {count} strings, the longest of {longest} characters, would take {4 * count * longest} bytes as "
            f"an array; at most {_MAX_EXPANDED} are allowed. Shorten the longest one."
        )
