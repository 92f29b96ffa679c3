"""Gives each of the user's files the import path and the modules that it has when Python runs it alone."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

from mindgap.run.source_files import SUFFIXES

#: Modules that this process needs itself, for any files next to the user's.
_KEPT: Final = sys.stdlib_module_names | {"torch", "numpy"} | {f"mindgap{suffix}" for suffix in SUFFIXES}


@dataclass(eq=False)
class UserImports:
    """The import path and the modules of the user's files in one folder.

    The folder stays on the path while the user's code runs, also for an import inside a function. Two folders may have
    modules of the same name, and a folder one of the name of an installed package: each file gets its module.

    folders: what comes first on the path, as for `python FILE.py`.
    path, modules: `sys.path` and the modules from these folders, as the code left them when others took over.
    hidden: modules of the process whose names the folders' modules have taken.
    kept: names of modules that the process had imported before, from these folders too: they stay in it.
    """

    folders: tuple[str, ...]
    path: list[str] = field(default_factory=list[str])
    modules: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])
    hidden: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])
    kept: frozenset[str] = frozenset()

    def enter(self) -> None:
        """Puts the folders on the path, and these modules into the process."""
        sys.path[:] = self.path or [*self.folders, *_base]
        self.hidden = _taken(_shadowed(self.folders))
        self.kept = frozenset(name for name, _ in _top_level())
        sys.modules.update(self.modules)

    def leave(self) -> None:
        """Keeps path and modules, and restores those of the process."""
        self.path, sys.path[:] = [*sys.path], _base
        added = {os.path.abspath(folder) for folder in self.path} - {os.path.abspath(folder) for folder in _base}
        self.modules = _taken(
            {name for name, module in _top_level() if name not in self.kept and _folder_of(module) in added}
        )
        sys.modules.update(self.hidden)


#: `sys.path` without the user's files.
_base: Final[list[str]] = []
_active: UserImports | None = None
_of_folders: Final[dict[tuple[str, ...], UserImports]] = {}


def activate(imports: UserImports | None) -> None:
    """Makes these the imports of the process until others are activated. None: those of no file of the user."""
    global _active
    if _active is not imports:
        if _active is None:
            _base[:] = sys.path
        else:
            _active.leave()
        _active = imports
        if imports is not None:
            imports.enter()


def imports_of(*folders: Path) -> UserImports:
    """Returns the imports of the user's files in a folder, or in a package below several."""
    key = tuple(str(folder.resolve()) for folder in folders)
    return _of_folders.setdefault(key, UserImports(key))


def _shadowed(folders: tuple[str, ...]) -> set[str]:
    """The names of imported modules that Python would look for in these folders first."""
    return {
        name
        for name, module in _top_level()
        if name not in _KEPT and _folder_of(module) not in folders and any(_has(each, name, module) for each in folders)
    }


def _has(folder: str, name: str, module: ModuleType) -> bool:
    """Whether a folder has a module of this name. A folder without `__init__.py` comes after installed packages."""
    whole = os.path.join(folder, name)
    if os.path.isfile(f"{whole}.py") or os.path.isfile(os.path.join(whole, "__init__.py")):
        return True
    return getattr(module, "__file__", None) is None and os.path.isdir(whole)


def _top_level() -> list[tuple[str, ModuleType]]:
    return [(name, module) for name, module in [*sys.modules.items()] if "." not in name and name not in _KEPT]


def _folder_of(module: ModuleType) -> str:
    """The folder on the path that a top-level module was found in; "" for one without files."""
    paths = [*getattr(module, "__path__", ())] or [getattr(module, "__file__", None) or ""]
    return os.path.dirname(os.path.abspath(paths[0])) if paths[0] else ""


def _taken(names: set[str]) -> dict[str, ModuleType]:
    """Takes modules and their submodules out of the process."""
    modules = {name: module for name, module in [*sys.modules.items()] if name.partition(".")[0] in names}
    for name in modules:
        del sys.modules[name]
    return modules
