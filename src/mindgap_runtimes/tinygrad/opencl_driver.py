"""Finds OpenCL drivers, of hardware and of software, as tinygrad uses them."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.host_runtime import Option
from mindgap.platforms.protocol import ACCURACY, EXECUTION, Fallback, NotOnThisMachine, Options

#: The variable that names the only driver that the loader (ocl-icd) may use.
_VARIABLE: Final = "OCL_ICD_VENDORS"
_VENDORS: Final = Path("/etc/OpenCL/vendors")
_POCL: Final = "apt-get install pocl-opencl-icd ocl-icd-libopencl1"
#: CL_DEVICE_TYPE, and its bit of devices that are the host's processors.
_TYPE: Final = 0x1000
_PROCESSOR: Final = 2

DEVICE: Final = Option(
    "device",
    "the OpenCL driver: the system's first (default), or PoCL, which computes on processors",
    ("default", "pocl"),
)


def missing() -> str:
    """Returns what is not on this machine; empty where OpenCL's loader and a driver are."""
    if ctypes.util.find_library("OpenCL") is None:
        return f"OpenCL's loader libOpenCL.so.1 is not on this machine: {_POCL} brings it with a software driver"
    if not any(_VENDORS.glob("*.icd")):
        return f"no OpenCL driver in {_VENDORS}: {_POCL} brings one that computes on processors"
    return ""


def variables(options: Options) -> Mapping[str, str]:
    """The variables of a worker with the option `device`. Raises `NotOnThisMachine` for an absent driver."""
    if options.get("device", "default") == "default":
        return {}
    file = _VENDORS / "pocl.icd"
    if not file.is_file():
        raise NotOnThisMachine(f"device=pocl: no {file}: {_POCL}")
    return {_VARIABLE: str(file)}


def described() -> dict[str, Any]:
    """The description of tinygrad's OpenCL device; `emulated` where that is a processor. Raises `Fallback`."""
    try:
        device: Any = importlib.import_module("tinygrad").Device["CL"]
        library: Any = importlib.import_module("tinygrad.runtime.autogen.opencl")
        kind = ctypes.c_uint64()
        status = library.clGetDeviceInfo(device.cl_dev, _TYPE, ctypes.sizeof(kind), ctypes.byref(kind), None)
    except Exception as error:
        raise Fallback(f"tinygrad opens no OpenCL device: {str(error).strip()}") from error
    if status != 0:
        raise Fallback(f"OpenCL does not say what its device is: clGetDeviceInfo gave {status}")
    emulated = {EXECUTION: "emulated"} if kind.value & _PROCESSOR else dict[str, str]()
    return {
        **emulated,
        ACCURACY: "OpenCL C",
        "opencl_device": str(device.device_name),
        "opencl_driver": str(device.driver_version),
    }
