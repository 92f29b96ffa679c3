"""Cutting, pruning and joining keep what each value is computed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from graph.samples import F4, call, chain
from graph.strategies import graphs
from mindgap.graph import (
    Arg,
    Constant,
    Graph,
    GraphError,
    Input,
    Labels,
    Node,
    Ref,
    TensorSpec,
    concatenate,
    extract,
    live_nodes,
    operands,
    select,
    validate,
)


def terms(graph: Graph, inputs: list[object] | None = None) -> list[object]:
    """Each value as the whole term that computes it: what renumbering must leave alone."""
    found: list[object] = inputs if inputs is not None else [repr(given) for given in graph.inputs]
    found = list(found)

    def term(arg: Arg) -> object:
        if isinstance(arg, Ref):
            return found[arg.index]
        return tuple(term(item) for item in arg) if isinstance(arg, tuple) else repr(arg)

    for node in graph.nodes:
        made = (node.op, tuple(map(term, node.args)), tuple((name, term(arg)) for name, arg in node.kwargs))
        found.extend(hash((made, slot, repr(spec))) for slot, spec in enumerate(node.outputs))
    return found


@given(graphs(max_nodes=6), st.data())
@settings(max_examples=40)
def test_a_cut_computes_what_the_graph_computes(graph: Graph, data: st.DataObject) -> None:
    chosen = [index for index in range(len(graph.nodes)) if data.draw(st.booleans())]
    usable = [value for value, spec in enumerate(graph.values) if spec is not None]
    wanted = data.draw(st.lists(st.sampled_from(usable), max_size=4)) if usable else []
    cut, borders = extract(graph, chosen, wanted)
    validate(cut)
    whole = terms(graph)
    assert borders == sorted(set(borders)) and len(borders) == len(cut.inputs)
    assert [node.op for node in cut.nodes] == [graph.nodes[index].op for index in chosen]
    assert [cut.values[value] for value in cut.outputs] == [graph.values[value] for value in wanted]
    inside = terms(cut, [whole[value] for value in borders])
    assert [inside[value] for value in cut.outputs] == [whole[value] for value in wanted]
    for given_input, value in zip(cut.inputs, borders, strict=True):
        if value < len(graph.inputs):
            assert given_input == graph.inputs[value]
        else:
            assert given_input.role == "input" and given_input.spec == graph.values[value]
            assert given_input.recipe == Constant(0)


def test_a_cut_in_the_middle() -> None:
    cut, borders = extract(chain(), [1], [3, 1])
    assert borders == [1, 2]
    assert cut == Graph((chain().inputs[1], Input(F4, Constant(0))), (call("add.Tensor", Ref(1), Ref(0)),), (2, 0))
    assert cut.labels == Labels(("w", "first"), ("second",))


def test_bad_cuts_are_refused() -> None:
    empty = Graph((), (Node("aten.f.default", (), (), (None,)),), ())
    for graph, nodes, outputs, message in (
        (chain(), [3], [], "no node 3"),
        (chain(), [-1], [], "no node -1"),
        (chain(), [0, 0], [], "named twice"),
        (chain(), [], [5], "no value 5"),
        (chain(), [1, 0], [], "node 1 comes before the node that makes its operand 2"),
        (empty, [], [0], "value 0 is an empty slot of node 0"),
    ):
        with pytest.raises(GraphError, match=message):
            extract(graph, nodes, outputs)


def pruned(graph: Graph, keeps: Callable[[Node], bool]) -> Graph:
    return select(graph, live_nodes(graph, keeps))


@given(graphs(max_nodes=8))
@settings(max_examples=40)
def test_pruning_keeps_what_outputs_need(graph: Graph) -> None:
    small = pruned(graph, lambda node: node.op.endswith("_.default"))
    validate(small)
    before, after = terms(graph), terms(small)
    assert [after[value] for value in small.outputs] == [before[value] for value in graph.outputs]
    assert small.inputs == graph.inputs and small.grad == graph.grad
    for kept in (False, True):
        again = pruned(small, lambda node, kept=kept: kept or node.op.endswith("_.default"))
        assert repr(again) == repr(small), "pruning twice is pruning once"
    needed = {value for node in small.nodes for value in operands(node)} | set(small.outputs)
    for index, node in enumerate(small.nodes):
        slots = range(small.first_value[index], small.first_value[index] + len(node.outputs))
        assert needed & set(slots) or node.op.endswith("_.default")


def test_pruning_keeps_writes_and_what_they_write_to() -> None:
    nodes = (
        call("view.default", Ref(0), (4,)),
        call("relu_.default", Ref(1)),
        call("exp.default", Ref(0)),
        call("neg.default", Ref(0)),
    )
    graph = Graph(chain().inputs[:1], nodes, (4,), labels=Labels(nodes=("a", "b", "c", "d")))
    assert pruned(graph, lambda node: node.op == "aten.relu_.default").labels.nodes == ("a", "b", "d")
    assert pruned(graph, lambda node: False) == replace(graph, nodes=(nodes[3],), outputs=(1,))


@given(st.lists(graphs(max_inputs=3, max_nodes=3), max_size=3))
@settings(max_examples=40)
def test_joined_graphs_compute_what_each_computes(parts: list[Graph]) -> None:
    joined = concatenate(parts)
    validate(joined)
    assert len(joined.values) == sum(len(part.values) for part in parts)
    found = terms(joined)
    assert [found[value] for value in joined.outputs] == [
        terms(part)[value] for part in parts for value in part.outputs
    ]
    assert [joined.inputs[number] for number in joined.grad] == [
        part.inputs[number] for part in parts for number in part.grad
    ]


def test_joined_labels() -> None:
    bare = replace(chain(), labels=Labels())
    assert concatenate([bare, bare]).labels == Labels()
    assert concatenate([chain(), bare]).labels.nodes == ("first", "second", "third", "", "", "")
    assert concatenate([chain()]) == chain()


def test_a_bool_border_gets_a_recipe_that_fits() -> None:
    mask = TensorSpec.contiguous("bool", (4,))
    graph = Graph(chain().inputs, (call("gt.Scalar", Ref(0), 0, spec=mask), call("where.self", Ref(2))), (3,))
    validate(extract(graph, [1], [3])[0])
