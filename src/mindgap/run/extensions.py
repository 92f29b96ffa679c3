"""Finds what other packages add to mindgap, by entry point: commands, and services of one package for another.

A package of mindgap may be there without the libraries that it needs: what is missing is named with the extra that
brings it.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from mindgap.graph import MindgapError

#: The group of commands. Name: the command's. Object: a function for Typer, or a `typer.Typer` with commands.
COMMANDS: Final = "mindgap.commands"
#: The group of objects that a package uses of one that it does not import.
SERVICES: Final = "mindgap.services"


def commands() -> list[EntryPoint]:
    """Returns the entry points of commands, sorted by name."""
    return sorted(entry_points(group=COMMANDS), key=lambda point: point.name)


def service(name: str) -> Any:
    """Returns the object of a service. Raises `MindgapError` where no package has it, or a library is missing."""
    points = [*entry_points(group=SERVICES, name=name)]
    if not points:
        raise MindgapError(f"no installed package of mindgap has {name!r}: install mindgap again")
    return loaded(points[0])


def loaded(point: EntryPoint) -> Any:
    """Loads the object of an entry point. Raises `MindgapError` where a library is missing."""
    try:
        return point.load()
    except ModuleNotFoundError as error:
        package = point.module.partition(".")[0]
        if not package.startswith("mindgap") or (error.name or "").partition(".")[0].startswith("mindgap"):
            raise
        extra = package.removeprefix("mindgap").strip("_")
        needs = f"pip install 'mindgap[{extra}]'" if extra else "pip install mindgap"
        raise MindgapError(f"{point.name} needs {error.name}, which is not installed: {needs}") from None
