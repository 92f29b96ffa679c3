"""Global switches of PyTorch without a public getter or setter: precision, oneDNN, cuDNN, attention, TorchScript."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

_C: Final[Any] = torch._C
#: PyTorch 2.9 and newer have a precision for each library and operation.
_HAS_PRECISIONS: Final = hasattr(_C, "_get_fp32_precision_getter")


def fp32_precision(library: str, operation: str) -> str:
    """Returns how float32 products are computed: `ieee`, `tf32`, `bf16`, or `none` for the library's default.

    `library`: cuda or mkldnn. `operation`: matmul, conv or rnn.
    """
    if _HAS_PRECISIONS:
        return str(_C._get_fp32_precision_getter(library, operation))
    if library != "cuda":
        return "none"
    return "tf32" if _allows_tf32(operation) else "ieee"


def set_fp32_precision(library: str, operation: str, precision: str) -> None:
    """Sets what `fp32_precision` returns. Before PyTorch 2.9 the CPU's (mkldnn) cannot be set, and stays `none`."""
    if _HAS_PRECISIONS:
        _C._set_fp32_precision_setter(library, operation, precision)
    elif library == "cuda" and operation == "matmul":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    elif library == "cuda":
        torch.backends.cudnn.allow_tf32 = precision == "tf32"


def _allows_tf32(operation: str) -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32 if operation == "matmul" else torch.backends.cudnn.allow_tf32)


def onednn_enabled() -> bool:
    """Returns whether operators may use oneDNN."""
    return bool(_C._get_mkldnn_enabled())


def set_onednn_enabled(enabled: bool) -> None:
    """Sets oneDNN alone; `torch.backends.mkldnn.flags` also resets precisions."""
    _C._set_mkldnn_enabled(enabled)


def cudnn_switch(name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Returns getter and setter of a switch of cuDNN or MIOpen: enabled, benchmark or deterministic."""
    return getattr(_C, f"_get_cudnn_{name}"), getattr(_C, f"_set_cudnn_{name}")


def attention_switch(name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Returns getter and setter of one kernel of scaled_dot_product_attention, such as `flash` or `mem_efficient`."""
    return getattr(_C, f"_get_{name}_sdp_enabled"), getattr(_C, f"_set_sdp_use_{name}")


def use_profiling_executor() -> None:
    """Switches TorchScript's profiling executor on."""
    _C._jit_set_profiling_executor(True)
    _C._jit_set_profiling_mode(True)


def optimise_torchscript(enabled: bool) -> None:
    """Sets whether TorchScript's executor optimises programs before it runs them."""
    _C._set_graph_executor_optimize(enabled)


def torchscript_fuses_on_cpu() -> bool:
    """Returns whether TorchScript fuses operators on the CPU."""
    return bool(_C._jit_can_fuse_on_cpu())
