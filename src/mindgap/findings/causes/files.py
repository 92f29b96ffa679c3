"""Writes and reads `causes.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from mindgap.findings.causes.cause import Cause
from mindgap.graph import MindgapError

#: The name of the file next to the scripts of a reduction.
FILE_NAME: Final = "causes.json"
_VERSION: Final = 1
_CAUSES: Final = TypeAdapter(tuple[Cause, ...])


def causes_text(causes: Sequence[Cause]) -> str:
    """The content of `causes.json`: its version, and the causes in the given order, without what is the default."""
    listed = _CAUSES.dump_python(tuple(causes), mode="json", exclude_defaults=True)
    return json.dumps({"mindgap_causes": _VERSION, "causes": listed}, indent=1, ensure_ascii=False) + "\n"


def read_causes(file: Path) -> tuple[Cause, ...]:
    """The causes in a file. Raises `MindgapError` where it is missing, damaged or of another version."""
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MindgapError(f"no {file}: `mindgap campaign reduce` writes one beside its scripts") from None
    except (OSError, ValueError) as error:
        raise MindgapError(f"{file} cannot be read: {error}") from None
    if not isinstance(data, dict) or data.get("mindgap_causes") != _VERSION:  # pyright: ignore[reportUnknownMemberType] # any JSON
        raise MindgapError(f"{file} holds no causes of version {_VERSION}: reduce the findings again")
    try:
        return _CAUSES.validate_python(data.get("causes"))  # pyright: ignore[reportUnknownMemberType] # any JSON
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MindgapError(f"{file} is damaged at causes.{place}: {first['msg']}") from None
