"""Opens `onnx:CASE`: a conformance case of ONNX, translated to PyTorch and checked against its expected outputs.

A case is refused, with the reason, if an operator or a type has no equivalent, or if the translation's output differs
from ONNX's (dtype, shape, and values within the case's own tolerance, or two units in the last place of the largest
value). The tensors are those of the case. With
`?seed=` other than 0, floating-point tensors are drawn anew from the same range.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy, torch_dtype_name
from mindgap.graph import Uniform
from mindgap.onnx_files.file import expanded
from mindgap.onnx_files.model_proto import tensor_of
from mindgap.onnx_files.node import ConstantResults
from mindgap.onnx_files.translation import translated
from mindgap.sources.program import Built, Program
from mindgap.sources.sample_inputs import new_registry
from mindgap.sources.source import Source, SourceError, source_options, suggest
from mindgap.sources.translated_model import TranslatedModel, Untranslated
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of


@functools.cache
def conformance_cases() -> Mapping[str, Any]:
    """Returns ONNX's cases of single operators (`onnx.backend.test.case.test_case.TestCase`) by their names without the
    prefix `test_`. Raises `SourceError` if the package is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.case.node import collect_testcases

            cases: list[Any] = collect_testcases(None)  # pyright: ignore[reportArgumentType, reportUnknownVariableType] # None: of all operators
    except ImportError as error:
        raise SourceError(f"onnx: is not installed ({error}); pip install 'mindgap[onnxruntime]'") from error
    return {case.name.removeprefix("test_"): case for case in cases}


def names() -> list[str]:
    """Returns the names of all conformance cases of single operators, without the prefix `test_`."""
    return list(conformance_cases())


def open_onnx_case(source: Source) -> list[Program]:
    chosen = source_options(source)
    name, known = source.target.removeprefix("test_"), conformance_cases()
    if name not in known:
        raise SourceError(f"{source.text}: ONNX has no case {name!r}{suggest(name, known)}")
    return [Program(name, source.text, functools.partial(_build, source, known[name], chosen.seed))]


def _build(source: Source, case: Any, seed: int) -> Built:
    """Returns the program that gives the expected outputs. Raises `SourceError` if there is none."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ((inputs, outputs),) = case.data_sets
            program, tensors = verified(case.model, inputs, outputs, case.rtol, case.atol)
    except Untranslated as reason:
        raise SourceError(f"{source.text}: {reason}") from reason
    registry = new_registry()
    if seed:
        tensors = [
            _redrawn(t, seed_of(n, seed), registry) for n, t in zip(program.argument_names, tensors, strict=True)
        ]
    return Built(program, tuple(tensors), {}, registry)


def verified(
    model: Any, inputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float
) -> tuple[TranslatedModel, list[torch.Tensor]]:
    """Translates a model (`onnx.ModelProto`) and compares its outputs with those expected.

    `inputs`, `outputs`: a numpy array or `onnx.TensorProto` for each of the model's. Returns the program and its
    arguments. Raises `Untranslated`; if constants alone give the outputs, `ConstantResults`, after the comparison.
    """
    given = {value.name: tensor_of(_array(array)) for value, array in zip(_fed(model, inputs), inputs, strict=True)}
    names = [value.name for value in model.graph.output]
    try:
        program = translated(expanded(model), given)
    except ConstantResults as constant:
        _compare_all({name: constant.values[name] for name in names}, outputs, rtol, atol)
        raise
    tensors = [given[name].clone() for name in program.argument_names]
    _compare_all(program(*[tensor.clone() for tensor in tensors]), outputs, rtol, atol)
    return program, tensors


def _compare_all(found: Mapping[str, torch.Tensor], outputs: Sequence[Any], rtol: float, atol: float) -> None:
    for (name, tensor), expected in zip(found.items(), outputs, strict=True):
        _compare(name, to_numpy(tensor), _array(expected), rtol, atol)


def _fed(model: Any, inputs: Sequence[Any]) -> list[Any]:
    if len(model.graph.input) != len(inputs):
        raise Untranslated(f"{len(inputs)} values for {len(model.graph.input)} inputs")
    return list(model.graph.input)


def _array(value: Any) -> Any:
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise Untranslated(f"a value of type {type(value).__name__}: graphs hold tensors")
    return np.asarray(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # of any dtype


def _compare(name: str, found: Any, expected: Any, rtol: float, atol: float) -> None:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise Untranslated(
            f"PyTorch gives {found.dtype}{list(found.shape)} for output {name}, "
            f"ONNX expects {expected.dtype}{list(expected.shape)}"
        )
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    floating = getattr(torch, expected.dtype.name, torch.bool)
    with np.errstate(all="ignore"):
        a, b = found.astype(wide), expected.astype(wide)
        if floating.is_floating_point and floating.itemsize > 1:
            unit = 2 * torch.finfo(floating).eps
            largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            rtol, atol = max(rtol, unit), max(atol, unit * float(largest))
        close = np.isclose(a, b, rtol, atol, equal_nan=True)
    if not close.all():
        wrong = int((~close).sum())
        raise Untranslated(f"PyTorch gives other values than ONNX in {wrong} of {close.size} elements of output {name}")


def _redrawn(tensor: torch.Tensor, seed: int, registry: TensorRegistry) -> torch.Tensor:
    if not tensor.is_floating_point() or not tensor.numel() or not bool(torch.isfinite(tensor).all()):
        return tensor
    low, high = float(tensor.min()), float(tensor.max())
    if low == high:
        return tensor
    return registry.draw(Uniform(seed, low, high), torch_dtype_name(tensor.dtype), tuple(tensor.shape))
