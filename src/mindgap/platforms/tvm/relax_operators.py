"""Evaluates a Relax function operator by operator in PyTorch: what TVM's front end asked for, without TVM.

Each entry is Relax's documentation of the operator. An operator that is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.platforms.protocol import Unsupported

Operator = Callable[[Sequence[Any], Any], Any]


def evaluate(function: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """The result of a function: a tensor, or a tuple of them. Raises `Unsupported`."""
    values: dict[Any, Any] = dict(zip(function.params, inputs, strict=True))
    for block in function.body.blocks:
        for binding in block.bindings:
            if not hasattr(binding, "value"):
                raise Unsupported("model", f"no evaluation of Relax's {type(binding).__name__}")
            values[binding.var] = _declared(_value(binding.value, values), binding.var)
    return _value(function.body.body, values)


def _declared(value: Any, variable: Any) -> Any:
    """The value in the dtype that Relax declares."""
    dtype = getattr(variable.ty, "dtype", None)
    return value.to(torch_dtype(dtype)) if isinstance(value, torch.Tensor) and dtype else value


def torch_dtype(name: Any) -> torch.dtype:
    """PyTorch's dtype of one of TVM's."""
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise Unsupported("model", f"no evaluation of TVM's dtype {name}")
    return found


def _value(expression: Any, values: Mapping[Any, Any]) -> Any:
    if expression in values:
        return values[expression]
    match type(expression).__name__:
        case "GenericConst":
            held = expression.value
            return to_torch(np.array(held.numpy() if hasattr(held, "numpy") else held))
        case "ShapeExpr":
            return [int(size) for size in expression.values]
        case "PrimValue":
            return expression.value.value
        case "IntImm" | "FloatImm":
            return expression.value
        case "DataTypeImm" | "StringImm":
            return str(expression.value)
        case "Tuple":
            return tuple(_value(each, values) for each in expression.fields)
        case "TupleGetItem":
            return _value(expression.tuple_value, values)[int(expression.index)]
        case "Call":
            return _called(expression, values)
        case other:
            raise Unsupported("model", f"no evaluation of Relax's {other}")


def _called(call: Any, values: Mapping[Any, Any]) -> Any:
    name = str(getattr(call.op, "name", call.op)).removeprefix("relax.")
    operator = _OPERATORS.get(name)
    if operator is None:
        raise Unsupported("model", f"no evaluation of Relax's {name}")
    return operator([_value(each, values) for each in call.args], call.attrs)


def _ints(values: Any) -> list[int] | None:
    return None if values is None else [int(each) for each in values]


def _simple(function: Callable[..., Any]) -> Operator:
    return lambda args, attrs: function(*args)


def _reduction(function: Callable[..., Any]) -> Operator:
    """An operator with `axis`, which is None for all, and `keepdims`."""

    def run(args: Sequence[Any], attrs: Any) -> Any:
        axes = _ints(attrs.axis)
        axes = list(range(args[0].dim())) if axes is None else axes
        return function(args[0], axes, bool(attrs.keepdims)) if axes else args[0]

    return run


def _uncorrected(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(tensor: torch.Tensor, axes: list[int], keepdims: bool) -> torch.Tensor:
        return function(tensor, axes, correction=0, keepdim=keepdims)

    return run


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(tensor: torch.Tensor, axes: list[int], keepdims: bool) -> torch.Tensor:
        for axis in sorted((axis % tensor.dim() for axis in axes), reverse=True):
            tensor = function(tensor, axis, keepdims)
        return tensor

    return run


def _arg_reduction(function: Callable[..., Any]) -> Operator:
    def run(args: Sequence[Any], attrs: Any) -> Any:
        axis = None if attrs.axis is None else int(attrs.axis)
        return function(args[0], axis, bool(attrs.keepdims))

    return run


def _take(args: Sequence[Any], attrs: Any) -> Any:
    """An index out of range, negative ones too, is undefined with `mode="fast"`: NaN, or the least integer."""
    data, index = args
    mode, axis = str(attrs.mode), attrs.axis
    data = data.reshape(-1) if axis is None else data
    axis = 0 if axis is None else int(axis) % data.dim()
    size = data.shape[axis]
    index = torch.as_tensor(index)
    wrapped = index % size if mode == "wrap" else index.clamp(0, size - 1)
    found = torch.index_select(data, axis, wrapped.reshape(-1).long())
    found = found.reshape([*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]])
    outside = (index < 0) | (index >= size)
    if mode in ("wrap", "clip") or not bool(outside.any()):
        return found
    shape = [1] * axis + list(index.shape) + [1] * (data.dim() - axis - 1)
    undefined = float("nan") if found.is_floating_point() else _least(found.dtype)
    return torch.where(outside.reshape(shape), torch.tensor(undefined, dtype=found.dtype), found)


def _least(dtype: torch.dtype) -> int:
    return 1 if dtype == torch.bool else torch.iinfo(dtype).min


def _strided_slice(args: Sequence[Any], attrs: Any) -> Any:
    """Ends are exclusive; negative numbers count from the end, and are clamped after that, as in numpy."""
    data, axes, begins, ends = args[:4]
    steps = args[4] if len(args) > 4 else [1] * len(axes)
    found = to_numpy(data)
    place = [slice(None)] * found.ndim
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        place[int(axis)] = slice(int(begin), int(end), int(step))
    return to_torch(found[tuple(place)].copy())


def _reshape(args: Sequence[Any], attrs: Any) -> Any:
    return args[0].reshape(args[1])


def _squeeze(args: Sequence[Any], attrs: Any) -> Any:
    return torch.squeeze(args[0]) if attrs.axis is None else torch.squeeze(args[0], tuple(_ints(attrs.axis) or ()))


def _expand_dims(args: Sequence[Any], attrs: Any) -> Any:
    found, axes = args[0], _ints(attrs.axis) or []
    for axis in sorted(each % (found.dim() + len(axes)) for each in axes):
        found = found.unsqueeze(axis)
    return found


def _permute(args: Sequence[Any], attrs: Any) -> Any:
    axes = _ints(attrs.axes)
    return args[0].permute(axes if axes is not None else tuple(reversed(range(args[0].dim()))))


def _split(args: Sequence[Any], attrs: Any) -> Any:
    axis, parts = int(attrs.axis), attrs.indices_or_sections
    if hasattr(parts, "value") or isinstance(parts, int):
        return tuple(torch.tensor_split(args[0], int(parts), axis))
    return tuple(torch.tensor_split(args[0], [int(each) for each in parts], axis))


def _pool(rank: int, kind: str) -> Operator:
    """Pooling in PyTorch's layout. Padding is given for both ends of each dimension."""

    def run(args: Sequence[Any], attrs: Any) -> Any:
        padding = _ints(attrs.padding) or [0]
        padding = padding * rank if len(padding) == 1 else padding
        before, after = padding[:rank], padding[rank:] or padding[:rank]
        if before != after or str(attrs.layout) not in ("NCW", "NCHW", "NCDHW"):
            raise Unsupported("model", "no evaluation of Relax's pooling with this padding or layout")
        kernel, stride = _ints(attrs.pool_size), _ints(attrs.strides)
        dilation, ceil = _ints(attrs.dilation), bool(attrs.ceil_mode)
        if kind == "max":
            return vars(F)[f"max_pool{rank}d"](args[0], kernel, stride, before, dilation, ceil)
        if any(each != 1 for each in dilation or []):
            raise Unsupported("model", "no evaluation of Relax's dilated average pooling")
        return vars(F)[f"avg_pool{rank}d"](args[0], kernel, stride, before, ceil, bool(attrs.count_include_pad))

    return run


def _convolution(rank: int) -> Operator:
    def run(args: Sequence[Any], attrs: Any) -> Any:
        padding = _ints(attrs.padding) or [0]
        padding = padding * rank if len(padding) == 1 else padding
        before, after = padding[:rank], padding[rank:] or padding[:rank]
        if str(attrs.data_layout) not in ("NCW", "NCHW", "NCDHW"):
            raise Unsupported("model", "no evaluation of Relax's convolution in this layout")
        sizes = [size for pair in reversed(list(zip(before, after, strict=True))) for size in pair]
        padded = F.pad(args[0], sizes)
        strides, dilation = _ints(attrs.strides), _ints(attrs.dilation)
        return vars(F)[f"conv{rank}d"](padded, args[1], None, strides, 0, dilation, int(attrs.groups))

    return run


def _batch_norm(args: Sequence[Any], attrs: Any) -> Any:
    """The result, and the moving mean and variance, which a run in training mode moves towards the batch's."""
    data, gamma, beta, mean, variance = args
    axis, training = int(attrs.axis), bool(attrs.training)
    others = [each for each in range(data.dim()) if each != axis]
    used = (data.mean(others), data.var(others, correction=0)) if training else (mean, variance)
    shape = [-1 if each == axis else 1 for each in range(data.dim())]
    found = (data - used[0].reshape(shape)) / torch.sqrt(used[1].reshape(shape) + float(attrs.epsilon))
    found = found * gamma.reshape(shape) if bool(attrs.scale) else found
    found = found + beta.reshape(shape) if bool(attrs.center) else found
    if not training:
        return found, mean, variance
    momentum = float(attrs.momentum)
    count = data.numel() // data.shape[axis]
    unbiased = used[1] * (count / max(count - 1, 1))
    return found, (1 - momentum) * mean + momentum * used[0], (1 - momentum) * variance + momentum * unbiased


def _source(size: int, wanted: int, mode: str) -> torch.Tensor:
    """Where the elements of a resized dimension lie in the original one."""
    places = torch.arange(wanted, dtype=torch.float64)
    if mode == "align_corners":
        return places * ((size - 1) / (wanted - 1) if wanted > 1 else 0.0)
    if mode == "asymmetric":
        return places * (size / wanted)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        found = (places + 0.5) * (size / wanted) - 0.5
        return torch.zeros_like(found) if mode == "pytorch_half_pixel" and wanted == 1 else found
    raise Unsupported("model", f"no evaluation of Relax's resize with {mode}")


_ROUNDED: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": lambda x: torch.floor(x + 0.5),
    "round_prefer_floor": lambda x: torch.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: torch.floor(x + 0.5),
}


def _resize(args: Sequence[Any], attrs: Any) -> Any:
    """Resizes the dimensions behind the second, one after the other: nearest neighbour, or linear."""
    found, sizes = args[0], args[1]
    mode, method = str(attrs.coordinate_transformation_mode), str(attrs.method)
    if str(attrs.layout) not in ("NCHW", "NCDHW") or method not in ("nearest_neighbor", "linear"):
        raise Unsupported("model", f"no evaluation of Relax's resize with {method}")
    rounded = str(attrs.rounding_method) or ("round" if mode == "align_corners" else "round_prefer_floor")
    for axis, wanted in enumerate(sizes, 2):
        size = found.shape[axis]
        places = _source(size, int(wanted), mode)
        if method == "nearest_neighbor":
            found = found.index_select(axis, _ROUNDED[rounded](places).clamp(0, size - 1).long())
            continue
        low = torch.floor(places)
        share = (places - low).to(found.dtype).reshape([-1 if each == axis else 1 for each in range(found.dim())])
        ends = [found.index_select(axis, (low + step).clamp(0, size - 1).long()) for step in (0, 1)]
        found = ends[0] * (1 - share) + ends[1] * share
    return found


def _pad(args: Sequence[Any], attrs: Any) -> Any:
    widths = _ints(attrs.pad_width) or []
    pairs = [widths[place : place + 2] for place in range(0, len(widths), 2)]
    sizes = [size for pair in reversed(pairs) for size in pair]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}.get(str(attrs.pad_mode))
    if mode is None or mode != "constant":
        raise Unsupported("model", f"no evaluation of Relax's pad with {attrs.pad_mode}")
    return F.pad(args[0], sizes, "constant", float(args[1]) if len(args) > 1 else float(attrs.pad_value))


def _clip(args: Sequence[Any], attrs: Any) -> Any:
    return torch.clamp(args[0], args[1], args[2])


def _layer_norm(args: Sequence[Any], attrs: Any) -> Any:
    axes = _ints(attrs.axes) or []
    data = args[0]
    mean, variance = data.mean(axes, keepdim=True), data.var(axes, correction=0, keepdim=True)
    found = (data - mean) / torch.sqrt(variance + float(attrs.epsilon))
    found = found * args[1] if bool(attrs.scale) else found
    return found + args[2] if bool(attrs.center) else found


def _cumulative(function: Callable[..., Any]) -> Operator:
    def run(args: Sequence[Any], attrs: Any) -> Any:
        if bool(attrs.exclusive):
            raise Unsupported("model", "no evaluation of Relax's exclusive scan")
        data = args[0].reshape(-1) if attrs.axis is None else args[0]
        return function(data, 0 if attrs.axis is None else int(attrs.axis))

    return run


def _full(args: Sequence[Any], attrs: Any) -> Any:
    return args[1].broadcast_to(args[0]) if len(args) > 1 else None


_SAME_NAME: Final = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "ceil", "cos", "cosh", "erf", "exp", "floor", "floor_divide", "isfinite", "isinf", "isnan", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "add", "subtract", "multiply", "divide",
    "negative", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "where", "zeros_like",
    "ones_like", "matmul",
)  # fmt: skip
_OPERATORS: Final[Mapping[str, Operator]] = {
    **{
        name: _simple(getattr(torch, {"equal": "eq", "not_equal": "ne"}.get(name, name))) for name in _SAME_NAME
    },
    "power": _simple(torch.pow),
    "floor_mod": _simple(torch.remainder),
    "mod": _simple(torch.fmod),
    "left_shift": _simple(torch.bitwise_left_shift),
    "right_shift": _simple(torch.bitwise_right_shift),
    "nn.relu": _simple(F.relu),
    "nn.relu6": _simple(F.relu6),
    "nn.silu": _simple(F.silu),
    "nn.gelu": _simple(F.gelu),
    "nn.gelu_tanh": lambda args, attrs: F.gelu(args[0], approximate="tanh"),
    "nn.softmax": lambda args, attrs: torch.softmax(args[0], int(attrs.axis)),
    "nn.log_softmax": lambda args, attrs: torch.log_softmax(args[0], int(attrs.axis)),
    "nn.leakyrelu": lambda args, attrs: F.leaky_relu(args[0], float(attrs.alpha)),
    "nn.softplus": lambda args, attrs: F.softplus(args[0], float(attrs.beta), float(attrs.threshold)),
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.pad": _pad,
    **{f"nn.{kind}_pool{rank}d": _pool(rank, kind) for kind in ("avg", "max") for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d": _convolution(rank) for rank in (1, 2, 3)},
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "astype": lambda args, attrs: args[0].to(torch_dtype(attrs.dtype)),
    "broadcast_to": lambda args, attrs: args[0].broadcast_to(args[1]),
    "clip": _clip,
    "concat": lambda args, attrs: torch.cat(args[0], 0 if attrs.axis is None else int(attrs.axis)),
    "stack": lambda args, attrs: torch.stack(args[0], 0 if attrs.axis is None else int(attrs.axis)),
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "reshape": _reshape,
    "permute_dims": _permute,
    "flip": lambda args, attrs: torch.flip(args[0], [int(attrs.axis)]),
    "split": _split,
    "strided_slice": _strided_slice,
    "take": _take,
    "full": _full,
    "full_like": lambda args, attrs: args[1].broadcast_to(args[0].shape),
    "zeros": lambda args, attrs: torch.zeros(args[0]),
    "ones": lambda args, attrs: torch.ones(args[0]),
    "tile": lambda args, attrs: torch.tile(args[0], _ints(attrs.repeats) or []),
    "tril": lambda args, attrs: torch.tril(args[0], int(args[1]) if len(args) > 1 else int(attrs.k)),
    "triu": lambda args, attrs: torch.triu(args[0], int(args[1]) if len(args) > 1 else int(attrs.k)),
    "gather_elements": lambda args, attrs: torch.gather(args[0], int(attrs.axis), args[1].long()),
    "cumsum": _cumulative(torch.cumsum),
    "cumprod": _cumulative(torch.cumprod),
    "sum": _reduction(torch.sum),
    "mean": _reduction(torch.mean),
    "max": _reduction(torch.amax),
    "min": _reduction(torch.amin),
    "prod": _reduction(_one_by_one(torch.prod)),
    "variance": _reduction(_uncorrected(torch.var)),
    "std": _reduction(_uncorrected(torch.std)),
    "argmax": _arg_reduction(torch.argmax),
    "argmin": _arg_reduction(torch.argmin),
}  # fmt: skip
