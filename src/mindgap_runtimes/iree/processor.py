"""The processor that IREE compiles for, and whether this machine runs its code."""

from __future__ import annotations

import importlib
import re
from typing import Any, Final

from mindgap.platforms import host
from mindgap.platforms.protocol import PlatformError

_PROGRAM: Final = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
_FEATURES: Final = re.compile(r'cpu_features = "([^"]*)"')
_UNKNOWN: Final = re.compile(r"^Unknown CPU .*", re.MULTILINE)


def require_processor(cpu: str) -> None:
    """Raises `PlatformError` for a processor that IREE does not know, or whose code this machine does not run."""
    missing = sorted(features(cpu) - features("host"))
    if missing:
        raise PlatformError(f"option cpu={cpu}: this machine lacks {', '.join(missing)}; cpu=host compiles for it")


def features(cpu: str) -> frozenset[str]:
    """Returns the instruction-set features that IREE's code for a processor uses, by LLVM's names."""
    tools: Any = importlib.import_module("iree.compiler.tools")
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", "--compile-to=executable-targets"]
    try:
        text: str = tools.compile_str(_PROGRAM, target_backends=["llvm-cpu"], extra_args=flags).decode()
    except tools.CompilerToolError as error:
        match = _UNKNOWN.search(str(error))
        raise PlatformError(f"option cpu={cpu}: {match[0] if match else error}") from None
    return read_features(text)


def read_features(text: str) -> frozenset[str]:
    """Reads `+avx2,-avx512f` from a program in MLIR. Of a feature that is named twice, the last holds."""
    match = _FEATURES.search(text)
    switches = [each for each in (match[1] if match else "").split(",") if each]
    last = {each[1:]: each[0] for each in switches}
    return frozenset(name for name, sign in last.items() if sign == "+" and host.COMPUTING.match(name))
