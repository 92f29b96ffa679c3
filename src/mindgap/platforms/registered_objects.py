"""Loads the objects that packages register in an entry-point group."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TypeVar

from mindgap.platforms.registry import distribution_name

Kind = TypeVar("Kind")


def registered_objects(group: str, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """Yields the names and objects of a group, those of mindgap first.

    Warns of an entry point that cannot be loaded or has no object of the kind, and leaves it out.
    """
    for point in sorted(entry_points(group=group), key=lambda point: distribution_name(point) != "mindgap"):
        try:
            each = point.load()
        except (ImportError, AttributeError) as error:
            first = f"{str(error).strip()}\n".splitlines()[0]
            warnings.warn(f"{group} {point.name}: {point.value} cannot be loaded ({first})", stacklevel=3)
            continue
        if isinstance(each, kind):
            yield point.name, each
        else:
            warnings.warn(f"{group} {point.name}: {point.value} is no {kind.__module__}.{kind.__name__}", stacklevel=3)
