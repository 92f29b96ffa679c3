"""Opens datasets with labels: arrays, a folder of images by class, libraries' datasets, a user's function.

An example is read by its number, so that a run goes on where it was cut. Runs in the dataset's own process
(`dataset_worker`), since users' code and decoders of images may end it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (libraries of datasets are typed in parts)

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from mindgap.graph import Array, MindgapError
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.dataset_files import Arrays, ImageFolder
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample, fitted, image_array
from mindgap_studies.task_runs.library_datasets import opener

_IMAGES: Final = ("image", "img")
_LABELS: Final = ("label", "labels")


@dataclass(frozen=True, slots=True)
class DatasetExample:
    """The inputs of one sample, each without the dimension of the batch, and what is right (`results.Truth`)."""

    inputs: tuple[Array, ...]
    labels: tuple[int, ...]
    boxes: tuple[float, ...] = ()


class EndOfDataset(IndexError):
    """There is no example of this number. An `IndexError` of a user's code or of a library is no end."""


def open_dataset(text: str, forms: Sequence[InputForm], pixels: Pixels, classes: Sequence[str] = ()) -> Dataset:
    """Opens a dataset. `forms`: the model's inputs. `classes`: the model's, by which a folder's names get their labels.

    Raises `MindgapError` for one that is absent, empty or misfits.
    """
    scheme, _, rest = text.partition(":")
    if classes and not Path(text).is_dir():
        raise MindgapError(f"--classes gives the folders of a dataset their labels: {text} is no folder of images")
    path = Path(text)
    if text.endswith(".npz"):
        return Dataset(text, forms, pixels, lambda: Arrays(path, forms))
    if path.is_dir():
        _one_image(text, forms, pixels)
        return Dataset(text, forms, pixels, lambda: ImageFolder(path, classes))
    if rest:
        return Dataset(text, forms, pixels, opener(scheme, rest, text))
    raise MindgapError(
        f"dataset {text}: there is no such folder; give a folder of images by class, FILE.npz, torchvision:NAME, "
        "hf:FOLDER, or FILE.py:FUNCTION"
    )


def read_example(dataset: Dataset, number: int) -> DatasetExample:
    """Reads an example, and checks that its truth is one of the task.

    Raises `UnreadableExample` for one that is damaged or whose truth is none, whatever a library raises for it;
    `EndOfDataset` after the last; `MindgapError` where the dataset itself fails.
    """
    try:
        example = dataset.example(number)
    except (EndOfDataset, MindgapError):
        raise
    except Exception as error:  # decoders and users' arrays raise anything
        raise UnreadableExample(f"{type(error).__name__}: {' '.join(str(error).split())}") from None
    labels, boxes = len(example.labels), len(example.boxes)
    if dataset.task in ("classification", "localisation") and labels != 1:
        raise UnreadableExample(f"it has {labels} labels: give one")
    if dataset.task == "detection" and boxes != 4 * labels:
        raise UnreadableExample(f"it has {labels} labels and {boxes} sides of boxes: give 4 for each label")
    if dataset.task == "localisation" and (not boxes or boxes % 4):
        raise UnreadableExample(f"it has {boxes} sides of boxes: give 4 for each box")
    return example


class Dataset:
    """The examples of an iterable, or of an object with a length that is indexed, by number.

    classes: names of the labels, empty where they have none. count: None where not known. images: its inputs are made
    of images.

    An example is a pair of inputs and what is right, or a mapping with a label and an image or inputs by name. Reading
    an earlier example of an iterable begins again. One of an indexed object that cannot be read ends nothing.
    """

    def __init__(self, name: str, forms: Sequence[InputForm], pixels: Pixels, make: Callable[[], Any]) -> None:
        """`make`: returns the object. Raises `MindgapError` for one that is empty, or has something else."""
        self._name, self._forms, self._pixels, self._make = name, forms, pixels, make
        made = self._of_user(make)
        indexed = hasattr(made, "__len__") and hasattr(made, "__getitem__") and not isinstance(made, Mapping)
        self._indexed: Any = made if indexed else None
        self._iterator: Iterator[Any] | None = None if indexed else self._of_user(partial(iter, made))
        self._next = 0
        #: The example that was read last, with its number.
        self._last: tuple[int, Any] | None = None
        self.count: int | None = len(made) if indexed else None
        inputs, target = self._first()
        self.images = _is_image(inputs)
        if self.images:
            _one_image(name, forms, pixels)
        elif pixels.mean or pixels.std:
            raise MindgapError(f"dataset {name}: --mean and --std are for images; its arrays are taken as they are")
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
            form = _one_image(self._name, self._forms, self._pixels)
            arrays: tuple[Array, ...] = (image_array(inputs, form, self._pixels),)
        else:
            given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
            if len(given) != len(self._forms):
                raise UnreadableExample(f"it has {len(given)} inputs, and the model {len(self._forms)}")
            arrays = tuple(fitted(_array(one), form) for one, form in zip(given, self._forms, strict=True))
        if isinstance(target, Mapping):
            boxes = _array(target["boxes"]).astype(np.float64).reshape(-1)
            labels = _array(target["labels"] if "labels" in target else target["label"]).reshape(-1)
            return DatasetExample(arrays, tuple(map(_whole_label, labels)), tuple(map(float, boxes)))
        return DatasetExample(arrays, tuple(map(_whole_label, _array(target).reshape(-1))))

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
            iterator, self._next = iter(self._of_user(self._make)), 0
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
            from mindgap.graph_capture.origin import user_line_of

            line = user_line_of(error.__traceback__)
            raise MindgapError(
                f"dataset {self._name}: it raised {type(error).__name__}: {' '.join(str(error).split())}"
                f"{f' ({line})' if line else ''}"
            ) from None


def _whole_label(value: Any) -> int:
    """Returns a label as a whole number. Raises `UnreadableExample` for anything else, such as 2.5, a text or None."""
    try:
        return operator.index(value)
    except TypeError:
        raise UnreadableExample(f"its label is {value!r:.60}: give a whole number") from None


def _classes(made: Any) -> tuple[str, ...]:
    """Names of the labels: torchvision's attribute, or of the feature of Hugging Face's."""
    features = getattr(made, "features", None)
    if isinstance(features, Mapping):
        return tuple(map(str, next((getattr(features[name], "names", ()) for name in _LABELS if name in features), ())))
    classes = getattr(made, "classes", ())
    return tuple(map(str, classes)) if isinstance(classes, (tuple, list)) else ()


def _is_image(value: Any) -> bool:
    """Whether this is an image of Pillow, or the file of one."""
    return isinstance(value, (Path, Image.Image))


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
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def _one_image(dataset: object, forms: Sequence[InputForm], pixels: Pixels) -> InputForm:
    """Returns the model's only input, which takes images. Raises `MindgapError` where it has others.

    An input of whole numbers takes the bytes of pixels, and no mean or standard deviation.
    """
    if len(forms) != 1 or len(forms[0].shape) != 3:
        given = ", ".join(f"{form.name} {list(form.shape)}" for form in forms)
        raise MindgapError(
            f"dataset {dataset}: it has images, and the model takes {given}: it needs one input [channels, height, "
            "width]"
        )
    if np.dtype(forms[0].dtype).kind in "iu" and (pixels.mean or pixels.std):
        raise MindgapError(
            f"dataset {dataset}: --mean and --std are for inputs of floats, and {forms[0].name} is {forms[0].dtype}"
        )
    return forms[0]
