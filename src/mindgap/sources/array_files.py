"""Reads the arrays of `.npz` files that users give."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array
from mindgap.sources.source import SourceError

_ADVICE: Final = "write it with numpy.savez(FILE, NAME=array)"


def npz_arrays(file: Path, where: str) -> dict[str, Array]:
    """Returns the arrays of a .npz file by their names, in this machine's order of bytes.

    Raises `SourceError`, beginning with `where`, for a file that is none, is damaged, or holds something else.
    """
    if not file.is_file():
        raise SourceError(f"{where}: no such file")
    try:
        # Without the check `np.load` takes other files for pickled objects, and advises to trust them.
        zipfile.ZipFile(file).close()
        archive: Any = np.load(file, allow_pickle=False)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise SourceError(f"{where}: it is no .npz archive, or part of it is missing; {_ADVICE}") from error
    with archive:
        return {name: _array(archive, name, where) for name in archive.files}


def _array(archive: Any, name: str, where: str) -> Array:
    try:
        array: Any = archive[name]
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise SourceError(f"{where}: {name} cannot be read: {error}; {_ADVICE}") from error
    if isinstance(array, bytes):
        raise SourceError(f"{where}: {name} is no array; {_ADVICE}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)
