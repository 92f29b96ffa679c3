"""Cuts are connected, within bounds, closed under writes, and the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from mindgap.aten.tape import Tape, clone_strided
from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, GraphError, Ref, digest, materialise_all, operands, validate
from mindgap.graph_capture import capture
from mindgap_campaign.synth.regions.cut import RegionCut, cut, cut_of
from mindgap_campaign.synth.regions.prepared import PreparedGraph, prepare_graph, usable
from synth.bases import all_bases, border, call, floats

X = floats(4, 4)


@pytest.fixture(scope="module")
def bases() -> dict[str, Graph]:
    return all_bases()


def drawn(graph: Graph, count: int, **bounds: int):
    base = prepare_graph(graph)
    return base, [found for seed in range(count) if (found := cut(base, random.Random(seed), **bounds)) is not None]


def test_cuts_are_valid_connected_and_of_all_sizes(bases: dict[str, Graph]) -> None:
    for graph in bases.values():
        base, cuts = drawn(graph, 60, most_nodes=12)
        sizes = {len(found.nodes) for found in cuts}
        assert len(cuts) > 40 and min(sizes) <= 2 and max(sizes) >= 10
        for found in cuts:
            assert 1 <= len(found.nodes) <= 12 and found.outputs
            validate(found.graph)
            assert _connected(base.graph, found.nodes)
            assert [given.spec for given in found.graph.inputs] == [base.graph.values[v] for v in found.borders]


def _connected(graph: Graph, nodes: tuple[int, ...]) -> bool:
    """By edges, and by memory that they share through a border."""
    inside = {nodes[0]}
    values = {node: {*operands(graph.nodes[node])} for node in nodes}
    for node in nodes:
        values[node].update(range(graph.first_value[node], graph.first_value[node] + len(graph.nodes[node].outputs)))
    while more := {n for n in nodes if n not in inside and any(values[n] & values[m] for m in inside)}:
        inside |= more
    return len(inside) == len(nodes)


def test_the_same_seed_gives_the_same_cut(bases: dict[str, Graph]) -> None:
    for graph in bases.values():
        first = [digest(found.graph) for found in drawn(graph, 8)[1]]
        assert first == [digest(found.graph) for found in drawn(graph, 8)[1]]
        assert len(set(first)) > 1


def test_outputs_are_what_the_rest_reads_and_what_nothing_reads() -> None:
    graph = Graph(
        (border(X),),
        (
            call("sin.default", Ref(0), out=X),  # 1: read inside and outside
            call("cos.default", Ref(1), out=X),  # 2: read inside only
            call("exp.default", Ref(2), out=X),  # 3: read by nothing
            call("neg.default", Ref(1), out=X),  # 4
        ),
        (4,),
    )
    found = cut_of(prepare_graph(graph), [0, 1, 2])
    assert found.outputs == (1, 3) and found.borders == (0,)


def test_an_empty_slot_is_no_output() -> None:
    graph = Graph((border(X),), (call("topk.default", Ref(0), 2, out=(floats(4, 2), None)),), (1,))
    assert cut_of(prepare_graph(graph), [0]).outputs == (1,)


def written_between() -> Graph:
    """sin, then a view of its result is written to, then the result is read again."""
    return Graph(
        (border(X),),
        (
            call("sin.default", Ref(0), out=X),
            call("select.int", Ref(1), 0, 1, out=floats(4)),
            call("add_.Tensor", Ref(2), 1, out=floats(4)),
            call("cos.default", Ref(1), out=X),
            call("exp.default", Ref(1), out=X),
        ),
        (4, 5),
    )


def test_a_write_between_two_looks_at_a_memory_is_in_the_cut() -> None:
    base = prepare_graph(written_between())
    closed = 0
    for seed in range(60):
        found = cut(base, random.Random(seed), 5)
        if found is not None and {0, 3} <= set(found.nodes):
            closed += 1
            assert {1, 2} <= set(found.nodes)
    assert closed > 3


def test_a_cut_that_has_no_room_for_the_write_is_refused() -> None:
    base = prepare_graph(written_between())
    for seed in range(60):
        found = cut(base, random.Random(seed), 2)
        assert found is None or not {0, 3} <= set(found.nodes)


def test_a_border_that_is_written_to_is_an_output() -> None:
    found = cut_of(prepare_graph(written_between()), [1, 2])
    assert found.borders == (1,) and found.outputs == (1,)


def test_a_view_and_its_base_do_not_both_come_in_where_one_is_written_to() -> None:
    graph = Graph(
        (border(X),),
        (
            call("view.default", Ref(0), (16,), out=floats(16)),
            call("add_.Tensor", Ref(1), 1, out=floats(16)),
            call("cos.default", Ref(0), out=X),
            call("mm.default", Ref(3), Ref(0), out=X),
        ),
        (4,),
    )
    base = prepare_graph(graph)
    for seed in range(40):
        found = cut(base, random.Random(seed), 4)
        if found is not None and 1 in found.nodes and 2 in found.nodes:
            assert 0 in found.nodes and found.borders == (0,)


def test_bounds_hold(bases: dict[str, Graph]) -> None:
    for graph in bases.values():
        base, cuts = drawn(graph, 30, most_bytes=4096, most_total=8192, most_work=4000)
        for found in cuts:
            specs = [spec for spec in found.graph.values if spec is not None]
            assert max(spec.nbytes for spec in specs) <= 4096
            assert sum(given.spec.nbytes for given in found.graph.inputs) <= 8192
            assert sum(base.work[node] for node in found.nodes) <= 4000


def test_what_differs_between_runs_is_never_cut() -> None:
    for name, args in (("empty.memory_format", ((4, 4),)), ("bernoulli.default", (Ref(0),)), ("made.up", (Ref(0),))):
        assert not usable(call(name, *args, out=X))
    assert not usable(call("dropout.default", Ref(0), 0.5, True, out=X))
    assert usable(call("dropout.default", Ref(0), 0.5, False, out=X))


def test_masks_and_computed_indices_come_with_what_computes_them() -> None:
    ids = floats(6, dtype="int64")
    flags = floats(6, dtype="bool")
    graph = Graph(
        (border(ids), border(floats(6, 4), role="parameter")),
        (
            call("ne.Scalar", Ref(0), 3, out=flags),
            call("cumsum.default", Ref(2), 0, out=ids),
            call("embedding.default", Ref(1), Ref(3), out=floats(6, 4)),
            call("index.Tensor", Ref(4), (Ref(2),), out=floats(5, 4)),
        ),
        (5,),
    )
    found = cut(prepare_graph(graph), random.Random(0), 8, start=3)
    assert found is not None and 0 in found.nodes


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(GraphError, match="no node 9"):
        cut_of(prepare_graph(written_between()), [9])


def replayed(base: PreparedGraph, found: RegionCut) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The cut's borders as they were when the base came to the first of its nodes that looks at that memory (or at
    which they were there), and its outputs as they were after the last."""
    graph = base.graph
    looks: dict[int, list[int]] = {}
    for node in found.nodes:
        made = range(graph.first_value[node], graph.first_value[node] + len(graph.nodes[node].outputs))
        for value in (*base.operands[node], *made):
            looks.setdefault(base.memory[value], []).append(node)
    arrays = materialise_all(graph)
    values: dict[int, torch.Tensor | None] = {
        number: clone_strided(to_torch(array, given.spec))
        for number, (array, given) in enumerate(zip(arrays, graph.inputs, strict=True))
    }
    borders: dict[int, torch.Tensor] = {}
    outputs: dict[int, torch.Tensor] = {}

    def before(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for value in found.borders:
            tensor = values.get(value)
            if value not in borders and index in looks[base.memory[value]] and tensor is not None:
                borders[value] = clone_strided(tensor)
        return function(*args, **kwargs)

    def after(index: int, results: list[torch.Tensor | None]) -> None:
        values.update(zip(range(graph.first_value[index], len(graph.values)), results, strict=False))
        for value in found.outputs:
            tensor = values.get(value)
            if max(looks[base.memory[value]]) == index and tensor is not None:
                outputs[value] = tensor.clone()

    with torch.no_grad():
        whole = replace(graph, inputs=tuple(replace(given, role="constant") for given in graph.inputs))
        tape = Tape(whole)
        tape.written_inputs = ()  # ours are copies already, and the views that are taken of them should be of these
        tape.run([values[number] for number in range(len(graph.inputs))], after, before)  # type: ignore[misc]
    return [borders[value] for value in found.borders], [outputs[value] for value in found.outputs]


@pytest.mark.parametrize("name", ["convolutions", "convolutions backward", "words", "words backward", "written"])
def test_a_cut_that_is_fed_what_the_base_had_gives_what_the_base_gave(bases: dict[str, Graph], name: str) -> None:
    graph = bases[name] if name in bases else written_between()
    base, cuts = drawn(graph, 24, most_nodes=30)
    assert len(cuts) > 12
    for found in cuts:
        borders, outputs = replayed(base, found)
        with torch.no_grad():
            again = Tape(found.graph).run(borders)
        for mine, theirs in zip(again, outputs, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


class Quantised(torch.nn.Module):
    """A dequantised weight, and a result that is quantised."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (4, 6), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(4, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(torch.float32) * self.scale
        y = torch.nn.functional.linear(x, weight)
        return torch.clamp(torch.round(y / 0.5) + 3, 0, 255).to(torch.uint8)


def test_a_dequantised_weight_goes_along_with_what_reads_it() -> None:
    base = prepare_graph(capture(Quantised(), (torch.randn(3, 6),)))
    product = next(i for i, node in enumerate(base.graph.nodes) if node.op == "aten.linear.default")
    for seed in range(20):
        found = cut(base, random.Random(seed), start=product)
        assert found is not None
        assert {i.spec.dtype for i in found.graph.inputs if i.role == "buffer"} == {"int8", "float32"}
