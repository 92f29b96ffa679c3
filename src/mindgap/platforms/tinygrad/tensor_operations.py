"""Evaluates the operations of a tinygrad tensor that is not computed yet, in numpy and in the dtypes that they declare.

tinygrad writes a tensor as a graph of some forty primitive operations, and makes kernels of it only when the tensor is
computed. What numpy gives here is what the front end asked for, whatever the scheduler and the code generator do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from mindgap.platforms.protocol import Array, Unsupported

_Unary = Callable[[Array], Array]
_Binary = Callable[[Array, Array], Array]

_UNARY: Final[Mapping[str, _Unary]] = {
    "EXP2": np.exp2,
    "LOG2": np.log2,
    "SIN": np.sin,
    "SQRT": np.sqrt,
    "RECIPROCAL": lambda x: (np.ones_like(x) / x).astype(x.dtype),
    "NEG": np.negative,
    "TRUNC": np.trunc,
    "COPY": lambda x: x,
    "CONTIGUOUS": lambda x: x,
    "CONTIGUOUS_BACKWARD": lambda x: x,
    "DETACH": lambda x: x,
    "NOOP": lambda x: x,
}
_BINARY: Final[Mapping[str, _Binary]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "FDIV": np.divide,
    "MAX": np.maximum,
    "POW": np.power,
    "CMPLT": np.less,
    "CMPNE": np.not_equal,
    "CMPEQ": np.equal,
    "XOR": np.bitwise_xor,
    "OR": np.bitwise_or,
    "AND": np.bitwise_and,
    "SHL": np.left_shift,
    "SHR": np.right_shift,
    "FLOORDIV": np.floor_divide,
    "FLOORMOD": np.mod,
    "CMOD": np.fmod,
    "CDIV": lambda x, y: np.trunc(x / y).astype(x.dtype),
}
_REDUCE: Final[Mapping[str, Any]] = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum}


def evaluate(root: Any) -> Array:
    """The value of a `UOp`. Raises `Unsupported` for an operation that is not in the tables."""
    found: dict[Any, Array] = {}
    for node in root.toposort():
        found[node] = _value(node, found)
    return np.array(found[root], order="C")


def _value(node: Any, found: Mapping[Any, Array]) -> Array:
    name = str(node.op.name)
    if name in ("STACK", "DEVICE", "UNIQUE", "LUNIQUE") or (name == "CONST" and _is_invalid(node)):
        return np.zeros(())  # a shape, or a place: whoever takes it reads it from the node
    dtype = _numpy(node.dtype)
    if name == "CONST":
        return np.full(node.shape, node.arg, dtype)
    if name == "BUFFER":
        return np.frombuffer(bytes(node.buffer.as_memoryview()), dtype).reshape(node.shape)
    operands = [found[each] for each in node.src]
    return np.asarray(_computed(name, node, operands), dtype).reshape(node.shape)


def _is_invalid(node: Any) -> bool:
    return not isinstance(node.arg, (bool, int, float))


def _computed(name: str, node: Any, operands: list[Array]) -> Array:
    if name in _UNARY:
        return _UNARY[name](operands[0])
    if name in _BINARY:
        first, second = _strong(node, operands)
        return _BINARY[name](first, second)
    if name == "WHERE":
        return np.where(operands[0], *_strong(node, operands[1:], 1))
    if name == "REDUCE":
        return _reduced(node, operands[0])
    if name == "CAST":
        return _cast(operands[0], _numpy(node.dtype))
    if name == "BITCAST":
        return operands[0].view(_numpy(node.dtype))
    return _moved(name, node, operands[0])


def _strong(node: Any, operands: list[Array], first: int = 0) -> list[Array]:
    """Gives constants that have no dtype of their own (`weakint`) that of the other operand."""
    weak = ["weak" in str(each.dtype) for each in node.src[first:]]
    dtype = next((array.dtype for array, each in zip(operands, weak, strict=True) if not each), None)
    return operands if dtype is None else [array.astype(dtype) for array in operands]


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    return array.astype(dtype)


def _reduced(node: Any, array: Array) -> Array:
    """`REDUCE` holds its operation, and how many of the first dimensions it takes together."""
    operation, axes = node.arg[0], node.arg[1]
    taken = tuple(range(axes)) if isinstance(axes, int) else tuple(axes)
    if operation.name not in _REDUCE:
        raise Unsupported("model", f"no evaluation of tinygrad's REDUCE {operation.name}")
    return _REDUCE[operation.name].reduce(array, axis=taken, dtype=array.dtype)


def _moved(name: str, node: Any, array: Array) -> Array:
    if name == "RESHAPE":
        return array.reshape(node.shape)
    if name == "EXPAND":
        added = len(node.shape) - array.ndim
        return np.broadcast_to(array.reshape((1,) * added + array.shape), node.shape)
    if name == "PERMUTE":
        return array.transpose(node.arg)
    if name == "FLIP":
        return np.flip(array, tuple(axis for axis, flipped in enumerate(node.arg) if flipped))
    if name == "PAD":
        sizes = [
            (int(before), size - old - int(before))
            for (before, _), size, old in zip(node.marg, node.shape, array.shape, strict=True)
        ]
        return np.pad(array, sizes)
    if name == "SHRINK":
        starts = [int(start) for start, _ in node.marg]
        return array[tuple(slice(start, start + size) for start, size in zip(starts, node.shape, strict=True))]
    raise Unsupported("model", f"no evaluation of tinygrad's operation {name}")


@functools.cache
def _numpy(dtype: Any) -> np.dtype[Any]:
    name = str(dtype).removeprefix("dtypes.")
    if "weak" in name:
        return np.dtype(np.float64 if "float" in name else np.int64)
    if dtype.fmt is None:
        raise Unsupported("model", f"numpy has no dtype {name}")
    return np.dtype(dtype.fmt)
