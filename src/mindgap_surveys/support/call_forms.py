"""Rewrites a call in other forms: another dtype, another layout, in place.

Nothing here is known to run: the reference decides. Result slots keep the specs of the original call until it ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.counterpart import counterpart, is_layout_change
from mindgap.aten.operators import overload
from mindgap.graph import (
    Arg,
    Constant,
    DType,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Literal,
    Node,
    Normal,
    Ref,
    TensorSpec,
    TensorStore,
    Uniform,
    UnknownOperator,
    contiguous_stride,
    kind_of,
    materialise,
    numpy_dtype,
)
from mindgap.graph.features import channels_last_stride
from mindgap.results.support_key import key_of, leading_operand
from mindgap_surveys.support.single_calls import one_call

#: Dtypes and layouts of calls, besides those that they were met in.
DTYPES: Final = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "bool", "complex64")
LAYOUTS: Final = ("channels_last", "permuted", "expanded")
#: Recipes that mean the same in every dtype of floats.
_ANY_FLOAT: Final = (Uniform, Normal, Exceptional)


def recast(graph: Graph, dtype: str, tensors: TensorStore | None = None) -> Graph | None:
    """Replaces the leading dtype of a call by `dtype`, in operands and arguments.

    Returns None if it has `dtype` already. Raises `GraphError` for an operand that cannot be made.
    """
    node = graph.nodes[0]
    was = key_of(graph, node).dtype
    if was in (dtype, "none"):
        return None
    inputs = tuple(_cast_input(one, dtype, tensors) if one.spec.dtype == was else one for one in graph.inputs)
    args = tuple(_cast_arg(arg, was, dtype) for arg in node.args)
    kwargs = tuple((name, _cast_arg(arg, was, dtype)) for name, arg in node.kwargs)
    outputs = tuple(
        _cast_spec(spec, dtype) if spec is not None and spec.dtype == was else spec for spec in node.outputs
    )
    return one_call(Node(node.op, args, kwargs, outputs), inputs)


def relaid(graph: Graph, layout: str, tensors: TensorStore | None = None) -> Graph | None:
    """Gives the leading operand of a call another layout; None if its shape does not allow that."""
    number = leading_operand(graph, graph.nodes[0])
    if number is None or number >= len(graph.inputs):
        return None
    one = graph.inputs[number]
    stride = _stride(one.spec.shape, layout)
    if stride is None:
        return None
    spec = TensorSpec(one.spec.dtype, one.spec.shape, stride)
    laid = Input(spec, one.recipe if layout != "expanded" else _repeated(one, spec, tensors), one.role)
    changed = replace(graph, inputs=(*graph.inputs[:number], laid, *graph.inputs[number + 1 :]))
    return changed if key_of(changed, changed.nodes[0]).layout == layout else None


def in_place(graph: Graph) -> Iterator[Graph]:
    """Returns the in-place forms of a call, if the operator has one."""
    node = graph.nodes[0]
    first = node.args[0] if node.args else None
    gives = node.outputs[0] if len(node.outputs) == 1 else None
    if not isinstance(first, Ref) or gives is None:
        return
    target = graph.inputs[first.index].spec
    fits = (target.dtype, target.shape) == (gives.dtype, gives.shape) and 0 not in target.stride
    for op in _in_place_overloads(node.op):
        # What only changes a shape need not fit: a sample that keeps its shape would be an odd one.
        if fits or is_layout_change(op):
            call = one_call(
                Node(op, node.args, node.kwargs, (gives if is_layout_change(op) else target,)), graph.inputs
            )
            if call is not None:
                yield call


@cache
def _in_place_overloads(op: str) -> tuple[str, ...]:
    namespace, packet, _ = op.split(".")
    in_place_packet: Any = getattr(getattr(torch.ops, namespace), f"{packet}_", None)
    names: list[str] = []
    for name in () if in_place_packet is None else in_place_packet.overloads():
        try:
            overload(f"{namespace}.{packet}_.{name}")
            if counterpart(f"{namespace}.{packet}_.{name}").op == op:
                names.append(f"{namespace}.{packet}_.{name}")
        except (GraphError, UnknownOperator):
            continue
    return tuple(sorted(names))


def _cast_input(one: Input, dtype: str, tensors: TensorStore | None) -> Input:
    spec = _cast_spec(one.spec, dtype)
    real = kind_of(dtype) in ("float", "complex")
    plain = isinstance(one.recipe, _ANY_FLOAT) or (isinstance(one.recipe, Constant) and type(one.recipe.value) is float)
    if real and plain and one.spec.kind in ("float", "complex"):
        return Input(spec, one.recipe, one.role)
    with np.errstate(all="ignore"):
        array: Any = materialise(one, tensors)
        if array.dtype.kind == "c" and kind_of(dtype) != "complex":
            array = array.real
        wide: Any = array.astype(np.complex128 if kind_of(dtype) == "complex" else np.float64)
        if kind_of(dtype) in ("int", "bool"):
            wide = np.nan_to_num(wide, nan=0.0, posinf=1.0, neginf=-1.0)
        cast: Any = wide.astype(numpy_dtype(dtype))
    return Input(spec, Literal(np.ascontiguousarray(cast).tobytes()), one.role)


def _cast_spec(spec: TensorSpec, dtype: str) -> TensorSpec:
    return TensorSpec(dtype, spec.shape, spec.stride)


def _cast_arg(arg: Arg, was: str, dtype: str) -> Arg:
    return DType(dtype) if isinstance(arg, DType) and arg.name == was else arg


def _stride(shape: tuple[int, ...], layout: str) -> tuple[int, ...] | None:
    if layout == "channels_last":
        return channels_last_stride(shape)
    if layout == "permuted":
        return tuple(reversed(contiguous_stride(tuple(reversed(shape))))) if len(shape) > 1 else None
    long = next((position for position, size in enumerate(shape) if size > 1), None)
    if long is None:
        return None
    once = contiguous_stride((*shape[:long], 1, *shape[long + 1 :]))
    return (*once[:long], 0, *once[long + 1 :])


def _repeated(one: Input, spec: TensorSpec, tensors: TensorStore | None) -> Literal:
    """Repeats the first slice of an operand along the dimension that is expanded."""
    array = materialise(one, tensors)
    position = next(position for position, step in enumerate(spec.stride) if step == 0 and spec.shape[position] > 1)
    again = np.repeat(array.take([0], axis=position), spec.shape[position], axis=position)
    return Literal(np.ascontiguousarray(again).tobytes())
