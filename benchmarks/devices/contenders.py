"""What a model is compared with on a chip: an int8 network and exported trees, of about the same flash."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.devices.chips import UNO, DoesNotFit, measure

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Program:
    """C text of a classifier, how it is called, and what it answers (class indices) to rows of integers."""

    text: str
    call: str
    predict: Callable[[np.ndarray], np.ndarray]


# -- a network of one hidden layer, in integers ------------------------------------------------------------

NETWORK = r"""#include <stdint.h>
#if defined(__AVR__)
#include <avr/pgmspace.h>
#define BYTE(p) pgm_read_byte(p)
#define WORD(p) pgm_read_word(p)
#define LONG(p) pgm_read_dword(p)
#else
#define PROGMEM
#define BYTE(p) (*(p))
#define WORD(p) (*(p))
#define LONG(p) (*(p))
#endif
%(arrays)s
static int32_t __attribute__((noinline)) dot(int32_t sum, const int16_t *u, const int8_t *z, uint8_t n)
{
#if defined(__AVR__)
    register int32_t total __asm__("r22") = sum;
    int8_t a, b, sign;
    __asm__("1: lpm %%[b], Z+\n\t" "ld %%[a], X+\n\t" "mulsu %%[b], %%[a]\n\t" "sbc %%[g], %%[g]\n\t"
            "add %%A[s], r0\n\t" "adc %%B[s], r1\n\t" "adc %%C[s], %%[g]\n\t" "adc %%D[s], %%[g]\n\t" "ld %%[a], X+\n\t"
            "muls %%[b], %%[a]\n\t" "sbc %%[g], %%[g]\n\t"
            "add %%B[s], r0\n\t" "adc %%C[s], r1\n\t" "adc %%D[s], %%[g]\n\t"
            "dec %%[n]\n\t" "brne 1b\n\t" "clr __zero_reg__"
            : [s] "+r"(total), [a] "=&a"(a), [b] "=&a"(b), [g] "=&r"(sign), "+x"(u), "+z"(z), [n] "+r"(n) : : "memory");
    return total;
#else
    for (; n; n--) sum += (int32_t)*u++ * (int8_t)BYTE(z++);
    return sum;
#endif
}
int predict(const int16_t *x)
{
    int16_t u[%(d)d], hidden[%(h)d];
    int32_t value, most = INT32_MIN;
    const int8_t *bytes = first;
    uint8_t i;
    int best = 0;
    for (i = 0; i < %(d)d; i++)
        u[i] = (int16_t)((((int32_t)x[i] * (int16_t)WORD(factor + i)) >> %(shift)d) + (int16_t)WORD(offset + i));
    for (i = 0; i < %(h)d; i++, bytes += %(d)d) {
        value = dot((int32_t)LONG(first_bias + i), u, bytes, %(d)d) >> %(drop)d;
        hidden[i] = (int16_t)(value < 0 ? 0 : value > 32767 ? 32767 : value);
    }
    bytes = second;
    for (i = 0; i < %(L)d; i++, bytes += %(h)d) {
        value = dot((int32_t)LONG(second_bias + i), hidden, bytes, %(h)d);
        if (value > most) most = value, best = i;
    }
    return %(answer)s;
}
"""


_NETWORK_CODE = 780  # bytes of the program and its start, about


def networks(train: Rows, input_bits: np.ndarray, most_bytes: int) -> Iterator[Program]:
    """Networks of as many units as the flash allows, of several steps and penalties."""
    X, y = train
    classes = np.unique(y)
    L = 1 if len(classes) == 2 else len(classes)
    d = X.shape[1]
    hidden = min((most_bytes - _NETWORK_CODE - 4 * d - 4 * L) // (d + L + 4), 250)
    mean, deviation = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    for step, penalty in ((1e-2, 1e-4), (3e-3, 1e-4), (3e-3, 1e-2)) if hidden > 0 else ():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network = MLPClassifier((hidden,), alpha=penalty, learning_rate_init=step, max_iter=300, random_state=0)
            network.fit((X - mean) / deviation, y)
        yield _quantised(network, mean, deviation, input_bits, L)


def _quantised(network: Any, mean: np.ndarray, deviation: np.ndarray, bits: np.ndarray, L: int) -> Program:
    (W1, W2), (b1, b2) = network.coefs_, network.intercepts_
    d, h = W1.shape
    # a feature is a standardised one times 256, of which an input of 16 bits is a part
    exact = 256 / deviation * 2.0**-bits
    shift = int(np.floor(np.log2(32767 / exact.max())))
    factor, offset = np.rint(exact * 2.0**shift).astype(np.int64), np.rint(-256 * mean / deviation).astype(np.int64)
    offset = np.clip(offset, -32767, 32767)
    steps = [np.abs(W).max() / 127 for W in (W1, W2)]
    levels = [np.rint(W / step).astype(np.int64) for W, step in zip((W1, W2), steps, strict=True)]
    first_bias = np.rint(b1 * 256 / steps[0]).astype(np.int64)
    drop = int(max(0, np.ceil(np.log2(np.abs(levels[0]).sum(axis=0).max() * 256 * 4 / 32767))))
    unit = steps[0] / 256 * 2.0**drop  # of a hidden number
    second_bias = np.rint(b2 / (steps[1] * unit)).astype(np.int64)

    def predict(rows: np.ndarray) -> np.ndarray:
        u = np.clip((rows.astype(np.int64) * factor >> shift) + offset, -32768, 32767)
        hidden = np.clip((u @ levels[0] + first_bias) >> drop, 0, 32767)
        values = hidden @ levels[1] + second_bias
        return (values[:, 0] > 0).astype(int) if L == 1 else np.argmax(values, axis=1)

    arrays = {
        "factor": ("int16_t", factor), "offset": ("int16_t", offset), "first": ("int8_t", levels[0].T),
        "first_bias": ("int32_t", first_bias), "second": ("int8_t", levels[1].T),
        "second_bias": ("int32_t", second_bias),
    }  # fmt: skip
    written = "\n".join(
        f"static const {kind} {name}[{values.size}] PROGMEM = {{{', '.join(map(str, values.ravel().tolist()))}}};"
        for name, (kind, values) in arrays.items()
    )
    answer = "most > 0" if L == 1 else "best"
    text = NETWORK % {"arrays": written, "d": d, "h": h, "L": L, "drop": drop, "shift": shift, "answer": answer}
    return Program(text + ("" if L > 1 else "\n/* two classes */\n"), "predict(x)", predict)


# -- trees --------------------------------------------------------------------------------------------------


#: numbers of trees and of their leaves
_FORESTS = ((1, 64), (1, 256), (3, 32), (3, 128), (5, 20), (5, 60), (10, 10), (10, 30), (20, 8), (20, 20))


def forests(train: Rows, input_bits: np.ndarray) -> Iterator[Program]:
    """Random forests of emlearn, inline code, of several sizes."""
    import emlearn

    X, y = _whole(train[0], input_bits), np.searchsorted(np.unique(train[1]), train[1])
    for trees, leaves in _FORESTS:
        forest = RandomForestClassifier(trees, max_leaf_nodes=leaves, random_state=0).fit(X, y)
        text = emlearn.convert(forest, method="inline", dtype="int16_t").save(name="forest", format="c")
        text += f"\nint predict(const int16_t *x) {{ return forest_predict(x, {X.shape[1]}); }}\n"

        def votes(rows: np.ndarray, forest: Any = forest, k: int = len(np.unique(y))) -> np.ndarray:
            answers = np.stack([tree.predict(rows) for tree in forest.estimators_], axis=1).astype(int)
            return np.array([np.bincount(row, minlength=k).argmax() for row in answers])

        yield Program(text, "predict(x)", votes)


def boosted(train: Rows, input_bits: np.ndarray) -> Iterator[Program]:
    """LightGBM of m2cgen, of several sizes."""
    import m2cgen
    from lightgbm import LGBMClassifier

    X, y = _whole(train[0], input_bits), np.searchsorted(np.unique(train[1]), train[1])
    k = len(np.unique(y))
    for rounds, leaves in ((1, 4), (1, 8), (1, 15), (2, 8), (3, 6), (5, 4), (8, 4), (15, 4), (30, 4), (60, 4)):
        if rounds * leaves * (1 if k == 2 else k) > 1500:
            continue
        settings = {"n_jobs": 1, "verbose": -1, "random_state": 0}
        trees = LGBMClassifier(n_estimators=rounds, num_leaves=leaves, learning_rate=0.3, **settings).fit(X, y)
        text = m2cgen.export_to_c(trees) + _ARGMAX % {"d": X.shape[1], "k": k}
        yield Program(text, "predict(x)", lambda rows, trees=trees: np.asarray(trees.predict(rows)))


_ARGMAX = """
#include <stdint.h>
int predict(const int16_t *x)
{
    double input[%(d)d], scores[%(k)d];
    int i, best = 0;
    for (i = 0; i < %(d)d; i++) input[i] = x[i];
    score(input, scores);
    for (i = 1; i < %(k)d; i++) if (scores[i] > scores[best]) best = i;
    return best;
}
"""


def _whole(X: np.ndarray, bits: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(X * 2.0**bits), -32767, 32767).astype(np.int16)


# -- the best of those that fit -------------------------------------------------------------------------------


def best_that_fits(
    programs: Iterator[Program], held_out: Rows, test: Rows, input_bits: np.ndarray, most_flash: int, folder: Path
) -> dict[str, Any] | None:
    """Accuracy, flash and milliseconds of the program with the fewest held-out errors; None if none fits."""
    best: tuple[float, Program, int] | None = None
    X, y = (_whole(held_out[0], input_bits), held_out[1])
    for number, program in enumerate(programs):
        try:
            run = _on_uno(program, X[:1], folder / f"p{number}.c")
        except DoesNotFit:
            continue
        score = float(np.mean(program.predict(X) == y))
        if run.flash <= most_flash and (best is None or score > best[0]):
            best = score, program, run.flash
    if best is None:
        return None
    rows, labels = _whole(test[0], input_bits), test[1]
    run = _on_uno(best[1], rows[:50], folder / "best.c")
    predicted = best[1].predict(rows)
    equal = float(np.mean(run.results[:, 0] == predicted[:50]))
    return {
        "accuracy": 100 * float(np.mean(predicted == labels)), "flash": run.flash, "ram": run.ram + run.stack,
        "ms": run.milliseconds, "equal": equal,
    }  # fmt: skip


def _on_uno(program: Program, rows: np.ndarray, path: Path) -> Any:
    path.write_text(program.text)
    path.with_name("predict.h").write_text("#include <stdint.h>\nint predict(const int16_t *x);\n")
    return measure(UNO, [path], "predict.h", f"result[0] = {program.call}", rows, ("int16_t", 1), standard="-std=gnu99")
