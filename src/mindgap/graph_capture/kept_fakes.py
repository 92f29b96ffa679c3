"""Removes what a program's code keeps of its trace beyond its copy: fake tensors in caches, useless to a later run."""

from __future__ import annotations

import functools
import gc
from types import FunctionType
from typing import Any, Final, cast

from mindgap.aten.torch_private.fake_tensors import FakeTensor

_Cache: Final[Any] = type(functools.cache(len))
#: How deep within a container a fake tensor is looked for.
_DEPTH: Final = 3


def forget_fakes() -> bool:
    """Empties the caches of functions (`functools.lru_cache`) that hold fake tensors, and removes these from variables
    of modules and classes, which become None, and from dictionaries and lists there. Returns whether there were any."""
    objects = gc.get_objects()
    holders: list[Any] = [each for each in objects if type(each) is _Cache and _holds_fake(each)]
    for cache in holders:
        cache.cache_clear()
    spaces: dict[int, Any] = {
        id(each.__globals__): (each.__globals__, each.__globals__.__setitem__)
        for each in objects if type(each) is FunctionType
    }  # fmt: skip
    spaces |= {id(each): (vars(each), functools.partial(setattr, each)) for each in objects if type(each) is type}
    for space, put in spaces.values():
        for name, value in [(name, value) for name, value in [*space.items()] if _holds_fake(value)]:
            holders.append(value)
            if isinstance(value, list):
                value[:] = [each for each in cast("list[Any]", value) if not _holds_fake(each)]
            elif isinstance(value, dict):
                for key in [key for key, each in cast("dict[Any, Any]", value).items() if _holds_fake((key, each))]:
                    del value[key]
            else:
                put(name, None)
    return bool(holders)


def _holds_fake(value: Any, depth: int = _DEPTH) -> bool:
    if type(value) is FakeTensor:
        return True
    within = type(value) in (dict, list, tuple, _Cache) and depth > 0
    return within and any(_holds_fake(each, depth - 1) for each in gc.get_referents(value))
