"""Defines the results of opening a source: a program still to be built, or a captured graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mindgap.graph import Graph
from mindgap.sources.files.user_imports import UserImports
from mindgap.sources.weights.tensor_registry import TensorRegistry

#: An `nn.Module` or a function, its positional arguments, its keyword arguments.
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Built:
    """A program with its arguments, and the registry of its drawn tensors.

    dynamic_shapes: the dimensions that an export keeps open, in the form of `torch.export.export`; None where the
        source does not declare them.
    imports: what the user's code imports from; None for a program of another source.
    path_taken: where values decide, its graph holds the path that the arguments take.
    """

    program: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    registry: TensorRegistry = field(default_factory=TensorRegistry)
    dynamic_shapes: Any = None
    path_taken: bool = False
    imports: UserImports | None = None

    @property
    def weight_bytes(self) -> int:
        """The bytes of the parameters and buffers of a module; 0 for another callable."""
        if not isinstance(self.program, torch.nn.Module):
            return 0
        return sum(each.numel() * each.element_size() for each in (*self.program.parameters(), *self.program.buffers()))


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """A change of a program's arguments. `apply`: returns the program with the changed ones. `given`: the user gives
    them all."""

    apply: Callable[[Built], Built]
    given: bool = False

    def followed_by(self, second: ArgumentChange) -> ArgumentChange:
        """Returns both changes as one."""
        return ArgumentChange(lambda built: second.apply(self.apply(built)), self.given or second.given)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is built on demand, the same each time.

    `source`: the text that names exactly this program. `group`: the name of the program where it has several sets of
    arguments, each of which is a `Program`; `first`: the source of the first of them. `remake`: builds a program that
    depends on its arguments, such as a translated model file, with a change of these; None where the arguments of the
    built program are changed. `make_submodule`: makes the program of a submodule, by its path and the number of its
    call, without the rest of the model; it returns None where the whole is to be made, as it is for other arguments.
    """

    name: str
    source: str
    make: Callable[[], Built]
    group: str = ""
    first: str = ""
    remake: Callable[[ArgumentChange], Built] | None = None
    make_submodule: Callable[[str, int], Built | None] | None = None

    def changed(self, change: ArgumentChange, **fields: Any) -> Program:
        """Returns the program with other arguments, and other `fields`."""
        build, remake = self.make, self.remake
        if remake is None:
            return replace(self, make=lambda: change.apply(build()), make_submodule=None, **fields)

        def again(second: ArgumentChange) -> Built:
            return remake(change.followed_by(second))

        return replace(self, make=lambda: remake(change), remake=again, make_submodule=None, **fields)

    def build(self) -> Call:
        """Returns (callable, args, kwargs). Raises `SourceError` if the model cannot be built."""
        built = self.make()
        return built.program, built.args, dict(built.kwargs)


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph that was captured before."""

    name: str
    source: str
    graph: Graph
