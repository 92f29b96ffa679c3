"""Lists the functions that a record of calls may name.

Records come from strangers. A target is never imported or evaluated. It is looked up in families of functions that
only compute on tensors. No family holds a function that reads files, runs Python code given to it, or exposes memory.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch
import torch.nn.functional as functional

from mindgap.aten.torch_private.native_functions import (
    AUTOCAST_SWITCHES,
    NATIVE_MODULES,
    dispatcher_operators,
    is_native,
)

#: PyTorch without its type stubs, which leave out or half type most of what is looked up here.
_torch: Any = torch


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERATORS: Final = _words(
    """
    abs add and_ eq floordiv ge getitem gt iadd iand ifloordiv imatmul imod imul index inv invert ior ipow isub
    itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem sub truediv truth xor
    """
)
#: Of PyTorch's own functions: what touches files, raw memory, other devices, or Python callables.
_DENIED: Final = _words(
    """
    from_file from_numpy frombuffer from_dlpack to_dlpack _from_blob _print _pin_memory apply_ map_ map2_
    data_ptr const_data_ptr numpy tolist set_ storage untyped_storage storage_type share_memory_ pin_memory
    record_stream register_hook register_post_accumulate_grad_hook backward retain_grad reinforce module_load
    as_subclass new cuda ipu xpu mtia resize resize_as resize_ resize_as_ sparse_resize_
    sparse_resize_and_clear_ requires_grad_ set_printoptions
    """
)
_PRIVATE_TORCH: Final = _words(
    """
    _weight_norm _native_multi_head_attention _convolution _softmax _log_softmax _adaptive_avg_pool2d
    _transformer_encoder_layer_fwd _unsafe_index _safe_softmax _fused_rms_norm _shape_as_tensor _grouped_mm
    _assert_async _assert_scalar _scaled_dot_product_attention_math
    """
)
_DUNDERS: Final = frozenset(
    f"__{name}__"
    for name in _words(
        """
    abs add and bool eq floordiv ge getitem gt iadd iand idiv ifloordiv imul invert ior isub itruediv ixor le
    len lshift lt matmul mod mul ne neg or pow radd rand rdiv rfloordiv rmatmul rmod rmul ror rpow rshift rsub
    rtruediv rxor setitem sub truediv xor
    """
    )
)
_ATTRIBUTES: Final = _words(
    """
    T H mT mH real imag device dtype shape ndim itemsize nbytes is_cuda requires_grad
    """
)
_MODULES: Final[dict[str, Any]] = {
    **NATIVE_MODULES,
    "torch.fft": _torch.fft,
    "torch.linalg": _torch.linalg,
    "torch.special": _torch.special,
}
#: Calls that only inform the tracer. They change no value and are skipped.
IGNORED: Final = frozenset(
    {
        "torch._C._log_api_usage_once",
        "torch._C._set_grad_enabled",
        "torch._check_is_size",
        "torch._check",
        "torch.ops.aten._assert_scalar.default",
        "torch.ops.aten._assert_tensor_metadata.default",
        "torch.autograd.function.FunctionCtx",
        "torch._functorch.predispatch.lazy_load_decompositions",
        "torch._functorch.vmap.lazy_load_decompositions",
    }
)


class UnknownTarget(Exception):
    """A record names a function that is not on the list. The message is the name."""


@cache
def function(target: str) -> Callable[..., Any]:
    """Returns the function that a `call_function` target names. Raises `UnknownTarget`."""
    function_found = _EXACT.get(target) or _family_function(target)
    if not callable(function_found) or isinstance(function_found, type):
        raise UnknownTarget(target)
    return function_found


@cache
def method(name: str) -> str:
    """Returns the name if it is a tensor method that only computes. Raises `UnknownTarget`."""
    public = not name.startswith("_") or name in _DUNDERS
    if public and name not in _DENIED and callable(getattr(_torch.Tensor, name, None)):
        return name
    raise UnknownTarget(f"Tensor.{name}")


def attribute(name: str) -> str:
    """Returns the name if it is a tensor attribute that may be read. Raises `UnknownTarget`."""
    if name in _ATTRIBUTES:
        return name
    raise UnknownTarget(f"Tensor.{name}")


def _family_function(target: str) -> Any:
    family, _, name = target.rpartition(".")
    private = name.startswith("_")
    if name in _DENIED:
        return None
    if family == "operator":
        return getattr(operator, name) if name in _OPERATORS else None
    if family == "torch":
        if private and name not in _PRIVATE_TORCH:
            return None
        return getattr(torch, name, None) if is_native(name) or name in _torch.functional.__all__ else None
    if family == "torch.functional":
        return getattr(_torch.functional, name, None) if name in _torch.functional.__all__ else None
    if family == "torch.nn.functional":
        found = getattr(functional, name, None)
        return None if private or isinstance(found, (type, types.ModuleType)) else found
    if family in _MODULES:
        return getattr(_MODULES[family], name, None) if not name.startswith("__") else None
    if family.startswith("torch.ops.aten"):
        return _aten(target.split(".")[3:])
    return None


def _aten(parts: list[str]) -> Any:
    """Returns an operator of the dispatcher, such as `torch.ops.aten.index` or `torch.ops.aten.sym_size.int`, else
    None.

    TorchScript adds functions such as `aten::save` to `torch.ops.aten`. They are not returned.
    """
    if not 1 <= len(parts) <= 2 or parts[0] in _DENIED or any(part.startswith("__") for part in parts):
        return None
    if f"aten::{parts[0]}" not in dispatcher_operators():
        return None
    value: Any = _torch.ops.aten
    try:
        for part in parts:
            value = getattr(value, part)
    except AttributeError:
        return None
    return value


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, embed_dim: int, num_head: int,
    qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """Computes `_native_multi_head_attention`, a kernel of some devices, by the calls of its module on all others.

    Operands are [batch, length, embed_dim]. `mask_type`: 0 for a mask of pairs, 1 for one of keys.
    """
    if mask is not None and mask_type not in (0, 1):
        raise UnknownTarget(f"torch._native_multi_head_attention with a mask of type {mask_type}")
    turned = query.transpose(0, 1)
    result, weights = functional.multi_head_attention_forward(
        turned, turned if key is query else key.transpose(0, 1), turned if value is query else value.transpose(0, 1),
        embed_dim, num_head, qkv_weight, qkv_bias, None, None, False, 0.0, proj_weight, proj_bias, training=False,
        key_padding_mask=mask if mask_type == 1 else None, need_weights=need_weights,
        attn_mask=mask if mask_type == 0 else None, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return result.transpose(0, 1), weights


def _size(parts: Any) -> tuple[Any, ...]:
    return tuple(parts)


_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "torch.Size": _size,
    "torch._native_multi_head_attention": _attention,
    "torch.as_tensor": _torch.as_tensor,
    "torch.tensor": _torch.tensor,
    "torch.sym_int": _torch.sym_int,
    "torch.sym_float": _torch.sym_float,
    "torch.sym_max": _torch.sym_max,
    "torch.sym_min": _torch.sym_min,
    "torch.sym_not": _torch.sym_not,
    "torch.sym_sum": _torch.sym_sum,
    "torch.ops.aten._local_scalar_dense": _torch.ops.aten._local_scalar_dense.default,
    **AUTOCAST_SWITCHES,
}
