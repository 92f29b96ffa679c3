"""Reads and writes model files: one file with a captured graph, its weights and its inputs, to take to another machine.

A model file is an uncompressed zip archive:

```
model.json                   format, version, name, source; versions of what captured it
graph                        the graph's bytes
tensors/KEY.safetensors      the weights and inputs, as they are in a tensor store
```
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.graph.archive import open_member, opened, read_member, read_object
from mindgap.graph.codec import decode, encode
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Graph
from mindgap.graph.materialisation import stored_keys
from mindgap.graph.tensors import TensorStore

#: How the name of a model file ends.
SUFFIX: Final = ".mindgap"
_FORMAT: Final = "mindgap-model"
_VERSION: Final = 1
_ABOUT: Final = "model.json"
_GRAPH: Final = "graph"


#: What reading a damaged archive raises.
_DAMAGED: Final = (
    OSError, KeyError, ValueError, TypeError, AttributeError, EOFError, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelFile:
    """`name`: of the model. `source`: what it was captured from. `made_by`: versions by package."""

    name: str
    source: str
    graph: Graph
    made_by: Mapping[str, str] = field(default_factory=dict[str, str])


def write_model(path: Path, model: ModelFile, tensors: TensorStore, *, weights: bool = True) -> None:
    """Writes a model file. Without `weights` it holds the graph alone.

    Raises `GraphError` for a tensor that is not in the store, and where the file cannot be written.
    """
    about = {"format": _FORMAT, "version": _VERSION, "name": model.name, "source": model.source}
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_ABOUT, json.dumps({**about, "made_by": dict(model.made_by)}, indent=1))
            archive.writestr(_GRAPH, encode(model.graph))
            for key in stored_keys(model.graph) if weights else ():
                archive.write(tensors.file(key), _member(key))
    except OSError as error:
        raise GraphError(f"{path} cannot be written: {error.strerror}") from None


def read_model(path: Path, tensors: TensorStore) -> ModelFile:
    """Reads a model file and puts its tensors into the store, each checked against its key.

    Raises `GraphError` for a file that is missing, damaged, or no model file, and for one without weights whose tensors
    the store lacks.
    """
    try:
        with opened(path) as archive:
            about = read_object(archive, _ABOUT)
            if (about["format"], about["version"]) != (_FORMAT, _VERSION):
                raise GraphError(
                    f"{path} is a {about['format']} of version {about['version']}: capture the model again"
                )
            graph = decode(read_member(archive, _GRAPH))
            members = set(archive.namelist())
            for key in stored_keys(graph):
                if key in tensors:
                    continue
                if _member(key) not in members:
                    raise GraphError(f"{path} was written without weights, and they are not here: capture it with them")
                with open_member(archive, _member(key)) as content:
                    tensors.adopt(key, lambda file, content=content: shutil.copyfileobj(content, file, 1 << 20))
            made_by = {str(package): str(version) for package, version in about["made_by"].items()}
            return ModelFile(str(about["name"]), str(about["source"]), graph, made_by)
    except _DAMAGED as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise GraphError(f"model file {path} cannot be read: {text}") from None


def _member(key: str) -> str:
    return f"tensors/{key}.safetensors"
