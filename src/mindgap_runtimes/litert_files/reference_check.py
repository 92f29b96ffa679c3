"""Compares the translation of each node with LiteRT's reference kernels, on the same operands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Array
from mindgap.sources.translated_model import TranslatedModel, TranslatedNode, Untranslated, apart
from mindgap_runtimes.litert_files.model import TfliteModel, TfliteTensor
from mindgap_runtimes.litert_files.reference_kernels import NotRun, values_of

#: Quantised results may be this many steps apart: each implementation rounds in its own way. Functions of 16 bits are
#: looked up in tables of 513 values (`LUTSize` in `lite/kernels/internal/common.h`) and interpolated.
_STEPS: Final = {"int16": 64}
_STEP: Final = 1
#: Of floats that are quantised on the way, of the largest magnitude: two steps of 8 bits.
_HYBRID: Final = 2 / 127
_SHOWN: Final = 4
#: What is said of a file with an operator that the reference kernels lack.
OPTIMISED: Final = "compared with LiteRT's optimised kernels, since the reference kernels lack an operator"
#: Operators on quantised integers that the reference kernels (ai-edge-litert 2.3.0) compute wrongly: a sum is not
#: rescaled, where the optimised kernels and the specification do so; the ratio of sizes of `RESIZE_BILINEAR` is rounded
#: to 10 bits and then multiplied by the position; a small negative quotient of `DIV` becomes the least integer.
#: Agreement counts, a difference does not.
_FAULTY: Final = frozenset({"SUM", "RESIZE_BILINEAR", "DIV"})


def check(
    path: Path, model: TfliteModel, program: TranslatedModel, given: Mapping[str, torch.Tensor], seconds: float
) -> str:
    """Runs the file on the reference kernels, and each node's translation on the operands that these gave it.

    Returns what was not compared, in words; empty if all was. Raises `Untranslated` with the node's name where the
    translation gives something else.
    """
    inputs = [to_numpy(given[model.tensors[i].name]) for i in model.inputs]
    try:
        ran = values_of(path, inputs, seconds)
    except NotRun as reason:
        return f"not compared with LiteRT's reference kernels: {reason}"
    found = ran.values
    tensors = {each.name: each for each in model.tensors}
    values = {each.name: found[i] for i, each in enumerate(model.tensors) if i in found}
    values |= {name: to_numpy(tensor) for name, tensor in given.items()}
    held = {**dict(program.named_parameters(recurse=False)), **dict(program.named_buffers(recurse=False))}
    left = [step.source_line for step in program.steps if not _compared(step, tensors, values, held)]
    if not left:
        return "" if ran.reference else OPTIMISED
    ops = [*dict.fromkeys(left)]
    more = f" and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
    which = f"{', '.join(ops[:_SHOWN])}{more}"
    told = f"not compared with LiteRT's reference kernels, whose values are not known or wrong: {which}"
    return told if ran.reference else f"{OPTIMISED}; {told}"


def _compared(
    step: TranslatedNode, tensors: Mapping[str, TfliteTensor], values: Mapping[str, Array],
    held: Mapping[str, torch.Tensor],
) -> bool:  # fmt: skip
    """Compares a node. Returns False where the reference kernels' values of it are not known, or wrong."""
    operands = [held.get(name, to_torch(values[name]) if name in values else None) for name in step.operands]
    if any(each is None for name, each in zip(step.operands, operands, strict=True) if name):
        return False
    if any(name not in values for name in step.outputs):
        return False
    with torch.no_grad():
        results = step(*operands)
    integers = any(each is not None and not each.is_floating_point() for each in operands)
    for name, result in zip(step.outputs, results, strict=True):
        ours, theirs = to_numpy(result), values[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise _other(step, f"{ours.dtype}{list(ours.shape)}", f"{theirs.dtype}{list(theirs.shape)}")
        wrong = _apart(ours, theirs, tensors[name], integers)
        if wrong and integers and step.source_line in _FAULTY:
            return False
        if wrong:
            raise _other(step, f"other values in {wrong} of {ours.size} elements", "those of the file")
    return True


def _apart(ours: Array, theirs: Array, declared: TfliteTensor, integers: bool) -> int:
    """Counts elements that are further apart than two correct implementations may be. `integers`: among the operands
    there are some."""
    if ours.dtype.kind in "iu" and declared.quantisation is not None:
        return int((np.abs(ours.astype(np.int64) - theirs.astype(np.int64)) > _STEPS.get(declared.dtype, _STEP)).sum())
    wrong = apart(ours, theirs)
    if wrong and integers and ours.dtype.kind == "f" and np.isfinite(ours).all() and np.isfinite(theirs).all():
        return int((np.abs(ours - theirs) > _HYBRID * np.abs(theirs).max()).sum())
    return wrong


def _other(step: TranslatedNode, ours: str, theirs: str) -> Untranslated:
    return Untranslated(f"its translation gives {ours}, and LiteRT's reference kernels {theirs}").at(
        step.name, step.source_line
    )
