"""Computes one operator independently: formulations that share no kernel with the one in dispute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.storage import StorageRead, storage_reads
from mindgap.aten.tape import flatten_result
from mindgap.aten.torch_private.overloads import decomposition_of, reference_of
from mindgap.graph import operands
from mindgap.judge.oracle.evaluation.float64 import bind_call, first_line, neutral_float64, packet_of
from mindgap.judge.oracle.oracle import Oracle
from mindgap.judge.oracle.single_operator import WideValues


def _power(base: Any, exponent: Any) -> Any:
    """C's pow. Given a scalar ½, numpy takes a square root, which differs at -0 and -∞."""
    return np.power(base, np.broadcast_to(exponent, np.shape(base)).copy() if np.ndim(base) else exponent)


_NUMPY: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "exp": np.exp, "log": np.log,
    "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "abs": np.abs,
    "sign": np.sign, "maximum": np.maximum, "minimum": np.minimum, "mm": np.matmul, "bmm": np.matmul,
    "matmul": np.matmul, "remainder": np.mod, "fmod": np.fmod, "atan2": np.arctan2, "pow": _power,
    "neg": np.negative, "fmax": np.fmax, "fmin": np.fmin, "cumsum": np.cumsum, "floor_divide": np.floor_divide,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "where": np.where,
    "gt": np.greater, "lt": np.less, "ge": np.greater_equal, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip

#: Their decomposition is what the compiler runs, and wrong: it places a window of -Inf in the padding.
_MISPLACED: Final = frozenset({"max_pool2d_with_indices", "max_pool3d_with_indices"})


def second_opinion(
    oracle: Oracle, node: int, decompositions: bool = True, failures: list[str] | None = None
) -> list[Any] | None:
    """The node's results on S's operands by another formulation, in float64, or None where there is none.

    A formulation that raises is passed over, and `failures` gets a sentence about it.

    numpy for what it has; a sum over kernel positions for convolutions; otherwise PyTorch's own decomposition into
    smaller operators, or its reference implementation in Python.
    """
    reads = storage_reads(oracle.graph)
    if node in reads:
        return [_cell_result(oracle, node, reads[node])]
    call = bind_call(oracle.graph, oracle.graph.nodes[node])
    args, kwargs = call.bind(WideValues(oracle))
    packet = packet_of(call.node.op)
    routes = (_by_numpy, _by_convolution, *((_by_decomposition, _by_reference) if decompositions else ()))
    for route in routes:
        try:
            with neutral_float64():
                results = route(packet, call.function, args, kwargs)
        except MemoryError:
            raise
        except Exception as error:
            if failures is not None:
                failures.append(f"{route.__name__.removeprefix('_')} raised {first_line(error)}")
            continue
        if results is not None and all(
            not isinstance(y, torch.Tensor) or s is None or tuple(y.shape) == s.shape
            for y, s in zip(results, call.node.outputs, strict=False)
        ):
            return results
    return None


def _cell_result(oracle: Oracle, node: int, read: StorageRead) -> torch.Tensor:
    """`as_strided` and its kin, cell by cell: a dictionary of what each cell of the root's memory holds."""
    values, at, own = WideValues(oracle), read.window, read.operand
    root = values[read.root].numpy()
    held = {_cell(position, read.layout.stride, 0): root[position] for position in np.ndindex(*read.layout.shape)}
    if "scatter" in oracle.graph.nodes[node].op:
        source = values[operands(oracle.graph.nodes[node])[1]].numpy()
        held |= {_cell(position, at.stride, at.offset): source[position] for position in np.ndindex(*at.shape)}
        at = own
    elements = [held[_cell(position, at.stride, at.offset)] for position in np.ndindex(*at.shape)]
    return torch.as_tensor(np.array(elements, dtype=root.dtype).reshape(at.shape))


def _cell(position: tuple[int, ...], stride: tuple[int, ...], offset: int) -> int:
    return offset + sum(i * step for i, step in zip(position, stride, strict=True))


def _by_numpy(packet: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    if packet not in _NUMPY or any(v is not None for v in kwargs.values()):
        return None
    with np.errstate(all="ignore"):
        plain = [a.numpy() if isinstance(a, torch.Tensor) else a for a in args]
        try:
            return [torch.as_tensor(np.asarray(_NUMPY[packet](*plain)))]
        except (TypeError, ValueError):
            # numpy's function takes other arguments, as `add` with `alpha`.
            return None


def _by_convolution(packet: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    """Σ over kernel positions of shifted input times weight: no im2col, no blocked kernel."""
    if packet != "conv2d" or kwargs:
        return None
    given: list[Any] = [*args, *[None, [1, 1], [0, 0], [1, 1], 1][len(args) - 2 :]]
    if isinstance(given[4], str):
        return None
    x: torch.Tensor = given[0]
    weight: torch.Tensor = given[1]
    bias: torch.Tensor | None = given[2]
    stride, padding, dilation = (_pair(v) for v in given[3:6])
    groups = int(given[6])
    x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    n, channels, height, width = x.shape
    out, per_group, kh, kw = weight.shape
    oh = (height - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = torch.zeros(n, groups, out // groups, oh, ow, dtype=x.dtype)
    split = weight.reshape(groups, out // groups, per_group, kh, kw)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilation[0], j * dilation[1]
            patch = x[
                :,
                :,
                top : top + (oh - 1) * stride[0] + 1 : stride[0],
                left : left + (ow - 1) * stride[1] + 1 : stride[1],
            ]
            y += torch.einsum(
                "ngchw,goc->ngohw", patch.reshape(n, groups, channels // groups, oh, ow), split[..., i, j]
            )
    y = y.reshape(n, out, oh, ow)
    return [y + bias.reshape(1, -1, 1, 1) if bias is not None else y]


def _pair(value: Any) -> list[int]:
    items: list[int] = list(value) if isinstance(value, (list, tuple)) else [value]  # pyright: ignore[reportUnknownArgumentType] # ints by schema
    return items if len(items) == 2 else items * 2


def _by_decomposition(packet: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    decomposed = decomposition_of(function)
    if decomposed is None or packet in _MISPLACED:
        return None
    return flatten_result(decomposed(*args, **kwargs))


def _by_reference(packet: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    reference = reference_of(packet)
    return None if reference is None else flatten_result(reference(*args, **kwargs))
