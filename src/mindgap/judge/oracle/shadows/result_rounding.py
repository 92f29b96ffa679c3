"""Rounds the exact results of operators to the dtypes that they declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import TensorSpec
from mindgap.judge.oracle.evaluation.float64 import BoundCall
from mindgap.judge.oracle.evaluation.formats import FORMATS, in_range, is_real, rounded, widen
from mindgap.judge.oracle.evaluation.unordered import at_chosen, in_any_order
from mindgap.judge.oracle.float_classes import all_finite

#: Decisions to impose: value number -> the tensor somebody chose.
Decisions = Mapping[int, torch.Tensor]


def round_results(call: BoundCall, results: list[Any]) -> list[Any]:
    """Each result rounded once to the dtype that it declares."""
    if call.moves:
        return results
    return [round_to(y, spec) for y, spec in zip(results, call.node.outputs, strict=True)]


def round_to(y: Any, spec: TensorSpec | None) -> Any:
    """The nearest values of the declared dtype; what is no float stays."""
    return rounded(y, spec.dtype) if spec is not None and rounds(y, spec) else y


def kept_in_range(y: Any, spec: TensorSpec | None) -> Any:
    """Unrounded, infinite where the declared dtype overflows."""
    return in_range(y, spec.dtype) if spec is not None and rounds(y, spec) else y


def leaves_range(exact: Any, final: Any, spec: TensorSpec | None) -> bool:
    """Whether a finite result became infinite as its dtype was put on it, or, where that has 16 bits or fewer, zero."""
    if spec is None or spec.dtype in ("float64", "complex128") or not rounds(exact, spec):
        return False
    lost = FORMATS[spec.dtype].narrow and bool(((final == 0) & (exact != 0)).any())
    return lost or (not all_finite(final) and bool((torch.isfinite(exact) & ~torch.isfinite(final)).any()))


def without_limits(exact: Any, final: Any, spec: TensorSpec | None) -> Any:
    """A rounded result, unrounded where it is infinite or zero only in its dtype."""
    if spec is None or not rounds(exact, spec):
        return final
    return torch.where((torch.isfinite(exact) & ~torch.isfinite(final)) | (final == 0), exact, final)


def narrowed(y: Any, spec: TensorSpec | None) -> Any:
    """A value that has been rounded in the memory that its dtype needs; no bit of it is lost."""
    return y.to(TORCH_DTYPES[spec.dtype]) if spec is not None and rounds(y, spec) else y


def rounds(y: Any, spec: TensorSpec) -> bool:
    """A float, declared as one."""
    return isinstance(y, torch.Tensor) and is_real(spec.dtype) and (y.is_floating_point() or y.is_complex())


def impose(call: BoundCall, first: int, results: list[Any], decisions: Decisions) -> list[Any]:
    """Results with decided values put in."""
    if not decisions:
        return results
    if first + 1 in decisions and in_any_order(call.node):
        results = at_chosen(call.node, results, decisions[first + 1])
    chosen: list[Any] = [decisions.get(first + slot, y) for slot, y in enumerate(results)]
    return [y if y is None else widen(y) for y in chosen]
