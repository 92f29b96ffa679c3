"""What a program holds and may change in a call: buffers, and attributes of its modules in Python."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import os
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import torch

from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode, storage_id
from mindgap.aten.torch_private.modules import put_buffer
from mindgap.models.capture.origin import current_line, is_torchs
from mindgap.models.capture.program import modules_of

#: Attributes that PyTorch itself keeps in a module.
_PYTORCHS: Final = frozenset(torch.nn.Module().__dict__)
_CONTAINERS: Final = (list, dict, set)


def _modules(program: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    for prefix, root in modules_of(program):
        for path, module in cast("list[tuple[str, torch.nn.Module]]", list(root.named_modules())):  # pyright: ignore[reportUnknownArgumentType] # untyped in PyTorch
            yield ".".join(part for part in (prefix, path) if part), module


class State:
    """The buffers, training modes and attributes in Python of a program's modules, as they were."""

    def __init__(self, program: Any) -> None:
        self._modules = [*_modules(program)]
        self._buffers = [
            (f"{path}.{name}".removeprefix("."), module, name, buffer, buffer.clone())
            for path, module in self._modules
            for name, buffer in module.named_buffers(recurse=False)
        ]
        self._modes = [module.training for _, module in self._modules]
        self._attributes = [_attributes(module) for _, module in self._modules]

    def restore(self) -> None:
        """Makes it all as it was."""
        with torch.no_grad():
            for _, module, name, buffer, saved in self._buffers:
                # A call may copy into it, or put another tensor into its place.
                buffer.copy_(saved)
                put_buffer(module, name, buffer)
        for (_, module), mode, attributes in zip(self._modules, self._modes, self._attributes, strict=True):
            module.training = mode
            held = vars(module)
            for name in held.keys() - _PYTORCHS - attributes.keys():
                del held[name]
            for name, (value, content) in attributes.items():
                held[name] = value
                if _is_container(value):
                    _refill(value, content)

    @contextlib.contextmanager
    def writes(self) -> Generator[BufferWrites]:
        """Notes the lines that write to these buffers in place. Nothing is compiled within.

        Eager `torch.cond` and `while_loop` compile themselves. While a mode is active PyTorch's compiler skips their
        code, and does so for the rest of the process, in which they cannot be exported then.
        """
        noted = BufferWrites([(path, buffer) for path, _, _, buffer, _ in self._buffers])
        with torch.compiler.set_stance("force_eager"), noted:
            yield noted

    def changes(self, lines: Mapping[str, str]) -> list[tuple[str, str]]:
        """What is not as it was: the path of each buffer or attribute, and the user's line that changes it.

        `lines`: those that are known, by path.
        """
        found: list[tuple[str, str]] = []
        for path, module, name, _, saved in self._buffers:
            now = getattr(module, name, None)
            if not isinstance(now, torch.Tensor) or now.shape != saved.shape or not torch.equal(now, saved):
                found.append((path, lines.get(path) or _line_of(module, name)))
        for (path, module), attributes in zip(self._modules, self._attributes, strict=True):
            for name, value in vars(module).items():
                if name not in _PYTORCHS and _is_changed(value, attributes.get(name)):
                    found.append((f"{path}.{name}".removeprefix("."), _line_of(module, name)))
        return found


class BufferWrites(TorchDispatchMode):
    """Notes the user's line of the first operator that writes to a buffer, or to a view of it. `lines`: by path.

    The bodies of `torch.cond` and other operators of higher order run without it: PyTorch lets them write to nothing.
    """

    supports_higher_order_operators = True

    def __init__(self, buffers: Sequence[tuple[str, torch.Tensor]]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.lines: dict[str, str] = {}
        self._paths = {memory: path for path, buffer in buffers if (memory := _memory(buffer)) is not None}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = getattr(func, "_schema", None)
        for formal, given in zip(schema.arguments if schema is not None else (), args, strict=False):
            if formal.alias_info is not None and formal.alias_info.is_write and isinstance(given, torch.Tensor):
                memory = _memory(given)
                if memory is not None and (path := self._paths.get(memory)) is not None:
                    self.lines.setdefault(path, current_line())
        return result


def _memory(tensor: torch.Tensor) -> int | None:
    """What tensors of the same memory have in common; None for a layout without one."""
    try:
        return storage_id(tensor)
    except (RuntimeError, NotImplementedError):
        return None


@contextlib.contextmanager
def as_it_was(program: Any) -> Generator[State]:
    """Restores what a program holds, and the random state, after what runs within."""
    state = State(program)
    try:
        with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # untyped in PyTorch
            yield state
    finally:
        state.restore()


def _attributes(module: torch.nn.Module) -> dict[str, tuple[Any, Any]]:
    """The attributes of a module in Python: each value, and a shallow copy of it if it is a container."""
    held: dict[str, Any] = {name: value for name, value in vars(module).items() if name not in _PYTORCHS}
    return {name: (value, copy.copy(value) if _is_container(value) else None) for name, value in held.items()}


def _is_container(value: Any) -> bool:
    return isinstance(value, _CONTAINERS)


def _refill(value: Any, content: Any) -> None:
    value.clear()
    refill = value.extend if hasattr(value, "extend") else value.update
    refill(content)


def _is_changed(value: Any, before: tuple[Any, Any] | None) -> bool:
    if before is None:
        return True
    old = before[0] if before[1] is None else before[1]
    if isinstance(value, (bool, int, float, str)):
        return type(value) is not type(old) or value != old
    if _is_container(value):
        return _elements(value) != _elements(old)
    return value is not old


def _elements(held: Any) -> list[int]:
    """The identities of what a container holds; of a dictionary, keys and values."""
    return [id(each) for each in (*held, *(held.values() if hasattr(held, "values") else ()))]


def _line_of(module: torch.nn.Module, name: str) -> str:
    """The line of a module's class that writes to `self.NAME` outside of `__init__`; empty if none is found."""
    for kind in type(module).__mro__:
        for method in vars(kind).values():
            code = getattr(method, "__code__", None)
            if code is None or code.co_name == "__init__" or is_torchs(code):
                continue
            try:
                lines, first = inspect.getsourcelines(method)
                tree = ast.parse(textwrap.dedent("".join(lines)))
            except (OSError, TypeError, SyntaxError):
                continue
            written = [getattr(node, "lineno", 1) for node in ast.walk(tree) if _writes(node, name)]
            if written:
                return f"{os.path.basename(code.co_filename)}:{first + min(written) - 1}"
    return ""


def _writes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(_is_part_of(target, name) for target in node.targets)
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return _is_part_of(node.target, name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        in_place = node.func.attr.endswith("_") or node.func.attr in ("append", "extend", "update", "pop", "add")
        return in_place and _is_part_of(node.func.value, name)
    return False


def _is_part_of(node: ast.AST, name: str) -> bool:
    """Whether an expression is `self.NAME`, an element of it, or a tuple of targets with it."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_is_part_of(each, name) for each in node.elts)
    while isinstance(node, ast.Subscript):
        node = node.value
    return (
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )  # fmt: skip
