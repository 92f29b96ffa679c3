"""Describes the host, and checks the options, of platforms that run on ONNX Runtime and OpenVINO."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mindgap.platforms.messages import Reading
from mindgap.platforms.protocol import Availability, Options, PlatformError

#: LLVM's names of the features that generated code uses. Others, such as those for operating systems, a virtual
#: machine may hide from a processor that has them.
COMPUTING: Final = re.compile(r"^(?:s?sse|avx|amx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|xop|tbm|gfni|v?aes|v?pclmul)")


def cpu_name() -> str:
    """Returns the processor's model name, or its architecture if unknown."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cpu_flags() -> list[str]:
    """Returns the sorted instruction-set flags by the kernel's names; empty if unknown."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else ():
        if line.startswith(("flags", "Features")):
            return sorted(line.partition(":")[2].split())
    return []


def available(modules: Mapping[str, str]) -> Availability:
    """Returns whether every module (import name -> distribution) is installed, without importing any.

    Of a dotted name, the packages around the module are imported.
    """
    missing = [dist for name, dist in modules.items() if not _installed(name)]
    if missing:
        return Availability(False, f"not installed: {', '.join(missing)} (pip install {' '.join(missing)})")
    versions = {dist: importlib.metadata.version(dist) for dist in modules.values()}
    return Availability(True, hardware=cpu_name(), versions=versions)


def _installed(name: str) -> bool:
    package = name.rpartition(".")[0]
    return (not package or _installed(package)) and importlib.util.find_spec(name) is not None


def choice(name: str, options: Options, allowed: Sequence[str]) -> str:
    """Returns the value of an option, the first of `allowed` by default. Raises `PlatformError` for another."""
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise PlatformError(f"option {name}={value}: must be one of {', '.join(allowed)}")
    return value


def thread_count(options: Options) -> int | None:
    """Returns the number of `threads=`, None if the runtime chooses. Raises `PlatformError` for another value."""
    value = options.get("threads")
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise PlatformError(f"option threads={value}: must be a number of threads, 1 or more")
    return int(value)


def reject_unknown(options: Options, known: Mapping[str, str]) -> None:
    """Raises `PlatformError` for an option that is not in `known`."""
    for name in options:
        if name not in known:
            raise PlatformError(f"unknown option {name}: this platform takes {', '.join(sorted(known))}")


def aten_operator(reading: Reading, origin: Mapping[str, str]) -> str:
    """Returns the ATen operator of a message; else the ONNX operator, as `onnx.Conv`; empty without one.

    `origin`: ONNX node name -> ATen operator. A runtime names no node, or one of its own, where it has expanded an ONNX
    operator (a Softmax) into others (a ReduceMax): then the graph's only operator is meant.
    """
    known = origin.get(reading.node) if reading.node else None
    if known:
        return known
    if len(set(origin.values())) == 1:
        return next(iter(origin.values()))
    return f"onnx.{reading.operator}" if reading.operator else ""
