"""A Gaussian model of eight bits in integers only: the numbers of `integer.c`, a simulator, a bound of the error.

The exponent of the kernel is formed from a dot product, in octaves (powers of two):

    gamma |x - z|^2 / ln 2 = N(u) - u.z 2^-q + n_z,      k = 2^-(that)

A basis vector z is its stored levels, of `step` each.  A row becomes u, in units that make u.z come out in 2^-q octaves
without a multiplication per vector; N and n are the squares of both.  What a dot product sums are 16 and 8 bits, in an
accumulator of 24 bits, or 32 for models that need them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kompakt.export.common import decomposed, votes
from kompakt.io.container import UnsupportedModelError
from kompakt.kernels import RBF
from kompakt.model import LARGEST_LEVEL, Model

Array = np.ndarray

#: bits of an accumulator: three bytes where they suffice, else four, of which dot products use all but two bits
_ACCUMULATORS = (24, 30)
_LEAST_OCTAVE = 9  # bits after the point of an exponent
_TABLE = np.minimum(np.rint(2.0 ** (15 - np.arange(33) / 32)), 32768).astype(np.int64)
_POWER_OF_TWO = 1e-6  # relative difference from one that does not count: steps are float32
_FAR = 16  # octaves beyond which a kernel value is zero
_LEAST_KERNEL_BITS, _MOST_KERNEL_BITS = 11, 14
_FINE = 0.004  # octaves by which rounding a row may move an exponent of four octaves, root mean square
_LARGEST, MISSING = 32767, -32768
_STEEPEST = float(np.sqrt(2 * np.log(2) / np.e))  # of 2^-(r^2), as a function of r
_INTERPOLATION = float(np.log(2) ** 2 / 8 / 32**2)  # of 2^-p between two entries of the table


@dataclass(frozen=True, eq=False)
class IntegerForm:
    """Integers that compute a model, and what they mean.

    Parameters
    ----------
    arrays : dict of (str, ndarray)
        Type in C and numbers of every array, by name.
    constants : dict of int
        By name.
    input_bits : ndarray of int of shape (d,)
        A feature x is given as the whole number nearest to x 2^bits.
    unit : float
        What one unit of a score is worth.
    bounds : ndarray of shape (L,)
        How far an output may be from the model's at the most, for the row that the integers hold.
    """

    arrays: dict[str, tuple[str, Array]]
    constants: dict[str, int]
    input_bits: Array
    unit: float
    bounds: Array

    def rows(self, X: Array) -> Array:
        """Rows of numbers as integers of 16 bits; halves are rounded away from zero, as C does it."""
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.asarray(X, dtype=np.float64) * 2.0**self.input_bits
            near = np.trunc(scaled)
            near = near + (scaled - near >= 0.5) - (scaled - near <= -0.5)
        near = np.where(np.isnan(near), MISSING, np.clip(near, -_LARGEST, _LARGEST))
        return np.asarray(near, dtype=np.int64)

    def values(self, rows: Array) -> Array:
        """What integer rows stand for; NaN where missing."""
        return np.where(rows == MISSING, np.nan, rows * 2.0**-self.input_bits)

    def inside(self, rows: Array) -> Array:
        """Integer rows (n, d) that the bounds are for: no number is at the end of what 16 bits or the map can hold."""
        inside = np.abs(rows).max(axis=1) < _LARGEST
        if "map" in self.arrays:
            inside &= (np.abs(self._features(rows)) <= self.constants["REACH"]).all(axis=1)
        return np.asarray(inside)

    def _features(self, rows: Array) -> Array:
        c, array = self.constants, {name: values.astype(np.int64) for name, (_, values) in self.arrays.items()}
        x = np.asarray(rows, dtype=np.int64)
        if "fill" in array:
            x = np.where(x == MISSING, array["fill"], x)
        shift = array.get("shifts", np.int64(c.get("SHIFT", 0)))
        v = self._bent(x) if "bends" in array else x * array.get("factor", np.int64(c.get("FACTOR", 0)))
        v = (v + ((1 << shift) >> 1)) >> shift
        return np.asarray(v + array.get("offset", np.int64(0)))

    def _bent(self, x: Array) -> Array:
        """Sums of slopes times the parts of the numbers between knots."""
        bends = iter(self.arrays["bends"][1].tolist())
        bent = np.zeros_like(x)
        for feature, pieces in enumerate(self.arrays["pieces"][1].tolist()):
            begin = np.zeros(len(x), dtype=np.int64)
            for piece in range(pieces):
                slope, end = next(bends), x[:, feature]
                end = end if piece == pieces - 1 else np.minimum(end, next(bends))
                bent[:, feature] += slope * (end - begin)
                begin = end
        return bent

    def outputs(self, rows: Array) -> Array:
        """Outputs of integer rows (n, d) in integers, (n, L): bit for bit those of the C file."""
        c, array = self.constants, {name: values.astype(np.int64) for name, (_, values) in self.arrays.items()}
        v = self._features(rows)
        if "map" in array:
            v = np.clip(v, -c["REACH"], c["REACH"])
            M = array["map"].reshape(-1, v.shape[1])
            dots = (v @ M.T + (1 << c["MAP_DROP"] >> 1)) >> c["MAP_DROP"]
            v = (dots * array["map_factor"] + (1 << c["MAP_SHIFT"] >> 1)) >> c["MAP_SHIFT"]
        u = np.clip(v, -c["LIMIT"], c["LIMIT"])
        squares = ((u * u) >> c["SQUARE_DROP"]).sum(axis=1)
        squares = squares * c["NORM"] >> 16 if "NORM" in c else squares
        norm = np.minimum(squares >> c["NORM_SHIFT"], 1 << c.get("NORM_MOST", 30)) + c["NORM_START"]
        u = np.hstack([u, np.broadcast_to([-c["SQUARE_HIGH"], -c["SQUARE_LOW"]], (len(u), 2))])
        p = np.maximum(norm[:, None] - u @ array["basis"].reshape(-1, u.shape[1]).T, 0)
        near = p < _FAR << c["OCTAVE"]
        p = np.where(near, p, 0) << 16 >> c["OCTAVE"]
        index, rest = (p & 65535) >> 11, (p >> 3) & 255
        step = _TABLE[index] - _TABLE[index + 1]
        between = _TABLE[index] - (step >> 8) * rest - ((step & 255) * rest >> 8)
        K = np.where(near, ((between >> (p >> 16)) + 1) >> 1, 0)
        ends = np.broadcast_to([c["INTERCEPT_HIGH"], c["INTERCEPT_LOW"]], (len(K), 2))
        outputs = np.hstack([K, ends]) @ array["weights"].reshape(-1, K.shape[1] + 2).T
        return np.asarray(outputs * array["weight_factor"] >> 16 if "weight_factor" in array else outputs)


def integer_form(model: Model, rows: Array, input_bits: Any = None) -> IntegerForm:
    """The integers of a model stored in eight bits; `rows` say how far features reach.

    Raises
    ------
    UnsupportedModelError
        For models that have no such form; the message says why, and what to do.
    """
    Z, steps, c, weights, weight_steps, intercept = _levels(model)
    r, largest = Z.shape[1], max(1, int(np.abs(Z).max()))
    starts = intercept / weight_steps
    norms, lengths = c * np.square(Z).sum(axis=1), np.abs(Z).sum(axis=1)
    fine = int(np.ceil(np.log2(0.58 / (_FINE * np.sqrt(c)))))
    for accumulator in _ACCUMULATORS:
        most = (1 << (accumulator - 1)) - 1
        # u needs room for all rows that are not beyond every vector's reach, its products and a square in their sum;
        # 16 bits need no shift later
        for q in range(max(16, fine), _LEAST_OCTAVE - 1, -1):
            room = min(_LARGEST, np.min((most - 1.01 * norms * 2.0**q) / np.maximum(lengths, 1)))
            limit = int(np.ceil(2.0**q * 2 * c * (largest + np.sqrt(_FAR / c)))) + 1
            if limit <= room and norms.max() * 2.0**q < 126.0 * _LARGEST:
                break
        else:
            q = 0
        total = float(np.max(np.abs(weights).sum(axis=0) + 1.01 * np.abs(starts))) + 1
        room = min(most / total, 126 * _LARGEST / max(float(np.abs(starts).max()), 1.0))
        kernel_bits = int(min(np.floor(np.log2(room)), _MOST_KERNEL_BITS))
        if kernel_bits >= _LEAST_KERNEL_BITS and q >= fine:
            break
    if q < _LEAST_OCTAVE or kernel_bits < 8:
        raise UnsupportedModelError(
            "this model has no integer form: its kernel is too narrow for vectors of eight bits, or it has too many "
            "vectors for sums of 32 bits. Export it with arithmetic='float'."
        )
    unit = 2.0**-q / (2 * c)  # of u, in levels
    arrays: dict[str, tuple[str, Array]] = {}
    constants = {"ACCUMULATOR": accumulator, "LIMIT": limit, "OCTAVE": q, "KERNEL_BITS": kernel_bits}
    errors, bits = _front(model, rows, input_bits, unit * steps, most, arrays, constants)
    # N = u.u unit / 2, in 2^-q octaves
    drop = max(0, int(np.ceil(np.log2(r * limit**2 / 2.0**32))))
    half = unit / 2 * 2.0**drop
    power = int(np.rint(np.log2(half)))
    if abs(half * 2.0**-power - 1) > _POWER_OF_TWO:  # else squares are shifted only
        power = int(np.floor(np.log2(half))) + 1
        constants["NORM"] = min(int(np.rint(half * 2.0 ** (16 - power))), 65535)
    if power > 0:
        raise UnsupportedModelError("this model has no integer form: its kernel is too wide. Use arithmetic='float'.")
    constants |= {
        "SQUARE_DROP": drop,
        "NORM_SHIFT": -power,
        "NORM_START": (_MOST_KERNEL_BITS - kernel_bits) << q,
    }
    if r * limit**2 * unit / 2 >= 2.0**30:  # else it cannot become that large
        constants["NORM_MOST"] = 30
    squares, square_error = _two_bytes(norms * 2.0**q, "SQUARE", constants)
    arrays["basis"] = ("int8_t", np.hstack([Z, squares]))
    value = float(weight_steps.max()) * 2.0**-kernel_bits
    ends, end_error = _two_bytes(starts * 2.0**kernel_bits, "INTERCEPT", constants)
    arrays["weights"] = ("int8_t", np.hstack([weights.T, ends]))
    sums = np.abs(weights).sum(axis=0).astype(np.float64)
    bounds = end_error * 2.0**-kernel_bits * weight_steps
    if not np.allclose(weight_steps, weight_steps[0], rtol=1e-6, atol=0.0):
        factors = np.rint(65535 * weight_steps / weight_steps.max()).astype(np.int64)
        value *= 65536 / 65535
        arrays["weight_factor"] = ("uint16_t", factors)
        slip = np.abs(factors / 65536 * value - weight_steps * 2.0**-kernel_bits)
        bounds = bounds + value + slip * most
    # errors of an exponent, in octaves; the norm's is relative to itself, which is bounded where k is not 0
    farthest = (_FAR + 1) * 2.0**q + most
    slip = abs(constants.get("NORM", 65536) * 2.0 ** (power - 16) / half - 1)
    norm_error = farthest * slip + 2 + r * 2.0**drop * unit
    exponent_error = (norm_error + square_error) * 2.0**-q + 2.0**-16
    distance_error = np.sqrt(c) * unit * float(np.linalg.norm(errors))  # of the root of the exponent
    beyond = np.sqrt(c) * max(0.0, (limit - float(errors.max())) * unit - largest)
    kernel_error = _STEEPEST * distance_error + 2.0**exponent_error - 1 + _INTERPOLATION + 2.0**-14
    kernel_error += 2.0**-kernel_bits + 2.0 ** -(beyond**2)
    return IntegerForm(arrays, constants, bits, value, bounds + sums * weight_steps * kernel_error)


def _two_bytes(values: Array, name: str, constants: dict[str, int]) -> tuple[Array, float]:
    """Numbers as two terms of a dot product, (n, 2) bytes; what these are multiplied by, added to the constants."""
    high = max(1, int(np.ceil(np.abs(values).max() / LARGEST_LEVEL)))
    low = max(1, int(np.ceil(high / (2 * LARGEST_LEVEL))))
    first = np.rint(values / high)
    second = np.clip(np.rint((values - first * high) / low), -LARGEST_LEVEL, LARGEST_LEVEL)
    constants |= {f"{name}_HIGH": high, f"{name}_LOW": low}
    error = float(np.abs(first * high + second * low - values).max())
    return np.column_stack([first, second]).astype(np.int64), error


def _levels(model: Model) -> tuple[Array, Array, float, Array, Array, Array]:
    """Levels and steps of the basis, octaves per squared level, levels and steps of the weights, and the intercept."""
    storage = model.storage
    kernel, factor, addend = decomposed(model.kernel)
    reasons = {
        "it is not stored in eight bits; round it with kompakt.compress(model, storage='int8')": (
            storage is None or storage.dtype != "int8"
        ),
        "its kernel is not Gaussian": not isinstance(kernel, RBF) or factor <= 0,
        f"its coding {model.coding!r} counts votes; fit with coding='one_vs_rest'": votes(model) is not None,
        "integers hold neither intervals nor ordered quantiles": model.interval is not None or model.ordered,
        "it has no vectors or a single class": not len(model.basis) or not model.weights.any(),
    }
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise UnsupportedModelError(f"this model has no integer form: {reason}, or export it with arithmetic='float'.")
    assert storage is not None
    assert isinstance(kernel, RBF)
    gamma = np.broadcast_to(np.asarray(kernel.gamma, dtype=np.float64), storage.basis_steps.shape)
    widths = storage.basis_steps * np.sqrt(gamma)
    Z = storage.small(model.basis, storage.basis_steps).astype(np.int64)
    Z[:, gamma == 0] = 0
    if not np.allclose(widths[gamma > 0], widths.max(), rtol=1e-4, atol=0.0):
        raise UnsupportedModelError(
            "this model has no integer form: its vectors have different steps in the units of the kernel. Round it "
            "again with kompakt.compress(model, storage='int8'), or export it with arithmetic='float'."
        )
    W = storage.small(model.weights, storage.weight_steps).astype(np.int64)
    start = np.asarray(model.intercept, dtype=np.float64) + addend * model.weights.sum(axis=0)
    steps = np.where(gamma > 0, storage.basis_steps, np.inf)
    return Z, steps, float(widths.max() ** 2 / np.log(2)), W, storage.weight_steps * factor, start


def _front(
    model: Model, rows: Array, input_bits: Any, units: Array, most: int, arrays: dict[str, tuple[str, Array]],
    constants: dict[str, int],
) -> tuple[Array, Array]:  # fmt: skip
    """What turns a row into u, added to arrays and constants; the errors of u at most, and the bits of the inputs.

    `units` are those of u, in the units of the basis (infinite for a feature that the kernel does not see).
    """
    inputs, d = model.inputs, model.n_features
    shift = np.zeros(d) if inputs.shift is None else inputs.shift.astype(np.float64)
    scale = np.ones(d) if inputs.scale is None else inputs.scale.astype(np.float64)
    filled = rows if inputs.fill is None else np.where(np.isnan(rows), inputs.fill, rows)
    bends = inputs.bends
    farthest = np.abs(replace(inputs, map=None, centre=None).transform(filled)).max(axis=0)
    levels, kernel_units = None, units
    if inputs.map is None:
        reach = np.where(np.isfinite(units), constants["LIMIT"] * units, farthest)  # beyond it, u ends anyway
    else:
        storage = model.storage
        assert storage is not None
        if storage.map_steps is None or storage.bits[0] > 8:
            raise UnsupportedModelError(
                "this model has no integer form: its map is stored in sixteen bits; round the model again with "
                "kompakt.compress(model, storage='int8'), or export it with arithmetic='float'."
            )
        levels = storage.small_map(inputs.map).astype(np.int64)
        constants["REACH"] = limit = min(_LARGEST, most // max(1, int(np.abs(levels).sum(axis=1).max())))
        farthest_of_all = max(4.0 if inputs.scale is not None else 0.0, float(farthest.max()), 1e-30)
        # a step of a geometric series, so that the last digits of rows do not matter
        reach = np.full(d, 2.0 ** (1 + np.ceil(4 * np.log2(farthest_of_all)) / 4))
        units = reach / limit
    if input_bits is None:
        whole = np.all(filled == np.rint(filled)) and np.abs(filled).max() <= _LARGEST / 2
        range_ = np.abs(shift) + reach * scale
        if bends is not None:  # how far they go is not how far the features do
            range_ = 2.0 * np.abs(filled).max(axis=0)
        range_ = np.maximum(range_, 1e-30)
        input_bits = 0 if whole else np.floor(np.log2(_LARGEST / range_))
        if bends is None and np.allclose(scale * units, (scale * units)[0], rtol=1e-6, atol=0.0):  # one factor serves
            input_bits = np.min(input_bits)
    bits = np.broadcast_to(np.asarray(input_bits, dtype=np.int64), (d,))
    if inputs.fill is not None:
        fill = np.rint(np.clip(inputs.fill * 2.0**bits, -_LARGEST, _LARGEST)).astype(np.int64)
        arrays["fill"] = ("int16_t", fill)
    slopes = 1.0 / (scale * units)[:, None]  # of u, per unit of the input; of every piece, where features bend
    offset, knots = -shift * slopes[:, 0], np.empty((d, 0))
    if bends is not None:
        line, constant = bends.of_line(1.0 / scale, -shift / scale)
        slopes, offset, knots = line.slopes / units[:, None], constant / units, line.knots * 2.0 ** bits[:, None]
    slopes = slopes * 2.0 ** -bits[:, None]
    whole_knots = np.rint(np.clip(knots, -_LARGEST, _LARGEST))
    ends = np.hstack([np.full((d, 1), -_LARGEST), whole_knots, np.full((d, 1), _LARGEST)])
    lengths = np.diff(ends, axis=1)  # of the pieces
    if bends is None:  # what is beyond the end of u does not count
        lengths[:, 0] = np.minimum(_LARGEST, (np.abs(offset) + reach / units) / np.maximum(np.abs(slopes[:, 0]), 1e-30))
    room = _LARGEST // 2 if bends is not None else _LARGEST
    fits = np.floor(np.log2(room / np.maximum(np.abs(slopes).max(axis=1), 1e-30)))
    shifts = np.clip(fits, 0, 24).astype(np.int64)
    if np.any(fits < 0):
        raise UnsupportedModelError(
            f"this model has no integer form: feature {int(np.argmin(fits))} is given in units that are too coarse; "
            "raise its input_bits, or export with arithmetic='float'."
        )

    # one shift for all is a constant in the code, best of whole bytes
    usual = np.minimum(np.abs(filled).max(axis=0) * 2.0**bits, _LARGEST) * 0.5
    shared = [s for s in (16, 8, int(shifts.min())) if s <= shifts.min() and np.all(usual * 2.0**-s <= 1.0)]
    if shared:
        shifts = np.full(d, shared[0])
        constants["SHIFT"] = shared[0]
    else:
        arrays["shifts"] = ("uint8_t", shifts)
    factors = np.rint(slopes * 2.0 ** shifts[:, None]).astype(np.int64)
    if bends is not None:
        pieces = np.isfinite(knots).sum(axis=1) + 1
        rows_of = zip(factors.tolist(), whole_knots.astype(np.int64).tolist(), pieces.tolist(), strict=True)
        numbers: list[int] = []
        for row, at, count in rows_of:  # a slope, the knot where it ends, the next slope
            numbers += [number for pair in zip(row[: count - 1], at, strict=False) for number in pair]
            numbers.append(row[count - 1])
        arrays |= {"pieces": ("uint8_t", pieces), "bends": ("int16_t", np.array(numbers, dtype=np.int64))}
    elif shared and np.all(factors == factors[0]):
        constants["FACTOR"] = int(factors[0, 0])
    else:
        arrays["factor"] = ("int16_t", factors[:, 0])
    offsets = np.rint(offset).astype(np.int64)
    if np.any(offsets):
        arrays["offset"] = ("int16_t" if np.abs(offsets).max() <= _LARGEST else "int32_t", offsets)
    slips = np.abs(factors * 2.0 ** -shifts[:, None] - slopes) * lengths
    moved = np.abs(np.where(np.isfinite(knots), whole_knots - knots, 0.0)) * np.abs(np.diff(slopes, axis=1))
    errors = 0.5 + np.abs(offset - offsets) + slips.sum(axis=1) + moved.sum(axis=1)
    if inputs.map is not None:
        assert levels is not None
        assert model.storage is not None
        assert model.storage.map_steps is not None
        errors = _mapped(levels, model.storage.map_steps * units[0] / kernel_units, errors, arrays, constants)
    return errors, bits


def _mapped(
    levels: Array, steps: Array, errors: Array, arrays: dict[str, tuple[str, Array]], constants: dict[str, int]
) -> Array:
    """The map of a row, added to arrays and constants; the errors of what it gives."""
    sums = np.abs(levels).sum(axis=1)
    largest = constants["REACH"] * max(1, int(sums.max()))
    drop = max(0, largest.bit_length() - 15)
    factor = steps * 2.0**drop
    shift = int(min(np.floor(np.log2(65535 / factor.max())), 30))
    shift = 16 if shift in (17, 18) else shift
    factors = np.rint(factor * 2.0**shift).astype(np.int64)
    arrays["map"] = ("int8_t", levels)
    arrays["map_factor"] = ("uint16_t", factors)
    constants |= {"MAP_DROP": drop, "MAP_SHIFT": shift}
    slip = np.abs(factors * 2.0**-shift - factor) * (constants["REACH"] * sums * 2.0**-drop + 1)
    return np.asarray(steps * (np.abs(levels) @ errors) + 0.5 * factor + slip + 0.5)
