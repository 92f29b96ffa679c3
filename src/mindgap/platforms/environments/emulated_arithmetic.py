"""Runs the operations of `arithmetic_check` in an environment, on operands from files: `MODULE FOLDER`.

`NUMBER.npz` has the operands of an operation under `0`, `1`, … and its name under `name`; its results are written to
`NUMBER.npy`. An operation that the processor lacks writes none.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

#: Loops with one instruction for a fused product and sum, by architecture and dtype, compiled from
#: `for (long i = 0; i < n; i++) o[i] = __builtin_fma(a[i], b[i], c[i])` (clang 14, -O1 -fno-unroll-loops
#: -fno-vectorize, -mfma for x86-64): numpy has no such function, and that of the C library may be computed without it.
_FMA: Final = {
    # ldr, ldr, ldr, fmadd, str
    ("aarch64", "float32"): "9f0400f10b010054004440bc214440bc424440bc840400f10008011f604400bc41ffff54c0035fd6",
    ("aarch64", "float64"): "9f0400f10b010054008440fc218440fc428440fc840400f10008411f608400fc41ffff54c0035fd6",
    # vmovss, vmovss, vfmadd213ss, vmovss; in doubles vmovsd, vfmadd213sd
    ("x86_64", "float32"): "4d85c07e2931c0660f1f840000000000"
    "c5fa100487c5fa100c86c4e279a90c82c5fa110c814883c0014939c075e2c3",
    ("x86_64", "float64"): "4d85c07e2931c0660f1f840000000000"
    "c5fb1004c7c5fb100cc6c4e2f9a90cc2c5fb110cc14883c0014939c075e2c3",
}  # fmt: skip


def run(name: str, operands: list[Any], result: str) -> Any:
    """The results of one operation by this processor; None where there is no code of it for this architecture."""
    with np.errstate(all="ignore"):
        if name == "fma":
            return _fused(operands)
        if name.startswith("to_"):
            return operands[0].astype(result)
        return getattr(np, name)(*operands)


def _fused(operands: list[Any]) -> Any:
    code = _FMA.get((platform.machine(), str(operands[0].dtype)))
    if code is None or (platform.machine() == "x86_64" and not _has_fma3()):
        return None
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_long)
    function = kind(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    result = np.empty_like(operands[0])
    function(*(each.ctypes.data for each in (*operands, result)), result.size)
    return result


def _has_fma3() -> bool:
    """Whether the processor has the instructions, by numpy, which asks the processor and not the kernel."""
    features: dict[str, bool] = import_module("numpy._core._multiarray_umath").__cpu_features__
    return features["FMA3"]


def _main() -> None:
    folder = Path(sys.argv[1])
    for file in sorted(folder.glob("*.npz")):
        given = np.load(file)
        operands = [given[str(number)] for number in range(len(given.files) - 2)]
        result = run(str(given["name"]), operands, str(given["result"]))
        if result is not None:
            np.save(file.with_suffix(".npy"), result)


if __name__ == "__main__":
    _main()
