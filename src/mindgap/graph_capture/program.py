"""Finds the tensors that a program holds, and copies a program with other tensors in their places."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, cast

import torch

from mindgap.aten.torch_private import modules
from mindgap.aten.torch_private.fake_tensors import storage_id
from mindgap.aten.torch_private.overloads import custom_operators
from mindgap.graph import Role
from mindgap.graph_capture.deep_copies import TensorSwap, deep_copy, shared_names
from mindgap.graph_capture.errors import CaptureError

Program = Callable[..., Any]


@dataclass(frozen=True)
class HeldTensor:
    """A tensor that the program or its arguments hold."""

    tensor: torch.Tensor
    role: Role
    name: str


@dataclass
class ProgramCopy:
    """A copy of the program with other tensors, and the list of the original ones."""

    program: Program
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    held: list[HeldTensor] = field(default_factory=list[HeldTensor])


class ProgramWithin(torch.nn.Module):
    """Runs a module inside a context. Its submodules and tensors have the module's own paths."""

    def __init__(self, inner: torch.nn.Module, context: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self._inner, self._context = (inner,), context  # no submodule: what it holds is held here by the same names
        self._modules, self._buffers, self._parameters = inner._modules, inner._buffers, inner._parameters  # pyright: ignore[reportPrivateUsage] # shared
        self.training = inner.training

    @property
    def inner(self) -> torch.nn.Module:
        """The module itself."""
        return self._inner[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the module returns."""
        with self._context():
            return self.inner(*args, **kwargs)


def modules_of(program: Any, prefix: str = "") -> list[tuple[str, torch.nn.Module]]:
    """Returns the outermost modules that a callable holds (itself, in its closure, in its globals), each with a
    name."""
    if isinstance(program, torch.nn.Module):
        return [(prefix, program)]
    if isinstance(program, types.MethodType):
        return modules_of(program.__self__, prefix)
    if isinstance(program, functools.partial):
        parts: dict[str, Any] = {
            "": program.func,
            **{str(i): a for i, a in enumerate(program.args)},
            **program.keywords,
        }
    elif isinstance(program, types.FunctionType):
        parts = _referenced(program)
    else:
        parts = dict(getattr(program, "__dict__", {}))
    named: list[tuple[str, torch.nn.Module]] = []
    for name, part in parts.items():
        path = ".".join(p for p in (prefix, name) if p)
        if (
            isinstance(part, (torch.nn.Module, functools.partial))
            or name == ""
            or (isinstance(part, types.FunctionType) and part is not program and not prefix)
        ):
            named += modules_of(part, path)
    return named


def named_modules(program: Any) -> list[tuple[str, torch.nn.Module]]:
    """Returns every module that a callable holds and its path, outermost first."""
    return [
        (".".join(part for part in (prefix, path) if part), module)
        for prefix, root in modules_of(program)
        for path, module in cast("list[tuple[str, torch.nn.Module]]", list(root.named_modules()))  # pyright: ignore[reportUnknownArgumentType] # untyped in PyTorch
    ]


def module_paths(program: Any) -> dict[int, str]:
    """Returns the path of every module that a callable holds, by id."""
    return {id(module): as_written(path) for path, module in named_modules(program)}


def as_written(path: str) -> str:
    """Returns the path of a module or parameter without the wrappers that `torch.compile` puts around modules."""
    return path.replace("_orig_mod.", "").removesuffix("_orig_mod").removesuffix(".")


def _referenced(function: types.FunctionType) -> dict[str, Any]:
    """Returns the values of a function's closure, and the modules and tensors among the globals that its code uses."""
    reached: dict[str, Any] = {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, (torch.nn.Module, torch.Tensor)):
            reached[name] = value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            reached[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    return reached


def copy_program(
    program: Program, args: Sequence[Any], kwargs: Mapping[str, Any], swap: Callable[[HeldTensor], torch.Tensor]
) -> ProgramCopy:
    """Returns a copy in which every tensor is replaced by `swap(tensor)`. Tensors that were one tensor stay one.

    The order is: arguments, parameters, buffers, tensors found elsewhere. The original is not changed. Raises
    `CaptureError` for an argument that Python cannot copy; such a part of the program is shared.
    """
    memo: dict[int, Any] = {id(operator): operator for operator in custom_operators()}
    locations: dict[Any, torch.Tensor] = {}
    held: list[HeldTensor] = []

    def put(tensor: torch.Tensor, role: Role, name: str) -> torch.Tensor:
        if id(tensor) in memo:
            return memo[id(tensor)]
        location = _location(tensor)
        if location not in locations:
            one = HeldTensor(tensor, role, name)
            held.append(one)
            locations[location] = swap(one)
        memo[id(tensor)] = locations[location]
        memo.setdefault(id(memo), []).append(tensor)  # what deepcopy does to keep ids unique
        return locations[location]

    for name, leaf in named_arguments(program, args, kwargs):
        if isinstance(leaf, torch.Tensor):
            put(leaf, "input", name)
    if shared := shared_names(bound_arguments(program, args, kwargs)):
        raise CaptureError(
            f"the argument {shared[0]} cannot be copied, so that a second run would be given what the first has left; "
            "pass tensors, or build it inside"
        )
    with TensorSwap(lambda t: put(t, "input", f"argument.{len(held)}")):
        new_args, new_kwargs = deep_copy((tuple(args), dict(kwargs)), memo)
    roots = modules_of(program)
    for prefix, module in roots:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            put(parameter, "parameter", as_written(".".join(p for p in (prefix, name) if p)))
    for prefix, module in roots:
        for name, buffer in module.named_buffers(remove_duplicate=False):
            put(buffer, "buffer", as_written(".".join(p for p in (prefix, name) if p)))
    with TensorSwap(lambda t: put(t, "constant", f"held.{len(held)}")):
        new_program = _deep_copy(program, memo)
    return ProgramCopy(new_program, new_args, new_kwargs, held)


def _location(tensor: torch.Tensor) -> Any:
    """Returns a key that is equal for two tensors with the same elements of the same memory."""
    try:
        memory = storage_id(tensor)
        return memory, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
    except (RuntimeError, NotImplementedError):  # layouts without storage: refused when they are used
        return id(tensor)


def _deep_copy(program: Any, memo: dict[int, Any]) -> Any:
    """Copies deeply, also through the closures of functions, which `copy.deepcopy` shares."""
    if isinstance(program, types.FunctionType):
        return _copy_function(program, memo)
    if isinstance(program, functools.partial):
        keywords = {name: _deep_copy(value, memo) for name, value in program.keywords.items()}
        return functools.partial(
            _deep_copy(program.func, memo), *[_deep_copy(a, memo) for a in program.args], **keywords
        )
    if isinstance(program, types.MethodType):
        return types.MethodType(program.__func__, _deep_copy(program.__self__, memo))
    return program if isinstance(program, types.ModuleType) else deep_copy(program, memo)


def _copy_function(function: types.FunctionType, memo: dict[int, Any]) -> Any:
    if id(function) in memo:
        return memo[id(function)]
    reached = _referenced(function)
    if not reached and not function.__defaults__ and not function.__kwdefaults__:
        return function
    free = function.__code__.co_freevars
    cells = {name: types.CellType() for name in free}
    for name, cell in zip(free, function.__closure__ or (), strict=True):
        if name not in reached:
            cells[name] = cell
    # Assigned before the cells are filled: a recursive function is in its closure.
    world = function.__globals__
    own = {name for name in reached if name not in free}
    if own:
        world = {**world, **{name: _deep_copy(reached[name], memo) for name in own}}
    defaults = tuple(_deep_copy(d, memo) for d in function.__defaults__) if function.__defaults__ else None
    new = types.FunctionType(function.__code__, world, function.__name__, defaults, tuple(cells[n] for n in free))
    memo[id(function)] = new
    new.__kwdefaults__ = {k: _deep_copy(v, memo) for k, v in (function.__kwdefaults__ or {}).items()}
    new.__dict__.update(function.__dict__)
    for name in free:
        if name in reached:
            cells[name].cell_contents = _deep_copy(reached[name], memo)
    return new


def named_arguments(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns (name, leaf) of the arguments, by the names in the program's signature."""
    named = bound_arguments(program, args, kwargs)
    return [(_joined(name, path), leaf) for name, value in named.items() for path, leaf in leaves(value)]


def bound_arguments(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments by the program's `argument_names` or the names in its signature; `args.0` and so on for one
    without names."""
    program = program.inner if isinstance(program, ProgramWithin) else program
    names: Sequence[str] = getattr(program, "argument_names", ())
    if len(names) == len(args) and not kwargs:
        return dict(zip(names, args, strict=True))
    target = program.forward if isinstance(program, torch.nn.Module) else program
    if isinstance(program, functools.partial) and isinstance(program.func, torch.nn.Module):
        target = functools.partial(program.func.forward, *program.args, **program.keywords)
    try:
        return dict(inspect.signature(target).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{f"args.{i}": a for i, a in enumerate(args)}, **kwargs}


def tensor_names(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Returns the names of the tensors among the arguments, in the order of pytree: positional ones, then keyword
    arguments as they are given. One that the signature does not reach has the name `argument.N`."""
    names: dict[int, list[str]] = {}
    for name, leaf in named_arguments(program, args, kwargs):
        names.setdefault(id(leaf), []).append(name)
    given = [leaf for leaf in modules.tree_flatten((tuple(args), dict(kwargs)))[0] if isinstance(leaf, torch.Tensor)]
    return [names[id(each)].pop(0) if names.get(id(each)) else f"argument.{n}" for n, each in enumerate(given)]


def _joined(name: str, path: str) -> str:
    return f"{name}.{path}" if path else name


def leaves(value: Any) -> list[tuple[str, Any]]:
    """Returns (path, leaf) of nested containers: mappings, sequences, dataclasses, and those registered with
    pytree."""
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, complex, str)):
        return [("", value)]
    if isinstance(value, Mapping):
        items: list[tuple[str, Any]] = [(str(k), v) for k, v in value.items()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # any mapping
    elif isinstance(value, tuple) and hasattr(value, "_fields"):  # pyright: ignore[reportUnknownArgumentType] # any tuple
        items = [(n, getattr(value, n)) for n in value._fields]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType] # a named tuple
    elif isinstance(value, (list, tuple)):
        items = [(str(i), v) for i, v in enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # any sequence
    elif is_dataclass(value) and not isinstance(value, type):
        items = [(f.name, getattr(value, f.name)) for f in fields(value)]
    else:
        leaves_found, _ = modules.tree_flatten(value)
        if len(leaves_found) == 1 and leaves_found[0] is value:
            return [("", value)]
        items = [(str(i), v) for i, v in enumerate(leaves_found)]
    return [(_joined(name, path), leaf) for name, item in items for path, leaf in leaves(item)]


def differentiable(held: HeldTensor) -> bool:
    """Whether a tensor is a parameter that requires a gradient or a floating-point argument."""
    if not held.tensor.is_floating_point():
        return False
    return held.role == "input" or (held.role == "parameter" and held.tensor.requires_grad)
