"""Finds the backend of a platform's name.

Besides registered platforms (`cpu/eager@isa=avx2`), `package.module:attribute[@key=value,…]` names a
backend by where it is: one in the making, before it has an entry point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from mindgap.platforms.elsewhere import BackendElsewhere
from mindgap.platforms.environments import find as find_environment
from mindgap.platforms.inside import backend_at
from mindgap.platforms.protocol import Backend, Batching, PlatformError

_BY_PLACE: Final = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)(?:@(.*))?")


def find_backend(text: str) -> tuple[Backend, Mapping[str, str]]:
    """Returns the backend and the options of a platform's name. Raises `PlatformError`."""
    from mindgap.platforms import registry

    found = _BY_PLACE.fullmatch(text)
    if found is None:
        return registry.find(text)
    place, listed = found.groups()
    options = _options(text, listed or "")
    environment = options.pop(registry.ENVIRONMENT, "")
    try:
        backend = backend_at(place)
    except PlatformError as error:
        raise PlatformError(f"platform {text!r}: {error}") from error
    if environment:
        backend = BackendElsewhere(backend, place, find_environment(environment))
    return backend, options


def batch_of(text: str) -> int:
    """Returns how many small graphs the platform is best given together; 1 if it loads them one by one.

    Raises `PlatformError`, also for a backend whose `batch` is no positive integer.
    """
    backend, _ = find_backend(text)
    if isinstance(backend, BackendElsewhere):
        backend = backend.backend
    if not isinstance(backend, Batching):
        return 1
    size = cast("object", backend.batch)
    if not isinstance(size, int) or size < 1:
        raise PlatformError(f"platform {text!r}: its backend's `batch` is {size!r}, not a positive integer")
    return size


def backend_inside(text: str, place: str) -> tuple[Backend, Mapping[str, str]]:
    """Returns the same in a process of the platform's environment, where its backend is at a place."""
    options = _options(text, text.partition("@")[2])
    options.pop("env", None)
    return backend_at(place), options


def _options(text: str, options: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in filter(None, options.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise PlatformError(f"platform {text!r}: option {item!r} is not key=value")
        found[key.strip()] = value.strip()
    return found
