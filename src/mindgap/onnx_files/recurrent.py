"""Translates ONNX's recurrent layers: to PyTorch's layer where that computes the same, else one step after another.

Sources of the formulas: ONNX's specification of `LSTM`, `GRU` and `RNN` (version 22); ONNX Runtime's kernel of
`com.microsoft.DynamicQuantizeLSTM`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates
from mindgap.onnx_files.pointwise import dynamic_quantize

Tensor = torch.Tensor

_DEFAULTS: Final = {
    "LSTM": [b"sigmoid", b"tanh", b"tanh"], "GRU": [b"sigmoid", b"tanh"], "RNN": [b"tanh"],
}  # fmt: skip
#: ONNX's gates in PyTorch's order.
_GATES: Final = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
#: Activations by ONNX's names in lower case; `a` and `b`: alpha and beta, with their defaults.
_ACTIVATIONS: Final[Mapping[bytes, tuple[Callable[[Tensor, float, float], Tensor], float, float]]] = {
    b"relu": (lambda x, a, b: torch.relu(x), 0, 0), b"tanh": (lambda x, a, b: torch.tanh(x), 0, 0),
    b"sigmoid": (lambda x, a, b: torch.sigmoid(x), 0, 0), b"affine": (lambda x, a, b: x * a + b, 1, 0),
    b"leakyrelu": (lambda x, a, b: F.leaky_relu(x, a), 0.01, 0),
    b"thresholdedrelu": (lambda x, a, b: F.threshold(x, a, 0.0), 1, 0),
    b"scaledtanh": (lambda x, a, b: torch.tanh(x * b) * a, 1, 1),
    b"hardsigmoid": (lambda x, a, b: torch.clamp(x * a + b, 0.0, 1.0), 0.2, 0.5),
    b"elu": (lambda x, a, b: F.elu(x, a), 1, 0), b"softsign": (lambda x, a, b: F.softsign(x), 0, 0),
    b"softplus": (lambda x, a, b: F.softplus(x), 0, 0),
}  # fmt: skip
#: Steps of a layer that are written out, at most.
_STEPS: Final = 256
#: As many of a quantised one, each of whose steps is some 30 operators.
_QUANTISED_STEPS: Final = 32


@dataclass(frozen=True)
class _Direction:
    """What one direction of a layer has: weights of the input and of the state, biases (None: zero), the weights from
    the cell to the gates (`LSTM`), first states, the activations, and what is done to a state before its product."""

    w: Tensor
    r: Tensor
    biases: tuple[Tensor, Tensor] | None
    peephole: Tensor | None
    h: Tensor
    c: Tensor
    activations: Sequence[Callable[[Tensor], Tensor]]
    given: Callable[[Tensor], Tensor]


@translates("com.microsoft.DynamicQuantizeLSTM", structural=(4,))
def dynamic_quantize_lstm(
    node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, _: None, h: Tensor | None, c: Tensor | None,
    peephole: Tensor | None, ws: Tensor, wz: Tensor, rs: Tensor, rz: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The whole input is quantised at once, and the states of all rows at each step, to bytes by their own range. So
    does ONNX Runtime with one thread; with more, each thread takes the range of its rows."""

    node.only(x.shape[0] <= _QUANTISED_STEPS, f"of more than {_QUANTISED_STEPS} steps")

    def real(weight: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        scale, zero = (each.reshape(each.shape[0], 1, -1) for each in (scale, zero))
        return ((weight.to(torch.float32) - zero.to(torch.float32)) * scale).transpose(1, 2)

    w, r = real(w, ws, wz), real(r, rs, rz)
    return recurrent(replace(node, op="LSTM"), _through_bytes(x), w, r, b, None, h, c, peephole, _through_bytes)


def _through_bytes(x: Tensor) -> Tensor:
    """Quantises to bytes and back. Zeros have no range."""
    quantised, scale, zero = dynamic_quantize(OnnxNode("DynamicQuantizeLinear", {}, {}, (True,)), x)
    moved = (quantised.to(torch.float32) - zero.to(torch.float32)) * scale
    return torch.where(scale > 0, moved, x)


@translates("LSTM", "GRU", "RNN", structural=(4,))
def recurrent(
    node: OnnxNode, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, _: None = None,
    h: Tensor | None = None, c: Tensor | None = None, peephole: Tensor | None = None,
    given: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Lengths of the sequences must be known. Where all are the whole length they change nothing."""
    batch_first = bool(node.get("layout", 0))
    sequence = x.movedim(1, 0) if batch_first else x
    empty = sequence.new_zeros(w.shape[0], sequence.shape[1], r.shape[-1])
    states = [empty if each is None else each.movedim(1, 0) if batch_first else each for each in (h, c)]
    lengths = node.integers(4)
    if lengths is not None and all(length == sequence.shape[0] for length in lengths):
        lengths = None
    plain = lengths is None and peephole is None and given is None and _is_plain(node, w.shape[0])
    y, *last = (
        _pytorch_layer(node, sequence, w, r, b, states) if plain
        else _stepwise_layer(node, sequence, w, r, b, states, lengths, peephole, given or (lambda state: state))
    )  # fmt: skip
    y = y.permute(1, 0, 2, 3) if batch_first else y.permute(0, 2, 1, 3)
    last = [each.movedim(0, 1) if batch_first else each for each in last]
    return (y.contiguous(), *(each.contiguous() for each in last))


def _is_plain(node: OnnxNode, directions: int) -> bool:
    """Whether PyTorch's layer computes this, given no lengths and no peepholes."""
    activations = _activations_of(node, directions)
    known = activations == _DEFAULTS[node.op] * directions or (node.op == "RNN" and set(activations) == {b"relu"})
    reset = node.op != "GRU" or bool(node.get("linear_before_reset", 0))
    return known and reset and "clip" not in node.attributes and not node.get("input_forget", 0)


def _activations_of(node: OnnxNode, directions: int) -> list[bytes]:
    return [name.lower() for name in node.get("activations", _DEFAULTS[node.op] * directions)]


def _reordered(weight: Tensor, op: str) -> Tensor:
    """Puts the gates along the first dimension into PyTorch's order."""
    parts = weight.chunk(len(_GATES[op]), 0)
    return torch.cat([parts[i] for i in _GATES[op]], 0)


def _pytorch_layer(
    node: OnnxNode, sequence: Tensor, w: Tensor, r: Tensor, b: Tensor | None, states: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Returns [steps, batch, directions, hidden] and the last states, of PyTorch's layer."""
    op, backwards = node.op, node.get("direction", b"forward") == b"reverse"
    kind = "relu" if set(_activations_of(node, w.shape[0])) == {b"relu"} else "tanh"
    params: list[Tensor] = []
    for i in range(w.shape[0]):
        params += [_reordered(w[i], op), _reordered(r[i], op)]
        if b is not None:
            params += [_reordered(half, op) for half in b[i].chunk(2, 0)]
    function: Any = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": getattr(torch, f"rnn_{kind}")}[op]
    first: Any = states if op == "LSTM" else states[0]
    given = sequence.flip(0) if backwards else sequence.contiguous()
    results = function(given, first, params, b is not None, 1, 0.0, False, w.shape[0] == 2, False)
    y = results[0].reshape(*results[0].shape[:2], w.shape[0], r.shape[-1])
    return (y.flip(0) if backwards else y, *results[1:])


def _stepwise_layer(
    node: OnnxNode, sequence: Tensor, w: Tensor, r: Tensor, b: Tensor | None, states: Sequence[Tensor],
    lengths: Sequence[int] | None, peephole: Tensor | None, given: Callable[[Tensor], Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Returns [steps, batch, directions, hidden] and the last states, each step written out."""
    node.only(sequence.shape[0] <= _STEPS, f"of more than {_STEPS} steps that PyTorch's layer does not have")
    names, per = _activations_of(node, w.shape[0]), len(_DEFAULTS[node.op])
    node.only(set(names) <= set(_ACTIVATIONS), "with other activations")
    alphas, betas = node.get("activation_alpha"), node.get("activation_beta")
    node.only(not (alphas or betas) or set(names) & {b"affine", b"scaledtanh"} == set(), "with such parameters")
    outputs: list[Tensor] = []
    ends: list[list[Tensor]] = []
    for i in range(w.shape[0]):
        one = _Direction(
            w[i], r[i], None if b is None else (b[i].chunk(2, 0)[0], b[i].chunk(2, 0)[1]),
            None if peephole is None else peephole[i], states[0][i], states[1][i],
            [_activation(name, alphas, betas, i * per + k) for k, name in enumerate(names[i * per : (i + 1) * per])],
            given,
        )  # fmt: skip
        backwards = node.get("direction", b"forward") == b"reverse" or i == 1
        y, *end = _one_direction(node, sequence, one, lengths, backwards)
        outputs.append(y)
        ends.append(end)
    last = [torch.stack(list(each)) for each in zip(*ends, strict=True)]
    return (torch.stack(outputs, 2), *(last if node.op == "LSTM" else last[:1]))


def _activation(name: bytes, alphas: Any, betas: Any, position: int) -> Callable[[Tensor], Tensor]:
    function, a, b = _ACTIVATIONS[name]
    a = alphas[position] if alphas and position < len(alphas) else a
    b = betas[position] if betas and position < len(betas) else b
    return lambda x: function(x, a, b)


def _one_direction(
    node: OnnxNode, sequence: Tensor, one: _Direction, lengths: Sequence[int] | None, backwards: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the results of all steps and the last states. A sequence that has ended keeps its states and gives 0."""
    step: Any = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}[node.op]
    h, c, count = one.h, one.c, sequence.shape[0]
    results: dict[int, Tensor] = {}
    for position in reversed(range(count)) if backwards else range(count):
        new_h, new_c = step(node, one, sequence[position], h, c)
        if lengths is None:
            h, c, results[position] = new_h, new_c, new_h
            continue
        runs = torch.tensor([[position < length] for length in lengths])
        h, c = torch.where(runs, new_h, h), torch.where(runs, new_c, c)
        results[position] = torch.where(runs, new_h, torch.zeros_like(new_h))
    return torch.stack([results[position] for position in range(count)]), h, c


def _clipped(node: OnnxNode, x: Tensor) -> Tensor:
    limit = node.get("clip")
    return x if limit is None else torch.clamp(x, -limit, limit)


def _gates(one: _Direction, x: Tensor, h: Tensor, count: int) -> tuple[Tensor, ...]:
    """Returns what each gate gets of the input and the state."""
    if one.biases is None:
        return (F.linear(x, one.w) + F.linear(h, one.r)).chunk(count, -1)
    return (F.linear(x, one.w, one.biases[0]) + F.linear(h, one.r, one.biases[1])).chunk(count, -1)


def _rnn_step(node: OnnxNode, one: _Direction, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    (gate,) = _gates(one, x, h, 1)
    return one.activations[0](_clipped(node, gate)), c


def _lstm_step(node: OnnxNode, one: _Direction, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Gates stand in the order input, output, forget, cell; the weights from the cell in the order input, output,
    forget."""
    i, o, f, g = _gates(one, x, one.given(h), 4)
    first, second, third = one.activations
    from_cell = None if one.peephole is None else one.peephole.chunk(3)
    entered = first(_clipped(node, i if from_cell is None else i + from_cell[0] * c))
    kept = (
        1 - entered if node.get("input_forget", 0)
        else first(_clipped(node, f if from_cell is None else f + from_cell[2] * c))
    )  # fmt: skip
    cell = kept * c + entered * second(_clipped(node, g))
    shown = first(_clipped(node, o if from_cell is None else o + from_cell[1] * cell))
    return shown * third(cell), cell


def _gru_step(node: OnnxNode, one: _Direction, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Gates stand in the order update, reset, hidden. The state is reset before its linear part unless
    `linear_before_reset` is set."""
    width = h.shape[-1]
    of_input = F.linear(x, one.w, None if one.biases is None else one.biases[0])
    z_r = of_input[..., : 2 * width] + F.linear(
        h, one.r[: 2 * width], None if one.biases is None else one.biases[1][: 2 * width]
    )
    first, second = one.activations
    z, reset = (first(_clipped(node, part)) for part in z_r.chunk(2, -1))
    bias = None if one.biases is None else one.biases[1][2 * width :]
    if node.get("linear_before_reset", 0):
        of_state = reset * F.linear(h, one.r[2 * width :], bias)
    else:
        of_state = F.linear(reset * h, one.r[2 * width :], bias)
    hidden = second(_clipped(node, of_input[..., 2 * width :] + of_state))
    return (1 - z) * hidden + z * h, c
