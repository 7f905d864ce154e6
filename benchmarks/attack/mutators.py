"""Damage for sound files that gets past the checksum and the first check, because it knows the formats.

Each takes a sound file and a generator, and returns a damaged one; the same generator gives the same damage.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from kompakt.io.container import MAGIC, VERSION, padded

ODD_NUMBERS = [
    0, 1, -1, 2, 3, 4, 7, 8, 28, 64, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308,
    1e-320, True, False,
]  # fmt: skip
ODD_VALUES: list[Any] = [
    *ODD_NUMBERS, None, "", "basis", "weights", "classes.text", "\ud800", "\0", "x" * 5000, [], {}, [[]], [0], [-1],
    [2**31 - 1, 2**31 - 1], [0, 2**31 - 1], [28], [7, 4, 1], "<f8", "<f4", "|O", ">f8", "<U9", "|b1", "<i8", "|u1",
    {"array": "basis"}, {"array": "offset"}, {"name": "linear"}, {"name": "sum", "parts": []}, {"$float": "nan"},
    "classifier", "regressor", "outlier", "one_vs_one", "minimum_output", "text", "numbers", "text as objects",
    "int8", "float16", "%Y-%m-%d", "%d%b%Y", "%H", "%", "category", "date", "1e400",
]  # fmt: skip


def seal(text: bytes, data: bytes, length: int | None = None, size: int | None = None, version: int = VERSION) -> bytes:
    """A file around a header and data, with a right checksum."""
    body = text + bytes(padded(64 + len(text)) - 64 - len(text)) + data
    preamble = MAGIC + struct.pack(
        "<IIQ", version, len(text) if length is None else length, 64 + len(body) if size is None else size
    )
    return preamble + hashlib.sha256(preamble + bytes(40) + body).digest() + bytes(8) + body


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], found)
    return found


def _flip(raw: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(raw)
    for _ in range(int(rng.integers(1, 5))):
        if changed:
            odd = (0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256)))
            changed[int(rng.integers(len(changed)))] = odd[int(rng.integers(len(odd)))]
    return bytes(changed)


def _cut(raw: bytes, rng: np.random.Generator) -> bytes:
    a, b = np.sort(rng.integers(0, len(raw) + 1, size=2))
    return raw[:a] + raw[b:] if rng.random() < 0.5 else raw[:b] + raw[a:]


def mutate_model_file(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed model file; most changes come with a right checksum."""
    version, length = struct.unpack_from("<II", raw, 8)
    if rng.random() < 0.02:
        version = int(rng.choice([0, 1, VERSION, VERSION + 1, 2**32 - 1]))
    text, data = raw[64 : 64 + length], raw[padded(64 + length) :]
    kind = rng.integers(8)
    if kind == 0:
        return _flip(raw, rng)
    if kind == 1:
        return _cut(raw, rng)
    if kind == 2:
        return seal(_flip(text, rng), data, version=version)
    if kind == 3:
        return seal(_cut(text, rng), data, version=version)
    if kind == 4:
        return seal(text, _flip(data, rng), version=version)
    if kind == 5:
        lengths = [0, 1, 63, 64, length, 2**22, 2**32 - 1]
        size = None if rng.random() < 0.5 else int(rng.choice([0, 64, len(raw), 2**40, 2**63 - 1]))
        return seal(text, _cut(data, rng) if rng.random() < 0.3 else data, int(rng.choice(lengths)), size, version)
    header = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        places = _places(header, [])
        where, key = places[int(rng.integers(len(places)))]
        odd = copy.deepcopy(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])  # later changes may reach into it
        if rng.random() < 0.15 and isinstance(where, dict):
            where[str(odd)[:20]] = where.pop(key)
        elif rng.random() < 0.15:
            del where[key]
        else:
            source, name = places[int(rng.integers(len(places)))]
            where[key] = json.loads(json.dumps(source[name])) if rng.random() < 0.3 else odd
    return seal(json.dumps(header).encode(), data, version=version)


def mutate_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    """Changed bytes of a binary file, mostly of its end, where a Parquet file has its description."""
    if rng.random() < 0.2:
        return _cut(raw, rng)
    tail = len(raw) if rng.random() < 0.4 else min(len(raw), 700)
    return raw[: len(raw) - tail] + _flip(raw[len(raw) - tail :], rng)


WORDS = [
    b"SV", b"rho", b"label", b"nr_sv", b"nr_class", b"total_sv", b"gamma", b"probA", b"probB", b"svm_type", b"c_svc",
    b"one_class", b"epsilon_svr", b"kernel_type", b"sigmoid", b"precomputed", b"polynomial", b"linear", b"degree",
    b"nan", b"inf", b"-inf", b"1e999", b"0x10", b"1_0", b"", b"0", b"1", b"2", b"-1", b"2147483647", b"2147483648",
    b"99999999999999999999", b"9" * 5000, b"1:", b":1", b"1:2:3", b"0:1", b"-1:1", b"2147483647:1", b"1:nan", b"\xff",
    b"\0", b"1.5", b"1e308", b"-1e308", b"prob_density_marks",
]  # fmt: skip


def _mutate_words(raw: bytes, rng: np.random.Generator, words: Sequence[bytes], separator: bytes) -> bytes:
    """Bytes, words, lines and cuts of a text."""
    kind = rng.integers(6)
    if kind == 0:
        return _flip(raw, rng)
    if kind == 1:
        return _cut(raw, rng)
    lines = raw.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        number = int(rng.integers(len(lines)))
        parts = lines[number].split(separator)
        place = int(rng.integers(len(parts)))
        word = words[int(rng.integers(len(words)))]
        if kind == 2:
            parts[place] = word
        elif kind == 3:
            parts.insert(place, word)
        elif kind == 4:
            del parts[place]
        else:
            other = int(rng.integers(len(lines)))
            lines[number], lines[other] = lines[other], lines[number]
            continue
        lines[number] = separator.join(parts)
    return b"\n".join(lines)


def mutate_libsvm(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed text model of LIBSVM."""
    return _mutate_words(raw, rng, WORDS, b" ")


def mutate_range(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed range file of svm-scale."""
    return _mutate_words(raw, rng, [*WORDS, b"x", b"y", b"x\n", b"-1 1"], b" ")


DATA_WORDS = [
    *WORDS, b"#", b"# comment", b"qid:3", b"qid:", b"qid:-1", b"1:1e-400", b"1:+-1", b"1 :1", b"1: 1", b"0:0",
    b"1:1 1:1", b"3:1 2:1", b"4294967296:1", b"9223372036854775808:1", b"1.5:1", b"a:1", b"1,2,3", b"1,2", b"\r",
    b"\r\n", b"\n\n", b"\t", b"\x0b", b"\x1a", b"\xef\xbb\xbf", b"\xfe\xff", b"\x00\x00", b"\xc3\x28",
    b"9" * 400 + b":1", b"1:" + b"9" * 400,
]  # fmt: skip


def mutate_svmlight(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed svmlight file of rows."""
    return _mutate_words(raw, rng, DATA_WORDS, b":" if rng.random() < 0.2 else b" ")


CSV_WORDS = [
    b"", b"0", b"1", b"-1", b"nan", b"NaN", b"NA", b"null", b"inf", b"-inf", b"1e999", b"1e-400", b"0x10", b"1_0",
    b"1.5.2", b"--1", b"9" * 400, b"true", b"False", b"2024-01-31", b"12:30:00", b"text", b'"', b'""', b'"a', b'a"',
    b'"a,b"', b'"a\nb"', b"'", b";", b"\t", b",", b",,,,,,,,", b"\r", b"\n", b"\r\n", b"\n\n\n", b"\x00", b"\xff",
    b"\xef\xbb\xbf", b"\xc3\x28", b"\xe2\x80\xa8", b"x" * 5000, b"label", b"width", b" 1 ", b"1 ", b"=1+1", b"\\",
    b"#",
]  # fmt: skip


def mutate_csv(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed CSV file of rows."""
    if rng.random() < 0.05:  # another separator or line end throughout
        old, new = [(b",", b";"), (b"\n", b"\r\n"), (b"\n", b"\r"), (b",", b"\t"), (b'"', b"")][int(rng.integers(5))]
        raw = raw.replace(old, new)
    return _mutate_words(raw, rng, CSV_WORDS, b",")


ARRAY_WORDS = [
    b"'descr'", b"'shape'", b"'fortran_order'", b"<f8", b">f8", b"|O", b"<U9", b"|V0", b"<c16", b"<f2", b"<i8", b"True",
    b"False", b"()", b"(0, 3)", b"(3,)", b"(-1, 3)", b"(2147483648, 2147483648)", b"(20, 3)", b"None", b"[[[[",
    b"(" * 300, b"}", b"{", b"\"", b"\\", b"\n", b"0x10", b"1_0", b"nan", b"\xff", b"\0", b"X.npy",
    b"indptr.npy", b"PK\x01\x02",
]  # fmt: skip


def mutate_arrays(raw: bytes, rng: np.random.Generator) -> bytes:
    """A changed .npy or .npz file: bytes anywhere, words in its headers, records of its directory."""
    kind = rng.integers(5)
    if kind == 0:
        return _flip(raw, rng)
    if kind == 1:
        return _cut(raw, rng)
    starts = [at for at in range(len(raw)) if raw.startswith((b"\x93NUMPY", b"PK"), at)]
    start = starts[int(rng.integers(len(starts)))]
    if kind == 2:  # next to the beginning of a header or a record
        return raw[:start] + _flip(raw[start : start + 64], rng) + raw[start + 64 :]
    header = raw[start : start + 128]
    word = ARRAY_WORDS[int(rng.integers(len(ARRAY_WORDS)))]
    at = int(rng.integers(10, max(11, len(header) - len(word))))
    changed = header[:at] + word + header[at + len(word) :]  # of the same length, so that what follows stays in place
    if kind == 3 and b"'descr'" in header:  # one value of the header's own text by another
        parts = header.split(b" ")
        parts[int(rng.integers(len(parts)))] = word
        changed = b" ".join(parts)[: len(header)].ljust(len(header))
    return raw[:start] + changed + raw[start + 128 :]
