"""ONNX models that the worker of one platform has written, for those of the others: all take the same model.

Writing a model takes longer than a runtime needs to take it in. `$MINDGAP_SHARED` names a directory that lives as long
as the workers; without one every worker writes its own.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph, digest
from mindgap.platforms.onnx.export import FED, Exported, export
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported

#: Larger models are few, and written again.
_MOST_BYTES: Final = 8 << 20
#: How many are kept; when there are more, the oldest quarter goes.
_MOST_FILES: Final = 400


def shared_export(graph: Graph, inputs: Sequence[Array]) -> Exported:
    """What `export` gives or raises, from the directory where it is there."""
    where = os.environ.get("MINDGAP_SHARED")
    if not where:
        return export(graph, inputs)
    file = Path(where) / _key(graph, inputs)
    found = _read(file)
    if found is None:
        found = _tried(graph, inputs)
        if not isinstance(found, Exported) or len(found.model) <= _MOST_BYTES:
            _write(file, found)
    if isinstance(found, Exported):
        return found
    refused, *arguments = found
    raise Unsupported(*arguments) if refused else CompileFailure(*arguments)


def _tried(graph: Graph, inputs: Sequence[Array]) -> Exported | tuple[bool, str, str]:
    """The model; else whether it was a refusal, and the two arguments of the exception."""
    try:
        return export(graph, inputs)
    except Unsupported as error:
        return True, error.op, error.why
    except CompileFailure as error:
        return False, str(error), error.op


def _key(graph: Graph, inputs: Sequence[Array]) -> str:
    """The graph, and the values that become part of the model."""
    told = hashlib.sha256(digest(graph).encode())
    for given, array in zip(graph.inputs, inputs, strict=True):
        if given.role not in FED:
            told.update(array.tobytes())
    return told.hexdigest() + ".export"


def _read(file: Path) -> Any:
    try:
        return pickle.loads(file.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return None


def _write(file: Path, found: object) -> None:
    """A directory that is full or gone costs nothing but time."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        beside.write_bytes(pickle.dumps(found))
        beside.replace(file)
        written = [entry for entry in os.scandir(file.parent) if entry.name.endswith(".export")]
        if len(written) > _MOST_FILES:
            written.sort(key=lambda entry: entry.stat().st_mtime_ns)
            for entry in written[: len(written) // 4]:
                os.unlink(entry)
