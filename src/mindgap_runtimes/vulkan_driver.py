"""Finds Vulkan drivers, of hardware and of software, by the files that describe them to Vulkan's loader."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.host_runtime import Option
from mindgap.platforms.protocol import EXECUTION, Fallback, NotOnThisMachine, Options

#: The variable that names the only drivers that the loader may use.
VARIABLE: Final = "VK_DRIVER_FILES"
_LOADER: Final = "libvulkan.so.1"
_LIBRARIES: Final = "LD_LIBRARY_PATH"
#: Software drivers: they compute on the host's processors.
SOFTWARE: Final[Mapping[str, str]] = {"swiftshader": "*swiftshader*icd*.json", "lavapipe": "lvp_icd*.json"}
#: How to get one.
_REMEDY: Final[Mapping[str, str]] = {
    "swiftshader": "Chromium and Chrome bring it (apt-get install chromium)",
    "lavapipe": "Mesa has it (apt-get install mesa-vulkan-drivers)",
}
#: VK_PHYSICAL_DEVICE_TYPE_CPU
_PROCESSOR: Final = 4
_FOLDERS: Final = (
    "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/lib/chromium",
    "/usr/lib/chromium-browser", "/opt/google/chrome",
)  # fmt: skip

DEVICE: Final = Option(
    "device",
    "the Vulkan driver: the system's choice (default), or a software driver, which computes on processors",
    ("default", *SOFTWARE),
)


def variables(options: Options) -> Mapping[str, str]:
    """The variables of a worker with the option `device`. Raises `NotOnThisMachine` for an absent driver."""
    device = options.get("device", "default")
    return {} if device == "default" else {VARIABLE: str(driver_file(device))}


def variables_with_loader(options: Options) -> Mapping[str, str]:
    """As `variables`, for a runtime that looks for Vulkan's loader itself: where the system has none, the one with
    the driver. Raises `NotOnThisMachine`."""
    variables_set = variables(options)
    folders = [Path(each).parent for each in variables_set.get(VARIABLE, "").split(":") if each]
    loaders = [str(each) for each in folders if (each / _LOADER).is_file()]
    if not loaders or ctypes.util.find_library("vulkan"):
        return variables_set
    return {**variables_set, _LIBRARIES: ":".join([*loaders, os.environ.get(_LIBRARIES, "")]).rstrip(":")}


def driver_file(device: str) -> Path:
    """The file that describes a software driver. Raises `NotOnThisMachine` where there is none."""
    file = next((each for folder in _FOLDERS for each in sorted(Path(folder).glob(SOFTWARE[device]))), None)
    if file is None:
        raise NotOnThisMachine(
            f"device={device}: no such Vulkan driver in {', '.join(_FOLDERS)}: {_REMEDY[device]}, or name its file in "
            f"{VARIABLE} and leave the option out"
        )
    return file


def load_loader() -> Any:
    """Loads Vulkan's loader for the whole process: the system's, else one next to a driver that the environment names.

    Raises `Fallback` without one: nothing that uses Vulkan works then.
    """
    loaders = [Path(each).parent / _LOADER for each in os.environ.get(VARIABLE, "").split(":") if each]
    for each in (ctypes.util.find_library("vulkan"), *map(str, loaders)):
        try:
            if each:
                return ctypes.CDLL(each, ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise Fallback("Vulkan's loader libvulkan.so.1 is not on this machine: apt-get install libvulkan1")


@dataclass(frozen=True, slots=True)
class VulkanDevice:
    """A device of Vulkan. `driver`: the driver's version by its maker. `software`: it computes on processors."""

    name: str
    api: str
    driver: int
    software: bool


def devices() -> list[VulkanDevice]:
    """The devices that Vulkan's loader finds, in its order. Raises `Fallback` without a loader or a device."""
    loader = load_loader()
    instance, count = ctypes.c_void_p(), ctypes.c_uint32()
    # VkInstanceCreateInfo: its type (1), and nothing asked for.
    created = loader.vkCreateInstance((ctypes.c_uint64 * 8)(1), None, ctypes.byref(instance))
    if created != 0:
        raise Fallback(f"Vulkan's loader finds no driver (vkCreateInstance: {created}): {'; '.join(_REMEDY.values())}")
    loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    handles = (ctypes.c_void_p * count.value)()
    loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    devices_found = [_device(loader, handle) for handle in handles]
    loader.vkDestroyInstance(instance, None)
    if not devices_found:
        raise Fallback("Vulkan's driver has no device")
    return devices_found


def _device(loader: Any, handle: int | None) -> VulkanDevice:
    """Reads VkPhysicalDeviceProperties: five numbers of 32 bits, then a name of 256 bytes."""
    properties = ctypes.create_string_buffer(4096)
    loader.vkGetPhysicalDeviceProperties(ctypes.c_void_p(handle), properties)
    api, driver, _vendor, _device, kind = struct.unpack_from("<5I", properties)
    name = properties.raw[20:276].partition(b"\0")[0].decode(errors="replace")
    return VulkanDevice(name, f"{api >> 22 & 0x7F}.{api >> 12 & 0x3FF}.{api & 0xFFF}", driver, kind == _PROCESSOR)


def described() -> dict[str, Any]:
    """The description of the devices; `emulated` where all of them are processors. Raises `Fallback`."""
    devices_found = devices()
    emulated = {EXECUTION: "emulated"} if all(each.software for each in devices_found) else dict[str, str]()
    return {**emulated, "vulkan_devices": [asdict(each) for each in devices_found]}
