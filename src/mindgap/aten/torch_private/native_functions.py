"""Native functions: the modules of `torch._C` that hold them, and the dispatcher's list of operators."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

_torch: Any = torch  # without type stubs, which leave out most of these names

#: Modules of native functions by their dotted names.
NATIVE_MODULES: Final[dict[str, Any]] = {
    "torch._C._nn": _torch._C._nn,
    "torch._C._fft": _torch._C._fft,
    "torch._C._linalg": _torch._C._linalg,
    "torch._C._special": _torch._C._special,
}
#: What `torch.autocast` calls on entering and leaving, by dotted name.
AUTOCAST_SWITCHES: Final[dict[str, Callable[..., Any]]] = {
    "torch.amp.autocast_mode._enter_autocast": _torch.amp.autocast_mode._enter_autocast,
    "torch.amp.autocast_mode._exit_autocast": _torch.amp.autocast_mode._exit_autocast,
}


def is_native(name: str) -> bool:
    """Returns whether `torch.NAME` is implemented in C++."""
    return hasattr(_torch._C._VariableFunctions, name)


@cache
def dispatcher_operators() -> frozenset[str]:
    """Returns the names of the dispatcher's operators without overloads, such as `aten::add`, as they were first."""
    return registered_operators()


def registered_operators() -> frozenset[str]:
    """Returns the names of the dispatcher's operators without overloads, those of a user's libraries included."""
    return frozenset(name.partition(".")[0] for name in _torch._C._dispatch_get_all_op_names())


#: The primitives of `torch.vmap`, by name.
VMAP_STEPS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(_torch._C._functorch, name)
    for name in ("_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting")
}


@cache
def declared_kernels() -> Mapping[str, frozenset[str]]:
    """Returns the dispatch keys for which PyTorch's own sources have a kernel, by overload (`aten.add.Tensor`).

    From `native_functions.yaml`, which PyTorch ships in `torchgen`: `CPU`, `CUDA`, `MPS`, `XPU`, …, and `Composite…`
    for what is made of other operators on every device. It takes some seconds to read. Raises `ImportError` where
    `torchgen` is not installed.
    """
    import torchgen
    from torchgen.gen import parse_native_yaml

    folder = Path(next(iter(torchgen.__path__))) / "packaged/ATen/native"
    parsed: Any = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    kernels: dict[str, frozenset[str]] = {}
    for function in parsed.native_functions:
        # A structured function runs the kernel of the form that it is derived from.
        names = [function.func.name, *filter(None, [function.structured_delegate])]
        keys = [str(key) for key, of in parsed.backend_indices.items() if any(name in of.index for name in names)]
        name = function.func.name
        kernels[f"{function.namespace}.{name.name}.{name.overload_name or 'default'}"] = frozenset(keys)
    return kernels
