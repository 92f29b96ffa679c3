"""Finds Dawn's library for tinygrad's WebGPU device, and names the adapter it computes on.

tinygrad brings no library. The package `dawn-python` has one for each architecture. Without Vulkan, Dawn gives an
adapter that computes nothing (`Null`) and raises no error: its results are what the memory held.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.protocol import ACCURACY, EXECUTION, Fallback, Options
from mindgap_runtimes import vulkan_driver

#: The variable by which tinygrad finds Dawn's library, and that of the backend of Dawn's adapter.
_LIBRARY: Final = "WEBGPU_PATH"
_BACKEND: Final = {"WEBGPU_BACKEND": "WGPUBackendType_Vulkan"}


def library() -> Path | None:
    """Dawn's library for this architecture in the package `dawn-python`; None without one."""
    spec = importlib.util.find_spec("pydawn")
    folders = [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]
    files = [each / "lib" / f"libwebgpu_dawn_{platform.machine()}.so" for each in folders]
    return next((each for each in files if each.is_file()), None)


def missing() -> str:
    """Returns what is not on this machine; empty where Dawn's library is, or its package is not installed."""
    if importlib.util.find_spec("pydawn") is None or library() is not None:
        return ""
    return f"dawn-python has no library of Dawn for {platform.machine()}: tinygrad's WebGPU device needs one"


def variables(options: Options) -> Mapping[str, str]:
    """The variables of a worker with the option `device`. Raises `NotOnThisMachine` for an absent driver."""
    return {**vulkan_driver.variables_with_loader(options), **_BACKEND}


def load() -> None:
    """Names Dawn's library to tinygrad, which looks for it when its device is opened."""
    os.environ.setdefault(_LIBRARY, str(library() or ""))


def described() -> dict[str, Any]:
    """The description of the adapter; `emulated` where that is a processor. Raises `Fallback` for an adapter
    that does not compute on Vulkan."""
    try:
        tinygrad: Any = importlib.import_module("tinygrad")
        tinygrad.Device["WEBGPU"]
        operations: Any = importlib.import_module("tinygrad.runtime.ops_webgpu")
        adapter = _adapter(operations)
    except Exception as error:
        raise Fallback(f"tinygrad opens no WebGPU device: {str(error).strip()}") from error
    library_of: Any = operations.webgpu
    backend = str(library_of.enum_WGPUBackendType.get(adapter.backendType))
    if backend != _BACKEND["WEBGPU_BACKEND"]:
        raise Fallback(f"Dawn's adapter is {backend}, not Vulkan's: no Vulkan driver computes")
    kind = str(library_of.enum_WGPUAdapterType.get(adapter.adapterType))
    named = " ".join(filter(None, (operations.from_wgpu_str(each) for each in (adapter.device, adapter.description))))
    emulated = {EXECUTION: "emulated"} if kind == "WGPUAdapterType_CPU" else dict[str, str]()
    dawn = importlib.metadata.version("dawn-python")
    return {**emulated, ACCURACY: "WGSL", "dawn": dawn, "webgpu_adapter": named, "webgpu_adapter_type": kind}


def _adapter(operations: Any) -> Any:
    """Dawn's description of the adapter that tinygrad takes."""
    dawn = operations.webgpu
    backend = operations.backend_types[_BACKEND["WEBGPU_BACKEND"]]
    options = dawn.WGPURequestAdapterOptions(
        powerPreference=dawn.WGPUPowerPreference_HighPerformance, backendType=backend
    )
    info = dawn.WGPUAdapterInfo()
    dawn.wgpuAdapterGetInfo(operations.InstanceRequestAdapter(operations.instance, options), info)
    return info
