"""Operators between two regions: one region's output made into another's input, in closed form.

Nothing here has to be run to know what it gives: every step is a call whose result follows from the
specs. What flows into a region keeps within the values that the region was seen to run with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from mindgap.graph import (
    Arg,
    Constant,
    DType,
    Graph,
    Input,
    MemoryFormat,
    Node,
    Ref,
    TensorSpec,
    contiguous_stride,
    kind_of,
    numpy_dtype,
)
from mindgap.synth.coverage import channels_last_stride
from mindgap.synth.region import Span

#: How a value with too few elements is filled up: with a constant, or with itself.
Filling = Literal["pad", "repeat"]
#: Shares of the target's spread within which values are left as they are.
_ALIKE: Final = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class Way:
    """What may be chosen freely about glue: where a slice begins (0 to 1 of what is left over), and the filling."""

    begin: float = 0.0
    filling: Filling = "repeat"


def can_be_fed(spec: TensorSpec) -> bool:
    """Glue can make a tensor of this dtype, shape and layout."""
    if kind_of(spec.dtype) != "float" or spec.dtype.startswith("float8") or not spec.numel:
        return False
    return spec.stride in (contiguous_stride(spec.shape), channels_last_stride(spec.shape))


def can_feed(spec: TensorSpec, span: Span | None) -> bool:
    """Glue can use a tensor of this dtype and these values."""
    return span is not None and span.varies and spec.numel > 1 and not spec.dtype.startswith("float8")


def glue(source: TensorSpec, gives: Span, target: TensorSpec, takes: Span, way: Way) -> Graph | None:
    """A graph of one input (the source) and one output: a tensor with the target's spec and range of values.

    None where the source already is one. First the number of elements (slice, or fill up), then dtype, values
    (scaled and shifted to the target's mean and spread, then clamped to its range), shape and layout.
    """
    chain = _Chain(source)
    if source.stride != contiguous_stride(source.shape):
        chain.add("aten.clone.default", (), source.shape, memory_format=MemoryFormat("contiguous_format"))
    if source.numel != target.numel:
        _resize(chain, target.numel, takes, way)
    if source.dtype != target.dtype:
        chain.spec = TensorSpec(target.dtype, chain.spec.shape, chain.spec.stride)
        chain.add("aten.to.dtype", (DType(target.dtype),), chain.spec.shape)
    _rescale(chain, gives, takes, target.dtype)
    if chain.spec.shape != target.shape:
        chain.add("aten.reshape.default", (target.shape,), target.shape)
    if target.stride != contiguous_stride(target.shape):
        name = "channels_last" if len(target.shape) == 4 else "channels_last_3d"
        chain.add("aten.clone.default", (), target.shape, target.stride, memory_format=MemoryFormat(name))
    return chain.graph()


class _Chain:
    """Calls one after another, each on the result of the one before."""

    def __init__(self, source: TensorSpec) -> None:
        self.source = source
        self.spec = source
        self._nodes: list[Node] = []

    def add(
        self,
        op: str,
        args: tuple[Arg, ...],
        shape: tuple[int, ...],
        stride: tuple[int, ...] | None = None,
        **kwargs: Arg,
    ) -> None:
        """Appends a call whose result has this shape, and row-major strides if no others are given."""
        self.spec = TensorSpec(self.spec.dtype, shape, contiguous_stride(shape) if stride is None else stride)
        named = tuple(sorted(kwargs.items()))
        self._nodes.append(Node(op, (Ref(len(self._nodes)), *args), named, (self.spec,)))

    def graph(self) -> Graph | None:
        if not self._nodes:
            return None
        return Graph((Input(self.source, Constant(0)),), tuple(self._nodes), (len(self._nodes),))


def _resize(chain: _Chain, wanted: int, takes: Span, way: Way) -> None:
    """A row of so many elements."""
    there = chain.spec.numel
    if len(chain.spec.shape) != 1:
        chain.add("aten.reshape.default", ((there,),), (there,))
    if there < wanted and way.filling == "pad":
        filler = min(max(0.0, takes.low), takes.high)
        chain.add("aten.constant_pad_nd.default", ((0, wanted - there), filler), (wanted,))
        return
    if there < wanted:
        times = math.ceil(wanted / there)
        chain.add("aten.repeat.default", ((times,),), (there * times,))
        there *= times
    if there > wanted:
        begin = int(way.begin * (there - wanted))
        chain.add("aten.slice.Tensor", (0, begin, begin + wanted), (wanted,))


def _rescale(chain: _Chain, gives: Span, takes: Span, dtype: str) -> None:
    """The values brought to the target's mean and spread where they are not, and kept within its range."""
    shape = chain.spec.shape
    alike = takes.std * _ALIKE[0] <= gives.std <= takes.std * _ALIKE[1] and abs(gives.mean - takes.mean) <= takes.std
    if not alike and gives.std > 0:
        scale = short(takes.std / gives.std)
        shift = short(takes.mean - scale * gives.mean)
        chain.add("aten.mul.Scalar", (scale,), shape)
        if shift:
            chain.add("aten.add.Scalar", (shift,), shape)
    low, high = _within(takes, dtype)
    chain.add("aten.clamp.default", (low, high), shape)


def short(number: float) -> float:
    """The number to three significant digits: a scalar that reads well, and is the same everywhere."""
    return float(f"{number:.3g}")


def _within(span: Span, dtype: str) -> tuple[float, float]:
    """Bounds that the dtype holds exactly and that do not leave the span."""
    kind = numpy_dtype(dtype).type
    low, high = kind(span.low), kind(span.high)
    return float(low), float(high)
