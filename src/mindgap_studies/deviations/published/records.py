"""Reads the stored outputs of the published data, and checks them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter

from mindgap.graph import Array
from mindgap_studies.deviations.published.parquet import BadData, read_rows

_DTYPES: Final = {name: np.dtype(name).newbyteorder("<") for name in ("float16", "float32", "float64")}


@dataclass(frozen=True, slots=True)
class Output:
    """A stored output: a row of its file, with the number `at` from 0. `memory_total`: bytes.

    `output`: the elements, little-endian. `dtype_variant`: what the model was cast to. `role`: `single`, `run` or
    `representative`. `run_index`: the repetition, from 0, of `n_runs`; None for a representative.
    """

    at: int
    experiment: str
    cloud: str
    platform: str
    device_type: str
    cpu_vendor: str
    cpu_brand: str
    cpu_family: int
    cpu_model: int
    cpu_flags: frozenset[str]
    cpu_count: int
    memory_total: int | None
    gpu_name: str | None
    model: str | None
    dtype_variant: str | None
    sample_index: int | None
    layer_name: str | None
    param_variant: str | None
    input_variant: str | None
    role: str
    run_index: int | None
    n_runs: int | None
    dtype: str
    shape: tuple[int, ...]
    output: bytes

    @property
    def instance(self) -> tuple[str, str, str, str | None]:
        """Cloud, the machine's name, its processor, and its GPU or None: a name alone is not unique."""
        return self.cloud, self.platform, self.cpu_brand, self.gpu_name

    @property
    def cpu(self) -> tuple[str, int, int]:
        return self.cpu_vendor, self.cpu_family, self.cpu_model

    @property
    def values(self) -> Array:
        """The elements, flat, of float16, float32 or float64."""
        return np.frombuffer(self.output, _DTYPES[self.dtype]).astype(self.dtype, copy=False)


COLUMNS: Final = tuple(each.name for each in fields(Output))[1:]
_OUTPUTS: Final = TypeAdapter(tuple[Output, ...])
#: What was computed: outputs that agree in all of these are compared with one another.
_subject: Final = attrgetter(
    "experiment", "model", "dtype_variant", "sample_index", "layer_name", "param_variant", "input_variant"
)


def read_outputs(path: Path) -> tuple[Output, ...]:
    """Reads all outputs of a file.

    Raises `BadData` for a missing file or column, a file without rows, bytes of the wrong length, unlike dtypes or
    sizes in outputs that are compared, a platform named twice, and a missing repetition.
    """
    outputs: tuple[Output, ...] = read_rows(path, _OUTPUTS, COLUMNS)
    for each in outputs:
        _check(path, each)
    _check_alike(path, outputs)
    _check_unique(path, outputs)
    _check_runs(path, outputs)
    return outputs


def _check(path: Path, output: Output) -> None:
    if (output.device_type == "gpu") != (output.gpu_name is not None):
        what = f"{output.gpu_name or 'no GPU'}, but device_type is {output.device_type}"
        raise BadData(path, what, column="gpu_name", row=output.at)
    name, data = output.dtype, output.output
    if name not in _DTYPES:
        raise BadData(path, f"{name} is none of {', '.join(_DTYPES)}", column="dtype", row=output.at)
    if output.dtype_variant not in (None, name):
        raise BadData(path, f"{name}, but dtype_variant is {output.dtype_variant}", column="dtype", row=output.at)
    needed = math.prod(output.shape) * _DTYPES[name].itemsize
    if len(data) != needed or not data:
        what = f"{len(data)} bytes; {name} of shape {list(output.shape)} has {needed}"
        raise BadData(path, what, column="output", row=output.at)


def _check_alike(path: Path, outputs: Sequence[Output]) -> None:
    """Raises `BadData` for outputs that are compared and differ in dtype or size."""
    first: dict[tuple[Any, ...], Output] = {}
    for each in outputs:
        before = first.setdefault(_subject(each), each)
        same = f"row {before.at} of the same experiment, model and sample"
        if each.dtype != before.dtype:
            raise BadData(path, f"{each.dtype}, but {same} is {before.dtype}", column="dtype", row=each.at)
        if each.values.size != before.values.size:
            what = f"{each.values.size} elements, but {same} has {before.values.size}"
            raise BadData(path, what, column="shape", row=each.at)


def _check_unique(path: Path, outputs: Sequence[Output]) -> None:
    """Raises `BadData` for a second output of one platform for the same model, sample and repetition."""
    seen: dict[tuple[Any, ...], int] = {}
    for each in outputs:
        before = seen.setdefault((each.instance, _subject(each), each.role, each.run_index), each.at)
        if before != each.at:
            what = f"{each.platform} ({each.gpu_name or each.cpu_brand}) has an output for the same model and sample"
            raise BadData(path, f"{what} in row {before}: a platform is named twice", column="platform", row=each.at)


def _check_runs(path: Path, outputs: Sequence[Output]) -> None:
    runs: dict[tuple[Any, ...], list[Output]] = {}
    for each in outputs:
        if each.role == "run":
            runs.setdefault((each.instance, _subject(each)), []).append(each)
    for same in runs.values():
        if len(same) != same[-1].n_runs:
            what = f"{len(same)} repetitions of {same[-1].n_runs} are here"
            raise BadData(path, what, column="n_runs", row=same[0].at)
