"""What parsed JSON and other untyped data turn out to be.

`isinstance` would narrow an untyped value to a container of unknowns; these narrow it to a
container of anything, which is what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """A list or a tuple."""
    return isinstance(value, (list, tuple))


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """A list."""
    return isinstance(value, list)


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """A tuple."""
    return isinstance(value, tuple)


def is_table(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """A dictionary; those of parsed data have text keys."""
    return isinstance(value, dict)


def is_slice(value: Any) -> TypeGuard[slice[Any, Any, Any]]:
    """A slice."""
    return isinstance(value, slice)
