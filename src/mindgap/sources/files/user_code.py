"""Opens the user's own programs: a callable in a file or a module that returns models with their arguments."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from mindgap.aten.torch_private import modules
from mindgap.aten.torch_private.process_state import torch_seed
from mindgap.sources.argument_sets import numbered
from mindgap.sources.files.user_imports import UserImports, activate, imports_of
from mindgap.sources.libraries import declare_operators
from mindgap.sources.program import Built, Program
from mindgap.sources.source import (
    Source,
    SourceError,
    SourceOptions,
    one_line,
    require_file,
    schemes,
    source_options,
    suggest,
)
from mindgap.sources.type_guards import is_list, is_sequence, is_tuple

#: A relative import, in the text of a file.
_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.MULTILINE)
_INSTALL = ": install its package beside mindgap, or open the source where it is (--capture-env NAME)"
_SHAPES = (
    "return (module, args), (module, args, kwargs), (module, args, kwargs, dynamic_shapes), any of these with a name "
    "before it, or a list of such; args: a tuple of arguments, or a list of such tuples, one for each call"
)


def open_user_code(source: Source) -> list[Program]:
    """Calls the user's callable once and returns a program for each model that it returned, or for the one after `#`.

    Raises `SourceError` if there is no such file, module or callable, if the code raises, or if the result has another
    form.
    """
    chosen = source_options(source)
    # Before the user's code imports torchvision, or a library that does.
    declare_operators()
    path, _, name = source.target.rpartition(":")
    name, _, item = name.partition("#")
    with torch_seed(chosen.seed):
        make, imports = _named(path, name)
    if not callable(make) or isinstance(make, nn.Module):
        raise SourceError(f"{source.target}: {name} is a {type(make).__name__}; name a function that will {_SHAPES}")
    result = _call(make, source, chosen)
    items = list(result) if is_list(result) else [result]
    if not items:
        raise SourceError(f"{source.target}: it returned an empty list; {_SHAPES}")
    stem = f"{Path(path).name.removesuffix('.py')}:{name}"
    if item and int(item) >= len(items):
        raise SourceError(f"{source.target}: there is no item {item}, it returned {len(items)} (the first is #0)")
    named = [_item(item, stem, index, len(items), source) for index, item in enumerate(items)]
    return [
        program
        for index, (label, calls) in enumerate(named)
        if not item or index == int(item)
        for program in numbered(
            label, _text(source, index, len(named)), [_ready(each, imports, chosen) for each in calls]
        )
    ]


def load_callable(text: str) -> Callable[[], Any]:
    """Returns the callable that `FILE.py:NAME` or `package.module:NAME` names. Raises `SourceError`."""
    declare_operators()
    path, _, name = text.rpartition(":")
    function, _ = _named(path, name)
    if not callable(function):
        raise SourceError(f"{text}: {name} is a {type(function).__name__}; name a function")
    return function


def _named(path: str, name: str) -> tuple[Any, UserImports]:
    """Returns what a name means in a file or a module, and its imports. Raises `SourceError`."""
    with _own_arguments(path):
        module, imports = _loaded(path)
    if not hasattr(module, name):
        callables = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        others = suggest(name, callables) or f"; it has {', '.join(callables[:9]) or 'none'}"
        raise SourceError(f"{path}: it has no function {name!r}{others}")
    return getattr(module, name), imports


@contextmanager
def _own_arguments(path: str) -> Generator[None]:
    """Gives code the command line of `python FILE.py`: a parser in it gives its defaults, and sees none of a worker."""
    before, sys.argv = sys.argv, [path]
    try:
        yield
    finally:
        sys.argv = before


def _text(source: Source, index: int, count: int) -> str:
    """Returns the source that names one of several returned models: `FILE.py:CALLABLE#2`."""
    if count == 1 or "#" in source.target:
        return source.text
    return source.text.replace(source.target, f"{source.target}#{index}", 1)


def _loaded(path: str) -> tuple[ModuleType, UserImports]:
    """Imports a file or a module, with its imports, which stay those of the process."""
    if not path.endswith(".py"):
        activate(imports := imports_of(Path.cwd()))
        return _load_module(path), imports
    require_file(file := Path(path))
    name, *folders = _place(file)
    activate(imports := imports_of(*folders))
    return _load_file(file, name), imports


def _place(path: Path) -> tuple[str, *tuple[Path, ...]]:
    """Returns the name of a file's module, and the folders that it imports from. In a package, or with relative
    imports, both are as `python -m PACKAGE.FILE` has them."""
    folder = path.resolve().parent
    if not (folder / "__init__.py").is_file() and not _RELATIVE.search(path.read_bytes()):
        return f"{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}", folder
    name, top = f"{folder.name}.{path.stem}", folder.parent
    while (top / "__init__.py").is_file():
        name, top = f"{top.name}.{name}", top.parent
    return name, folder, top


def _load_file(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    if before is not None and any(map(_defines_operators, vars(before).values())):
        # A process can define operators once: a second definition takes the kernels of the first away.
        return before
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is not None and "TORCH_LIBRARY" in str(error):
            # A process can define a library of operators once: the file that defined it is used again.
            sys.modules[name] = before
            return before
        del sys.modules[name]
        raise SourceError(f"{path}: importing it raised {_error_text(error, path)}") from error
    return module


def _defines_operators(value: object) -> bool:
    """Whether a value of a module is a library of operators, or an operator that `torch.library.custom_op` made."""
    made = not isinstance(value, ModuleType) and callable(getattr(value, "register_fake", None))
    return made or isinstance(value, torch.library.Library)


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SourceError(
                f"{name}: no such module here or in the installed packages{suggest(name, schemes())}"
            ) from None
        raise SourceError(f"{name}: importing it needs {error.name!r}, which is not installed{_INSTALL}") from error
    except (Exception, SystemExit) as error:
        raise SourceError(f"{name}: importing it raised {one_line(error)}") from error


def _call(make: Callable[[], Any], source: Source, chosen: SourceOptions) -> Any:
    path = source.target.rpartition(":")[0]
    with torch_seed(chosen.seed), _own_arguments(path):
        try:
            return make()
        except (Exception, SystemExit) as error:
            raise SourceError(f"{source.target}: it raised {_error_text(error, Path(path))}") from error


def _error_text(error: BaseException, path: Path) -> str:
    """Returns an error of the user's code in one line, with its line there, and what to do about a missing package."""
    missing = isinstance(error, ModuleNotFoundError) and error.name is not None
    return f"{one_line(error)}{_where(error, path)}{_INSTALL if missing else ''}"


def _where(error: BaseException, path: Path) -> str:
    """Returns ` (line 12)`, the innermost line of the user's file in a traceback."""
    if isinstance(error, SyntaxError):
        return f" (line {error.lineno})"
    lines = [
        f.lineno
        for f in traceback.extract_tb(error.__traceback__)
        if Path(f.filename) == path or Path(f.filename) == path.resolve()
    ]
    return f" (line {lines[-1]})" if lines else ""


def _item(item: Any, stem: str, index: int, count: int, source: Source) -> tuple[str, list[Built]]:
    """Returns the name and the parts of one returned model, which may have any of the accepted forms, once for each
    set of arguments."""
    parts: list[Any] = list(item) if is_tuple(item) else []
    name = parts.pop(0) if parts and isinstance(parts[0], str) else (f"{stem}[{index}]" if count > 1 else stem)
    if not 2 <= len(parts) <= 4 or not callable(parts[0]) or not all(isinstance(each, dict) for each in parts[2:3]):
        what = f"a tuple of {len(item)}" if is_tuple(item) else f"a {type(item).__name__}"
        which = f"item {index} of what it returned" if count > 1 else "what it returned"
        raise SourceError(f"{source.target}: {which} is {what}; {_SHAPES}")
    kwargs: Any = parts[2] if len(parts) > 2 else {}
    dynamic = parts[3] if len(parts) > 3 else None
    return name, [Built(parts[0], args, kwargs, dynamic_shapes=dynamic) for args in _calls(parts[1])]


def _calls(args: Any) -> list[tuple[Any, ...]]:
    """The positional arguments of each call: of a list of tuples and of an iterator, each item is one call's."""
    if isinstance(args, Iterator) or (is_list(args) and args and all(is_tuple(each) for each in args)):
        calls: list[Any] = [*args]
        return [tuple(each) if is_sequence(each) else (each,) for each in calls]
    return [tuple(args) if is_sequence(args) else (args,)]


def _ready(built: Built, imports: UserImports, chosen: SourceOptions) -> Callable[[], Built]:
    def make() -> Built:
        activate(imports)
        if isinstance(built.program, nn.Module) and chosen.train:
            built.program.train()
        return cast_floats(replace(built, imports=imports), chosen.dtype)

    return make


def cast_floats(built: Built, dtype: str | None) -> Built:
    """Returns the program with its floating-point weights and arguments in `dtype`."""
    if dtype is None:
        return built
    target: torch.dtype = getattr(torch, dtype)

    def cast(value: Any) -> Any:
        return value.to(target) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    program = built.program.to(target) if isinstance(built.program, nn.Module) else built.program
    args, kwargs = modules.tree_map(cast, (built.args, dict(built.kwargs)))
    return replace(built, program=program, args=args, kwargs=kwargs)
