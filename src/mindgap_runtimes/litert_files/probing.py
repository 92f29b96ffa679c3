"""Writes a quantised LiteRT model with its integers as further outputs, so that a run shows each of them.

An interpreter with a delegate keeps no tensor of what the delegate runs but its outputs. The file gets another list of
outputs behind its end; all else stays byte for byte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from mindgap.sources.source import SourceError
from mindgap.sources.translated_model import ProbedModel, result_key
from mindgap_runtimes.litert_files.model import NoTfliteModel, TfliteModel, read_tflite, schema
from mindgap_runtimes.litert_files.translation import name_of

#: Dtypes of quantised values; int32 is a bias's.
_INTEGERS: Final = frozenset({"int8", "uint8", "int16"})
#: Where a graph's list of fields has the offset of its outputs: the third field, behind two sizes.
_OUTPUTS: Final = 8
#: Where an offset of 32 bits leads at most (FlatBuffers' limit of a file).
_FARTHEST: Final = (1 << 31) - 1


def write_probed(path: Path, folder: Path) -> ProbedModel | None:
    """Writes the model of `path` into `folder` with each quantised result of a node as an output.

    None for a model without one. Raises `SourceError` for a file that is damaged or ends beyond 2 GiB.
    """
    data = path.read_bytes()
    try:
        model = read_tflite(data)
    except NoTfliteModel as reason:
        raise SourceError(f"{path}: {reason}") from reason
    shown = {number: place for place, number in enumerate(model.outputs)}
    own, found = len(model.outputs), dict[str, int]()
    for name, number in _quantised_results(model).items():
        found[name] = shown.setdefault(number, len(shown))
    if not found or len(shown) < own:  # an output that is given twice is refused by the translation
        return None
    target = folder / path.name
    target.write_bytes(_with_outputs(path, data, [*shown]))
    return ProbedModel(target, found, own, len(shown))


def _quantised_results(model: TfliteModel) -> dict[str, int]:
    """The tensors that nodes make of inputs, hold integers and have a scale, by the name of their node's result."""
    reached, found = set(model.inputs), dict[str, int]()
    for each in model.operators:
        if reached.isdisjoint(each.inputs):
            continue
        reached.update(each.outputs)
        for place, number in enumerate(each.outputs):
            tensor = model.tensors[number]
            if tensor.quantisation is not None and tensor.dtype in _INTEGERS:
                found[result_key(name_of(model, each), place)] = number
    return found


def _with_outputs(path: Path, data: bytes, outputs: list[int]) -> bytes:
    """The bytes of a file whose first graph has these outputs."""
    written = bytearray(data)
    written.extend(bytes(-len(written) % 4))
    # The class of the schema gives what the outputs are, and its table where the field lies.
    table = schema().Model.GetRootAs(data, 0).Subgraphs(0)._tab
    field: int = table.Pos + table.Offset(_OUTPUTS)
    if len(written) > _FARTHEST:
        raise SourceError(f"{path}: a file of more than 2 GiB cannot be written with its integers as outputs")
    written[field : field + 4] = np.uint32(len(written) - field).tobytes()
    return bytes(written + np.array([len(outputs), *outputs], "<u4").tobytes())
