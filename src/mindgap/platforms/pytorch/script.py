"""Says how a short script runs PyTorch itself: eager mode on each device, TorchScript and Inductor on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mindgap.platforms.protocol import Options
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.script_runner import ScriptRunner, read_runner

_FILE: Final = Path(__file__).with_name("run.py")
#: Options that are variables of the environment.
_VARIABLES: Final = frozenset({"isa", "aten", "onednn_isa", "mkl"})
#: Devices whose module of PyTorch gives their name.
_NAMED: Final = frozenset({"cuda", "xpu", "npu"})


def runner_on_cpu(function: str, options: Options, edits: Mapping[str, str] | None = None) -> ScriptRunner | None:
    """Returns the runner by a function of `run.py`; None for an option that needs a call. `edits`: as `read_runner`
    takes them."""
    return read_runner(_FILE, (), function, edits=edits, in_torch=True) if options.keys() <= _VARIABLES else None


def eager_runner(device: TorchDevice, options: Options) -> ScriptRunner | None:
    """Returns the runner of eager mode. `threads` are those of the host: another device takes its defaults."""
    if device.name == "cpu":
        return runner_on_cpu("run", options)
    if options.keys() - {"threads"}:
        return None
    packages = (device.module.partition(".")[0],) if device.module else ()
    edits = {'"cuda"': f'"{device.torch_name}"'}
    runner = read_runner(_FILE, packages, "run_on_device", edits=edits, in_torch=True)
    hardware = f"torch.{device.torch_name}.get_device_name()" if device.torch_name in _NAMED else ""
    return replace(runner, imports=(f"import {device.module}",) if device.module else (), hardware=hardware)
