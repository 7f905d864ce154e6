"""Compilers and simulators: C files built for a chip, run on rows, with flash, memory and cycles.

Debian's packages gcc-avr, avr-libc, libsimavr-dev, libelf-dev, gcc-arm-none-eabi, libnewlib-arm-none-eabi and
qemu-system-arm have all that is needed.  The ATmega328P (Arduino Uno, 16 MHz) is simulated cycle by cycle; for the
Cortex-M, instructions are counted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
UNO_HERTZ, UNO_FLASH, UNO_RAM = 16_000_000, 32_256, 2_048
_TICK = 40  # instructions of qemu that a tick of its timer stands for


@dataclass(frozen=True)
class Chip:
    """A microcontroller: its compiler, with the options that name it, and how its programs are run."""

    name: str
    compiler: str
    options: tuple[str, ...]
    machine: str | None = None  # of qemu; None for simavr

    @property
    def missing(self) -> str | None:
        """The first program that is not installed, if any."""
        needed = [self.compiler, "qemu-system-arm" if self.machine else "gcc"]
        missing = next((program for program in needed if shutil.which(program) is None), None)
        if missing is None and self.machine is None and simulator() is None:
            return "libsimavr-dev"
        return missing


UNO = Chip("ATmega328P", "avr-gcc", ("-mmcu=atmega328p",))
_ARM = ("-mthumb", "--specs=nano.specs")
M0 = Chip("Cortex-M0", "arm-none-eabi-gcc", ("-mcpu=cortex-m0", "-mfloat-abi=soft", *_ARM), "mps2-an385")
M4F = Chip(
    "Cortex-M4F", "arm-none-eabi-gcc", ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", *_ARM), "mps2-an386"
)
CHIPS = (UNO, M0, M4F)


class DoesNotFit(RuntimeError):
    """A program that the linker cannot place on the chip."""


@dataclass(frozen=True)
class Measured:
    """What a program takes on a chip; cycles are instructions on a Cortex-M."""

    flash: int
    ram: int
    stack: int
    cycles: int
    results: np.ndarray  # (n_rows, n_results)

    @property
    def milliseconds(self) -> float:
        """Of one prediction on an Arduino Uno."""
        return 1e3 * self.cycles / UNO_HERTZ


@cache
def simulator() -> Path | None:
    """The program that runs firmware of an AVR, or None where it cannot be built."""
    program = Path(tempfile.mkdtemp(prefix="kompakt_avr_")) / "avr_runner"
    command = ["gcc", "-O2", str(HERE / "avr_runner.c"), "-o", str(program), "-lsimavr", "-lelf"]
    return None if subprocess.run(command, capture_output=True).returncode else program


def measure(
    chip: Chip,
    sources: Sequence[Path],
    header: str,
    call: str,
    rows: np.ndarray,
    result: tuple[str, int] = ("int16_t", 1),
    flags: Sequence[str] = (),
    standard: str = "-std=c99",
) -> Measured:
    """Build the sources with a loop around `call`, run it on the rows, and measure."""
    types = {"int16": "int16_t", "float32": "float", "uint8": "uint8_t"}
    with tempfile.TemporaryDirectory(prefix="kompakt_chip_") as name:
        folder = Path(name)
        facts = {
            "HEADER": f'"{header}"', "X_TYPE": types[rows.dtype.name], "N_FEATURES": rows.shape[1], "CALL": call,
            "RESULT_TYPE": result[0], "N_RESULTS": result[1],
        }  # fmt: skip
        compile_ = [chip.compiler, *chip.options, "-Os", "-ffunction-sections", "-fdata-sections"]
        objects = [str(folder / f"{number}.o") for number in range(len(sources))]
        for source, target in zip(sources, objects, strict=True):
            _do([*compile_, standard, *flags, "-c", str(source), "-o", target])
        defined = [f"-D{key}={value}" for key, value in facts.items()]
        loop = [*compile_, "-std=gnu99", f"-I{Path(sources[0]).parent}", *defined, "-c", str(HERE / "firmware.c")]
        link = [chip.compiler, *chip.options, "-Wl,--gc-sections"]
        if chip.machine is not None:
            _do([*compile_, "-c", str(HERE / "arm_start.c"), "-o", str(folder / "start.o")])
            link += ["-nostartfiles", "-T", str(HERE / "arm.ld"), str(folder / "start.o")]
        _do([*loop, "-o", str(folder / "loop.o")])
        _do([*link, str(folder / "loop.o"), *objects, "-lm", "-o", str(folder / "program")])
        size = chip.compiler.replace("gcc", "size")
        text, data, zero = map(int, _do([size, str(folder / "program")]).splitlines()[1].split()[:3])
        rows = np.ascontiguousarray(rows)
        (folder / "rows").write_bytes(rows.tobytes())
        if chip.machine is None:
            if text + data > UNO_FLASH or data + zero > UNO_RAM:
                raise DoesNotFit(f"{text + data} bytes of flash and {data + zero} of memory are more than an Uno has.")
            lines = _run_avr(folder, rows, result)
        else:
            assembly = f'.section .rows,"a"\n.global rows\n.align 3\nrows: .incbin "{folder / "rows"}"\n'
            (folder / "rows.s").write_text(assembly)
            _do([*compile_, "-c", str(folder / "rows.s"), "-o", str(folder / "rows.o")])
            _do([*loop, f"-DROWS={len(rows)}", "-o", str(folder / "run.o")])
            _do([*link, str(folder / "run.o"), str(folder / "rows.o"), *objects, "-lm", "-o", str(folder / "run")])
            options = ["-nographic", "-icount", "shift=0", "-semihosting", "-kernel", str(folder / "run")]
            lines = _do(["qemu-system-arm", "-M", chip.machine, *options]).splitlines()
        answers = [bytes.fromhex(line) for line in lines if re.fullmatch("[0-9a-f]+", line)]
        kind = {"int16_t": "<i2", "int32_t": "<i4", "float": "<f4", "int": "<i2" if chip is UNO else "<i4"}[result[0]]
        results = np.frombuffer(b"".join(answers), dtype=kind).reshape(len(rows), -1)
        facts_line = lines[-1].split()
        if chip.machine is None:
            cycles, stack = int(facts_line[1]), int(facts_line[5])
        else:
            cycles, stack = round(int(facts_line[1], 16) * _TICK / len(rows)), int(facts_line[3], 16)
        return Measured(text + data, data + zero, stack, cycles, results)


def _run_avr(folder: Path, rows: np.ndarray, result: tuple[str, int]) -> list[str]:
    symbols = {}
    for line in _do(["avr-nm", str(folder / "program")]).splitlines():
        address, _, name = line.rpartition(" ")
        symbols[name] = address.split()[0]
    bytes_ = {"int16_t": 2, "int": 2, "int32_t": 4, "float": 4}[result[0]] * result[1]
    places = [f"0x{symbols['x']}", str(rows[0].nbytes), f"0x{symbols['result']}", str(bytes_)]
    command = [str(simulator()), str(folder / "program"), str(folder / "rows"), str(len(rows)), *places]
    return _do(command).splitlines()


def _do(command: list[str]) -> str:
    """What a command prints; raises with its message where it fails, DoesNotFit where a linker had no room."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode:
        message = f"{' '.join(command)}\n{done.stderr[-2000:]}"
        raise (DoesNotFit if "region" in done.stderr else RuntimeError)(message)
    return done.stdout + (done.stderr if command[0].startswith("qemu") else "")
