"""Replays recorded calls as a module that PyTorch can run and mindgap can capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mindgap.aten.torch_private.native_functions import VMAP_STEPS
from mindgap.graph_capture.neutral_settings import silence_loggers
from mindgap.sources.type_guards import is_list, is_sequence, is_slice, is_table, is_tuple
from mindgap_zoo.records.allowed_targets import IGNORED, UnknownTarget, attribute, function, method
from mindgap_zoo.records.memory_budget import MemoryBudget, check_plain, may_grow

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
    """One recorded call. `kind`: call_function, call_method or getattr; `dying`: values that are not needed after
    it."""

    name: str
    kind: str
    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dying: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedStep:
        """Returns itself: no run changes it, and a capture check copies the program several times."""
        return self


class MalformedRecord(Exception):
    """A record that breaks its format. The message gives the place."""


class RecordedCalls(nn.Module):
    """Runs the calls of a record in order.

    Parameters and buffers live in submodules under the paths that they had in their model. A Python number that a call
    reads (`.item()`), and a boolean mask whose values decide the size of a selection, are facts about the recorded
    inputs. `pin_numbers` runs the module once on those inputs and keeps them: numbers in `pinned`, true positions of
    masks in `_selected`. Later runs make the recorded calls on any inputs.
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
        """Keeps `tensor`, named `name` in the record, under the attribute path that it had. Returns the path.

        If the path collides with another one or with an attribute of the module, the name is the path.
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
        """Runs once, keeps each number read from a tensor and each mask that selects, and returns the outputs.

        Raises `TooLarge` before a call that needs too much memory.
        """
        numbers: dict[str, Any] = {}
        original = self._run
        budget = MemoryBudget()

        def run(step: RecordedStep, values: Mapping[str, Any]) -> Any:
            if step.target == "operator.getitem":
                self._selected[step.name] = _places_of_masks(step.args[1], values)
            used = {*names_in(step.args), *names_in(step.kwargs)}
            if not step.target.startswith(_REAL_ONLY) and may_grow(
                step.target, [values[name] for name in (*names_in(step.args), *names_in(step.kwargs))]
            ):
                budget.check(step.name, lambda operands: original(step, operands), values, used)
            result = original(step, values)
            if step.target in ("item", "torch.ops.aten._local_scalar_dense") and isinstance(result, (bool, int, float)):
                numbers[step.name] = result
            return result

        self._run = run
        try:
            with silence_loggers():
                outputs = self.forward(*inputs)
        finally:
            del self._run
        self.pinned.update(numbers)
        return outputs

    def remember(self, other: RecordedCalls) -> None:
        """Copies what `pin_numbers` kept in `other`, a module of the same record."""
        self.pinned.update(other.pinned)
        self._selected.update(other._selected)


def _places_of_masks(index: Any, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the true positions of the one-dimensional boolean masks among the indices of a selection, by name."""
    used = {name: values[name] for name in names_in(index)}
    masks = {n: v for n, v in used.items() if isinstance(v, torch.Tensor) and v.dtype == torch.bool and v.dim() == 1}
    return {name: mask.nonzero().squeeze(1) for name, mask in masks.items()}


def _submodule(owner: nn.Module, part: str) -> nn.Module | None:
    """Returns the submodule of `owner` with this name, made if there is none; None if the name is taken or invalid."""
    if part and not hasattr(owner, part):
        owner.add_module(part, nn.Module())
    held = getattr(owner, part, None)
    return held if isinstance(held, nn.Module) else None


def decode(value: Any, refs: set[str]) -> Any:
    """Returns a recorded argument as a Python value with `ValueName`s inside, and adds their names to `refs`.

    Raises `MalformedRecord` for an unknown form.
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
    """Yields the names that a decoded argument refers to."""
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
    """Calls a tensor method. A Python number in the place of a 0-dimensional tensor is handled too."""
    subject, *rest = args
    if not isinstance(subject, torch.Tensor):
        if name == "item":
            return subject
        subject = torch.tensor(subject)
    return getattr(subject, method(name))(*rest, **kwargs)


def _vmap(name: str, args: list[Any]) -> Any:
    """Runs one primitive of a recorded `vmap`."""
    if name not in VMAP_STEPS:
        raise UnknownTarget(f"vmap {name}")
    return VMAP_STEPS[name](*args)
