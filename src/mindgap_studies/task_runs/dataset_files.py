"""Reads datasets of files: the arrays of a .npz file, and a folder of images by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Array, MindgapError
from mindgap.sources.array_files import npz_arrays
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.images import IMAGE_SUFFIXES, InputForm

#: Arrays of a file that are no inputs.
TRUTHS: Final = ("labels", "boxes", "box_labels", "tokens")


class Arrays:
    """The arrays of a .npz file: `labels`, and the inputs by the model's names or in their order.

    `boxes` come with `labels`, or with `box_labels` (-1 where an image has fewer boxes). A language model has `tokens`
    [texts, length + 1] alone.
    """

    def __init__(self, path: Path, forms: Sequence[InputForm]) -> None:
        """Raises `MindgapError` for a file that is none, or does not fit the model's inputs."""
        held = npz_arrays(path, f"dataset {path}")
        for name, array in held.items():
            if not array.ndim:
                raise MindgapError(f"dataset {path}: {name} is a single value: give one for each sample")
        self._truths = {name: held[name] for name in TRUTHS if name in held}
        self.task: Task = _task_of(path, self._truths)
        self._inputs = self._chosen(path, held, forms)
        self._count = len(next(iter(self._truths.values())))
        if not self._count:
            raise MindgapError(f"dataset {path}: it is empty: its arrays have no sample")
        inputs = ((form.name, array) for form, array in zip(forms, self._inputs, strict=True))
        for name, array in (*self._truths.items(), *inputs):
            if len(array) != self._count:
                raise MindgapError(f"dataset {path}: {name} has {len(array)} samples, and the others {self._count}")
        _check_boxes(path, self._truths)
        if self.task == "language":
            return
        if self.task != "detection" and self._count > 1 and len(set(self._truths["labels"].tolist())) == 1:
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

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[tuple[Array, ...], Any]:
        """Returns inputs and truth of a sample, as a user's iterable yields them."""
        inputs = tuple(array[number] for array in self._inputs)
        truths = {name: array[number] for name, array in self._truths.items()}
        if "tokens" in truths:
            return inputs, truths["tokens"][1:]
        if "box_labels" in truths:
            there = truths["box_labels"] >= 0
            return inputs, {"boxes": truths["boxes"][there], "labels": truths["box_labels"][there]}
        if "boxes" in truths:
            return inputs, {"boxes": truths["boxes"], "label": truths["labels"]}
        return inputs, truths["labels"]


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

    def __init__(self, path: Path, classes: Sequence[str] = ()) -> None:
        """`classes`: the model's, in its order, among which the names of folders are looked up. Raises `MindgapError`
        for a folder without images, of one class, or with an empty class. Names with a dot in front
        (`.ipynb_checkpoints`) do not count."""
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
        if not self._files:
            raise MindgapError(f"dataset {path}: it is empty: there is no image in a folder of it (CLASS/IMAGE.png)")
        full = {label for _, label in self._files}
        if empty := [each.name for each in folders if self.classes.index(each.name) not in full]:
            raise MindgapError(
                f"dataset {path}: the folder {empty[0]} has no image, and counts as a class: move it away, or fill it"
            )
        if len(full) < 2:
            raise one_class(str(path), self.classes[self._files[0][1]])

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[Path, int]:
        """Returns an image's file and its label."""
        return self._files[number]


def one_class(dataset: str, label: object) -> MindgapError:
    """Returns the error of a dataset whose samples all have one label."""
    return MindgapError(f"dataset {dataset}: all of its samples are of one class ({label}): give two classes or more")
