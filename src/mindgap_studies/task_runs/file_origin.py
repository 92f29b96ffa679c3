"""Finds where two platforms part that run the same ONNX file: its values after quantisation, made outputs, in order."""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.own_path.client import OwnPathClient
from mindgap.platforms.name import PlatformName, parse

#: What runs the file on the other side: the runtime whose quantiser writes such files.
_REFERENCE: Final = "onnxruntime/cpu"
_DEQUANTISE: Final = "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value of an ONNX file that may be seen. name: the value's; made_by: the operator and node before it."""

    name: str
    made_by: str


def file_values(model: Any) -> list[FileValue]:
    """Returns the activations that the file dequantises, in order. `model`: a `ModelProto`.

    An operator between them may be one kernel with its neighbours; these are where a runtime has to keep a value.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    found: list[FileValue] = []
    for node in model.graph.node:
        quantise = makers.get(node.input[0]) if node.op_type == _DEQUANTISE else None
        if quantise is None:
            continue
        before = makers.get(quantise.input[0])
        made_by = f"{before.op_type} ({before.name})" if before is not None else f"input {quantise.input[0]}"
        found.append(FileValue(node.output[0], made_by))
    return found


def file_origin(source: str, inputs: Sequence[Array], platform: PlatformName, files: OwnPathClient) -> tuple[str, str]:
    """Returns the operator after which the two sides part, and a sentence on the difference there.

    Raises `MindgapError` where it is no ONNX file or has no such values, or a side does not run it.
    """
    onnx: Any = importlib.import_module("onnx")
    file, _, options = source.partition("?")
    if Path(file).suffix != ".onnx":
        raise MindgapError(f"{file} is no ONNX file (FILE.onnx): its values cannot be made outputs")
    with _onnx_errors(onnx, f"{file} cannot be read as ONNX"):
        model = onnx.load(file)
    values = file_values(model)
    if not values:
        raise MindgapError(f"{file} dequantises no activation")
    given = {each.name for each in model.graph.output}
    shown = [each for each in values if each.name not in given]
    before = len(model.graph.output)
    model.graph.output.extend(onnx.ValueInfoProto(name=each.name) for each in shown)
    with _onnx_errors(onnx, f"{file}: the shapes of its values cannot be inferred"):
        inferred = {each.name: each for each in onnx.shape_inference.infer_shapes(model).graph.value_info}
    for place, each in enumerate(shown, before):
        if each.name in inferred:
            model.graph.output[place].CopyFrom(inferred[each.name])
    with _onnx_errors(onnx, f"{file} cannot be written with more outputs"):
        written = bytes(model.SerializeToString())
    with tempfile.TemporaryDirectory() as folder:
        probed = Path(folder, Path(file).name)
        probed.write_bytes(written)
        asked = f"{probed}?{options}" if options else str(probed)
        ours, theirs = (files.feed(asked, each, inputs)[before:] for each in (platform, parse(_REFERENCE)))
    return _parts(shown, ours, theirs)


@contextlib.contextmanager
def _onnx_errors(onnx: Any, what: str) -> Generator[None]:
    """Raises `MindgapError`, which begins with `what`, for what onnx and protobuf raise for a file."""
    message: Any = importlib.import_module("google.protobuf.message")
    wrong = (message.Error, onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
    try:
        yield
    except (OSError, ValueError, *wrong) as error:
        raise MindgapError(f"{what}: {' '.join(str(error).split())}") from error


def _parts(shown: Sequence[FileValue], ours: Sequence[Array], theirs: Sequence[Array]) -> tuple[str, str]:
    """The first value that is another step, or where there is none, the first that differs at all."""
    first: tuple[str, str] | None = None
    for each, mine, other in zip(shown, ours, theirs, strict=True):
        apart = np.abs(mine.astype(np.float64) - other.astype(np.float64))
        levels = np.unique(other.astype(np.float64))
        step = float(np.diff(levels).min()) if len(levels) > 1 else 0.0
        if not apart.any() or (first is not None and apart.max() <= step / 2):
            continue
        steps = f", by up to {float(apart.max()) / step:.3g} steps" if step else ""
        share = f"{int((apart > step / 2).sum())} of {apart.size} elements are another step than {_REFERENCE}'s{steps}"
        first = each.made_by, f"{share}; the file's values were made outputs to see them"
        if apart.max() > step / 2:
            break
    return first or ("", f"no value inside the file differs from {_REFERENCE}'s once its values are made outputs")
