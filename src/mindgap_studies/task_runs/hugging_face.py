"""Reads what Hugging Face's `datasets` writes: `save_to_disk` folders (Arrow), and folders of Parquet files.

The library itself is not needed. Columns: `image` (or `img`), or the model's inputs by name; `label` (or `labels`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mindgap.graph import Array, MindgapError
from mindgap_studies.results.predictions import Task
from mindgap_studies.task_runs.datasets import Dataset, DatasetExample, EndOfDataset, one_image, whole_label
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample, fitted, image_array

_IMAGES = ("image", "img")
_LABELS = ("label", "labels")
#: Words in names of files and folders by which `datasets` tells splits.
_SPLITS: Final = frozenset({"train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval"})


def open_saved(folder: Path, forms: Sequence[InputForm], pixels: Pixels) -> Dataset:
    """Opens a folder. Raises `MindgapError` for one that holds no table, or no column of labels."""
    if not folder.is_dir():
        raise MindgapError(f"dataset hf:{folder}: no such folder")
    if (folder / "dataset_dict.json").is_file():
        splits = json.loads((folder / "dataset_dict.json").read_text())["splits"]
        raise MindgapError(f"dataset hf:{folder}: it has several splits: name one, as in hf:{folder}/{splits[-1]}")
    arrow, parquet = sorted(folder.glob("*.arrow")), sorted(folder.rglob("*.parquet"))
    if not arrow and not parquet:
        raise MindgapError(f"dataset hf:{folder}: it holds no .arrow and no .parquet file")
    splits = sorted({_split(file.relative_to(folder)) for file in arrow or parquet})
    if len(splits) > 1:
        raise MindgapError(
            f"dataset hf:{folder}: it has several splits ({', '.join(splits)}): give a folder that holds one"
        )
    try:
        tables = [_arrow_table(file) for file in arrow] or [pq.read_table(file, memory_map=True) for file in parquet]
        table = pa.concat_tables(tables)
    except (pa.ArrowInvalid, OSError) as error:
        raise MindgapError(f"dataset hf:{folder}: it cannot be read: {error}") from None
    return Saved(folder, table, forms, pixels)


def _split(file: Path) -> str:
    """The split that a file belongs to: a known word of its path, else the name before its number, else its folder."""
    words = re.split(r"[^a-z]+", str(file.with_suffix("")).lower())
    if known := [word for word in words if word in _SPLITS]:
        return known[0]
    shard = re.fullmatch(r"(.+)-\d+-of-\d+", file.stem)
    return shard[1] if shard else str(file.parent)


def _arrow_table(file: Path) -> Any:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_stream(source).read_all()


class Saved:
    """A table of examples."""

    task: Task = "classification"

    def __init__(self, folder: Path, table: Any, forms: Sequence[InputForm], pixels: Pixels) -> None:
        """Raises `MindgapError` where columns are missing, or there is no row."""
        self._table, self._forms, self._pixels = table, forms, pixels
        names = table.column_names
        label = next((name for name in _LABELS if name in names), None)
        image = next((name for name in _IMAGES if name in names), None)
        if label is None or (image is None and not all(form.name in names for form in forms)):
            wanted = " and ".join(form.name for form in forms)
            raise MindgapError(
                f"dataset hf:{folder}: it has {', '.join(names)}; it needs `label`, and `image` or the model's {wanted}"
            )
        if image is not None:
            one_image(f"hf:{folder}", forms, pixels)
        elif pixels.mean or pixels.std:
            raise MindgapError(f"dataset hf:{folder}: --mean and --std are for images, and it has arrays")
        self._label, self._image = label, image
        self.images = image is not None
        self.classes = _classes(folder, table, label)
        self.count: int | None = table.num_rows
        if not self.count:
            raise MindgapError(f"dataset hf:{folder}: it is empty")

    def example(self, number: int) -> DatasetExample:
        """Reads a row."""
        if number >= (self.count or 0):
            raise EndOfDataset(number)
        row = self._table.slice(number, 1).to_pylist()[0]
        labels = (whole_label(row[self._label]),)
        if self._image is None:
            return DatasetExample(tuple(fitted(np.asarray(row[form.name]), form) for form in self._forms), labels)
        return DatasetExample((self._pixel_array(row[self._image]),), labels)

    def _pixel_array(self, held: Any) -> Array:
        if not isinstance(held, dict):
            return image_array(np.asarray(held), self._forms[0], self._pixels)
        if held.get("bytes") is None:
            return image_array(Path(held["path"]), self._forms[0], self._pixels)
        pillow: Any = importlib.import_module("PIL.Image")
        try:
            opened = pillow.open(io.BytesIO(held["bytes"]))
        except OSError as error:
            raise UnreadableExample(f"the image {held.get('path') or ''} cannot be read: {error}") from None
        return image_array(opened, self._forms[0], self._pixels)


def _classes(folder: Path, table: Any, label: str) -> tuple[str, ...]:
    """The names of classes, from the folder's description or the table's."""
    described: dict[str, Any] = {}
    if (folder / "dataset_info.json").is_file():
        described = json.loads((folder / "dataset_info.json").read_text()).get("features") or {}
    elif b"huggingface" in (table.schema.metadata or {}):
        described = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    return tuple(map(str, described.get(label, {}).get("names", ())))
