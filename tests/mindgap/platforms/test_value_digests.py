"""The digests of all values of a run: of each value as of its creation; a view names the value that decides it."""

from __future__ import annotations

import numpy as np

from mindgap.graph import Graph, Input, Normal, Ref, TensorSpec
from mindgap.graph.compare.digest import digest_array, digest_bytes
from mindgap.platforms.protocol import Traceable
from platforms.torch_graphs import arrays, conv_net, counter, node, opened, same, spec

X = spec("float32", (4,))
PAIRS = spec("float32", (2, 2))


def traced(graph: Graph, platform: str = "cpu/eager"):
    """Outputs, digests and whole values of a graph."""
    inputs = arrays(graph)
    executable = opened(platform).load(graph, inputs)
    assert isinstance(executable, Traceable)
    outputs, digests = executable.digest_values(inputs)
    assert same(outputs, executable(inputs))
    return outputs, digests, executable.trace(inputs)


def test_digests_are_those_of_the_values_as_of_their_creation():
    for graph in (counter(), conv_net()):
        _, digests, values = traced(graph)
        strings = [(d, v) for d, v in zip(digests, values, strict=True) if isinstance(d, str)]
        assert len(strings) >= 3 and all(d == digest_bytes(v) == digest_array(v) for d, v in strings)


def test_a_view_names_what_it_is_a_view_of_and_is_not_digested_again():
    graph = Graph((Input(X, Normal(0)),), (
        node("aten.mul.Tensor", Ref(0), 2.0, out=X),
        node("aten.view.default", Ref(1), (2, 2), out=PAIRS),
        node("aten.t.default", Ref(2), out=TensorSpec("float32", (2, 2), (1, 2))),
        node("aten.view.default", Ref(0), (2, 2), out=PAIRS),
    ), (3, 4))  # fmt: skip
    _, digests, _ = traced(graph)
    assert isinstance(digests[0], str) and digests[1:] == [1, 1, 0]


def test_a_view_taken_after_a_write_is_digested():
    graph = Graph((Input(X, Normal(0)),), (
        node("aten.mul.Tensor", Ref(0), 2.0, out=X),
        node("aten.zero_.default", Ref(1), out=X),
        node("aten.view.default", Ref(1), (2, 2), out=PAIRS),
        node("aten.view.default", Ref(2), (2, 2), out=PAIRS),
    ), (3, 4))  # fmt: skip
    _, digests, values = traced(graph)
    assert digests[0] != digests[1] and digests[2] == digest_bytes(values[2])
    assert not values[2].any() and digests[3] == 2


def test_memory_beyond_the_operand_and_written_inputs_are_digested():
    half = spec("float32", (2,))
    graph = Graph((Input(X, Normal(0)), Input(X, Normal(1))), (
        node("aten.mul.Tensor", Ref(0), 2.0, out=X),
        node("aten.slice.Tensor", Ref(2), 0, 2, 4, out=half),
        node("aten.as_strided.default", Ref(3), (2,), (1,), 0, out=half),
        node("aten.add_.Tensor", Ref(1), Ref(0), out=X),
        node("aten.view.default", Ref(1), (2, 2), out=PAIRS),
    ), (4, 6))  # fmt: skip
    _, digests, values = traced(graph)
    assert digests[1] == 2 and digests[2] == digest_bytes(values[2])
    assert digests[4] == digest_bytes(values[4]) == digest_bytes(values[3].reshape(2, 2))


def test_views_of_converted_inputs_are_digested():
    graph = Graph((Input(X, Normal(0)),), (node("aten.view.default", Ref(0), (2, 2), out=PAIRS),), (1,))
    _, digests, _ = traced(graph, "cpu/eager@dtype=float64")
    assert digests == [digest_bytes(arrays(graph)[0].reshape(2, 2))]


def test_only_the_wanted_values_come_whole():
    graph = counter()
    executable = opened("cpu/eager").load(graph, arrays(graph))
    everything, some = executable.trace(arrays(graph)), executable.trace(arrays(graph), [2])
    assert some[0] is None and some[2] is None and np.array_equal(some[1], everything[1])
