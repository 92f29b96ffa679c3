"""Reads the stored outputs of the published data, checks them, and gives each as an array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array
from mindgap_studies.deviations.published.parquet import BadData, ParquetColumn, read_columns

_TEXT: Final = ParquetColumn("text")
_TEXT_OR_NULL: Final = ParquetColumn("text", null=True)
_INTEGER: Final = ParquetColumn("integer")
_INTEGER_OR_NULL: Final = ParquetColumn("integer", null=True)
COLUMNS: Final = {
    **dict.fromkeys(("experiment", "cloud", "platform", "device_type", "cpu_vendor", "cpu_brand"), _TEXT),
    **dict.fromkeys(("role", "dtype"), _TEXT),
    **dict.fromkeys(("gpu_name", "model", "dtype_variant", "layer_name"), _TEXT_OR_NULL),
    **dict.fromkeys(("param_variant", "input_variant"), _TEXT_OR_NULL),
    **dict.fromkeys(("cpu_family", "cpu_model", "cpu_count"), _INTEGER),
    **dict.fromkeys(("memory_total", "sample_index", "run_index", "n_runs"), _INTEGER_OR_NULL),
    "cpu_flags": ParquetColumn("list of text"),
    "shape": ParquetColumn("list of integers"),
    "output": ParquetColumn("bytes"),
}
_DTYPES: Final = {name: np.dtype(name).newbyteorder("<") for name in ("float16", "float32", "float64")}
#: What was computed: rows that agree in all of these are compared with one another.
_SUBJECT: Final = (
    *("experiment", "model", "dtype_variant", "sample_index", "layer_name", "param_variant", "input_variant"),
)  # fmt: skip
#: Where, besides the platform's name: a name is not unique.
_PLATFORM: Final = ("cloud", "platform", "cpu_brand", "gpu_name")


@dataclass(frozen=True, slots=True)
class Output:
    """A stored output. `row`: in its file, from 0. `values`: flat, of float16, float32 or float64.

    `instance`: cloud, the machine's name, its processor, and its GPU or None. `memory`: bytes. `layer`: the names of a
    single layer, its parameters and its inputs; None for a model. `role`: `single`, `run` or `representative`. `run`:
    the repetition, from 0; None for a representative.
    """

    row: int
    experiment: str
    instance: tuple[str, str, str, str | None]
    cpu: tuple[str, int, int]
    flags: frozenset[str]
    cores: int
    memory: int | None
    model: str | None
    dtype_variant: str | None
    sample: int | None
    layer: tuple[str, str, str] | None
    role: str
    run: int | None
    values: Array


def read_outputs(path: Path) -> tuple[Output, ...]:
    """Reads all outputs of a file.

    Raises `BadData` for a missing file or column, a file without rows, bytes of the wrong length, unlike dtypes or
    sizes in outputs that are compared, a platform named twice, and a missing repetition.
    """
    rows = read_columns(path, COLUMNS)
    outputs = tuple(_output(path, i, row) for i, row in enumerate(rows))
    _check_alike(path, rows, outputs)
    _check_unique(path, rows)
    _check_runs(path, rows)
    return outputs


def _output(path: Path, i: int, row: dict[str, Any]) -> Output:
    if (row["device_type"] == "gpu") != (row["gpu_name"] is not None):
        what = f"{row['gpu_name'] or 'no GPU'}, but device_type is {row['device_type']}"
        raise BadData(path, what, column="gpu_name", row=i)
    layer = (row["layer_name"], row["param_variant"], row["input_variant"])
    return Output(
        row=i,
        experiment=row["experiment"],
        instance=(row["cloud"], row["platform"], row["cpu_brand"], row["gpu_name"]),
        cpu=(row["cpu_vendor"], row["cpu_family"], row["cpu_model"]),
        flags=frozenset(row["cpu_flags"]),
        cores=row["cpu_count"],
        memory=row["memory_total"],
        model=row["model"],
        dtype_variant=row["dtype_variant"],
        sample=row["sample_index"],
        layer=None if None in layer else layer,
        role=row["role"],
        run=row["run_index"],
        values=_values(path, i, row),
    )


def _values(path: Path, i: int, row: dict[str, Any]) -> Array:
    name, shape, data = row["dtype"], row["shape"], row["output"]
    if name not in _DTYPES:
        raise BadData(path, f"{name} is none of {', '.join(_DTYPES)}", column="dtype", row=i)
    if row["dtype_variant"] not in (None, name):
        raise BadData(path, f"{name}, but dtype_variant is {row['dtype_variant']}", column="dtype", row=i)
    needed = math.prod(shape) * _DTYPES[name].itemsize
    if len(data) != needed or not data:
        raise BadData(path, f"{len(data)} bytes; {name} of shape {shape} has {needed}", column="output", row=i)
    return np.frombuffer(data, _DTYPES[name]).astype(name, copy=False)


def _check_alike(path: Path, rows: Sequence[dict[str, Any]], outputs: Sequence[Output]) -> None:
    """Raises `BadData` for outputs that are compared and differ in dtype or size."""
    first: dict[tuple[Any, ...], int] = {}
    for i, row in enumerate(rows):
        before = first.setdefault(tuple(row[name] for name in _SUBJECT), i)
        same = f"row {before} of the same experiment, model and sample"
        if row["dtype"] != rows[before]["dtype"]:
            raise BadData(path, f"{row['dtype']}, but {same} is {rows[before]['dtype']}", column="dtype", row=i)
        sizes = outputs[i].values.size, outputs[before].values.size
        if sizes[0] != sizes[1]:
            raise BadData(path, f"{sizes[0]} elements, but {same} has {sizes[1]}", column="shape", row=i)


def _check_unique(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Raises `BadData` for a second output of one platform for the same model, sample and repetition."""
    seen: dict[tuple[Any, ...], int] = {}
    for i, row in enumerate(rows):
        key = tuple(row[name] for name in (*_PLATFORM, *_SUBJECT, "role", "run_index"))
        before = seen.setdefault(key, i)
        if before != i:
            what = (
                f"{row['platform']} ({row['gpu_name'] or row['cpu_brand']}) has an output for the same model and sample"
            )
            raise BadData(path, f"{what} in row {before}: a platform is named twice", column="platform", row=i)


def _check_runs(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    found: dict[tuple[Any, ...], list[int]] = {}
    needed: dict[tuple[Any, ...], int | None] = {}
    for i, row in enumerate(rows):
        if row["role"] == "run":
            key = tuple(row[name] for name in (*_PLATFORM, *_SUBJECT))
            found.setdefault(key, []).append(i)
            needed[key] = row["n_runs"]
    for key, at in found.items():
        if len(at) != needed[key]:
            raise BadData(path, f"{len(at)} repetitions of {needed[key]} are here", column="n_runs", row=at[0])
