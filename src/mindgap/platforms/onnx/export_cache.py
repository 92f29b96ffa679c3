"""Shares exported ONNX models between the workers of different platforms, through files.

An export takes longer than a runtime needs to load it. `$MINDGAP_SHARED` names a directory that lives as long as the
workers. Without one, every worker exports for itself. A file is one line of JSON, then the model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph, digest
from mindgap.platforms.onnx.export import FED, Exported, export, weight_bytes
from mindgap.platforms.onnx.fx_program import OPSET
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported

#: Larger models are rare. They are exported again.
_MOST_BYTES: Final = 8 << 20
#: How many files are kept. When there are more, the oldest quarter is deleted.
_MOST_FILES: Final = 400

#: A model, or the refusal or failure that its export raised.
_Found = Exported | Unsupported | CompileFailure


def shared_export(graph: Graph, inputs: Sequence[Array], apart: bool = False, opset: int = OPSET) -> Exported:
    """Returns or raises what `export` does, read from the shared directory if it is there."""
    where = os.environ.get("MINDGAP_SHARED")
    if not where or weight_bytes(graph) > _MOST_BYTES:
        return export(graph, inputs, apart=apart, opset=opset)
    file = Path(where) / _key(graph, inputs, opset)
    exported = _read(file)
    if exported is None:
        exported = _tried(graph, inputs, opset)
        if not isinstance(exported, Exported) or len(exported.model) <= _MOST_BYTES:
            _write(file, exported)
    if isinstance(exported, Exported):
        return exported
    raise exported


def _tried(graph: Graph, inputs: Sequence[Array], opset: int) -> _Found:
    try:
        return export(graph, inputs, opset=opset)
    except (Unsupported, CompileFailure) as error:
        return error


def _key(graph: Graph, inputs: Sequence[Array], opset: int) -> str:
    """Hashes the graph, the values that become part of the model, and the operator set."""
    hashed = hashlib.sha256(f"{digest(graph)} {opset}".encode())
    for given, array in zip(graph.inputs, inputs, strict=True):
        if given.role not in FED:
            hashed.update(array.tobytes())
    return hashed.hexdigest() + ".export"


def _encode(export: _Found) -> bytes:
    header: dict[str, Any]
    match export:
        case Unsupported():
            header, model = {"refused": [export.op, export.why, export.also]}, b""
        case CompileFailure():
            header, model = {"failed": [str(export), export.op]}, b""
        case Exported():
            header = {
                "inputs": export.inputs, "fed": export.fed, "outputs": export.outputs, "origin": dict(export.origin),
                "facts": export.facts,
            }  # fmt: skip
            model = export.model
    return json.dumps(header).encode() + b"\n" + model


def _decode(data: bytes) -> _Found:
    """Raises `ValueError` or `KeyError` for a file of another form."""
    line, _, model = data.partition(b"\n")
    header: dict[str, Any] = json.loads(line)
    if "refused" in header:
        return Unsupported(*header["refused"])
    if "failed" in header:
        return CompileFailure(*header["failed"])
    return Exported(
        model, tuple(header["inputs"]), tuple(header["fed"]), tuple(header["outputs"]), header["origin"],
        header["facts"],
    )  # fmt: skip


def _read(file: Path) -> _Found | None:
    try:
        return _decode(file.read_bytes())
    except (OSError, ValueError, KeyError):
        return None


def _write(file: Path, export: _Found) -> None:
    """Writes a file. If the directory is full or gone, the other workers export for themselves."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_bytes(_encode(export))
        temporary.replace(file)
        written = [entry for entry in os.scandir(file.parent) if entry.name.endswith(".export")]
        if len(written) > _MOST_FILES:
            written.sort(key=lambda entry: entry.stat().st_mtime_ns)
            for entry in written[: len(written) // 4]:
                os.unlink(entry)
