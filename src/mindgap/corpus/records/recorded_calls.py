"""A recorded list of calls as a module that PyTorch can run and mindgap can capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mindgap.corpus.records.allowed_targets import IGNORED, UnknownTarget, attribute, function, method
from mindgap.corpus.records.memory_budget import MemoryBudget, check_plain, may_grow, silence_fake_tensor_log
from mindgap.corpus.type_guards import is_list, is_sequence, is_slice, is_table, is_tuple
from mindgap.torch_private.native_functions import VMAP_STEPS

#: `vmap` over one more dimension, as the tracer recorded it, and its names in two versions of PyTorch.
_VMAP = ("torch._functorch.predispatch.", "torch._C._functorch.")
#: Calls that change PyTorch's state: made once, not tried before.
_REAL_ONLY = (*_VMAP, "torch.amp.")


@dataclass(frozen=True, slots=True)
class ValueName:
    """A reference to an earlier value."""

    text: str


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One recorded call. `kind`: call_function, call_method or getattr; `dying`: values not needed after it."""

    name: str
    kind: str
    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dying: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedStep:
        """Itself: no run changes it, and a program is copied several times to prove its capture."""
        return self


class MalformedRecord(Exception):
    """A record that breaks its format; the message says where."""


class RecordedCalls(nn.Module):
    """Runs the calls of a record, one after the other.

    Tensors of kind parameter and buffer live in submodules under the paths they had in their model.
    What a call gives as a Python number (`.item()`), and a mask that decides by its values how large
    a selection is, are facts about the recorded inputs: `pinned` holds them once the module has run
    on those, and `_selected` where such masks are true, so that the calls stay the recorded ones.
    """

    def __init__(
        self, steps: Sequence[RecordedStep], outputs: Any, inputs: Sequence[str], constants: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._steps = tuple(steps)
        self._outputs = outputs
        self._inputs = tuple(inputs)
        self._constants = dict(constants)
        self._places: dict[str, tuple[nn.Module, str]] = {}
        self.pinned: dict[str, Any] = {}
        self._selected: dict[str, dict[str, torch.Tensor]] = {}

    def place(self, name: str, path: str, tensor: torch.Tensor, parameter: bool) -> str:
        """Keep `tensor`, called `name` in the record, under the attribute path it had; the path that it has now.

        Paths that collide with another, or with the module's own attributes, give way to the name.
        """
        *owners, leaf = path.split(".")
        owner: nn.Module | None = self
        for part in owners:
            owner = _submodule(owner, part) if owner is not None else None
        if owner is None or not leaf or hasattr(owner, leaf):
            owner, leaf = self, name
            while not leaf or "." in leaf or hasattr(owner, leaf):
                leaf = f"{leaf.replace('.', '_')}_"
        if parameter:
            owner.register_parameter(leaf, nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
        else:
            owner.register_buffer(leaf, tensor)
        self._places[name] = (owner, leaf)
        return leaf if owner is self else path

    def forward(self, *inputs: torch.Tensor) -> Any:
        values: dict[str, Any] = dict(self._constants)
        values.update(zip(self._inputs, inputs, strict=True))
        values.update((name, getattr(owner, leaf)) for name, (owner, leaf) in self._places.items())
        for step in self._steps:
            values[step.name] = self._run(step, values)
            for name in step.dying:
                del values[name]
        return _fill(self._outputs, values)

    def _run(self, step: RecordedStep, values: Mapping[str, Any]) -> Any:
        if step.name in self.pinned:
            return self.pinned[step.name]
        if self._selected.get(step.name):
            values = {**values, **self._selected[step.name]}
        if step.target in IGNORED:
            return None
        args = [_fill(arg, values) for arg in step.args]
        kwargs = {key: _fill(arg, values) for key, arg in step.kwargs.items()}
        if step.kind == "getattr":
            return getattr(args[0], attribute(step.target))
        if step.kind == "call_method":
            return _call_method(step.target, args, kwargs)
        if step.target.startswith(_VMAP):
            return _vmap(step.target.rpartition(".")[2], args)
        if step.target.endswith("_local_scalar_dense") and not isinstance(args[0], torch.Tensor):
            return args[0]
        if step.target.startswith("operator."):
            check_plain(step.name, step.target, args)
        return function(step.target)(*args, **kwargs)

    def pin_numbers(self, *inputs: torch.Tensor) -> Any:
        """Run once, remember every number read from a tensor and every mask that selects, and give the outputs.

        Raises `TooLarge` before a call that asks for too much memory.
        """
        numbers: dict[str, Any] = {}
        original = self._run
        budget = MemoryBudget()

        def run(step: RecordedStep, values: Mapping[str, Any]) -> Any:
            if step.target == "operator.getitem":
                self._selected[step.name] = _places_of_masks(step.args[1], values)
            used = {*names_in(step.args), *names_in(step.kwargs)}
            if not step.target.startswith(_REAL_ONLY) and may_grow(step.target, _operands(step, values)):
                budget.check(step.name, lambda operands: original(step, operands), values, used)
            result = original(step, values)
            if step.target in ("item", "torch.ops.aten._local_scalar_dense") and isinstance(result, (bool, int, float)):
                numbers[step.name] = result
            return result

        self._run = run
        try:
            with silence_fake_tensor_log():
                outputs = self.forward(*inputs)
        finally:
            del self._run
        self.pinned.update(numbers)
        return outputs

    def remember(self, other: RecordedCalls) -> None:
        """Take over what `other`, of the same record, has learnt about the recorded inputs by `pin_numbers`."""
        self.pinned.update(other.pinned)
        self._selected.update(other._selected)


def _operands(step: RecordedStep, values: Mapping[str, Any]) -> list[Any]:
    """The values that a step refers to, in the order that it does."""
    return [values[name] for name in (*names_in(step.args), *names_in(step.kwargs))]


def _places_of_masks(index: Any, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Where the one-dimensional boolean tensors among the indices of a selection are true, by name."""
    used = {name: values[name] for name in names_in(index)}
    masks = {n: v for n, v in used.items() if isinstance(v, torch.Tensor) and v.dtype == torch.bool and v.dim() == 1}
    return {name: mask.nonzero().squeeze(1) for name, mask in masks.items()}


def _submodule(owner: nn.Module, part: str) -> nn.Module | None:
    """The part of `owner` with this name, made where there is none; None where the name is taken or is none."""
    if part and not hasattr(owner, part):
        owner.add_module(part, nn.Module())
    held = getattr(owner, part, None)
    return held if isinstance(held, nn.Module) else None


def decode(value: Any, refs: set[str]) -> Any:
    """A recorded argument as a Python value with `ValueName`s inside; collects their texts in `refs`.

    Raises `MalformedRecord` for a form that the format does not have.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_list(value):
        return [decode(item, refs) for item in value]
    if not is_table(value) or len(value) != 1:
        raise MalformedRecord(f"value {str(value)[:60]!r}")
    (tag, content), *_ = value.items()
    return _decode_tagged(str(tag), content, refs)


def _decode_tagged(tag: str, content: Any, refs: set[str]) -> Any:
    if tag == "ref":
        refs.add(content)
        return ValueName(content)
    if tag == "tuple":
        return tuple(decode(item, refs) for item in content)
    if tag == "slice":
        return slice(*(decode(item, refs) for item in content))
    if tag == "dict":
        return {key: decode(item, refs) for key, item in content.items()}
    if tag == "ellipsis":
        return ...
    if tag == "float":
        return float(content)
    if tag == "complex":
        return complex(*content) if is_list(content) else complex(content)
    if tag == "device":
        return torch.device("cpu")
    if tag in ("dtype", "memory_format", "layout"):
        named = getattr(torch, str(content), None)
        if isinstance(named, (torch.dtype, torch.memory_format, torch.layout)):
            return named
    raise MalformedRecord(f"{tag} {content!r}")


def check(step: RecordedStep) -> None:
    """Raise `UnknownTarget` unless the step's target is allowed."""
    if step.target in IGNORED or step.target.startswith(_VMAP):
        return
    if step.kind == "call_function":
        function(step.target)
    elif step.kind == "call_method":
        method(step.target)
    elif step.kind == "getattr":
        attribute(step.target)
    else:
        raise UnknownTarget(f"{step.kind} {step.target}")


def names_in(value: Any) -> Iterator[str]:
    """The names that a decoded argument refers to."""
    if isinstance(value, ValueName):
        yield value.text
    elif is_sequence(value):
        for item in value:
            yield from names_in(item)
    elif is_table(value):
        for item in value.values():
            yield from names_in(item)
    elif is_slice(value):
        yield from names_in((value.start, value.stop, value.step))


def _fill(arg: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(arg, ValueName):
        return values[arg.text]
    if is_list(arg):
        return [_fill(item, values) for item in arg]
    if is_tuple(arg):
        return tuple(_fill(item, values) for item in arg)
    if is_table(arg):
        return {key: _fill(item, values) for key, item in arg.items()}
    if is_slice(arg):
        return slice(*(_fill(part, values) for part in (arg.start, arg.stop, arg.step)))
    return arg


def _call_method(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A tensor's method. Numbers that the record held as 0-dimensional tensors answer for themselves."""
    subject, *rest = args
    if not isinstance(subject, torch.Tensor):
        if name == "item":
            return subject
        subject = torch.tensor(subject)
    return getattr(subject, method(name))(*rest, **kwargs)


def _vmap(name: str, args: list[Any]) -> Any:
    """A step of a recorded `vmap`, through the same functions of PyTorch that the tracer saw."""
    if name not in VMAP_STEPS:
        raise UnknownTarget(f"vmap {name}")
    return VMAP_STEPS[name](*args)
