"""Sets options that are switches of PyTorch. Each is read back to verify it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.torch_private.switches import (
    attention_switch,
    cudnn_switch,
    fp32_precision,
    onednn_enabled,
    set_fp32_precision,
    set_onednn_enabled,
)
from mindgap.platforms.protocol import Options
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.device.options import switch_variables

#: Which attention kernels each word leaves switched on.
_ATTENTION: Final = {
    "math": "math", "flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn", "overrideable": "overrideable",
}  # fmt: skip
#: enabled, benchmark, deterministic
_CONVOLUTION: Final = {
    "on": (True, False, False),
    "off": (False, False, False),
    "benchmark": (True, True, False),
    "deterministic": (True, False, True),
}


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch: its target value, and functions that read and set it. `label`: its name in PyTorch."""

    option: str
    label: str
    target: Any
    read: Callable[[], Any]
    write: Callable[[Any], object]


def switches(options: Options, device: TorchDevice) -> list[Switch]:
    """Returns the switches of the options, in the order in which they must be set."""
    switches_wanted: list[Switch] = []
    for option, make in _MAKERS.items():
        if option in options:
            switches_wanted += make(options[option], device)
    return switches_wanted


def not_in_force(options: Options, device: TorchDevice) -> str:
    """Lists the options without effect, in one line; empty if all work. Call it while they are set."""
    for switch in switches(options, device):
        value = switch.read()
        if value != switch.target:
            return f"{switch.option}={options[switch.option]} is not in force: {switch.label} is {value!r}"
    for name, value in switch_variables(options, device).items():
        if os.environ.get(name) != value:
            return f"{name} must be {value!r} before torch is imported for these options"
    if {options.get("cudnn"), options.get("miopen")} - {None, "off"} and not torch.backends.cudnn.is_available():
        return "this build of torch has no cuDNN or MIOpen to choose convolutions of"
    return _attention_fault(options["sdpa"], device) if "sdpa" in options else ""


def _attention_fault(word: str, device: TorchDevice) -> str:
    """Returns an error if the only enabled attention kernel does not run: the switches do not show that."""
    dtype = torch.float32 if device.name == "cpu" or word in ("math", "efficient") else torch.bfloat16
    sample = torch.ones(1, 2, 64, 64, dtype=dtype, device=device.torch_name)
    try:
        torch.nn.functional.scaled_dot_product_attention(sample, sample, sample)
    except RuntimeError as error:
        return f"sdpa={word} is not to be had on this {device.name}: {str(error).splitlines()[0]}"
    return ""


def fp32_precisions() -> dict[str, str]:
    """Returns the precision of float32 products by library: `ieee`, `tf32`, `bf16`, or `none` (its default)."""
    return {
        f"{library}.{operation}": fp32_precision(library, operation)
        for library in ("cuda", "mkldnn")
        for operation in ("matmul", "conv", "rnn")
    }


def _deterministic(value: str, device: TorchDevice) -> Iterator[Switch]:
    library: Any = torch
    yield Switch("deterministic", "torch.are_deterministic_algorithms_enabled()", value == "on",
               torch.are_deterministic_algorithms_enabled, library.use_deterministic_algorithms)  # fmt: skip


def _matmul(value: str, _device: TorchDevice) -> Iterator[Switch]:
    yield Switch("matmul", "torch.get_float32_matmul_precision()", value,
               torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)  # fmt: skip


def _tf32(value: str, device: TorchDevice) -> Iterator[Switch]:
    library = "cuda" if device.torch_name == "cuda" else "mkldnn"
    for operation in ("matmul", "conv", "rnn"):
        yield Switch(
            "tf32", f"fp32_precision of {library}.{operation}", "tf32" if value == "on" else "ieee",
            lambda operation=operation: fp32_precision(library, operation),
            lambda word, operation=operation: set_fp32_precision(library, operation, word),
        )  # fmt: skip


def _onednn(value: str, _device: TorchDevice) -> Iterator[Switch]:
    yield Switch("onednn", "oneDNN", value == "on", onednn_enabled, set_onednn_enabled)


def _convolution(value: str, device: TorchDevice) -> Iterator[Switch]:
    option = "miopen" if device.name == "rocm" else "cudnn"
    for name, target in zip(("enabled", "benchmark", "deterministic"), _CONVOLUTION[value], strict=True):
        yield Switch(option, f"torch.backends.cudnn.{name}", target, *cudnn_switch(name))


def _product_setting(option: str, name: str) -> Callable[[str, TorchDevice], Iterator[Switch]]:
    def make(value: str, _device: TorchDevice) -> Iterator[Switch]:
        settings: Any = torch.backends.cuda.matmul
        yield Switch(option, f"torch.backends.cuda.matmul.{name}", value == "on",
                   lambda: getattr(settings, name), lambda to: setattr(settings, name, to))  # fmt: skip

    return make


def _sdpa(value: str, _device: TorchDevice) -> Iterator[Switch]:
    for word, name in _ATTENTION.items():
        yield Switch("sdpa", f"scaled_dot_product_attention's {word} kernel", word == value, *attention_switch(name))


def _hf32(value: str, _device: TorchDevice) -> Iterator[Switch]:
    module: Any = getattr(torch, "npu")  # noqa: B009 # torch has it once torch_npu is imported
    for name in ("matmul", "conv"):
        settings: Any = getattr(module, name)
        yield Switch("hf32", f"torch.npu.{name}.allow_hf32", value == "on",
                   lambda settings=settings: settings.allow_hf32,
                   lambda to, settings=settings: setattr(settings, "allow_hf32", to))  # fmt: skip


def _precision(value: str, _device: TorchDevice) -> Iterator[Switch]:
    backends: Any = importlib.import_module("torch_xla.backends")
    yield Switch("precision", "torch_xla.backends.get_mat_mul_precision()", value,
               backends.get_mat_mul_precision, backends.set_mat_mul_precision)  # fmt: skip


def _sync(value: str, _device: TorchDevice) -> Iterator[Switch]:
    experimental: Any = importlib.import_module("torch_xla.experimental")
    yield Switch("sync", "torch_xla.experimental.is_eager_mode()", value == "node",
               experimental.is_eager_mode, experimental.eager_mode)  # fmt: skip


_MAKERS: Final[dict[str, Callable[[str, TorchDevice], Iterator[Switch]]]] = {
    "deterministic": _deterministic,
    "matmul": _matmul,
    "tf32": _tf32,
    "onednn": _onednn,
    "cudnn": _convolution,
    "miopen": _convolution,
    "fp16_reduction": _product_setting("fp16_reduction", "allow_fp16_reduced_precision_reduction"),
    "bf16_reduction": _product_setting("bf16_reduction", "allow_bf16_reduced_precision_reduction"),
    "fp16_accumulation": _product_setting("fp16_accumulation", "allow_fp16_accumulation"),
    "sdpa": _sdpa,
    "hf32": _hf32,
    "precision": _precision,
    "sync": _sync,
}
