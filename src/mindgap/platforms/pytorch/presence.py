"""Whether PyTorch and a device for it are there, found out without importing it where that can be."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mindgap.platforms.protocol import Availability


@dataclass(frozen=True, slots=True)
class Processor:
    """The host's processor: what to call it, its maker's mark, its instruction-set flags."""

    name: str
    vendor: str
    flags: frozenset[str]


@cache
def processor() -> Processor:
    """From /proc/cpuinfo; elsewhere from what Python knows, without flags."""
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, colon, value = line.partition(":")
            if colon:
                fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    model = fields.get("model name") or platform.processor() or platform.machine()
    if all(key in fields for key in ("cpu family", "model", "stepping")):
        # A hypervisor often shortens the name ("AMD EPYC"): these three tell generations apart.
        model += f" (family {fields['cpu family']} model {fields['model']} stepping {fields['stepping']})"
    flags = frozenset((fields.get("flags") or fields.get("Features") or "").split())
    return Processor(f"{model}, {platform.machine()}", fields.get("vendor_id", ""), flags)


def torch_present(device: str) -> Availability:
    """Whether this environment has a PyTorch that can use `device` (`cpu`, `cuda`, `mps`, `xpu`)."""
    if importlib.util.find_spec("torch") is None:
        return Availability(False, "torch is not installed: pip install torch")
    versions = {"torch": version("torch")}
    if device == "cpu":
        return Availability(True, "", processor().name, versions)
    reason = _missing_device(device, versions["torch"])
    if reason:
        return Availability(False, reason, "", versions)
    return Availability(True, "", _device_name(device), versions)


def compiler_present() -> Availability:
    """Whether there is a C++ compiler, which Inductor needs for the CPU at run time."""
    import os

    asked = os.environ.get("CXX")
    for name in (asked,) if asked else ("g++", "clang++"):
        found = shutil.which(name)
        if found:
            return Availability(True, versions={"compiler": found})
    return Availability(False, f"no C++ compiler ({asked or 'g++, clang++'}) is on PATH: install one or set CXX")


def package_version(name: str) -> str | None:
    """The version of an installed distribution, None where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _missing_device(device: str, torch_version: str) -> str:
    """Why `device` cannot be used, empty where it can. Imports torch only if its build could have it."""
    if device == "mps" and sys.platform != "darwin":
        return "mps is Apple's, and this is not macOS"
    built = _build_variables()
    if device == "cuda" and built.get("cuda") is None and built.get("hip") is None:
        return f"this build of torch ({torch_version}) has no CUDA"
    if device == "xpu" and built.get("xpu") is None:
        return f"this build of torch ({torch_version}) has no XPU"
    import torch

    if device == "mps":
        return "" if torch.backends.mps.is_available() else f"torch {torch_version} finds no mps device"
    module = torch.cuda if device == "cuda" else torch.xpu
    return "" if module.is_available() else f"torch {torch_version} is built for {device} and finds no device"


def _device_name(device: str) -> str:
    import torch

    if device == "mps":
        return f"Apple {platform.machine()}"
    return str(torch.cuda.get_device_name() if device == "cuda" else torch.xpu.get_device_name())


@cache
def _build_variables() -> dict[str, object]:
    """The assignments in torch/version.py, which says what a build was made for without an import of 2 s."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found: dict[str, object] = {}
        source = Path(folder) / "version.py"
        if source.is_file():
            exec(compile(source.read_text(), str(source), "exec"), found)
            return found
    return {}
