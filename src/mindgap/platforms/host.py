"""Describes the host's processors, and the packages that are installed."""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.environments.emulation import emulated_processor
from mindgap.platforms.protocol import Availability

#: LLVM's names of the features that generated code uses. Others, such as those for operating systems, a virtual
#: machine may hide from a processor that has them.
COMPUTING: Final = re.compile(r"^(?:s?sse|avx|amx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|xop|tbm|gfni|v?aes|v?pclmul)")


def cpu_name() -> str:
    """Returns the processor's model name, or its architecture if unknown; of an emulated one, its words."""
    if emulated := emulated_processor():
        return emulated
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cpu_flags() -> list[str]:
    """Returns the sorted instruction-set flags by the kernel's names; empty if unknown, and of an emulated processor,
    where the kernel names those of the host."""
    if emulated_processor():
        return []
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


def device_files(patterns: Iterable[str]) -> list[str]:
    """The device files of this machine that the patterns match: `/dev/nvidia[0-9]*`."""
    return [path for pattern in patterns for path in glob.glob(pattern)]


def described(modules: Mapping[str, str]) -> dict[str, Any]:
    """Returns what the description of every platform on the host's processors begins with."""
    availability = available(modules)
    return {"hardware": availability.hardware, "cpu_flags": cpu_flags(), "versions": dict(availability.versions)}
