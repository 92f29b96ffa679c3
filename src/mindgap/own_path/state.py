"""What a program or its arguments hold and may change in a call: tensors, containers, attributes of objects."""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import inspect
import io
import os
import pickle
import random
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import numpy as np
import torch
from torch.utils.weak import WeakIdKeyDictionary

from mindgap.aten.torch_private.modules import put_buffer, put_parameter
from mindgap.aten.torch_private.process_state import same_random_numbers
from mindgap.graph_capture.deep_copies import is_strided
from mindgap.graph_capture.origin import is_torchs
from mindgap.graph_capture.program import named_modules
from mindgap.graph_capture.replay_check import same_bits
from mindgap.own_path.writes import Writes, memory_of

#: Attributes that PyTorch itself keeps in a module.
_PYTORCHS: Final = frozenset(torch.nn.Module().__dict__)
#: Of these, what calls the user's functions.
_HOOKS: Final = tuple(name for name in _PYTORCHS if name.startswith("_forward") and "hooks" in name)
#: Containers whose own methods, and no others of a subclass, restore what they hold.
_CONTAINERS: Final = (list, dict, set, collections.OrderedDict, collections.defaultdict, collections.deque)
#: What has nothing that a call may change.
_CLOSED: Final = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, type, types.ModuleType,
    types.FunctionType, types.MethodType, types.BuiltinFunctionType,
)  # fmt: skip
#: Objects that are looked into.
_MOST: Final = 20_000
#: Parameters that a call has written to. All others are not copied.
_WRITTEN: Final = WeakIdKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part as it was. `owner`, `name`: the module and its attribute that hold it. `is_changed`; `restore`."""

    path: str
    owner: Any
    name: str
    is_changed: Callable[[], bool]
    restore: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Held:
    """A parameter in its module's place. `data`: shares its memory."""

    path: str
    module: torch.nn.Module
    name: str
    parameter: torch.nn.Parameter
    data: torch.Tensor

    def is_another(self) -> bool:
        """Whether another parameter is in the place, or the parameter has other memory."""
        there = getattr(self.module, self.name, None)
        return there is not self.parameter or memory_of(self.parameter) != memory_of(self.data)

    def restore(self) -> None:
        """Puts the parameter, with its memory, into its place."""
        if self.is_another():
            self.parameter.data = self.data
            put_parameter(self.module, self.name, self.parameter)


class State:
    """The parameters, buffers, training modes and attributes in Python of a program's modules, as they were, and what
    these hold.

    The elements of a parameter are saved before the first write to it that `writes` sees, and from then on. Left alone
    is what cannot be restored for certain: tensors that are not strided, containers of other classes, objects of the
    standard library.
    """

    def __init__(self, program: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """`arguments`: by name, in place of a program."""
        self._modules: list[tuple[str, torch.nn.Module]] = [] if arguments is not None else named_modules(program)
        self._buffers = [
            (f"{path}.{name}".removeprefix("."), module, name, buffer)
            for path, module in self._modules
            for name, buffer in module.named_buffers(recurse=False)
        ]
        self._parameters = [
            _Held(f"{path}.{name}".removeprefix("."), module, name, parameter, parameter.detach())
            for path, module in self._modules
            for name, parameter in module.named_parameters(recurse=False)
            if type(parameter) is torch.nn.Parameter and is_strided(parameter) and parameter.device.type != "meta"
        ]
        self._parts: list[_Part] = []
        self._seen: dict[int, Any] = {id(module): module for _, module in self._modules}
        for path, module, name, buffer in self._buffers:
            self._tensor(buffer, path, module, name)
        for held in self._parameters:
            if held.parameter in _WRITTEN:
                self._tensor(held.parameter, held.path, held.module, held.name)
        self._modes = [module.training for _, module in self._modules]
        self._attributes = [_attributes(module) for _, module in self._modules]
        # A first call registers hooks, and notes in an attribute that it has. Lazy modules lose theirs for good.
        self._hooks = [
            (hooks, dict(hooks))
            for _, module in self._modules
            if not hasattr(module, "cls_to_become")
            for hooks in (cast("dict[int, Any]", vars(module).get(name, {})) for name in _HOOKS)
        ]
        for (path, module), attributes in zip(self._modules, self._attributes, strict=True):
            for name, value in attributes.items():
                self._look_into(value, f"{path}.{name}".removeprefix("."), module, name)
        for name, value in (arguments or {}).items():
            self._look_into(value, name, None, name)

    def restore(self) -> None:
        """Makes it all as it was."""
        for _, module, name, buffer in self._buffers:
            # A call may put another tensor into its place.
            put_buffer(module, name, buffer)
        for parameter in self._parameters:
            parameter.restore()
        for hooks, before in self._hooks:
            if hooks != before:
                hooks.clear()
                hooks.update(before)
        for (_, module), mode, attributes in zip(self._modules, self._modes, self._attributes, strict=True):
            held = vars(module)
            if module.training != mode:
                module.training = mode
            for name in held.keys() - _PYTORCHS - attributes.keys():
                del held[name]
            held |= attributes
        with torch.no_grad():
            for part in self._parts:
                if part.is_changed():
                    part.restore()

    @contextlib.contextmanager
    def writes(self) -> Generator[Writes]:
        """Notes the lines that write to these parameters and buffers in place. Nothing is compiled within.

        Eager `torch.cond` and `while_loop` compile themselves. While a mode is active PyTorch's compiler skips their
        code, and does so for the rest of the process, in which they cannot be exported then.
        """
        held = [(each.path, each.parameter) for each in self._parameters]
        noted = Writes([*((path, buffer) for path, _, _, buffer in self._buffers), *held], self._before_write)
        with torch.compiler.set_stance("force_eager"), noted:
            yield noted

    def _before_write(self, paths: Collection[str]) -> None:
        """Saves the elements of parameters that are about to be written to."""
        for held in self._parameters:
            if held.path in paths and held.parameter not in _WRITTEN:
                _WRITTEN[held.parameter] = True
                self._tensor(held.parameter, held.path, held.module, held.name)

    def changes(self, lines: Mapping[str, str]) -> list[tuple[str, str]]:
        """What is not as it was: the path of each buffer or attribute, and the user's line that changes it.

        `lines`: those that are known, by path.
        """
        changed: dict[str, tuple[Any, str]] = {}
        for path, module, name, buffer in self._buffers:
            if getattr(module, name, None) is not buffer:
                changed[path] = module, name
        for held in self._parameters:
            if held.is_another():
                changed[held.path] = held.module, held.name
        for part in self._parts:
            if part.path not in changed and part.is_changed():
                changed[part.path] = part.owner, part.name
        for (path, module), attributes in zip(self._modules, self._attributes, strict=True):
            for name, value in vars(module).items():
                if name not in _PYTORCHS and _is_other(value, attributes.get(name, attributes)):
                    changed.setdefault(f"{path}.{name}".removeprefix("."), (module, name))
        return [
            (path, lines.get(path) or ("" if owner is None else _line_of(owner, name)))
            for path, (owner, name) in changed.items()
        ]

    def _look_into(self, value: Any, path: str, owner: Any, name: str) -> None:
        """Saves what an attribute or an argument holds: containers, fields of objects, tensors, positions."""
        left: list[Any] = [value]
        while left and len(self._seen) < _MOST:
            one = left.pop()
            if isinstance(one, _CLOSED) or id(one) in self._seen:
                continue
            self._seen[id(one)] = one
            if isinstance(one, torch.Tensor):
                if type(one) is torch.Tensor:
                    self._tensor(one, path, owner, name)
            elif (position := _position_of(one)) is not None:
                self._parts.append(_positioned(*position, path, owner, name))
            elif issubclass(type(one), tuple):
                left += one
            elif type(one) in _CONTAINERS:
                self._parts.append(_container(one, path, owner, name))
                left += one.values() if hasattr(one, "values") else one
            elif (fields := _fields_of(one)) is not None:
                self._parts.append(_container(fields, path, owner, name))
                left += fields.values()
            elif one is value and owner is not None and (repeated := _iterator(one, path, owner, name)) is not None:
                self._parts.append(repeated)

    def _tensor(self, tensor: torch.Tensor, path: str, owner: Any, name: str) -> None:
        """Saves the elements of a strided tensor."""
        self._seen[id(tensor)] = tensor
        if (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or not is_strided(tensor)
            or tensor.device.type == "meta"
        ):
            return
        saved = tensor.detach().clone()

        def restore() -> None:
            with torch.inference_mode(tensor.is_inference()):
                if tensor.shape != saved.shape or tensor.dtype != saved.dtype:
                    tensor.data = saved.clone()
                else:
                    tensor.detach().copy_(saved)

        self._parts.append(_Part(path, owner, name, lambda: not same_bits(tensor, saved), restore))


def _container(held: Any, path: str, owner: Any, name: str) -> _Part:
    """What a container holds. Its own class restores it: a subclass may refuse, or do more."""
    saved: list[Any] = [*(held.items() if hasattr(held, "items") else held)]

    def is_changed() -> bool:
        return _elements(held) != before

    def restore() -> None:
        held.clear()
        (held.extend if hasattr(held, "extend") else held.update)(saved)

    before = _elements(held)
    return _Part(path, owner, name, is_changed, restore)


def _positioned(save: Callable[[], Any], load: Callable[[Any], object], path: str, owner: Any, name: str) -> _Part:
    before = save()
    return _Part(path, owner, name, lambda: pickle.dumps(save()) != pickle.dumps(before), lambda: load(before))


def _position_of(one: Any) -> tuple[Callable[[], Any], Callable[[Any], object]] | None:
    """How the state of a generator of random numbers, of an array, or of a file that is read, is saved and loaded."""
    if isinstance(one, torch.Generator):
        return one.get_state, one.set_state
    if isinstance(one, random.Random):
        return one.getstate, one.setstate
    if isinstance(one, np.random.RandomState):
        return one.get_state, one.set_state
    if isinstance(one, np.random.Generator):
        return lambda: one.bit_generator.state, lambda state: setattr(one.bit_generator, "state", state)
    if issubclass(type(one), np.ndarray) and one.flags.writeable and not one.dtype.hasobject:
        return one.copy, partial(np.copyto, one)
    if isinstance(one, io.IOBase) and not one.closed and one.seekable():
        return partial(_file_position, one), one.seek
    return None


def _file_position(file: io.IOBase) -> int:
    try:
        return file.tell()
    except OSError:  # a text file has no position while it is iterated over
        return -1


def _fields_of(one: Any) -> dict[str, Any] | None:
    """The attributes of an object of a user's or a library's class; None for one that has none."""
    package = type(one).__module__.partition(".")[0]
    own = not isinstance(one, torch.nn.Module) and package == "torch"
    if isinstance(one, torch.jit.ScriptModule) or own or (package in sys.stdlib_module_names and package != "types"):  # pyright: ignore[reportPrivateImportUsage] # documented
        return None
    try:
        fields = object.__getattribute__(one, "__dict__")
    except AttributeError:
        return None
    return cast("dict[str, Any]", fields) if type(fields) is dict else None


def _iterator(one: Any, path: str, owner: Any, name: str) -> _Part | None:
    """An iterator of Python's own, which an attribute gets again as it was."""
    if not issubclass(type(one), Iterator) or type(one).__module__ not in ("builtins", "itertools"):
        return None
    try:
        saved = copy.copy(one)
    except TypeError:  # a generator
        return None
    held = cast("dict[str, Any]", vars(owner))
    return _Part(path, owner, name, lambda: held.get(name) is one, lambda: held.update({name: copy.copy(saved)}))


@contextlib.contextmanager
def as_it_was(program: Any) -> Generator[State]:
    """Restores what a program holds, and the random state, after what runs within."""
    state = State(program)
    try:
        with same_random_numbers():
            yield state
    finally:
        state.restore()


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    """The attributes of a module in Python."""
    return {name: value for name, value in vars(module).items() if name not in _PYTORCHS}


def _is_other(value: Any, before: Any) -> bool:
    if isinstance(value, (bool, int, float, str)):
        return type(value) is not type(before) or value != before
    return value is not before


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
