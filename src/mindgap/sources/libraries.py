"""Imports model libraries on demand, offline, without their console output."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from mindgap.sources.source import SourceError

#: Operators whose fake versions torchvision registers on import, which fails where its compiled half did not load.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def declare_operators() -> None:
    """Makes `import torchvision` work with a PyTorch that its compiled part was not built for.

    The published wheel expects a CUDA build of PyTorch. Its models are plain Python, but the schemas of two operators
    must exist on import. If the compiled part loads, or torchvision is not installed or imported already, nothing is
    declared.
    """
    if _declared or "torchvision" in sys.modules:
        return
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for compiled in Path(folder).glob("_C*.so"):
            try:
                torch.ops.load_library(str(compiled))  # pyright: ignore[reportUnknownMemberType] # untyped
            except OSError:
                continue
            return
        _declare_schemas()


def _declare_schemas() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            library.define(schema)  # pyright: ignore[reportUnknownMemberType] # untyped
    _declared.append(library)


def stay_offline() -> None:
    """Sets the environment variables that keep hub clients off the network. Call before they are imported."""
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(variable, "1")


def import_library(module: str, who: str, extra: str) -> Any:
    """Imports a module of a library, offline.

    Raises `SourceError` if it is not installed. `who`: the library's name in the message; `extra`: mindgap's extra
    that installs it.
    """
    stay_offline()
    try:
        declare_operators()
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceError(f"{who} is not installed ({error}); pip install 'mindgap[{extra}]'") from error


@contextlib.contextmanager
def silence_output() -> Generator[None]:
    """Discards standard output and error inside the block: libraries print advice about training."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
