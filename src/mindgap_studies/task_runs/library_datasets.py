"""Opens datasets of torchvision and of Hugging Face's `datasets` by these libraries, and a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from mindgap.graph import MindgapError


def opener(scheme: str, rest: str, text: str) -> Callable[[], Any]:
    """Returns what opens `torchvision:…`, `hf:FOLDER`, FILE.py:FUNCTION, or package.module:FUNCTION."""
    if scheme == "torchvision":
        return lambda: _torchvision_dataset(rest)
    if scheme == "hf":
        return lambda: _saved_dataset(rest)
    from mindgap.sources.files.user_code import load_callable

    return load_callable(text)


def _torchvision_dataset(text: str) -> Any:
    """Opens `NAME?root=DIR&train=false` of torchvision. Raises `MindgapError`; nothing is downloaded."""
    name, _, given = text.partition("?")
    options: dict[str, Any] = {}
    for option in filter(None, given.split("&")):
        key, _, value = option.partition("=")
        if key == "download" and value != "false":
            raise MindgapError(f"dataset torchvision:{text}: nothing is downloaded: leave out {option}")
        options[key] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
    kind = getattr(_library(f"torchvision:{text}", "torchvision.datasets"), name, None)
    if kind is None:
        raise MindgapError(f"dataset torchvision:{text}: torchvision.datasets has no {name}")
    return kind(**options)


def _saved_dataset(folder: str) -> Any:
    """Opens what `save_to_disk` of `datasets` wrote. Raises `MindgapError` where it has several splits."""
    found = _library(f"hf:{folder}", "datasets").load_from_disk(folder)
    if isinstance(found, Mapping):
        splits = list(map(str, cast("Mapping[Any, Any]", found)))
        raise MindgapError(f"dataset hf:{folder}: it has several splits: name one, as in hf:{Path(folder, splits[-1])}")
    return found


def _library(dataset: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MindgapError(f"dataset {dataset}: {package} is not installed (pip install {package})") from None
