"""Finds the backend of a platform's name.

Besides registered platforms (`cpu/eager@isa=avx2`), `package.module:attribute[@key=value,…]` names a
backend by where it is: one in the making, before it has an entry point.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Final

from mindgap.platforms.protocol import Backend, PlatformError

_BY_PLACE: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(?:@(.*))?")


def find_backend(text: str) -> tuple[Backend, Mapping[str, str]]:
    """Returns the backend and the options of a platform's name. Raises `PlatformError`."""
    found = _BY_PLACE.fullmatch(text)
    if found is None:
        from mindgap.platforms import registry

        return registry.find(text)
    module, attribute, options = found.groups()
    try:
        backend: Backend = importlib.import_module(module)  # pyright: ignore[reportAssignmentType] # walked below
        for part in attribute.split("."):
            backend = getattr(backend, part)
    except (ImportError, AttributeError) as error:
        raise PlatformError(f"platform {text!r}: {error}; is its module on PYTHONPATH?") from error
    return backend, _options(text, options or "")


def _options(text: str, options: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in filter(None, options.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise PlatformError(f"platform {text!r}: option {item!r} is not key=value")
        found[key.strip()] = value.strip()
    return found
