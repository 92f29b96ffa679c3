"""Represents a call with tensors anywhere in its arguments as a program of those tensors alone."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from mindgap.aten.torch_private import modules
from mindgap.sources.program import Built
from mindgap.sources.source import SourceError
from mindgap.sources.weights.tensor_registry import TensorRegistry

T = TypeVar("T")


@dataclass(frozen=True)
class SampleCall:
    """Calls `function(*args, **kwargs)` as a function of its tensors; `TensorSlot`s mark their places.

    `names`: one for each tensor, the labels of the graph's inputs. `kept`: a module that holds, as its buffers, the
    tensors without a gradient among others with one (running statistics, weights of classes).
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    kept: nn.Module = field(default_factory=nn.Module)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def __call__(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self.filled(tensors)
        return self.function(*args, **kwargs)

    def filled(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with these tensors in their places."""

        def given(hole: TensorSlot) -> torch.Tensor:
            return tensors[hole.index] if hole.index >= 0 else self.kept.get_buffer(hole.name)

        return modules.tree_map_only(TensorSlot, given, (self.args, self.kwargs))


@dataclass(frozen=True)
class TensorSlot:
    """Marks the place of a tensor among the arguments: its number among those given, or -1 for a kept one."""

    name: str
    index: int


@dataclass(frozen=True)
class Sample:
    """A call and the tensors that it is made with."""

    call: SampleCall
    tensors: tuple[torch.Tensor, ...]

    @property
    def all_tensors(self) -> list[torch.Tensor]:
        return [*self.tensors, *self.call.kept.buffers()]

    def built(self, registry: TensorRegistry) -> Built:
        """Returns the program on copies of the tensors, which it may write to. Raises `SourceError` if one is not
        strided."""
        for tensor in self.all_tensors:
            if tensor.layout != torch.strided:
                raise SourceError(f"the sample holds a tensor of layout {tensor.layout}; graphs hold strided ones")
        call, tensors = copy.deepcopy((self.call, self.tensors))
        return Built(call, tensors, {}, registry)

    def form(self) -> str:
        """Returns a key that is equal for samples that differ only in the values of their tensors."""
        specs = [(str(t.dtype), tuple(t.shape), _strides(t), t.is_conj(), t.is_neg()) for t in self.all_tensors]
        return repr((self.call.args, sorted(self.call.kwargs.items()), specs))


def sample_of(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], first: str) -> Sample:
    """Takes a call apart. `first`: the name of the first argument; others are `argument_1`… or their keyword."""
    flat = [leaf for leaf in modules.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    some = any(tensor.requires_grad for tensor in flat)
    tensors: list[torch.Tensor] = []
    names: list[str] = []
    kept = nn.Module()

    def hole(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        taken = {*names, *dict(kept.named_buffers())}
        while name in taken or hasattr(kept, name):
            name = f"{name}_"
        if some and not value.requires_grad and value.is_floating_point():
            kept.register_buffer(name, value.detach())
            return TensorSlot(name, -1)
        tensors.append(value.detach())
        names.append(name)
        return TensorSlot(name, len(tensors) - 1)

    positional = tuple(
        _mapped(hole, first if position == 0 else f"argument_{position}", value) for position, value in enumerate(args)
    )
    named = {key: _mapped(hole, key, value) for key, value in kwargs.items()}
    return Sample(SampleCall(function, positional, named, tuple(names), kept), tuple(tensors))


def _mapped(hole: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    def place(path: Any, leaf: Any) -> Any:
        inside = "_".join(re.sub(r"\W+", "", modules.keystr((key,))) for key in path)
        return hole(f"{name}_{inside}" if inside else name, leaf)

    return modules.tree_map_with_path(place, value, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor))


def _strides(tensor: torch.Tensor) -> tuple[int, ...] | str:
    return tuple(tensor.stride()) if tensor.layout == torch.strided else str(tensor.layout)


def evenly_spaced(items: Sequence[T], most: int) -> list[int]:
    """Returns at most `most` positions in `items`, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return list(range(len(items)))
    return [round(i * (len(items) - 1) / (most - 1)) for i in range(most)]
