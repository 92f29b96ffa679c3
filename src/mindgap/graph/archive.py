"""Reads the members of zip archives that may be damaged, or come from elsewhere."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

#: Bytes of a member that is read at once, unpacked.
_MOST: Final = 1 << 30
#: The compressions that mindgap writes.
_KNOWN: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def opened(path: Path) -> Generator[zipfile.ZipFile]:
    """Opens an archive. Raises `zipfile.BadZipFile` for what is no archive, or one that is not mindgap's."""
    try:
        archive = zipfile.ZipFile(path)
    except NotImplementedError as error:
        raise zipfile.BadZipFile(str(error)) from None
    with archive:
        yield archive


def open_member(archive: zipfile.ZipFile, name: str) -> Any:
    """Opens a member for reading. Raises `zipfile.BadZipFile` for one that is encrypted, or packed in another way than
    mindgap does, and `KeyError` for one that is not there."""
    about = archive.getinfo(name)
    if about.flag_bits & 1 or about.compress_type not in _KNOWN:
        raise zipfile.BadZipFile(f"{name} is encrypted, or packed by method {about.compress_type}")
    if about.file_size > _MOST and about.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{name} would be {about.file_size} bytes when it is unpacked")
    try:
        return archive.open(about)
    except (NotImplementedError, RuntimeError) as error:  # of flags in the member's own header
        raise zipfile.BadZipFile(f"{name}: {error}") from None


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Reads a member. Raises what `open_member` raises, and `zipfile.BadZipFile` for damaged content."""
    with open_member(archive, name) as file:
        try:
            return file.read()
        except (zlib.error, EOFError) as error:
            raise zipfile.BadZipFile(f"{name}: {error or 'it ends too early'}") from None


def read_object(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """Reads a member that holds a JSON object. Raises what `read_member` raises, and `ValueError` for other content."""
    try:
        content: Any = json.loads(read_member(archive, name))
    except RecursionError:
        raise ValueError(f"{name} nests too deep") from None
    if not isinstance(content, dict):
        raise ValueError(f"{name} holds no object")
    return cast("dict[str, Any]", content)
