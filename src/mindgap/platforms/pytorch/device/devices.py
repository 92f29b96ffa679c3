"""Defines the devices that PyTorch computes on. Imports no framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that a device's worker must start with.

    `default`: an absent variable has the same effect.
    """

    name: str
    value: str
    default: bool


@dataclass(frozen=True, slots=True)
class TorchDevice:
    """One kind of device.

    `name`: in a platform's name. `torch_name`: in `torch.device`. `distribution`
    and `module`: the package besides torch that brings it, and what to import so that torch knows it
    (empty where torch's own builds do). `build`: the name in torch/version.py that shows whether a
    build is for it. `nodes`: patterns of the device files that its driver makes, empty where there
    are none. `variables`: what keeps it from computing on the CPU unseen, or in another dtype.
    `options`: what its eager platform understands; `compiler_options`: what its compilers do.
    """

    name: str
    torch_name: str
    maker: str
    distribution: str = ""
    module: str = ""
    build: str = ""
    nodes: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    options: tuple[str, ...] = ()
    compiler_options: tuple[str, ...] = ()


_HOST: Final = ("threads", "deterministic")
_EAGER: Final = (*_HOST, "layout", "autocast")
_PRODUCTS: Final = ("matmul", "tf32", "sdpa")
_REDUCTIONS: Final = ("fp16_reduction", "bf16_reduction")
_INDUCTOR: Final = ("freezing", "stage", "off", "without")

_ALL: Final = (
    TorchDevice(
        "cpu", "cpu", "the host",
        options=("isa", "aten", "onednn_isa", "mkl", "onednn", *_EAGER, "dtype", *_PRODUCTS),
        compiler_options=(*_INDUCTOR, "simdlen", *_HOST, *_PRODUCTS),
    ),
    TorchDevice(
        "cuda", "cuda", "NVIDIA", build="cuda", nodes=("/dev/nvidia[0-9]*", "/dev/dxg"),
        options=(*_EAGER, "dtype", *_PRODUCTS, "cudnn", *_REDUCTIONS, "fp16_accumulation"),
        compiler_options=(*_INDUCTOR, *_HOST, *_PRODUCTS, "cudnn", *_REDUCTIONS, "fp16_accumulation"),
    ),
    TorchDevice(
        "rocm", "cuda", "AMD", build="hip", nodes=("/dev/kfd",),
        options=(*_EAGER, "dtype", *_PRODUCTS, "miopen", *_REDUCTIONS),
        compiler_options=(*_INDUCTOR, *_HOST, *_PRODUCTS, "miopen", *_REDUCTIONS),
    ),
    TorchDevice(
        "xpu", "xpu", "Intel", build="xpu", nodes=("/dev/dri/renderD*", "/dev/dxg"),
        variables=(
            Variable("PYTORCH_ENABLE_XPU_FALLBACK", "0", True),
            Variable("PYTORCH_XPU_FALLBACK_OP", "", True),
            # Some operators go to the CPU all the same, and are named each time with this.
            Variable("PYTORCH_DEBUG_XPU_FALLBACK", "1", False),
        ),
        options=(*_EAGER, "dtype", *_PRODUCTS),
        compiler_options=(*_INDUCTOR, *_HOST, *_PRODUCTS),
    ),
    TorchDevice(
        "mps", "mps", "Apple",
        variables=(Variable("PYTORCH_ENABLE_MPS_FALLBACK", "0", True),),
        options=_EAGER, compiler_options=(*_INDUCTOR, *_HOST),
    ),
    TorchDevice(
        "npu", "npu", "Ascend", distribution="torch-npu", module="torch_npu", nodes=("/dev/davinci[0-9]*",),
        variables=(Variable("TORCH_NPU_FALLBACK_CPU_DISABLE", "1", False),),
        options=(*_EAGER, "dtype", "hf32"), compiler_options=(*_HOST, "hf32", "through"),
    ),
    TorchDevice(
        "hpu", "hpu", "Gaudi", distribution="habana-torch-plugin", module="habana_frameworks.torch.core",
        nodes=("/dev/accel/accel[0-9]*", "/dev/hl[0-9]*"),
        variables=(
            Variable("PT_HPU_LAZY_MODE", "0", False),
            # Without it int64 is computed as int32.
            Variable("PT_ENABLE_INT64_SUPPORT", "1", False),
        ),
        options=_EAGER, compiler_options=_HOST,
    ),
    TorchDevice(
        "xla", "xla", "OpenXLA", distribution="torch_xla", module="torch_xla",
        options=(*_EAGER, "dtype", "pjrt", "precision", "sync"), compiler_options=(*_HOST, "pjrt", "precision"),
    ),
)  # fmt: skip

#: Word in a platform's name -> the device.
DEVICES: Final[Mapping[str, TorchDevice]] = MappingProxyType({device.name: device for device in _ALL})
CPU: Final = DEVICES["cpu"]
