"""Opens `FILE.tflite`: a model file, translated to PyTorch and checked against LiteRT's reference kernels.

The file is read as data and runs no code.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mindgap.graph import Constant, Integers, Normal, Recipe, Uniform
from mindgap.graph_capture.errors import UnprovenCapture
from mindgap.sources.program import ArgumentChange, Built, Program
from mindgap.sources.sample_inputs import new_registry
from mindgap.sources.source import Source, SourceError, require_file, source_options
from mindgap.sources.translated_model import CHECKED, Unrunnable, Untranslated, UntranslatedModel
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_runtimes.litert_files.model import (
    NoTfliteModel,
    TfliteModel,
    TfliteTensor,
    read_tflite,
    refusing_damage,
)
from mindgap_runtimes.litert_files.reference_check import check
from mindgap_runtimes.litert_files.translation import translated, untranslated

#: Seconds for the reference kernels.
_CHECK_S: Final = 30.0
#: Integers drawn for an input that nothing indexes with: [0, _IDS).
_IDS: Final = 8
#: Texts for an input that holds some.
_TEXTS: Final = (b"a", b"two words", b"3")
#: Operators of positive numbers.
_POSITIVE: Final = frozenset({"LOG", "POW", "RSQRT", "SQRT"})
#: Operators that hand the integers of an operand on.
_HANDS_ON: Final = frozenset({"CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "SLICE", "STRIDED_SLICE", "TRANSPOSE"})
#: Operators that index -> the positions of the index and of what it indexes.
_INDEXES: Final = {"GATHER": (1, 0), "EMBEDDING_LOOKUP": (0, 1)}


def open_tflite_file(source: Source) -> list[Program]:
    """Returns one program. Raises `SourceError` if there is no such file."""
    path = Path(source.target)
    require_file(path)
    build = functools.partial(_build, source, path)
    return [Program(path.stem, source.text, build, remake=build)]


def _build(source: Source, path: Path, change: ArgumentChange | None = None) -> Built:
    """Translates the file, or stands for one with an operator that has no translation. Its arguments are drawn, or what
    a change of these gives. Raises `SourceError`, one line that begins with the path."""
    seed = source_options(source).seed
    try:
        model = read_tflite(path.read_bytes())
        if unheld := next((model.tensors[i].unheld for i in model.inputs if not model.tensors[i].dtype), ""):
            raise NoTfliteModel(f"{unheld}, and it is an input")
        registry = new_registry()
        given = {
            each.name: registry.draw(_recipe(model, number, each, seed), each.dtype, each.shape)
            for number in model.inputs
            for each in (model.tensors[number],)
            if each.dtype != "texts"
        }
        if change is not None:
            stand_in = UntranslatedModel([*given], "its graph depends on its arguments")
            changed = change.apply(Built(stand_in, tuple(given.values()), {}, registry))
            given = dict(zip(given, changed.args, strict=True))
            _check_sizes(model, given)
        if why := untranslated(model):
            return _stand_in(model, given, registry, f"{path}: {why}")
        try:
            with torch.no_grad():
                program = translated(model, given)
                told = _told(model, given)
                unchecked = "" if CHECKED.get() else check(path, model, program, given, _CHECK_S)
        except Unrunnable:
            raise
        except Untranslated as reason:
            return _stand_in(model, given, registry, f"{path}: {reason}")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except MemoryError as error:
        raise SourceError(f"{path}: its tensors take more memory than there is") from error
    except (NoTfliteModel, Untranslated) as reason:
        raise SourceError(f"{path}: {reason}") from reason
    if words := "; ".join(each for each in (unchecked, told) if each):
        warnings.warn(f"{path}: {words}", UnprovenCapture, stacklevel=2)
    return Built(program, tuple(given[name] for name in program.argument_names), {}, registry)


def _stand_in(model: TfliteModel, given: Mapping[str, torch.Tensor], registry: TensorRegistry, reason: str) -> Built:
    """What stands for a file that has no translation."""
    inputs = [model.tensors[number] for number in model.inputs]
    texts = {each.name: np.resize(np.array(_TEXTS, object), each.shape) for each in inputs if each.dtype == "texts"}
    return Built(UntranslatedModel([*given], reason, fixed=texts), tuple(given.values()), {}, registry)


def _check_sizes(model: TfliteModel, given: Mapping[str, torch.Tensor]) -> None:
    """Raises `Untranslated` for an input of other sizes than the file declares, those that it leaves open apart."""
    for each in (model.tensors[number] for number in model.inputs if model.tensors[number].name in given):
        real = tuple(given[each.name].shape)
        sizes = ["open" if axis in each.open_axes else size for axis, size in enumerate(each.shape)]
        if any(size not in ("open", found) for size, found in zip(sizes, real, strict=True)):
            declared = ", ".join(map(str, sizes))
            raise Untranslated(
                f"input {each.name} is {list(real)}, and the file declares [{declared}]: give inputs of the sizes that "
                "it declares"
            )


def _told(model: TfliteModel, given: Mapping[str, torch.Tensor]) -> str:
    """Says which sizes are left open, and that other graphs are not looked at."""
    declared = [model.tensors[i] for i in model.inputs]
    sized = [f"{each.name} runs as {list(given[each.name].shape)}" for each in declared if each.open_axes]
    parts = [f"of sizes that the file leaves open, {', '.join(sized)}"] if sized else []
    return "; ".join([*parts, *([f"the first of its {model.graphs} graphs is taken"] if model.graphs > 1 else [])])


def _recipe(model: TfliteModel, number: int, declared: TfliteTensor, seed: int) -> Recipe:
    """Floats are normal, masks 1, indices below the size of what they index; quantised integers take all their range,
    others are below 8."""
    drawn = seed_of(declared.name, seed)
    if declared.dtype.startswith(("float", "complex")):
        positive = any(each.op in _POSITIVE and number in each.inputs for each in model.operators)
        return Uniform(drawn, 0.1, 2.0) if positive else Normal(drawn)
    if "mask" in declared.name.lower():
        return Constant(value=True if declared.dtype == "bool" else 1)
    if declared.dtype == "bool":
        return Integers(drawn, 0, 2)
    limits = np.iinfo(declared.dtype)
    if size := _indexed(model, number):
        return Integers(drawn, 0, min(size, int(limits.max)))
    if declared.quantisation is not None or limits.bits == 8:
        return Integers(drawn, int(limits.min), int(limits.max) + 1)
    return Integers(drawn, 0, _IDS)


def _indexed(model: TfliteModel, number: int) -> int | None:
    """Returns the smallest size of a dimension that the input indexes."""
    reached, sizes = {number}, list[int]()
    for each in model.operators:
        if each.op in _HANDS_ON and each.inputs and each.inputs[0] in reached:
            reached.update(each.outputs)
        elif each.op in _INDEXES and len(each.inputs) > 1:
            index, table = (each.inputs[position] for position in _INDEXES[each.op])
            if index in reached and table >= 0 and (shape := model.tensors[table].shape):
                with refusing_damage():
                    axis = each.options.Axis() if each.op == "GATHER" and each.options is not None else 0
                sizes += [shape[axis]] if -len(shape) <= axis < len(shape) else []
    return min(sizes, default=None)
