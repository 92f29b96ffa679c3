"""The libraries that models come from: imported when a source asks for them, offline and quiet."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Generator
from typing import Any

import torch

from mindgap.corpus.source import SourceError

#: Operators whose fake versions torchvision registers on import, which fails where its compiled half did not load.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def declare_operators() -> None:
    """Make `import torchvision` work beside a PyTorch that its compiled half was not built for.

    The published wheel expects a CUDA build. Its models are plain Python all the same; only the
    schemas of two operators must exist when it is imported. Where the compiled half loads, nothing
    is declared.
    """
    if _declared:
        return
    try:
        import torchvision  # noqa: F401  # pyright: ignore[reportUnusedImport] # the import is the test
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in _SCHEMAS:
            if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
                library.define(schema)  # pyright: ignore[reportUnknownMemberType] # untyped
        _declared.append(library)


def stay_offline() -> None:
    """Tell the hub clients, before they are imported, that they may not reach the network."""
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(variable, "1")


def import_library(module: str, who: str, extra: str) -> Any:
    """A module of a library, which may not reach the network.

    Raises `SourceError` where it is not installed: `who` begins the message, `extra` is what of mindgap's installs it.
    """
    stay_offline()
    try:
        # Where torchvision is not there, most libraries go without, and the others say so.
        with contextlib.suppress(ImportError):
            declare_operators()
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceError(f"{who} is not installed ({error}); pip install 'mindgap[{extra}]'") from error


@contextlib.contextmanager
def silence_output() -> Generator[None]:
    """Zoo code prints advice to whoever trains; nobody here does."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
