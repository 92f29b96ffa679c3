"""Reads datasets of torchvision that are on this machine: images with a label. Nothing is downloaded."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (torchvision is typed in parts)

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from mindgap.graph import MindgapError
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.datasets import Dataset, DatasetExample, EndOfDataset, one_image, whole_label
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample, image_array


def open_torchvision(text: str, forms: Sequence[InputForm], pixels: Pixels) -> Dataset:
    """Opens `NAME?root=DIR&train=false`. It is never downloaded."""
    name, _, given = text.partition("?")
    options: dict[str, Any] = {}
    for option in filter(None, given.split("&")):
        key, _, value = option.partition("=")
        if key == "download" and value != "false":
            raise MindgapError(f"dataset torchvision:{text}: nothing is downloaded: leave out {option}")
        options[key] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
    try:
        kind = getattr(importlib.import_module("torchvision.datasets"), name, None)
    except ImportError:
        raise MindgapError(
            f"dataset torchvision:{text}: torchvision is not installed (pip install 'mindgap[torchvision]')"
        ) from None
    if kind is None:
        raise MindgapError(f"dataset torchvision:{text}: torchvision.datasets has no {name}")
    try:
        made = kind(**options)
    except Exception as error:  # a library's own words about a missing folder or option
        raise MindgapError(f"dataset torchvision:{text}: {' '.join(str(error).split())}") from None
    return Indexed(f"torchvision:{text}", made, forms, pixels)


class Indexed:
    """A dataset with a length whose examples are pairs of an image and a label, as torchvision's are."""

    task: Task = "classification"
    images: bool = True

    def __init__(self, name: str, inner: Any, forms: Sequence[InputForm], pixels: Pixels) -> None:
        """Raises `MindgapError` for one without examples."""
        self._inner, self._form, self._pixels = inner, one_image(name, forms, pixels), pixels
        self.classes = tuple(map(str, getattr(inner, "classes", ())))
        self.count: int | None = len(inner)
        if not self.count:
            raise MindgapError(f"dataset {name}: it is empty")

    def example(self, number: int) -> DatasetExample:
        """Reads an example."""
        if number >= (self.count or 0):
            raise EndOfDataset(number)
        try:
            image, label = self._inner[number]
        except Exception as error:  # the decoder's own words
            raise UnreadableExample(" ".join(str(error).split())) from None
        return DatasetExample((image_array(image, self._form, self._pixels),), (whole_label(label),))
