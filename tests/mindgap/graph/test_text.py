"""The printed form of a graph."""

from __future__ import annotations

from hypothesis import given

from graph import strategies
from graph.samples import F4, call, chain
from mindgap.graph import Constant, Device, DType, Graph, Input, Literal, Node, Ref, TensorSpec


def test_each_input_node_and_output_has_a_line() -> None:
    assert str(chain()) == (
        "%0: float32[4] input x = Normal(seed=0, mean=0.0, std=1.0)\n"
        "%1: float32[4] parameter w = Uniform(seed=1, low=0.0, high=1.0)\n"
        "%2: float32[4] = aten.relu.default(%0)  # first\n"
        "%3: float32[4] = aten.add.Tensor(%2, %1)  # second\n"
        "%4: float32[4] = aten.mul.Tensor(%3, %3)  # third\n"
        "return %4 y"
    )


def test_strides_slots_arguments_and_gradients_are_printed() -> None:
    turned = TensorSpec("float32", (2, 3), (1, 2))
    named = (("device", Device()), ("dtype", DType("float16")))
    node = Node("aten.some.out", ((Ref(0), None), 0.5, "mean"), named, (turned, None))
    small = Input(TensorSpec.contiguous("int64", (2,)), Literal(b"\x01" + bytes(7) + b"\x02" + bytes(7)), "constant")
    graph = Graph((Input(F4, Constant(2.5)), small), (node,), (2,), grad=(0,))
    assert str(graph) == (
        "%0: float32[4] input = 2.5\n"
        "%1: int64[2] constant = [1, 2]\n"
        "%2: float32[2,3] strides [1,2], %3: - = aten.some.out([%0, None], 0.5, 'mean', device=device, dtype=float16)\n"
        "return %2  gradients of %0"
    )


def test_an_operator_without_results_has_a_line() -> None:
    graph = Graph((Input(F4, Constant(0)),), (call("check.default", Ref(0), outputs=0),), (0,))
    assert str(graph).splitlines()[1] == "- = aten.check.default(%0)"


@given(strategies.graphs())
def test_every_graph_prints_a_line_for_each_part(graph: Graph) -> None:
    lines = str(graph).split("\n")
    assert len(lines) == len(graph.inputs) + len(graph.nodes) + 1
    for index, node in enumerate(graph.nodes):
        assert node.op in lines[len(graph.inputs) + index]
