"""Inverts views: computes the contents of a base after one of its views was written to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from mindgap.aten.operators import overload
from mindgap.aten.tensors import torch_dtype_name
from mindgap.graph import Arg, DType, GraphError, Ref

if TYPE_CHECKING:
    from mindgap.aten.functional import Builder


@dataclass(frozen=True)
class ViewStep:
    """A call that took a view. `operand`: the number of its base in the original graph.

    `sizes`: the shapes of all results of the call, of which `slot` is this one.
    """

    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    slot: int
    operand: int
    sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Written:
    """A view that was written to: its contents, its base's contents, and the call that took it."""

    step: ViewStep
    base: Ref
    view: Ref
    base_fake: torch.Tensor
    view_fake: torch.Tensor

    def argument(self, name: str) -> Any:
        """Returns an argument of the call by name, with its default."""
        for position, argument in enumerate(overload(self.step.op)._schema.arguments):
            if argument.name == name:
                if position < len(self.step.args):
                    return self.step.args[position]
                return dict(self.step.kwargs).get(name, argument.default_value)
        raise KeyError(name)


_Back = Callable[["Builder", _Written], list[int]]


def write_back(
    builder: Builder, step: ViewStep, base: int, view: int, base_fake: torch.Tensor, view_fake: torch.Tensor
) -> int:
    """Emits calls that give the base its new contents. `base`, `view`: their present numbers in the new graph.

    For steps of which `writes_back` is true.
    """
    written = _Written(step, Ref(base), Ref(view), base_fake, view_fake)
    packet = step.op.split(".")[1]
    if packet in _BACK:
        return _BACK[packet](builder, written)[0]
    return view  # the whole base in another guise


def writes_back(step: ViewStep, base: torch.Tensor, view: torch.Tensor) -> bool:
    """Returns whether `write_back` supports the step: an operator undoes it, or it shows its whole base."""
    alike = base.dtype == view.dtype and base.shape == view.shape
    return step.op.split(".")[1] in _BACK or (alike and same_layout(base, view))


def scattered(builder: Builder, base: int, view: int, base_fake: torch.Tensor, view_fake: torch.Tensor) -> int:
    """Emits calls that write a view into its base cell by cell. The base is laid out as `base_fake`, at the start of
    its memory. Raises `GraphError` if the two have different dtypes."""
    if base_fake.dtype != view_fake.dtype:
        raise GraphError("a write through a view of another dtype has no functional form")
    offset = int(view_fake.storage_offset()) - int(base_fake.storage_offset())
    shape, stride = tuple(view_fake.shape), tuple(view_fake.stride())
    return builder.emit("aten.as_strided_scatter.default", Ref(base), Ref(view), shape, stride, offset)[0]


def same_layout(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns whether strides and offsets into the memory are equal."""
    return one.stride() == other.stride() and one.storage_offset() == other.storage_offset()


def _reshaped(builder: Builder, written: _Written) -> list[int]:
    if written.step.op == "aten.view.dtype":
        return builder.emit("aten.view.dtype", written.view, DType(torch_dtype_name(written.base_fake.dtype)))
    return builder.emit("aten.reshape.default", written.view, tuple(written.base_fake.shape))


def _transposed(builder: Builder, written: _Written) -> list[int]:
    names = ("axis0", "axis1") if "axes" in written.step.op else ("dim0", "dim1")
    return builder.emit("aten.transpose.int", written.view, *(written.argument(n) for n in names))


def _turned(builder: Builder, written: _Written) -> list[int]:
    if written.base_fake.dim() < 2:
        return [written.view.index]
    return builder.emit("aten.transpose.int", written.view, 0, 1)


def _permuted(builder: Builder, written: _Written) -> list[int]:
    order = [d % len(written.argument("dims")) for d in written.argument("dims")]
    inverse = tuple(order.index(d) for d in range(len(order)))
    return builder.emit("aten.permute.default", written.view, inverse)


def _reversed(builder: Builder, written: _Written) -> list[int]:
    return builder.emit("aten.permute.default", written.view, tuple(reversed(range(written.base_fake.dim()))))


def _selected(builder: Builder, written: _Written) -> list[int]:
    dim, index = written.argument("dim"), written.argument("index")
    return builder.emit("aten.select_scatter.default", written.base, written.view, dim, index)


def _sliced(builder: Builder, written: _Written) -> list[int]:
    cut = [written.argument(name) for name in ("dim", "start", "end", "step")]
    return builder.emit("aten.slice_scatter.default", written.base, written.view, *cut)


def _narrowed(builder: Builder, written: _Written) -> list[int]:
    dim, start, length = int(written.argument("dim")), int(written.argument("start")), int(written.argument("length"))
    if start < 0:
        start += written.base_fake.shape[dim]
    return builder.emit("aten.slice_scatter.default", written.base, written.view, dim, start, start + length)


def _part(builder: Builder, written: _Written) -> list[int]:
    dim = int(written.argument("dim")) % written.base_fake.dim()
    start = sum(size[dim] for size in written.step.sizes[: written.step.slot])
    end = start + written.view_fake.shape[dim]
    return builder.emit("aten.slice_scatter.default", written.base, written.view, dim, start, end)


def _unbound(builder: Builder, written: _Written) -> list[int]:
    dim = written.argument("dim")
    return builder.emit("aten.select_scatter.default", written.base, written.view, dim, written.step.slot)


def _diagonal(builder: Builder, written: _Written) -> list[int]:
    where = [written.argument(name) for name in ("offset", "dim1", "dim2")]
    return builder.emit("aten.diagonal_scatter.default", written.base, written.view, *where)


def _as_complex(builder: Builder, written: _Written) -> list[int]:
    return builder.emit("aten.view_as_complex.default", written.view)


def _as_real(builder: Builder, written: _Written) -> list[int]:
    return builder.emit("aten.view_as_real.default", written.view)


def _with_imaginary(builder: Builder, written: _Written) -> list[int]:
    imaginary = builder.emit("aten.imag.default", written.base)[0]
    return builder.emit("aten.complex.default", written.view, Ref(imaginary))


def _with_real(builder: Builder, written: _Written) -> list[int]:
    real = builder.emit("aten.real.default", written.base)[0]
    return builder.emit("aten.complex.default", Ref(real), written.view)


_BACK: Final[dict[str, _Back]] = {
    **dict.fromkeys(
        ("reshape", "view", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as",
         "ravel"),
        _reshaped,
    ),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transposed),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split"), _part),
    "t": _turned, "permute": _permuted, "numpy_T": _reversed, "select": _selected, "slice": _sliced,
    "narrow": _narrowed, "unbind": _unbound, "diagonal": _diagonal, "view_as_real": _as_complex,
    "view_as_complex": _as_real, "real": _with_imaginary, "imag": _with_real,
}  # fmt: skip
