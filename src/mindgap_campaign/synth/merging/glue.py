"""Builds glue: operators that convert one region's output to another region's input.

Glue has three parts. Each depends on one side only, so that parts can be cached: an output *leaves* its region as a
standard row (a power of two elements, mean 0, spread 1); a row becomes *another row*, of another length or dtype; a row
*enters* a region as an input within the values with which the region ran. Nothing runs here: the result of every step
follows from the specs.
"""

from __future__ import annotations

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
    numpy_dtype,
)
from mindgap.graph.features import channels_last_stride
from mindgap_campaign.synth.regions.region import ValueStatistics

#: How a row is made longer: with a constant, or with itself.
Filling = Literal["pad", "repeat"]
#: The dtypes between which glue converts.
FLOATS: Final = ("float32", "float64", "bfloat16", "float16")
#: Spreads, and the largest mean in units of the spread, that pass for standard.
_STANDARD: Final = (0.5, 2.0, 0.5)


@dataclass(frozen=True, slots=True)
class StandardRow:
    """A one-dimensional, row-major tensor of a power of two elements with standard values."""

    dtype: str
    length: int

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, (self.length,), (1,))

    @property
    def code(self) -> int:
        """Encodes the row as one number."""
        return len(FLOATS) * self.length.bit_length() + FLOATS.index(self.dtype)

    @staticmethod
    def of(code: int) -> StandardRow:
        """The inverse of `code`."""
        bits, dtype = divmod(code, len(FLOATS))
        return StandardRow(FLOATS[dtype], 1 << bits - 1)


@dataclass(frozen=True, slots=True)
class RowConversion:
    """The random choices when a row becomes another: which part of a longer row, how a shorter row is filled."""

    part: int = 0
    filling: Filling = "repeat"

    @property
    def code(self) -> int:
        """Encodes the choices as one number."""
        return 2 * self.part + (self.filling == "pad")

    @staticmethod
    def of(code: int) -> RowConversion:
        """The inverse of `code`. Raises ValueError for a number below 0."""
        if code < 0:
            raise ValueError(f"{code} is no way")
        return RowConversion(code // 2, "pad" if code % 2 else "repeat")


def can_be_fed(spec: TensorSpec, span: ValueStatistics) -> bool:
    """Tells whether glue can produce a tensor of this dtype, shape, layout and range."""
    if spec.dtype not in FLOATS or not spec.numel or not span.varies:
        return False
    return spec.stride in (contiguous_stride(spec.shape), channels_last_stride(spec.shape))


def can_feed(spec: TensorSpec, span: ValueStatistics | None) -> bool:
    """Tells whether glue can read a tensor of this dtype and these values."""
    return spec.dtype in FLOATS and spec.numel > 1 and span is not None and span.varies and span.std > 0


def leaving(source: TensorSpec, gives: ValueStatistics) -> tuple[Graph, StandardRow]:
    """Builds the graph from a region's output to a standard row. Returns it with the row."""
    row = StandardRow(source.dtype, 1 << (source.numel.bit_length() - 1))
    chain = _Chain(source)
    if source.stride != contiguous_stride(source.shape):
        chain.add("aten.clone.default", (), source.shape, memory_format=MemoryFormat("contiguous_format"))
    if len(source.shape) != 1:
        chain.add("aten.reshape.default", ((source.numel,),), (source.numel,))
    if row.length != source.numel:
        chain.add("aten.slice.Tensor", (0, 0, row.length), (row.length,))
    if not _is_standard(gives):
        scale = short(1 / gives.std)
        chain.affine(scale, short(-gives.mean * scale))
    return chain.graph(), row


def between(have: StandardRow, want: StandardRow, conversion: RowConversion) -> Graph:
    """Builds the graph from one row to another; it has no nodes if they are the same."""
    chain = _Chain(have.spec)
    if have.length < want.length and conversion.filling == "pad":
        chain.add("aten.constant_pad_nd.default", ((0, want.length - have.length), 0.0), (want.length,))
    elif have.length < want.length:
        chain.add("aten.repeat.default", ((want.length // have.length,),), (want.length,))
    elif have.length > want.length:
        begin = want.length * (conversion.part % (have.length // want.length))
        chain.add("aten.slice.Tensor", (0, begin, begin + want.length), (want.length,))
    if have.dtype != want.dtype:
        chain.spec = TensorSpec(want.dtype, chain.spec.shape, chain.spec.stride)
        chain.add("aten.to.dtype", (DType(want.dtype),), chain.spec.shape)
    return chain.graph()


def entering(target: TensorSpec, takes: ValueStatistics) -> tuple[Graph, StandardRow]:
    """Builds the graph from a standard row to a tensor of the target's spec and range. Returns it with the row."""
    row = StandardRow(target.dtype, 1 << (target.numel - 1).bit_length())
    chain = _Chain(row.spec)
    if row.length != target.numel:
        chain.add("aten.slice.Tensor", (0, 0, target.numel), (target.numel,))
    if not _is_standard(takes):
        chain.affine(short(takes.std), short(takes.mean))
    low, high = _within(takes, target.dtype)
    chain.add("aten.clamp.default", (low, high), chain.spec.shape)
    if len(target.shape) != 1:
        chain.add("aten.reshape.default", (target.shape,), target.shape)
    if target.stride != contiguous_stride(target.shape):
        name = "channels_last" if len(target.shape) == 4 else "channels_last_3d"
        chain.add("aten.clone.default", (), target.shape, target.stride, memory_format=MemoryFormat(name))
    return chain.graph(), row


class _Chain:
    """Builds a chain of calls, each on the result of the previous one."""

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

    def affine(self, scale: float, shift: float) -> None:
        """Appends x·scale + shift."""
        self.add("aten.mul.Scalar", (scale,), self.spec.shape)
        if shift:
            self.add("aten.add.Scalar", (shift,), self.spec.shape)

    def graph(self) -> Graph:
        return Graph((Input(self.source, Constant(0)),), tuple(self._nodes), (len(self._nodes),))


def _is_standard(span: ValueStatistics) -> bool:
    least, most, off = _STANDARD
    return least <= span.std <= most and abs(span.mean) <= off * span.std


def short(number: float) -> float:
    """Rounds to three significant digits: a readable scalar, equal on every machine."""
    return float(f"{number:.3g}")


def _within(span: ValueStatistics, dtype: str) -> tuple[float, float]:
    """Returns the span's bounds rounded to the dtype."""
    kind = numpy_dtype(dtype).type
    return float(kind(span.low)), float(kind(span.high))
