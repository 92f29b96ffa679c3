"""Evaluates the layers of a model that pnnx wrote for ncnn, one after the other, in PyTorch and float32.

What a layer computes is ncnn's documentation of its parameters (`docs/developer-guide/operators.md`). A layer that is
not in the table, or that has weights, is refused. ncnn's matrices have no batch: it is left out, as ncnn leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F

from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import Graph
from mindgap.platforms.ncnn.conversion import ModelPort, NcnnModel
from mindgap.platforms.protocol import Array, Unsupported

#: The batch index of a tensor without a batch, as pnnx writes it.
_NO_BATCH: Final = 233
#: An identifier of an array in a layer's parameters is this number less its place.
_ARRAY: Final = -23300

#: ncnn's number of an operation is its place.
_UNARY: Final[tuple[Callable[[Any], Any], ...]] = (
    torch.abs, torch.neg, torch.floor, torch.ceil, torch.square, torch.sqrt, torch.rsqrt, torch.exp, torch.log,
    torch.sin, torch.cos, torch.tan, torch.asin, torch.acos, torch.atan, torch.reciprocal, torch.tanh, torch.log10,
    torch.round, torch.trunc, torch.sign, torch.expm1, torch.sinh, torch.asinh, torch.cosh, torch.acosh, torch.atanh,
    torch.log1p,
)  # fmt: skip
_BINARY: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.pow,
    lambda a, b: b - a, lambda a, b: b / a, lambda a, b: b**a, torch.atan2, lambda a, b: torch.atan2(b, a),
)  # fmt: skip
_PADDING: Final = {0: "constant", 1: "replicate", 2: "reflect"}


@dataclass(frozen=True)
class Layer:
    """One line of a model. `numbers`, `arrays`: its parameters by identifier."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: Mapping[int, float]
    arrays: Mapping[int, tuple[int, ...]]

    def whole(self, identifier: int, default: int = 0) -> int:
        """A parameter that is an integer."""
        return int(self.numbers.get(identifier, default))


def parse(param: str) -> list[Layer]:
    """The layers of a model's text, in order."""
    found: list[Layer] = []
    for line in param.splitlines()[2:]:
        kind, name, fed, given, *rest = line.split()
        blobs, parameters = rest[: int(fed) + int(given)], rest[int(fed) + int(given) :]
        pairs = [each.split("=", 1) for each in parameters]
        arrays = {
            _ARRAY - int(key): tuple(map(int, value.split(",")[1:])) for key, value in pairs if int(key) <= _ARRAY
        }
        numbers = {int(key): float(value) for key, value in pairs if int(key) > _ARRAY}
        found.append(Layer(kind, name, tuple(blobs[: int(fed)]), tuple(blobs[int(fed) :]), numbers, arrays))
    return found


class LayerProgram:
    """An executable: the layers of one model."""

    def __init__(self, graph: Graph, converted: NcnnModel) -> None:
        """Raises `Unsupported` for a layer that is not in the table."""
        self._graph, self._converted = graph, converted
        self._layers = parse(converted.param)
        for layer in self._layers:
            if layer.kind not in _LAYERS:
                raise Unsupported("model", f"no evaluation of ncnn's layer {layer.kind}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        tensors = input_tensors(self._graph, inputs)
        blobs: dict[str, torch.Tensor] = {}
        for port in self._converted.inputs:
            tensor = tensors[self._converted.fed[int(port.name.removeprefix("in"))]]
            blobs[port.name] = tensor if port.batch == _NO_BATCH else tensor.squeeze(port.batch)
        with torch.no_grad():
            for layer in self._layers:
                if layer.kind != "Input":
                    blobs |= zip(layer.outputs, _results(layer, [blobs[name] for name in layer.inputs]), strict=True)
        return [_result(blobs, port) for port in self._converted.outputs]


def _result(blobs: Mapping[str, torch.Tensor], port: ModelPort) -> Array:
    found = blobs[port.name] if port.batch == _NO_BATCH else blobs[port.name].unsqueeze(port.batch)
    return np.array(to_numpy(found), order="C")


def _results(layer: Layer, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    found: Any = _LAYERS[layer.kind](layer, operands)
    return found if isinstance(found, list) else [found]  # pyright: ignore[reportUnknownVariableType] # a table of both


def _unary(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    return _of(_UNARY, layer, layer.whole(0))(operands[0])


def _binary(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    second = torch.tensor(layer.numbers.get(2, 0.0)) if layer.whole(1) else operands[1]
    return _of(_BINARY, layer, layer.whole(0))(operands[0], second)


def _of(table: Sequence[Any], layer: Layer, code: int) -> Any:
    if not 0 <= code < len(table):
        raise Unsupported("model", f"no evaluation of ncnn's layer {layer.kind} 0={code}")
    return table[code]


def _padded(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    """Top, bottom, left and right; before and behind, of the dimension before these."""
    top, bottom, left, right = (layer.whole(place) for place in range(4))
    mode = _PADDING[layer.whole(4)]
    sizes = [left, right, top, bottom]
    if layer.whole(7) or layer.whole(8):
        sizes += [layer.whole(7), layer.whole(8)]
    padded = operands[0][None]
    sizes = sizes[: 2 * operands[0].dim()]
    found = F.pad(padded, sizes, mode, layer.numbers.get(5, 0.0)) if mode == "constant" else F.pad(padded, sizes, mode)
    return found[0]


def _pooled(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    """Pooling with one padding for both ends of a dimension. Width comes first in ncnn."""
    rank = {"Pooling1D": 1, "Pooling": 2, "Pooling3D": 3}[layer.kind]
    if layer.whole(4) or layer.whole(7) or layer.whole(5) not in (0, 1) or layer.whole(14) or layer.whole(15):
        raise Unsupported("model", f"no evaluation of this case of ncnn's layer {layer.kind}")
    kernel, stride, padding = (
        [layer.whole(10 * place + which, layer.whole(which, default)) for place in reversed(range(rank))]
        for which, default in ((1, 0), (2, 1), (3, 0))
    )
    given, ceil, functions = operands[0][None], layer.whole(5) == 0, vars(F)
    if layer.whole(0) == 0:
        return functions[f"max_pool{rank}d"](given, kernel, stride, padding, ceil_mode=ceil)[0]
    return functions[f"avg_pool{rank}d"](given, kernel, stride, padding, ceil, bool(layer.whole(6)))[0]


def _instance_normalised(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    if layer.whole(2, 1):
        raise Unsupported("model", "no evaluation of ncnn's layer InstanceNorm with weights")
    given = operands[0]
    if given.dim() < 3:
        given = given.reshape(given.shape[0], -1) if given.dim() == 2 else given[:, None]
    dims = tuple(range(1, given.dim()))
    mean, variance = given.mean(dims, keepdim=True), given.var(dims, correction=0, keepdim=True)
    return ((given - mean) / torch.sqrt(variance + layer.numbers.get(1, 0.001))).reshape(operands[0].shape)


def _reshaped(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    """Width, height, depth and channels, of which a shape with fewer dimensions leaves out the later ones."""
    if layer.arrays or 6 in layer.numbers:
        raise Unsupported("model", "no evaluation of ncnn's layer Reshape with sizes that are computed")
    sizes = [layer.whole(place, _NO_BATCH) for place in (2, 11, 1, 0)]
    shape = [operands[0].shape[-1 - 0] if size == 0 else size for size in sizes if size != _NO_BATCH]
    return operands[0].reshape(shape)


def _expanded(layer: Layer, operands: list[torch.Tensor]) -> torch.Tensor:
    found = operands[0]
    for axis in sorted(layer.arrays.get(3, ())):
        found = found.unsqueeze(axis)
    return found


_LAYERS: Final[Mapping[str, Callable[[Layer, list[torch.Tensor]], Any]]] = {
    "Input": lambda layer, operands: operands,
    "Split": lambda layer, operands: [operands[0]] * len(layer.outputs),
    "Noop": lambda layer, operands: [operands[0]] * len(layer.outputs),
    "UnaryOp": _unary,
    "BinaryOp": _binary,
    "TanH": lambda layer, operands: torch.tanh(operands[0]),
    "Sigmoid": lambda layer, operands: torch.sigmoid(operands[0]),
    "Erf": lambda layer, operands: torch.erf(operands[0]),
    "Padding": _padded,
    "Pooling1D": _pooled,
    "Pooling": _pooled,
    "Pooling3D": _pooled,
    "InstanceNorm": _instance_normalised,
    "Reshape": _reshaped,
    "ExpandDims": _expanded,
}
