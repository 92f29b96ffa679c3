"""Runs a program for real and notes the calls of its submodules, with their arguments."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.aten.torch_private.fake_tensors import lazy_clone
from mindgap.aten.torch_private.pre_dispatch import tensors_in
from mindgap.graph_capture.deep_copies import fresh_copy
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.neutral_settings import neutral_settings
from mindgap.graph_capture.origin import user_line_of
from mindgap.graph_capture.program import HeldTensor, as_written, copy_program, named_modules
from mindgap.graph_capture.tracing import reason_of

#: The path of a program's only module: that of `model.generate`, say.
WHOLE = "."
#: Bytes of arguments that `module_calls` holds on to.
_HELD_BYTES = 2 << 30


@dataclass
class ModuleCall:
    """The first call of a submodule: its arguments, not copied. `calls`: how often the program called it."""

    path: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    calls: int = 1


class _Enough(BaseException):
    """Ends a run of a program. No `except Exception` of the program catches it."""


def submodules(program: Any) -> dict[str, torch.nn.Module]:
    """Returns the modules that a program holds, by path, outermost first. The program itself is not among them."""
    # A compiled module comes before the one inside it, which has the same path and is the one wanted.
    return {as_written(path) or WHOLE: module for path, module in named_modules(program) if module is not program}


def module_calls(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any], seconds: float) -> list[ModuleCall]:
    """Returns the first call of each submodule that the program calls, in order.

    A program that raises, or runs for longer than `seconds`, gives the calls until then. The program may be changed.
    """
    calls: dict[str, ModuleCall] = {}
    held = 0
    stop = time.monotonic() + seconds

    def note(path: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal held
        if path in calls:
            calls[path].calls += 1
        else:
            calls[path] = ModuleCall(path, module, args, kwargs)
            held += sum(tensor.nbytes for tensor in tensors_in((args, kwargs)))
        if time.monotonic() > stop or held > _HELD_BYTES:
            raise _Enough

    _run_with_hooks(program, args, kwargs, note)
    return list(calls.values())


def call_inside(
    program: Any, args: Sequence[Any], kwargs: Mapping[str, Any], path: str, number: int = 1
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Returns the submodule at `path` and copies of the arguments of its call of this number (the first is 1).

    The program is left as it was. Raises `CaptureError` if there is no such submodule or call.
    """
    wanted = submodules(program).get(path)
    if wanted is None:
        near = difflib.get_close_matches(path, submodules(program), n=1)
        raise CaptureError(f"the program has no submodule {path!r}{f' (there is {near[0]})' if near else ''}")
    came: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    count = 0

    def note(called: str, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal count
        count += called == path
        if called == path and count == number:
            came.append(fresh_copy((args, kwargs)))
            raise _Enough

    try:
        ready = copy_program(program, args, kwargs, _copied)
        error = _run_with_hooks(ready.program, ready.args, ready.kwargs, note)
    except CaptureError:  # Python cannot copy the program: it is run itself, up to the call
        error = _run_with_hooks(program, args, kwargs, note)
    if came:
        return wanted, *came[0]
    if error is not None:
        raise CaptureError(f"before call {number} of {path}: {reason_of(error)}", user_line_of(error.__traceback__))
    raise CaptureError(
        f"the program calls {path} {count} times, which is fewer than {number}"
        if count
        else f"the program does not call {path} as a module; name one of its parts, or what holds it"
    )


def _copied(held: HeldTensor) -> torch.Tensor:
    tensor = held.tensor.detach()
    copied = lazy_clone(tensor) if held.role == "parameter" and tensor.is_contiguous() else tensor.clone()
    return torch.nn.Parameter(copied, requires_grad=False) if isinstance(held.tensor, torch.nn.Parameter) else copied


def takes_hooks(module: torch.nn.Module) -> bool:
    """Whether a hook can be registered on a module. Modules of TorchScript take none."""
    return not isinstance(module, torch.jit.ScriptModule)


def _run_with_hooks(
    program: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    note: Callable[[str, torch.nn.Module, tuple[Any, ...], dict[str, Any]], None],
) -> BaseException | None:
    """Runs the program and calls `note` before each call of a submodule. Returns what the program raised."""
    hooks = [
        module.register_forward_pre_hook(
            lambda module, args, kwargs, path=path: note(path, module, args, kwargs), with_kwargs=True
        )
        for path, module in submodules(program).items()
        if takes_hooks(module)
    ]
    try:
        with neutral_settings():
            program(*args, **kwargs)
    except _Enough:
        return None
    except (Exception, SystemExit) as error:
        return error
    finally:
        for hook in hooks:
            hook.remove()
    return None
