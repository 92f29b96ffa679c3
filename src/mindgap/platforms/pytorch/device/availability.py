"""Finds out whether PyTorch and a device for it are available, without importing PyTorch where possible."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.environments.emulation import (
    cross_compiler,
    emulated_processor,
    foreign_architecture,
)
from mindgap.platforms.host import device_files
from mindgap.platforms.protocol import Availability
from mindgap.platforms.pytorch.device.devices import TorchDevice

#: The name in torch/version.py -> what people call such a build.
_BUILDS: Final = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}


@dataclass(frozen=True, slots=True)
class Processor:
    """The host's processor: model name, vendor, instruction-set flags."""

    name: str
    vendor: str
    flags: frozenset[str]


@cache
def processor() -> Processor:
    """Reads the processor from /proc/cpuinfo; elsewhere from Python, without flags. One that is emulated has its
    environment's words, and no flags: the file describes the host's."""
    if emulated := emulated_processor():
        return Processor(emulated, "", frozenset())
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


def torch_present(device: TorchDevice) -> Availability:
    """Checks whether PyTorch here can use `device`; if not, the reason names what to install."""
    if importlib.util.find_spec("torch") is None:
        return Availability(False, "torch is not installed: pip install torch")
    versions = {"torch": version("torch")}
    if device.name == "cpu":
        return Availability(True, "", processor().name, versions)
    if device.distribution:
        module = _top_level(device.module), package_version(device.distribution)
        if not module[0]:
            return Availability(False, _no_package(device, versions["torch"]), "", versions)
        versions[device.distribution] = module[1] or "of unknown version"
    reason = _not_built(device, versions["torch"]) or _no_node(device) or _not_working(device, versions)
    if reason:
        return Availability(False, reason, "", versions)
    return Availability(True, "", _device_name(device), versions)


def triton_present(device: TorchDevice) -> Availability:
    """Checks whether Inductor can write kernels for the device; Apple's GPUs need no Triton."""
    if device.name not in ("cuda", "rocm", "xpu"):
        return Availability(True)
    for name in ("triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "pytorch-triton"):
        installed_version = package_version(name)
        if installed_version is not None:
            return Availability(True, versions={name: installed_version})
    return Availability(False, f"Inductor needs triton for {device.name}, which is not installed: pip install triton")


def compiler_present() -> Availability:
    """Checks for what Inductor needs for the CPU: a C++ compiler, Python's headers, paths without spaces."""
    compiler = os.environ.get("CXX")
    if architecture := foreign_architecture():
        cross = cross_compiler(architecture)
        if shutil.which(cross) is None:
            return Availability(
                False,
                f"Inductor's code is compiled for {architecture} on the emulator's host, where {cross} is not on PATH: "
                f"apt-get install g++-{architecture}-linux-gnu",
            )
    for name in (compiler,) if compiler else ("g++", "clang++"):
        path = shutil.which(name)
        if path:
            reason = "" if architecture else _not_compiling()
            return Availability(not reason, reason, versions={"compiler": path})
    return Availability(False, f"no C++ compiler ({compiler or 'g++, clang++'}) is on PATH: install one or set CXX")


def _not_compiling() -> str:
    """Why every compilation of Inductor would fail here, empty where nothing is known to stop it."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        minor = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"Inductor's code needs {headers / 'Python.h'}, which is missing: apt-get install python{minor}-dev"
    torch = importlib.util.find_spec("torch")
    installed = Path(torch.origin).parent if torch is not None and torch.origin else headers
    kernels = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir())
    for path, remedy in ((installed, "install it elsewhere"), (kernels, "set TORCHINDUCTOR_CACHE_DIR and TMPDIR")):
        if " " in str(path):
            return f"Inductor splits its compiler's command at the space in the path {path}: {remedy}"
    return ""


def package_version(name: str) -> str | None:
    """Returns the version of an installed distribution, None without one."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _top_level(module: str) -> bool:
    """Returns whether the package of `module` is installed, without importing it, which would import torch."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _no_package(device: TorchDevice, torch_version: str) -> str:
    what = f"{device.module.partition('.')[0]} is not installed"
    how = f"pip install {device.distribution}, in the release made for torch {torch_version.partition('+')[0]}"
    if device.nodes and not _nodes(device):
        return f"{what} and there is no {device.maker} device ({device.nodes[0]}): {how}, and its maker's driver"
    return f"{what}: {how}"


def _not_built(device: TorchDevice, torch_version: str) -> str:
    """Returns why this build of torch cannot use the device, empty if it can."""
    if device.name == "mps":
        return "" if sys.platform == "darwin" else "mps is Apple's, and this is not macOS"
    if not device.build:
        return ""
    built = _build_variables()
    if built.get(device.build) is not None:
        return ""
    for other, name in (("hip", "rocm"), ("cuda", "cuda")):
        if device.torch_name == "cuda" and built.get(other) is not None:
            return f"this torch ({torch_version}) is built for {_BUILDS[other]}: use {name}/…"
    what = f"this build of torch ({torch_version}) has no {_BUILDS[device.build]}"
    how = f"install torch's build for {_BUILDS[device.build]}"
    if _nodes(device):
        return f"{what}: {how}"
    return f"{what}, and there is no {device.maker} device ({device.nodes[0]}): {how} on a machine with one"


def _no_node(device: TorchDevice) -> str:
    """Reports a missing device file of the driver, empty if it exists or is not needed."""
    if not device.nodes or _nodes(device) or sys.platform != "linux":
        return ""
    return f"there is no {device.maker} device on this machine ({device.nodes[0]}), or its driver is not loaded"


def _nodes(device: TorchDevice) -> list[str]:
    return device_files(device.nodes)


def _not_working(device: TorchDevice, versions: Mapping[str, str]) -> str:
    """Returns why torch finds no device, empty if it finds one. Imports torch."""
    versions_text = ", ".join(f"{name} {number}" for name, number in versions.items())
    try:
        torch: Any = importlib.import_module("torch")
        if device.module:
            importlib.import_module(device.module)
        if device.name == "xla":
            count = int(importlib.import_module("torch_xla").device_count())
        elif device.name == "mps":
            count = int(torch.backends.mps.is_available())
        else:
            count = int(getattr(torch, device.torch_name).device_count())
    except Exception as error:  # a package for another torch fails in any way
        detail = str(error).strip().partition(chr(10))[0][:200]
        return f"{versions_text}: importing it failed: {type(error).__name__}: {detail}"
    return "" if count else f"{versions_text}: finds no {device.maker} device"


def _device_name(device: TorchDevice) -> str:
    if device.name == "mps":
        return f"Apple {platform.machine()}"
    if device.name == "xla":
        return str(importlib.import_module("torch_xla.core.xla_model").xla_device_kind())
    torch: Any = importlib.import_module("torch")
    return str(getattr(torch, device.torch_name).get_device_name())


@cache
def _build_variables() -> dict[str, object]:
    """Reads torch/version.py, which lists a build's devices without an import of 2 s."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        variables: dict[str, object] = {}
        source = Path(folder) / "version.py"
        if source.is_file():
            exec(compile(source.read_text(), str(source), "exec"), variables)
            return variables
    return {}
