"""Opens datasets with labels: arrays, a folder of images by class, Python objects (`python_datasets`).

An example is read by its number, so that a run goes on where it was cut. Runs in the dataset's own process
(`dataset_worker`), since users' code and decoders of images may end it.
"""

from __future__ import annotations

import operator
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.images import IMAGE_SUFFIXES, InputForm, Pixels, UnreadableExample, fitted, image_array

#: Arrays of a file that are no inputs.
TRUTHS: Final = ("labels", "boxes", "box_labels", "tokens")


@dataclass(frozen=True, slots=True)
class DatasetExample:
    """The inputs of one sample, each without the dimension of the batch, and what is right (`results.Truth`)."""

    inputs: tuple[Array, ...]
    labels: tuple[int, ...]
    boxes: tuple[float, ...] = ()


class EndOfDataset(IndexError):
    """There is no example of this number. An `IndexError` of a user's code or of a library is no end."""


class Dataset(Protocol):
    """Examples by number. classes: names of the labels, empty where they have none. count: None where not known.
    images: its inputs are made of images."""

    task: Task
    classes: tuple[str, ...]
    count: int | None
    images: bool

    def example(self, number: int) -> DatasetExample:
        """Reads an example. Raises `UnreadableExample` for one that is damaged, `EndOfDataset` after the last."""
        ...


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


def whole_label(value: Any) -> int:
    """Returns a label as a whole number. Raises `UnreadableExample` for anything else, such as 2.5, a text or None."""
    try:
        return operator.index(value)
    except TypeError:
        raise UnreadableExample(f"its label is {value!r:.60}: give a whole number") from None


def open_dataset(text: str, forms: Sequence[InputForm], pixels: Pixels, classes: Sequence[str] = ()) -> Dataset:
    """Opens a dataset. `forms`: the model's inputs. `classes`: the model's, by which a folder's names get their labels.

    Raises `MindgapError` for one that is absent, empty or misfits.
    """
    scheme, _, rest = text.partition(":")
    if classes and not Path(text).is_dir():
        raise MindgapError(f"--classes gives the folders of a dataset their labels: {text} is no folder of images")
    path = Path(text)
    if text.endswith(".npz"):
        refuse_pixels(pixels, text)
        return Arrays(path, forms)
    if path.is_dir():
        return ImageFolder(path, forms, pixels, classes)
    if rest:
        from mindgap_studies.task_runs.python_datasets import PythonDataset, opener

        return PythonDataset(text, forms, pixels, opener(scheme, rest, text))
    raise MindgapError(
        f"dataset {text}: there is no such folder; give a folder of images by class, FILE.npz, torchvision:NAME, "
        "hf:FOLDER, or FILE.py:FUNCTION"
    )


def refuse_pixels(pixels: Pixels, dataset: str) -> None:
    """Raises `MindgapError` where pixels are to be normalised, and the dataset has arrays."""
    if pixels.mean or pixels.std:
        raise MindgapError(f"dataset {dataset}: --mean and --std are for images; its arrays are taken as they are")


class Arrays:
    """The arrays of a .npz file: `labels`, and the inputs by the model's names or in their order.

    `boxes` come with `labels`, or with `box_labels` (-1 where an image has fewer boxes). A language model has `tokens`
    [texts, length + 1] alone.
    """

    classes: tuple[str, ...] = ()
    images: bool = False

    def __init__(self, path: Path, forms: Sequence[InputForm]) -> None:
        """Raises `MindgapError` for a file that is none, or does not fit the model's inputs."""
        if not path.is_file():
            raise MindgapError(f"dataset {path}: no such file")
        try:
            held = _arrays_of(path)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise MindgapError(f"dataset {path}: it cannot be read: {error}") from None
        for name, array in held.items():
            if not array.ndim:
                raise MindgapError(f"dataset {path}: {name} is a single value: give one for each sample")
        self._truths = {name: held[name] for name in TRUTHS if name in held}
        self.task: Task = _task_of(path, self._truths)
        self._inputs = self._chosen(path, held, forms)
        self._forms = forms
        self.count: int | None = len(next(iter(self._truths.values())))
        if not self.count:
            raise MindgapError(f"dataset {path}: it is empty: its arrays have no sample")
        for name, array in (
            *self._truths.items(),
            *((form.name, a) for form, a in zip(forms, self._inputs, strict=True)),
        ):
            if len(array) != self.count:
                raise MindgapError(f"dataset {path}: {name} has {len(array)} samples, and the others {self.count}")
        _check_boxes(path, self._truths)
        if self.task == "language":
            return
        if self.task != "detection" and self.count > 1 and len(set(self._truths["labels"].tolist())) == 1:
            raise one_class(str(path), int(self._truths["labels"][0]))
        for form, array in zip(forms, self._inputs, strict=True):
            if array.shape[1:] != form.shape:
                raise MindgapError(
                    f"dataset {path}: its samples are {list(array.shape[1:])}, and the model's input {form.name} takes "
                    f"{list(form.shape)}"
                )

    def _chosen(self, path: Path, held: Mapping[str, Array], forms: Sequence[InputForm]) -> list[Array]:
        if self.task == "language":
            tokens = held["tokens"]
            length = forms[0].shape[0] if forms and forms[0].shape else 0
            if len(forms) != 1 or tokens.ndim != 2 or tokens.shape[1] != length + 1:
                raise MindgapError(
                    f"dataset {path}: tokens is {list(tokens.shape)}, and the model takes texts of {length} tokens: "
                    f"give [texts, {length + 1}], each with the token that follows it"
                )
            return [tokens[:, :-1]]
        others = {name: array for name, array in held.items() if name not in TRUTHS}
        if all(form.name in others for form in forms):
            return [others[form.name] for form in forms]
        if len(others) != len(forms):
            wanted = ", ".join(form.name for form in forms)
            raise MindgapError(
                f"dataset {path}: beside the labels it has {', '.join(others) or 'nothing'}; the model takes {wanted}"
            )
        return list(others.values())

    def example(self, number: int) -> DatasetExample:
        """Reads an example."""
        if not 0 <= number < (self.count or 0):
            raise EndOfDataset(number)
        inputs = tuple(fitted(a[number], form) for a, form in zip(self._inputs, self._forms, strict=True))
        truths = {name: array[number] for name, array in self._truths.items()}
        if self.task == "language":
            return DatasetExample(inputs, tuple(int(each) for each in truths["tokens"][1:]))
        if self.task == "detection":
            there = truths["box_labels"] >= 0
            boxes = truths["boxes"][there].reshape(-1)
            return DatasetExample(inputs, tuple(map(int, truths["box_labels"][there])), tuple(map(float, boxes)))
        boxes = truths["boxes"].reshape(-1) if "boxes" in truths else ()
        return DatasetExample(inputs, (int(truths["labels"]),), tuple(map(float, boxes)))


def _arrays_of(path: Path) -> dict[str, Array]:
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("it is one array: write it with numpy.savez, by name")
    with file:
        return {name: file[name] for name in file.files}


def _check_boxes(path: Path, truths: Mapping[str, Array]) -> None:
    """Raises `MindgapError` for boxes that do not fit the labels."""
    if "boxes" not in truths:
        return
    boxes, labels = truths["boxes"], truths.get("box_labels")
    if labels is None:
        if boxes.ndim not in (2, 3) or boxes.shape[-1] != 4:
            raise MindgapError(f"dataset {path}: boxes is {list(boxes.shape)}: give [N, 4] or [N, K, 4]")
    elif labels.ndim != 2 or labels.dtype.kind not in "iu" or boxes.shape != (*labels.shape, 4):
        raise MindgapError(
            f"dataset {path}: boxes is {list(boxes.shape)} and box_labels {labels.dtype}{list(labels.shape)}: give "
            "[N, K, 4] and whole numbers [N, K]"
        )


def _task_of(path: Path, truths: Mapping[str, Array]) -> Task:
    if "tokens" in truths:
        return "language"
    if "box_labels" in truths:
        if "boxes" not in truths:
            raise MindgapError(f"dataset {path}: it has box_labels and no boxes")
        return "detection"
    if "labels" not in truths:
        raise MindgapError(f"dataset {path}: it has no array `labels` (or `box_labels`, or `tokens`)")
    if truths["labels"].dtype.kind not in "iu" or truths["labels"].ndim != 1:
        given = f"{truths['labels'].dtype}{list(truths['labels'].shape)}"
        raise MindgapError(f"dataset {path}: labels is {given}: give one whole number for each sample")
    return "localisation" if "boxes" in truths else "classification"


class ImageFolder:
    """A folder with a folder of images for each class. Labels are the places of their names in alphabetical order."""

    task: Task = "classification"
    images: bool = True

    def __init__(self, path: Path, forms: Sequence[InputForm], pixels: Pixels, classes: Sequence[str] = ()) -> None:
        """`classes`: the model's, in its order, among which the names of folders are looked up. Raises `MindgapError`
        for a folder without images, of one class, or with an empty class. Names with a dot in front
        (`.ipynb_checkpoints`) do not count."""
        self._form, self._pixels = one_image(path, forms, pixels), pixels
        folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
        self.classes = tuple(classes or (each.name for each in folders))
        if unknown := [each.name for each in folders if each.name not in self.classes]:
            raise MindgapError(f"dataset {path}: the folder {unknown[0]} is none of the classes of --classes")
        self._files = [
            (file, self.classes.index(folder.name))
            for folder in folders
            for file in sorted(folder.rglob("*"))
            if file.suffix.lower() in IMAGE_SUFFIXES
            and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        ]
        self.count: int | None = len(self._files)
        if not self._files:
            raise MindgapError(f"dataset {path}: it is empty: there is no image in a folder of it (CLASS/IMAGE.png)")
        full = {label for _, label in self._files}
        if empty := [each.name for each in folders if self.classes.index(each.name) not in full]:
            raise MindgapError(
                f"dataset {path}: the folder {empty[0]} has no image, and counts as a class: move it away, or fill it"
            )
        if len(full) < 2:
            raise one_class(str(path), self.classes[self._files[0][1]])

    def example(self, number: int) -> DatasetExample:
        """Reads an image."""
        if not 0 <= number < len(self._files):
            raise EndOfDataset(number)
        file, label = self._files[number]
        return DatasetExample((image_array(file, self._form, self._pixels),), (label,))


def one_class(dataset: str, label: object) -> MindgapError:
    """Returns the error of a dataset whose samples all have one label."""
    return MindgapError(f"dataset {dataset}: all of its samples are of one class ({label}): give two classes or more")


def one_image(dataset: object, forms: Sequence[InputForm], pixels: Pixels) -> InputForm:
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
