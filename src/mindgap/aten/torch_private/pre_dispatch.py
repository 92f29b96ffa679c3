"""Dispatch modes at the pre-dispatch level, above autocast and autograd, and redispatch of single calls."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (the dispatcher has no public Python interface, and its private one is untyped)

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode, enable_pre_dispatch, enable_python_dispatcher

_C: Final[Any] = torch._C
_OPS: Final[Any] = torch._ops
_KEY: Final[Any] = torch._C.DispatchKey
_MODE_KEY: Final[Any] = _C._TorchDispatchModeKey.PROXY
#: Dispatch keys that most operators pass by.
_PASSING: Final = (_KEY.FuncTorchVmapMode, _KEY.AutocastCPU, _KEY.ADInplaceOrView, _KEY.BackendSelect)


class PreDispatchMode(ProxyTorchDispatchMode):
    """A dispatch mode that sees calls above autocast and autograd, where composite operators are still whole.

    It takes the slot that PyTorch reserves there for a proxy mode. It is off while it handles a call. `with self`
    turns it on for the calls that this call makes.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self, _KEY.PreDispatch)  # not the parent's: it would start an FX tracer
        self._mode_key = _MODE_KEY
        self.enter_stack: list[ProxyTorchDispatchMode | None] = []
        self.pre_dispatch = True


@contextmanager
def run_under_pre_dispatch(*modes: Any) -> Generator[None]:
    """Runs the block under dispatch modes, the last of them a `PreDispatchMode`."""
    with ExitStack() as stack:
        stack.enter_context(enable_python_dispatcher())
        stack.enter_context(enable_pre_dispatch())
        for mode in modes:
            stack.enter_context(mode)
        yield


@contextmanager
def without_mode(mode: PreDispatchMode) -> Generator[None]:
    """Turns a mode off inside the block, if it is on."""
    if _OPS._get_dispatch_mode_pre_dispatch(_MODE_KEY) is not mode:
        yield
        return
    _OPS.unset_mode_pre_dispatch(_MODE_KEY)
    try:
        yield
    finally:
        _OPS._set_mode_pre_dispatch(mode)


def in_function_transform() -> bool:
    """Whether `vmap`, `grad` or another function transform is running, with wrappers around tensors."""
    return _C._functorch.peek_interpreter_stack() is not None


def has_autocast_rule(func: Any) -> bool:
    """Whether autocast on the CPU has a rule for this operator."""
    return _C._dispatch_has_kernel_for_dispatch_key(func.name(), "AutocastCPU")


def call_with_autocast(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls an operator by autocast's rule: the casts, then the operator itself with autocast off."""
    return func._op_dk(_KEY.AutocastCPU, *args, **kwargs)


def call_decomposed(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a composite operator by its definition in C++, from which Python's replacements can differ."""
    return func._op_dk(_KEY.CompositeImplicitAutograd, *args, **kwargs)


def call_without_python_dispatcher(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls an operator as if no mode were on.

    Under a mode, PyTorch prefers definitions in Python, some of which round differently (bilinear upsampling).
    """
    with _C._DisablePythonDispatcher():
        return func(*args, **kwargs)


def redispatch_below(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls an operator at the next dispatch key, so that the calls it makes there are seen again (`vmap`)."""
    keys = _C._dispatch_tls_local_include_set()
    for tensor in tensors_in((args, kwargs)):
        keys = keys | _C._dispatch_keys(tensor)
    keys = keys - _C._dispatch_tls_local_exclude_set()
    keys = (keys & _C._dispatch_keyset_full_after(_KEY.PreDispatch)).remove(_KEY.PythonDispatcher)
    for key in _PASSING:
        if keys.has(key) and _falls_through(func.name(), key):
            keys = keys.remove(key)
    # Python's own numbers become tensors in a plain call only.
    wanted = zip((str(argument.type) for argument in func._schema.arguments), args, strict=False)
    args = tuple(torch.tensor(one) if type(one) is int and kind == "Tensor" else one for kind, one in wanted)
    return func.redispatch(keys, *args, **kwargs)


def _falls_through(name: str, key: Any) -> bool:
    own = _C._dispatch_has_kernel_for_dispatch_key(name, key)
    return not own or _C._dispatch_kernel_for_dispatch_key_is_fallthrough(name, key)


def newest_autograd_node() -> int:
    """Returns the number of the newest node of the autograd graph, that of the last call autograd has let through."""
    return _C._autograd._get_sequence_nr() - 1 if hasattr(_C._autograd, "_get_sequence_nr") else -1


def running_autograd_node() -> int | None:
    """Returns the number of the autograd node whose gradient is being computed, or None outside a backward pass."""
    running = _C._current_autograd_node()
    return None if running is None else running._sequence_nr()


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of nested lists, tuples and dictionaries of operands."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from tensors_in(item)
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))
