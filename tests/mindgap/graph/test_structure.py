"""What changes a graph's structure, and what does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from graph.samples import F4, call, chain
from graph.strategies import graphs
from mindgap.graph import (
    Constant,
    Graph,
    Input,
    Integers,
    Node,
    Normal,
    Ref,
    TensorSpec,
    concatenate,
    map_refs,
    operands,
    structure_digest,
)
from mindgap.graph.conventions import may_alias, written_operands

LEVELS = ("operators", "attributes", "shapes")
X = Input(F4, Normal(0))
W = Input(F4, Normal(1), "parameter")


def graph_of(nodes: Sequence[Node], outputs: Sequence[int], inputs: Sequence[Input] = (X, W, W)) -> Graph:
    return Graph(tuple(inputs), tuple(nodes), tuple(outputs))


def relabelled(graph: Graph, order: list[int], inputs: list[int]) -> Graph:
    """The graph with its nodes in another (valid) order and its inputs numbered otherwise."""
    renumber = {old: new for new, old in enumerate(inputs)}
    for index in order:
        for slot in range(len(graph.nodes[index].outputs)):
            renumber[graph.first_value[index] + slot] = len(renumber)
    nodes = tuple(
        Node(
            graph.nodes[i].op,
            tuple(map_refs(arg, renumber) for arg in graph.nodes[i].args),
            tuple((name, map_refs(arg, renumber)) for name, arg in graph.nodes[i].kwargs),
            graph.nodes[i].outputs,
        )
        for i in order
    )
    return Graph(
        tuple(graph.inputs[old] for old in inputs),
        nodes,
        tuple(renumber[value] for value in graph.outputs),
        tuple(sorted(renumber[number] for number in graph.grad)),
    )


def functional_order(graph: Graph, shuffler: random.Random) -> list[int]:
    """A random order of the nodes in which each comes after those that make its operands."""
    left = set(range(len(graph.nodes)))
    order: list[int] = []
    while left:
        ready = [i for i in left if all(graph.producer[value] not in left for value in operands(graph.nodes[i]))]
        order.append(shuffler.choice(sorted(ready)))
        left.remove(order[-1])
    return order


def is_functional(graph: Graph) -> bool:
    return not any(written_operands(node) for node in graph.nodes)


@given(graphs(max_inputs=4, max_nodes=7), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_order_and_numbering_do_not_matter(graph: Graph, shuffler: random.Random) -> None:
    functional = Graph(
        graph.inputs,
        tuple(replace(node, op=f"aten.f{len(node.op) % 3}.default") for node in graph.nodes),
        graph.outputs,
        graph.grad,
    )
    inputs = list(range(len(graph.inputs)))
    shuffler.shuffle(inputs)
    other = relabelled(functional, functional_order(functional, shuffler), inputs)
    for level in LEVELS:
        assert structure_digest(other, level) == structure_digest(functional, level)


def test_labels_recipes_and_strides_do_not_matter() -> None:
    turned = TensorSpec("float32", (4,), (2,))
    other = replace(chain(), inputs=(Input(turned, Constant(1.0)), chain().inputs[1]))
    assert structure_digest(other, "shapes") == structure_digest(replace(chain()), "shapes")


def F(value: int) -> Node:
    return call("f.default", Ref(value))


def G(value: int) -> Node:
    return call("g.default", Ref(value))


TWIN = [call("relu.default", Ref(0)), call("relu.default", Ref(0))]
UNLIKE: dict[str, tuple[Graph, Graph]] = {
    "one operand twice, or two alike": (
        graph_of([*TWIN, call("add.Tensor", Ref(3), Ref(3))], [5]),
        graph_of([*TWIN, call("add.Tensor", Ref(3), Ref(4))], [5]),
    ),
    "one weight used twice, or two weights": (
        graph_of([call("mul.Tensor", Ref(0), Ref(1)), call("mul.Tensor", Ref(3), Ref(1))], [4]),
        graph_of([call("mul.Tensor", Ref(0), Ref(1)), call("mul.Tensor", Ref(3), Ref(2))], [4]),
    ),
    "tied to the same, or to each other's": (
        graph_of([F(1), G(1), F(2), G(2)], []),
        graph_of([F(1), G(2), F(2), G(2)], []),
    ),
    "operands swapped": (
        graph_of([call("neg.default", Ref(0)), call("sub.Tensor", Ref(0), Ref(3))], [4]),
        graph_of([call("neg.default", Ref(0)), call("sub.Tensor", Ref(3), Ref(0))], [4]),
    ),
    "which slot": (
        graph_of([call("max.dim", Ref(0), 0, outputs=2), call("neg.default", Ref(3))], [5]),
        graph_of([call("max.dim", Ref(0), 0, outputs=2), call("neg.default", Ref(4))], [5]),
    ),
    "outputs in order": (
        graph_of([call("neg.default", Ref(0)), call("exp.default", Ref(0))], [3, 4]),
        graph_of([call("neg.default", Ref(0)), call("exp.default", Ref(0))], [4, 3]),
    ),
    "in a list, or apart": (
        graph_of([call("cat.default", (Ref(0), Ref(1)))], [3]),
        graph_of([call("cat.default", Ref(0), Ref(1))], [3]),
    ),
    "an optional operand elsewhere": (
        graph_of([call("f.default", Ref(0), None, Ref(1))], [3]),
        graph_of([call("f.default", Ref(0), Ref(1), None)], [3]),
    ),
    "read before or after a write": (
        graph_of([call("neg.default", Ref(0)), call("relu_.default", Ref(0))], [3, 4]),
        graph_of([call("relu_.default", Ref(0)), call("neg.default", Ref(0))], [4, 3]),
    ),
    "read before or after a write through a view": (
        graph_of([call("view.default", Ref(0), (4,)), call("neg.default", Ref(0)), call("relu_.default", Ref(3))], [4]),
        graph_of([call("view.default", Ref(0), (4,)), call("relu_.default", Ref(3)), call("neg.default", Ref(0))], [5]),
    ),
    "two writes in order": (
        graph_of([call("relu_.default", Ref(0)), call("neg_.default", Ref(0))], [0]),
        graph_of([call("neg_.default", Ref(0)), call("relu_.default", Ref(0))], [0]),
    ),
    "an unknown operator may write": (
        graph_of([Node("mine.f.default", (Ref(0),), (), ()), call("neg.default", Ref(0))], [3]),
        graph_of([call("neg.default", Ref(0)), Node("mine.f.default", (Ref(0),), (), ())], [3]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_wiring_matters_at_every_level(name: str) -> None:
    one, other = UNLIKE[name]
    for level in LEVELS:
        assert structure_digest(one, level) != structure_digest(other, level), level


def test_writes_elsewhere_leave_order_free() -> None:
    write, read = call("relu_.default", Ref(0)), call("neg.default", Ref(1))
    assert structure_digest(graph_of([write, read], [3, 4])) == structure_digest(graph_of([read, write], [4, 3]))


def test_batch_norm_writes_only_in_training() -> None:
    def norm(training: bool) -> Node:
        return call("batch_norm.default", Ref(0), None, None, Ref(1), Ref(2), training, 0.1, 1e-5, False)

    assert written_operands(norm(True)) == (1, 2)
    assert written_operands(norm(False)) == ()
    assert may_alias(call("view.default", Ref(0))) and not may_alias(call("mul.Tensor", Ref(0), Ref(1)))


def sized(width: int, dim: int = 1, dtype: str = "float32") -> Graph:
    spec = TensorSpec.contiguous(dtype, (2, width))
    flat = TensorSpec.contiguous(dtype, (2 * width,))
    return Graph(
        (Input(spec, Normal(0)),),
        (call("softmax.int", Ref(0), dim, spec=spec), call("view.default", Ref(1), (2 * width,), spec=flat)),
        (2,),
    )


def test_levels() -> None:
    digests = {
        level: [structure_digest(graph, level) for graph in (sized(4), sized(5), sized(4, 0), sized(4, 1, "float16"))]
        for level in LEVELS
    }
    assert len(set(digests["operators"])) == 1
    assert digests["attributes"][0] == digests["attributes"][1] and len(set(digests["attributes"])) == 3
    assert len(set(digests["shapes"])) == 4
    assert structure_digest(sized(4)) == digests["attributes"][0]
    assert not set(digests["operators"]) & set(digests["attributes"]) & set(digests["shapes"])


def test_the_row_of_padding_goes_with_the_vocabulary() -> None:
    """Five hundred translation models differ in the size of their vocabulary, of which the last row is padding."""

    def looked_up(words: int, scaled: bool = False) -> Graph:
        table = Input(TensorSpec.contiguous("float32", (words, 4)), Normal(1), "parameter")
        tokens = Input(TensorSpec.contiguous("int64", (3,)), Integers(2, 0, words))
        row = TensorSpec.contiguous("float32", (3, 4))
        node = call("embedding.default", Ref(0), Ref(1), words - 1, scaled, spec=row)
        return graph_of([node], [2], [table, tokens])

    assert structure_digest(looked_up(10)) == structure_digest(looked_up(20))
    assert structure_digest(looked_up(10)) != structure_digest(looked_up(10, scaled=True))
    assert structure_digest(looked_up(10), "shapes") != structure_digest(looked_up(20), "shapes")


def test_roles_matter_from_attributes_on() -> None:
    one = graph_of([call("neg.default", Ref(0))], [1], [X])
    other = graph_of([call("neg.default", Ref(0))], [1], [W])
    assert structure_digest(one, "operators") == structure_digest(other, "operators")
    assert structure_digest(one) != structure_digest(other)


def test_copies_are_counted() -> None:
    assert structure_digest(concatenate([chain(), chain()])) != structure_digest(concatenate([chain()] * 3))


def test_the_digest_stands_still() -> None:
    assert structure_digest(chain()) == PINNED


PINNED = "45a85d0b794f6194eac1c734ba55c47a346b848879c50766543c1e424bad1d3f"
