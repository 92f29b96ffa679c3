"""Defines the recurrent layers and embeddings of quantised modules on plain tensors.

Recurrent layers and cells multiply as `quantized.linear_dynamic` does: each product quantises its operand by the
operand's own range. The gates are float32. A layer multiplies the inputs of all time steps at once, so that they share
one range, and the hidden state step by step (`FullLayer`, `LSTMCell`, `GRUCell`, `SimpleCell` and
`QuantizedCellParamsDynamic` in ATen/native/RNN.cpp). Cells use seven bits of the operand's eight, layers what they were
made with.

A row of an embedding stands for `q * scale + bias` in float32, with `bias = -(zero point * scale)`; for weights of
4 bits both are rounded to float16 (ATen/native/quantized/cpu/qembeddingbag_prepack.cpp). PyTorch computes it with one
rounding (fused), the definition with two.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions on modules are partly untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.graph_capture.errors import CaptureError

Tensor = torch.Tensor
#: Multiplies an operand by a packed weight. The last argument: whether it has seven bits of eight.
Linear = Callable[[Tensor, Any, bool], Tensor]


class PackedCell(torch.nn.Module):
    """Holds the weights of one direction of one recurrent layer, for the input and for the hidden state.

    reduced: whether operands have seven bits of eight.
    """

    def __init__(self, ih: torch.nn.Module, hh: torch.nn.Module, reduced: bool) -> None:
        super().__init__()
        self.ih, self.hh, self.reduced = ih, hh, reduced


class PackedRows(torch.nn.Module):
    """Holds the integers of an embedding's weight (uint8, each of 8 or of 4 bits), and scale and bias of each row."""

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.bits = 4 if weight.dtype == torch.quint4x2 else 8
        integers, scale = weight.int_repr(), weight.q_per_channel_scales().to(torch.float32)
        bias = weight.q_per_channel_zero_points().to(torch.float32) * scale * -1
        if self.bits == 4:
            integers = torch.stack([integers & 15, integers >> 4], -1).reshape(-1)[: weight.numel()]
            scale, bias = (each.to(torch.float16).to(torch.float32) for each in (scale, bias))
        self.register_buffer("weight", integers.reshape(weight.shape).clone())
        self.register_buffer("scale", scale.reshape(-1, 1).clone())
        self.register_buffer("bias", bias.reshape(-1, 1).clone())

    def rows(self, indices: Tensor, pruned: bool = False) -> Tensor:
        """Returns the rows that indices of any shape select, float32."""
        return self.weight[indices].to(torch.float32) * self.scale[indices] + self.bias[indices]


def _stepped(mode: str, x: Tensor, states: Sequence[Tensor], hidden: Tensor) -> list[Tensor]:
    """One time step. `x`, `hidden`: products of the input and of the hidden state."""
    if mode == "gru":
        (reset, update, new), (h_reset, h_update, h_new) = x.chunk(3, 1), hidden.chunk(3, 1)
        made = torch.tanh(new + h_new * torch.sigmoid(h_reset + reset))
        return [(states[0] - made) * torch.sigmoid(h_update + update) + made]
    if mode == "lstm":
        enter, forget, cell, leave = (hidden + x).chunk(4, 1)
        kept = torch.sigmoid(forget) * states[1] + torch.sigmoid(enter) * torch.tanh(cell)
        return [torch.sigmoid(leave) * torch.tanh(kept), kept]
    return [getattr(torch, mode)(hidden + x)]


def _layers(mode: str) -> Callable[..., Callable[..., tuple[Tensor, ...]]]:
    def with_linear(linear: Linear) -> Callable[..., tuple[Tensor, ...]]:
        def run(x: Tensor, hx: Any, cells: Any, *rest: Any, **_: Any) -> tuple[Tensor, ...]:
            """Runs a recurrent layer over a sequence. `rest`: whether it has biases, layers, dropout, whether it
            trains, whether it has two directions, whether the batch is first."""
            if not isinstance(cells, Sequence) or not all(isinstance(cell, PackedCell) for cell in cells):
                raise CaptureError("a packed sequence has no definition on plain integers here; give a padded tensor")
            _, _, _, _, both, batch_first = rest
            given = [hx] if isinstance(hx, Tensor) else list(hx)
            x = x.transpose(0, 1) if batch_first else x
            last: list[list[Tensor]] = []
            ways = 2 if both else 1
            for layer in range(len(cells) // ways):
                outputs: list[Tensor] = []
                for way in range(ways):
                    cell = cells[layer * ways + way]
                    products = linear(x, cell.ih, cell.reduced)
                    states, steps = [each[layer * ways + way] for each in given], list[Tensor]()
                    for one in reversed(products.unbind(0)) if way else products.unbind(0):
                        states = _stepped(mode, one, states, linear(states[0], cell.hh, cell.reduced))
                        steps.append(states[0])
                    outputs.append(torch.stack(steps[::-1] if way else steps))
                    last.append(states)
                x = torch.cat(outputs, -1) if both else outputs[0]
            ends = [torch.stack(each) for each in zip(*last, strict=True)]
            return (x.transpose(0, 1) if batch_first else x, *ends)

        return run

    return with_linear


def _cell(mode: str) -> Callable[..., Callable[..., Any]]:
    def with_linear(linear: Linear) -> Callable[..., Any]:
        def run(x: Tensor, hx: Any, ih: Any, hh: Any, *_: Any) -> Any:
            states = [hx] if isinstance(hx, Tensor) else list(hx)
            stepped = _stepped(mode, linear(x, ih, True), states, linear(states[0], hh, True))
            return stepped[0] if len(stepped) == 1 else tuple(stepped)

        return run

    return with_linear


def _embedding_bag(
    weight: PackedRows, indices: Tensor, offsets: Tensor | None = None, grad_scales: bool = False, mode: int = 0,
    pruned: bool = False, factors: Tensor | None = None, mapping: Tensor | None = None, last: bool = False,
) -> Tensor:  # fmt: skip
    """Sums rows, each by its factor. `mode` is without effect, in PyTorch's operator too."""
    if pruned or mapping is not None:
        raise CaptureError("pruned weights have no definition on plain integers here")
    rows = weight.rows(indices)
    if indices.dim() == 2:
        return (rows if factors is None else rows * factors.reshape(*indices.shape, 1)).sum(1)
    numbers = torch.arange(indices.shape[0], device=indices.device)
    return F.embedding_bag(
        numbers, rows, None if offsets is None else offsets.to(numbers.dtype), mode="sum",
        per_sample_weights=factors, include_last_offset=last,
    )  # fmt: skip


#: By name: what gives the definition for a function that multiplies.
RECURRENT: Final[dict[str, Callable[[Linear], Callable[..., Any]]]] = {
    "quantized_lstm": _layers("lstm"), "quantized_gru": _layers("gru"),
    "quantized.quantized_lstm_cell_dynamic": _cell("lstm"), "quantized.quantized_gru_cell_dynamic": _cell("gru"),
    "quantized.quantized_rnn_tanh_cell_dynamic": _cell("tanh"),
    "quantized.quantized_rnn_relu_cell_dynamic": _cell("relu"),
}  # fmt: skip
EMBEDDINGS: Final[dict[str, Callable[..., Tensor]]] = {
    **dict.fromkeys(("quantized.embedding_byte", "quantized.embedding_4bit"), PackedRows.rows),
    **dict.fromkeys(("quantized.embedding_bag_byte", "quantized.embedding_bag_4bit"), _embedding_bag),
}
