"""Narrows untyped values, such as parsed JSON, to containers of `Any`.

`isinstance` would narrow them to containers of unknown types, which the type checker refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def is_table(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """A dictionary with text keys, as parsed data has."""
    return isinstance(value, dict)


def is_slice(value: Any) -> TypeGuard[slice[Any, Any, Any]]:
    return isinstance(value, slice)
