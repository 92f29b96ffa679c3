"""Opens `pt2:FILE`: a program saved by `torch.export.save`.

Loading reads JSON (the graph) and tensors. PyTorch's loader also unpickles the members that an archive declares as
pickled, and a pickle can run code. Each pickled member must therefore first load with `weights_only=True`, which
builds tensors and nothing else. Archives with other pickled objects are refused.
"""

from __future__ import annotations

import functools
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch

from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, one_line, source_options


def open_pt2(source: Source) -> list[Program]:
    """Returns one program. Raises `SourceError` if the file does not exist or is no such archive."""
    source_options(source)
    path = Path(source.target)
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise SourceError(f"{path}: not an exported program (no zip archive); write it with torch.export.save")
    return [Program(path.stem, source.text, functools.partial(_build, path))]


def _build(path: Path) -> Built:
    _refuse_pickled_code(path)
    try:
        exported = torch.export.load(str(path))
        module = exported.module()
    except Exception as error:
        raise SourceError(f"{path}: torch.export.load raised {one_line(error)}") from error
    examples: Any = exported.example_inputs
    if examples is None:
        raise SourceError(f"{path}: it holds no example inputs; export it with the arguments and save it again")
    args, kwargs = examples
    return Built(module, tuple(args), dict(kwargs))


def _refuse_pickled_code(path: Path) -> None:
    """Raises `SourceError` if loading the archive could run code."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            leaf = name.rpartition("/")[2]
            if leaf.startswith(("custom_obj_", "opaque_obj_")):
                raise SourceError(f"{path}: {name} is a pickled object, which could run code when it is loaded")
            if _may_be_pickled(archive, name):
                _check_tensors_only(path, name, archive.read(name))


def _may_be_pickled(archive: zipfile.ZipFile, name: str) -> bool:
    """Whether a member is a zip archive itself (as `torch.save` writes) or starts as a pickle does."""
    if name.endswith(".json"):
        return False
    with archive.open(name) as member:
        start = member.read(4)
    return start[:2] in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05") or name.endswith((".pt", ".pkl"))


def _check_tensors_only(path: Path, name: str, data: bytes) -> None:
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:
        if not _holds_raw_bytes(path, name):
            raise SourceError(f"{path}: {name} holds more than tensors ({one_line(error)}); not loaded") from error


def _holds_raw_bytes(path: Path, name: str) -> bool:
    """Whether the archive's table declares this member as a tensor's raw bytes, which the loader does not unpickle."""
    leaf = name.rpartition("/")[2]
    with zipfile.ZipFile(path) as archive:
        for table in archive.namelist():
            if table.endswith("_config.json"):
                config: dict[str, Any] = json.loads(archive.read(table)).get("config", {})
                entries = [entry for entry in config.values() if entry.get("path_name") == leaf]
                if entries:
                    return not any(entry.get("use_pickle") for entry in entries)
    return False
