"""Translates ONNX's recurrent layers, with their default activations."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.models.corpus.onnx_models.node import OnnxNode, translates

Tensor = torch.Tensor

_DEFAULTS: Final = {
    "LSTM": [b"Sigmoid", b"Tanh", b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"], "RNN": [b"Tanh"],
}  # fmt: skip
#: ONNX's gates in PyTorch's order.
_GATES: Final = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}


def _reordered(weight: Tensor, op: str) -> Tensor:
    """Puts the gates along the first dimension into PyTorch's order."""
    parts = weight.chunk(len(_GATES[op]), 0)
    return torch.cat([parts[i] for i in _GATES[op]], 0)


@translates("LSTM", "GRU", "RNN")
def recurrent(
    node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None, c: Tensor | None = None, peephole: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    op, direction = node.op, node.get("direction", b"forward")
    known = {name: [each.lower() for each in names] for name, names in _DEFAULTS.items()}[op] * w.shape[0]
    asked = [each.lower() for each in node.get("activations", known)]
    kind = "relu" if op == "RNN" and set(asked) == {b"relu"} else "tanh"
    node.only(asked == known or kind == "relu", "with other activations")
    node.only(lengths is None, "with a length for each sequence")
    node.only(peephole is None, "with peepholes")
    node.only("clip" not in node.attributes and not node.get("input_forget", 0), "with clipped or coupled gates")
    node.only(op != "GRU" or bool(node.get("linear_before_reset", 0)), "that resets before its linear part")
    hidden, batch_first = r.shape[-1], bool(node.get("layout", 0))
    sequence = x.movedim(1, 0) if batch_first else x
    if direction == b"reverse":
        sequence = sequence.flip(0)
    empty = sequence.new_zeros(w.shape[0], sequence.shape[1], hidden)
    states = [empty if each is None else each.movedim(1, 0) if batch_first else each for each in (h, c)]
    params: list[Tensor] = []
    for i in range(w.shape[0]):
        params += [_reordered(w[i], op), _reordered(r[i], op)]
        if b is not None:
            params += [_reordered(half, op) for half in b[i].chunk(2, 0)]
    function: Any = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": getattr(torch, f"rnn_{kind}")}[op]
    first: Any = states if op == "LSTM" else states[0]
    found = function(
        sequence.contiguous(), first, params, b is not None, 1, 0.0, False, w.shape[0] == 2, False
    )  # fmt: skip
    y = found[0].reshape(*found[0].shape[:2], w.shape[0], hidden)
    y = y.flip(0) if direction == b"reverse" else y
    y = y.permute(1, 0, 2, 3) if batch_first else y.permute(0, 2, 1, 3)
    last = [each.movedim(0, 1) if batch_first else each for each in found[1:]]
    return (y.contiguous(), *(each.contiguous() for each in last))
