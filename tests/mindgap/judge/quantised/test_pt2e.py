"""Graphs of PyTorch's `pt2e` flow: mindgap finds their quantised values, and judges them by their integers."""

from __future__ import annotations

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # pyright: ignore[reportUnusedImport]  # registers the operators
from torch import nn

from mindgap.aten.functional import functionalize
from mindgap.aten.tensors import to_numpy
from mindgap.graph import Array, Graph, materialise_all
from mindgap.graph_capture import capture
from mindgap.judge.quantised import examine_quantised, quantised_values

OPS = torch.ops.quantized_decomposed


class Converted(nn.Module):
    """A linear layer with a ReLU as `convert_pt2e` leaves it: activations of int8, weights of int8 for each channel."""

    def __init__(self) -> None:
        super().__init__()
        numbers = np.random.default_rng(0)
        self.weight = nn.Buffer(torch.from_numpy(numbers.integers(-127, 128, (6, 16)).astype(np.int8)))
        self.scales = nn.Buffer(torch.from_numpy(numbers.uniform(0.002, 0.01, 6).astype(np.float32)))
        self.zeros = nn.Buffer(torch.zeros(6, dtype=torch.int64))
        self.bias = nn.Parameter(torch.from_numpy(numbers.normal(size=6).astype(np.float32)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        given = OPS.quantize_per_tensor(x, 0.03, 5, -128, 127, torch.int8)
        y = torch.relu(
            torch.addmm(self.bias, OPS.dequantize_per_tensor(given, 0.03, 5, -128, 127, torch.int8), weight.t())
        )
        made = OPS.quantize_per_tensor(y, 0.02, -128, -128, 127, torch.int8)
        return OPS.dequantize_per_tensor(made, 0.02, -128, -128, 127, torch.int8)


def captured() -> tuple[Graph, list[Array], torch.Tensor]:
    module, x = Converted().eval(), torch.from_numpy(np.random.default_rng(1).normal(size=(7, 16)).astype(np.float32))
    with torch.no_grad():
        graph = functionalize(capture(module, (x,))).graph
        return graph, list(materialise_all(graph, None)), module(x)


def test_quantised_values_of_a_converted_module_are_judged_by_their_integers() -> None:
    graph, inputs, output = captured()
    first, second = quantised_values(graph)
    assert (first.zero, first.low, first.high) == (5.0, -128.0, 127.0)
    assert (second.zero, second.low, second.high) == (-128.0, -128.0, 127.0)
    right = to_numpy(torch.round(output / 0.02) - 128).astype(np.int8)
    given = to_numpy(torch.clamp(torch.round(torch.from_numpy(inputs[first_input(graph)]) / 0.03) + 5, -128, 127))
    integers = {first.number: given.astype(np.int8), second.number: right}
    assert [one.kind for one in examine_quantised(graph, inputs, integers, [to_numpy(output)])][:2] == ["right"] * 2
    inside = (right > -128) & (right < 126)
    shifted = np.where(inside, right + 1, right).astype(np.int8)
    moved = (shifted.astype(np.float32) + 128) * np.float32(0.02)
    found = examine_quantised(graph, inputs, {**integers, second.number: shifted}, [moved])
    assert [one.kind for one in found][:2] == ["right", "discrepant"] and found[1].count == int(inside.sum())


def first_input(graph: Graph) -> int:
    """The number of the graph's argument."""
    return next(number for number, given in enumerate(graph.inputs) if given.role == "input")
