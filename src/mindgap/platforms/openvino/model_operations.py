"""Evaluates a model of OpenVINO's operation by operation in PyTorch: what a front end wrote, without OpenVINO's code.

Each entry is OpenVINO's specification of the operation. An operation that is not in the table is refused. Results have
the dtypes that the model declares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.platforms.protocol import Array, Unsupported

Tensors = Sequence[torch.Tensor]
Operation = Callable[[Tensors, Mapping[str, Any]], Any]

_fft: Any = torch.fft  # untyped in PyTorch
_DTYPES: Final = {
    "boolean": torch.bool, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
}  # fmt: skip


def evaluate(model: Any, inputs: Sequence[Array], constant: Callable[[Any], Array]) -> list[Array]:
    """The results of a model. `constant`: the array of a node that holds one. Raises `Unsupported`."""
    names = [str(node.get_friendly_name()) for node in model.get_parameters()]
    parameters = {name: to_torch(array) for name, array in zip(names, inputs, strict=True)}
    values: dict[tuple[str, int], torch.Tensor] = {}
    found: dict[str, torch.Tensor] = {}
    for node in model.get_ordered_ops():
        name, kind = str(node.get_friendly_name()), str(node.get_type_name())
        given = [values[_source(port)] for port in node.inputs()]
        if kind == "Result":
            found[name] = given[0]
            continue
        results = _computed(kind, node, given, parameters.get(name), constant)
        for place, value in enumerate(results):
            values[name, place] = value.to(_dtype(node.get_output_element_type(place)))
    return [np.array(to_numpy(found[str(node.get_friendly_name())]), order="C") for node in model.get_results()]


def _source(port: Any) -> tuple[str, int]:
    output = port.get_source_output()
    return str(output.get_node().get_friendly_name()), int(output.get_index())


def _computed(
    kind: str, node: Any, given: Tensors, parameter: torch.Tensor | None, constant: Callable[[Any], Array]
) -> Sequence[torch.Tensor]:
    if kind == "Parameter" and parameter is not None:
        return [parameter]
    if kind == "Constant":
        return [to_torch(constant(node))]
    if kind not in _OPERATIONS:
        raise Unsupported("model", f"no evaluation of OpenVINO's {kind}")
    result = _OPERATIONS[kind](given, dict(node.get_attributes()))
    return [result] if isinstance(result, torch.Tensor) else result


def _dtype(element: Any) -> torch.dtype:
    name = str(element.get_type_name())
    if name not in _DTYPES:
        raise Unsupported("model", f"no evaluation of OpenVINO's type {name}")
    return _DTYPES[name]


def _ints(tensor: torch.Tensor) -> list[int]:
    return [int(each) for each in to_numpy(tensor).reshape(-1)]


def _plain(function: Callable[..., Any]) -> Operation:
    def run(given: Tensors, attributes: Mapping[str, Any]) -> Any:
        return function(*given)

    return run


def _reduced(function: Callable[..., Any]) -> Operation:
    def run(given: Tensors, attributes: Mapping[str, Any]) -> Any:
        axes = _ints(given[1])
        return function(given[0], axes, bool(attributes["keep_dims"])) if axes else given[0]

    return run


def _convert(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return given[0].to(_DTYPES[str(attributes["destination_type"])])


def _squeezed(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    if len(given) == 1 or given[1].numel() == 0:
        return given[0].squeeze()
    return given[0].squeeze(tuple(_ints(given[1])))


def _unsqueezed(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    found, axes = given[0], _ints(given[1])
    for axis in sorted(each % (found.dim() + len(axes)) for each in axes):
        found = found.unsqueeze(axis)
    return found


def _reshaped(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    sizes = _ints(given[1])
    if attributes["special_zero"]:
        sizes = [given[0].shape[place] if size == 0 else size for place, size in enumerate(sizes)]
    return given[0].reshape(sizes)


def _gathered(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    if attributes["batch_dims"]:
        raise Unsupported("model", "no evaluation of OpenVINO's Gather with batch_dims")
    data, index, axis = given[0], given[1].long(), int(given[2])
    axis %= data.dim()
    wrapped = torch.where(index < 0, index + data.shape[axis], index).reshape(-1)
    return data.index_select(axis, wrapped).reshape([*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]])


def _broadcast(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    shape, mode = _ints(given[1]), str(attributes["mode"])
    if mode == "bidirectional":
        shape = list(np.broadcast_shapes(tuple(given[0].shape), tuple(shape)))
    elif mode != "numpy":
        raise Unsupported("model", f"no evaluation of OpenVINO's Broadcast {mode}")
    return given[0].broadcast_to(shape)


def _tiled(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return torch.tile(given[0], _ints(given[1]))


def _sliced(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    starts, stops, steps = (_ints(each) for each in given[1:4])
    axes = _ints(given[4]) if len(given) > 4 else list(range(len(starts)))
    array = to_numpy(given[0])
    place = [slice(None)] * array.ndim
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        place[axis] = slice(start, stop if stop >= -array.shape[axis] or step > 0 else None, step)
    return to_torch(array[tuple(place)].copy())


def _concatenated(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return torch.cat(list(given), int(attributes["axis"]))


def _accumulated(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    if attributes["exclusive"] or attributes["reverse"]:
        raise Unsupported("model", "no evaluation of OpenVINO's CumSum, exclusive or reversed")
    return torch.cumsum(given[0], int(given[1]) if len(given) > 1 else 0)


def _top(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    """Sorted by value. Ties come in any order, unless it is stable: the lower index first."""
    if str(attributes["sort"]) != "value":
        raise Unsupported("model", f"no evaluation of OpenVINO's TopK with sort={attributes['sort']}")
    axis, largest = int(attributes["axis"]), str(attributes["mode"]) == "max"
    values, indices = torch.sort(given[0], dim=axis, descending=largest, stable=True)
    count = int(given[1])
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


def _bags(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    """Sums, or means, of rows of a table. A bag that is empty takes the row of the default index; −1 gives zeros."""
    table, index, offsets = given[:3]
    default = int(given[3]) if len(given) > 3 else -1
    weights = given[4] if len(given) > 4 else None
    ends = [*_ints(offsets)[1:], index.numel()]
    rows: list[torch.Tensor] = []
    for start, end in zip(_ints(offsets), ends, strict=True):
        taken = index[start:end].long()
        picked = table[taken] if weights is None else table[taken] * weights[start:end, None]
        if taken.numel() == 0:
            picked = table[default][None] if default >= 0 else torch.zeros_like(table[:1])
        rows.append(picked.mean(0) if str(attributes["reduction"]) == "mean" else picked.sum(0))
    return torch.stack(rows)


def _transform(function: Callable[..., torch.Tensor]) -> Operation:
    """A Fourier transform of complex numbers that are pairs in the last dimension."""

    def run(given: Tensors, attributes: Mapping[str, Any]) -> Any:
        data = torch.view_as_complex(given[0].contiguous())
        axes = [axis % data.dim() for axis in _ints(given[1])]
        return torch.view_as_real(function(data, _lengths(given, data, axes), axes))

    return run


def _lengths(given: Tensors, data: torch.Tensor, axes: Sequence[int]) -> list[int] | None:
    if len(given) < 3:
        return None
    return [data.shape[axis] if size == -1 else size for size, axis in zip(_ints(given[2]), axes, strict=True)]


def _real_transform(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    axes = [axis % given[0].dim() for axis in _ints(given[1])]
    return torch.view_as_real(_fft.rfftn(given[0], _lengths(given, given[0], axes), axes))


def _inverse_real_transform(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    data = torch.view_as_complex(given[0].contiguous())
    axes = [axis % data.dim() for axis in _ints(given[1])]
    lengths = None if len(given) < 3 else _ints(given[2])
    if lengths is not None and -1 in lengths:
        full = [2 * (data.shape[axis] - 1) if axis == axes[-1] else data.shape[axis] for axis in axes]
        lengths = [size if each == -1 else each for each, size in zip(lengths, full, strict=True)]
    return _fft.irfftn(data, lengths, axes)


def _average_pooled(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    before, after = list(attributes["pads_begin"]), list(attributes["pads_end"])
    rank, rounding = len(before), str(attributes["rounding_type"])
    explicit = str(attributes["auto_pad"]) == "explicit" and all(each == 1 for each in attributes["dilations"])
    if before != after or not explicit or rounding not in ("floor", "ceil_torch"):
        raise Unsupported("model", "no evaluation of this case of OpenVINO's AvgPool")
    function = vars(F)[f"avg_pool{rank}d"]
    kernel, strides = list(attributes["kernel"]), list(attributes["strides"])
    return function(given[0], kernel, strides, before, rounding != "floor", not attributes["exclude-pad"])


def _softmax(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return torch.softmax(given[0], int(attributes["axis"]))


def _shape_of(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return torch.tensor(list(given[0].shape))


def _transposed(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return given[0].permute(_ints(given[1]) or list(reversed(range(given[0].dim()))))


def _multiplied(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    one, other = given
    one = one.mT if attributes["transpose_a"] and one.dim() > 1 else one
    return torch.matmul(one, other.mT if attributes["transpose_b"] and other.dim() > 1 else other)


def _divided(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    if given[0].is_floating_point():
        return torch.div(given[0], given[1])
    return torch.div(given[0], given[1], rounding_mode="floor" if attributes.get("m_pythondiv") else "trunc")


def _reduced_product(tensor: torch.Tensor, axes: list[int], keepdims: bool) -> torch.Tensor:
    for axis in sorted((axis % tensor.dim() for axis in axes), reverse=True):
        tensor = torch.prod(tensor, axis, keepdims)
    return tensor


def _hard_sigmoid(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return torch.clamp(given[0] * given[1] + given[2], 0, 1)


def _gelu(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    mode = str(attributes.get("approximation_mode", "ERF")).lower()
    return F.gelu(given[0], approximate="tanh" if mode == "tanh" else "none")


def _elu(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    return F.elu(given[0], float(attributes["alpha"]))


def _clamped(given: Tensors, attributes: Mapping[str, Any]) -> Any:
    low, high = float(attributes["min"]), float(attributes["max"])
    return torch.clamp(given[0], None if low == -math.inf else low, None if high == math.inf else high)


_SAME_NAME: Final = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Tanh", "Exp", "Log",
    "Erf", "Floor", "Sqrt", "Sign", "Negative", "Sigmoid", "Add", "Subtract", "Multiply", "Maximum", "Minimum",
    "Greater", "Less", "Relu",
)  # fmt: skip
_OPERATIONS: Final[Mapping[str, Operation]] = {
    **{name: _plain(getattr(torch, name.lower())) for name in _SAME_NAME},
    "Ceiling": _plain(torch.ceil),
    "Power": _plain(torch.pow),
    "Mod": _plain(torch.fmod),
    "FloorMod": _plain(torch.remainder),
    "Divide": _divided,
    "Equal": _plain(torch.eq),
    "NotEqual": _plain(torch.ne),
    "GreaterEqual": _plain(torch.ge),
    "LessEqual": _plain(torch.le),
    "LogicalAnd": _plain(torch.logical_and),
    "LogicalOr": _plain(torch.logical_or),
    "LogicalNot": _plain(torch.logical_not),
    "LogicalXor": _plain(torch.logical_xor),
    "BitwiseAnd": _plain(torch.bitwise_and),
    "BitwiseOr": _plain(torch.bitwise_or),
    "BitwiseNot": _plain(torch.bitwise_not),
    "BitwiseXor": _plain(torch.bitwise_xor),
    "IsNaN": _plain(torch.isnan),
    "IsFinite": _plain(torch.isfinite),
    "Select": _plain(torch.where),
    "SoftPlus": _plain(F.softplus),
    "HSwish": _plain(F.hardswish),
    "HardSigmoid": _hard_sigmoid,
    "Gelu": _gelu,
    "Elu": _elu,
    "Clamp": _clamped,
    "Identity": _plain(torch.clone),
    "Convert": _convert,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Reshape": _reshaped,
    "Transpose": _transposed,
    "Concat": _concatenated,
    "ShapeOf": _shape_of,
    "Gather": _gathered,
    "Broadcast": _broadcast,
    "Tile": _tiled,
    "Slice": _sliced,
    "MatMul": _multiplied,
    "Softmax": _softmax,
    "CumSum": _accumulated,
    "TopK": _top,
    "EmbeddingBagOffsets": _bags,
    "EmbeddingBagOffsetsSum": _bags,
    "AvgPool": _average_pooled,
    "DFT": _transform(_fft.fftn),
    "IDFT": _transform(_fft.ifftn),
    "RDFT": _real_transform,
    "IRDFT": _inverse_real_transform,
    "ReduceSum": _reduced(torch.sum),
    "ReduceMean": _reduced(torch.mean),
    "ReduceMax": _reduced(torch.amax),
    "ReduceMin": _reduced(torch.amin),
    "ReduceProd": _reduced(_reduced_product),
}
