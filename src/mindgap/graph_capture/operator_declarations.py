"""Checks what custom operators declare: their fake kernels and schemas, which exporters and compilers go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.torch_private.fake_tensors import FakeTensorMode, TorchDispatchMode
from mindgap.aten.torch_private.modules import tree_map
from mindgap.graph_capture.custom_operators import BUILT_IN
from mindgap.graph_capture.origin import current_line
from mindgap.graph_capture.program import copy_program, leaves
from mindgap.graph_capture.replay_check import same_bits
from mindgap.graph_capture.users_code import fresh

_GONE_BY: Final = (
    "exporters and compilers go by what it declares, so their results for it are wrong by that (torch.library.opcheck)"
)


@dataclass(frozen=True, slots=True)
class DeclarationFault:
    """What a custom operator declares wrongly. `line`: the user's that calls it, or ""."""

    operator: str
    fault: str
    line: str

    @property
    def words(self) -> str:
        """The fault as a sentence."""
        return f"custom operator {self.operator}{f' ({self.line})' if self.line else ''}: {self.fault}; {_GONE_BY}"


class _CustomCalls(TorchDispatchMode):
    """Checks the first call of each custom operator. `faults`: by operator, what it declares wrongly and the line."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.faults: dict[str, tuple[str, str]] = {}
        self._seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in BUILT_IN or func.name() in self._seen:
            return func(*args, **kwargs)
        self._seen.add(func.name())
        before = _mapped(lambda tensor: tensor.detach().clone(), (args, kwargs))
        result = func(*args, **kwargs)
        fault = _written(func, before, (args, kwargs)) or _unlike(func, before, result)
        if fault:
            self.faults[func.name()] = (fault, current_line())
        return result


def declaration_faults(
    program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[DeclarationFault]:
    """Runs a program that runs eagerly, and returns what its custom operators declare wrongly."""
    copied, calls = copy_program(program, args, kwargs, fresh), _CustomCalls()
    # PyTorch's compiler skips code for the rest of the process that runs while a mode is active.
    with torch.compiler.set_stance("force_eager"), calls:
        copied.program(*copied.args, **copied.kwargs)
    return [DeclarationFault(name, fault, line) for name, (fault, line) in calls.faults.items()]


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    def changed(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(changed, value)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def _written(func: Any, before: tuple[Any, Any], after: tuple[Any, Any]) -> str:
    """An argument that a call has written to, which the schema does not declare; or ""."""
    for number, formal in enumerate(func._schema.arguments):
        if formal.alias_info is not None and formal.alias_info.is_write:
            continue
        old, new = (
            given[number] if number < len(given) else named.get(formal.name) for given, named in (before, after)
        )
        if not all(map(same_bits, _tensors(old), _tensors(new))):
            return f"it writes to its argument {formal.name}, and its schema says that it does not (mutates_args)"
    return ""


def _unlike(func: Any, given: tuple[Any, Any], result: Any) -> str:
    """How the fake kernel's result differs from the operator's; "" where it does not, and where there is none."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        args, kwargs = _mapped(mode.from_tensor, given)
        with mode:
            fake = func(*args, **kwargs)
    except Exception:  # sizes that depend on values, or no fake kernel: an exporter reports that itself
        return ""
    forms = [" and ".join(map(_form, _tensors(each))) or "nothing" for each in (fake, result)]
    return "" if forms[0] == forms[1] else f"its fake kernel gives {forms[0]}, and the operator {forms[1]}"


def _form(tensor: torch.Tensor) -> str:
    sizes = f"{str(tensor.dtype).removeprefix('torch.')} {[int(size) for size in tensor.shape]}"
    dense = tensor.layout == torch.strided and not tensor.is_contiguous()
    return f"{sizes} with strides {[*tensor.stride()]}" if dense else sizes
