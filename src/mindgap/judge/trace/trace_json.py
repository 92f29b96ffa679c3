"""Encodes traces and counts of results as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Final, cast

#: Raised when a field changes its meaning or goes.
VERSION: Final = 1


def json_text(found: Any, **derived: Any) -> str:
    """A dataclass as JSON: its fields under their names, `version`, and `derived`. An infinite number is `"inf"`."""
    fields = {"version": VERSION, **derived, **dataclasses.asdict(found)}
    return json.dumps(_finite(fields), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
