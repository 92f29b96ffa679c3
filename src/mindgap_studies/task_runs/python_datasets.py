"""Reads datasets that are Python objects: a user's iterable or indexed dataset, torchvision's, Hugging Face's."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (libraries of datasets are typed in parts)

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.datasets import DatasetExample, EndOfDataset, one_image, refuse_pixels, whole_label
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample, fitted, image_array

_IMAGES: Final = ("image", "img")
_LABELS: Final = ("label", "labels")


class PythonDataset:
    """The examples of an iterable, or of an object with a length that is indexed.

    An example is a pair of inputs and what is right, or a mapping with a label and an image or inputs by name. Reading
    an earlier example of an iterable begins again. One of an indexed object that cannot be read ends nothing.
    """

    def __init__(self, name: str, forms: Sequence[InputForm], pixels: Pixels, make: Callable[[], Any]) -> None:
        """`make`: returns the object. Raises `MindgapError` for one that is empty, or has something else."""
        self._name, self._forms, self._pixels, self._make = name, forms, pixels, make
        made = self._of_user(make)
        indexed = hasattr(made, "__len__") and hasattr(made, "__getitem__") and not isinstance(made, Mapping)
        self._indexed: Any = made if indexed else None
        self._iterator: Iterator[Any] | None = None if indexed else iter(made)
        self._next = 0
        #: The example that was read last, with its number.
        self._last: tuple[int, Any] | None = None
        self.count: int | None = len(made) if indexed else None
        inputs, target = self._first()
        self.images = _is_image(inputs)
        if self.images:
            one_image(name, forms, pixels)
        else:
            refuse_pixels(pixels, name)
        self.task: Task = _task_of_target(name, target)
        self.classes = _classes(made)

    def _first(self) -> tuple[Any, Any]:
        for number in range(self.count or 1):
            try:
                return self._pair(number)
            except UnreadableExample:
                continue
            except EndOfDataset:
                break
        raise MindgapError(f"dataset {self._name}: it is empty: it has no example that can be read")

    def example(self, number: int) -> DatasetExample:
        """Reads an example; of an iterable, past those that lie before it."""
        inputs, target = self._pair(number)
        if _is_image(inputs):
            arrays: tuple[Array, ...] = (
                image_array(inputs, one_image(self._name, self._forms, self._pixels), self._pixels),
            )
        else:
            given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
            if len(given) != len(self._forms):
                raise UnreadableExample(f"it has {len(given)} inputs, and the model {len(self._forms)}")
            arrays = tuple(fitted(_array(one), form) for one, form in zip(given, self._forms, strict=True))
        if isinstance(target, Mapping):
            boxes = _array(target["boxes"]).astype(np.float64).reshape(-1)
            labels = _array(target["labels"] if "labels" in target else target["label"]).reshape(-1)
            return DatasetExample(arrays, tuple(map(whole_label, labels)), tuple(map(float, boxes)))
        return DatasetExample(arrays, tuple(map(whole_label, _array(target).reshape(-1))))

    def skip(self, number: int) -> None:
        """Reads up to an example, so that a long way takes several requests. Raises `EndOfDataset` behind the last."""
        if self._indexed is None:
            self._pair(number)

    def _pair(self, number: int) -> tuple[Any, Any]:
        if self._last is None or self._last[0] != number:
            self._last = number, self._read(number)
        one = self._last[1]
        if isinstance(one, Mapping):
            return self._named(one)
        if not isinstance(one, (tuple, list)) or len(one) != 2:
            raise MindgapError(
                f"dataset {self._name}: example {number} is a {type(one).__name__}: yield (inputs, label)"
            )
        return one[0], one[1]

    def _named(self, one: Mapping[Any, Any]) -> tuple[Any, Any]:
        label = next((name for name in _LABELS if name in one), None)
        image = next((name for name in _IMAGES if name in one), None)
        if label is None or (image is None and not all(form.name in one for form in self._forms)):
            wanted = " and ".join(form.name for form in self._forms)
            raise MindgapError(
                f"dataset {self._name}: an example has {', '.join(map(str, one))}; it needs `label`, and `image` or "
                f"the model's {wanted}"
            )
        return (one[image] if image else tuple(one[form.name] for form in self._forms)), one[label]

    def _read(self, number: int) -> Any:
        if self._indexed is not None:
            if not 0 <= number < (self.count or 0):
                raise EndOfDataset(number)
            try:
                return self._indexed[number]
            except Exception as error:  # the decoder's own words
                raise UnreadableExample(f"{type(error).__name__}: {' '.join(str(error).split())}") from None
        iterator = self._iterator
        if iterator is None or number < self._next:
            iterator, self._next = self._of_user(lambda: iter(self._make())), 0
        self._iterator = iterator
        end = object()
        while True:
            one = self._of_user(lambda: next(iterator, end))
            if one is end:
                raise EndOfDataset(number)
            self._next += 1
            if self._next > number:
                return one

    def _of_user(self, call: Callable[[], Any]) -> Any:
        """Calls the user's code. Raises `MindgapError` with its line for what it raises."""
        try:
            return call()
        except MindgapError:
            raise
        except (Exception, SystemExit) as error:
            from mindgap.models.capture.origin import user_line_of

            line = user_line_of(error.__traceback__)
            raise MindgapError(
                f"dataset {self._name}: it raised {type(error).__name__}: {' '.join(str(error).split())}"
                f"{f' ({line})' if line else ''}"
            ) from None


def opener(scheme: str, rest: str, text: str) -> Callable[[], Any]:
    """Returns what opens `torchvision:…`, `hf:FOLDER`, FILE.py:FUNCTION, or package.module:FUNCTION."""
    if scheme == "torchvision":
        return lambda: _torchvision_dataset(rest)
    if scheme == "hf":
        return lambda: _saved_dataset(rest)
    from mindgap.models.corpus.files.user_code import load_callable

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
        splits = list(map(str, found))
        raise MindgapError(f"dataset hf:{folder}: it has several splits: name one, as in hf:{Path(folder, splits[-1])}")
    return found


def _library(dataset: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MindgapError(f"dataset {dataset}: {package} is not installed (pip install {package})") from None


def _classes(made: Any) -> tuple[str, ...]:
    """Names of the labels: torchvision's attribute, or of the feature of Hugging Face's."""
    features = getattr(made, "features", None)
    if isinstance(features, Mapping):
        return tuple(map(str, next((getattr(features[name], "names", ()) for name in _LABELS if name in features), ())))
    classes = getattr(made, "classes", ())
    return tuple(map(str, classes)) if isinstance(classes, (tuple, list)) else ()


def _is_image(value: Any) -> bool:
    """Whether this is Pillow's image."""
    return hasattr(value, "convert") and hasattr(value, "resize") and hasattr(value, "mode")


def _task_of_target(name: str, target: Any) -> Task:
    if isinstance(target, Mapping):
        if "boxes" in target and ("label" in target or "labels" in target):
            return "localisation" if "label" in target else "detection"
        raise MindgapError(
            f"dataset {name}: a truth with {', '.join(map(str, target))}: give boxes, and label or labels"
        )
    array = _array(target)
    if array.dtype.kind not in "iu":
        raise MindgapError(f"dataset {name}: a label is {array.dtype}{list(array.shape)}: give a whole number")
    return "classification" if array.ndim == 0 else "language"


def _array(value: Any) -> Array:
    """Converts a tensor, an array or a number."""
    detached = value.detach().cpu().numpy() if hasattr(value, "detach") else value
    return np.asarray(detached)
