"""Each rule, broken once: the error names the place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from graph.samples import F4, call, chain
from graph.strategies import graphs
from mindgap.graph import (
    Constant,
    DType,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Labels,
    Layout,
    Literal,
    MemoryFormat,
    Node,
    Normal,
    Permutation,
    Recipe,
    Ref,
    Stored,
    TensorSpec,
    Uniform,
    validate,
)


@given(graphs())
@settings(max_examples=40)
def test_sound_graphs_pass(graph: Graph) -> None:
    validate(graph)


ZERO = Constant(0)


def node(*args: Any, op: str = "aten.add.Tensor", kwargs: Any = (), outputs: Any = (F4,)) -> Graph:
    """The sample graph with this for its second node."""
    graph = chain()
    return replace(graph, nodes=(graph.nodes[0], Node(op, args, kwargs, outputs), *graph.nodes[2:]))


def given_input(spec: Any, recipe: Any = ZERO, role: Any = "input") -> Graph:
    graph = chain()
    return replace(graph, inputs=(graph.inputs[0], Input(spec, recipe, role)))


def nested(depth: int) -> Any:
    return () if depth == 0 else (nested(depth - 1),)


I8, B1, C64 = (TensorSpec.contiguous(dtype, (4,)) for dtype in ("int8", "bool", "complex64"))
EMPTY_SLOT = Graph((), (call("max.dim"), Node("aten.f.default", (), (), (None,)), call("relu.default", Ref(1))), ())

BROKEN: dict[str, tuple[Graph, str]] = {
    "later": (node(Ref(2), Ref(4)), r"node 1 \(aten.add.Tensor\): operand 1 refers to value 4, which comes later"),
    "own": (node(Ref(3)), r"node 1 \(aten.add.Tensor\): operand 0 refers to value 3, which comes later"),
    "beyond": (node((Ref(0), Ref(99))), r"node 1 .*operand 1 refers to value 99, but values are 0 to 4"),
    "negative": (node(Ref(-1)), r"node 1 .*operand 0 refers to value -1"),
    "bool": (node(Ref(True)), r"node 1 .*operand 0 refers to value True"),
    "in a keyword": (node(Ref(0), kwargs=(("other", Ref(99)),)), r"node 1 .*operand 1 refers to value 99"),
    "empty slot": (EMPTY_SLOT, r"node 2 .*operand 0 refers to value 1, a slot where there is no tensor"),
    "operator": (node(op="add"), r"node 1 \(add\): an operator is named namespace\.packet\.overload"),
    "operator with a call": (node(op="os.system.__call__('x')"), "an operator is named"),
    "operator with a newline": (node(op="aten.add.Tensor\n"), "an operator is named"),
    "unsorted": (node(kwargs=(("b", 1), ("a", 1))), r"node 1 .*keywords should be sorted by name, each once, not b, a"),
    "keyword twice": (node(kwargs=(("a", 1), ("a", 1))), "keywords should be sorted"),
    "keyword name": (node(kwargs=(("a b", 1),)), "is no pair of a keyword"),
    "list": (node([1]), r"node 1 .*\[1\] is nothing that an argument may be"),
    "object": (node(object()), "is nothing that an argument may be"),
    "dtype": (node(DType("float31")), r"node 1 .*DType\(name='float31'\) is nothing"),
    "memory format": (node(MemoryFormat("upside_down")), "is nothing that an argument may be"),
    "layout": (node(Layout("load")), "is nothing that an argument may be"),
    "surrogate": (node("\ud800"), "lone surrogate"),
    "deep": (node(nested(10)), "tuples nest deeper than 8"),
    "long": (node(1 << 9000), "more than 8192 bits"),
    "output spec": (node(outputs=("x",)), "node 1 .*'x' is no TensorSpec"),
    "spec dtype": (given_input(TensorSpec("float7", (), ())), "input 1: unknown dtype 'float7'"),
    "negative size": (given_input(TensorSpec("float32", (-1,), (1,))), r"input 1: shape \(-1,\) should be"),
    "negative stride": (given_input(TensorSpec("float32", (1,), (-1,))), r"input 1: stride \(-1,\) should be"),
    "list of sizes": (given_input(TensorSpec("float32", [1], (1,))), r"input 1: shape \[1\] should be"),  # type: ignore[arg-type]
    "lengths": (given_input(TensorSpec("float32", (1, 1), (1,))), "2 dimensions, stride .* 1"),
    "too large": (given_input(TensorSpec.contiguous("float32", (1 << 30, 1 << 30))), "larger than"),
    "too wide": (given_input(TensorSpec("float32", (3, 3), (1 << 47, 1))), "larger than"),
    "dimensions": (given_input(TensorSpec.contiguous("float32", (1,) * 65)), "65 dimensions"),
    "role": (given_input(F4, role="weight"), "input 1: unknown role 'weight': it is one of input, parameter"),
    "output": (replace(chain(), outputs=(0, 5)), "output 1 is value 5, but values are 0 to 4"),
    "output slot": (replace(EMPTY_SLOT, nodes=EMPTY_SLOT.nodes[:2], outputs=(1,)), "output 0 is value 1, a slot"),
    "grad": (replace(chain(), grad=(2,)), "grad names input 2, but inputs are 0 to 1"),
    "grad twice": (replace(chain(), grad=(1, 1)), "grad names an input twice"),
    "grad of ints": (replace(given_input(I8), grad=(1,)), "grad names input 1, which is int8: only floats"),
    "labels": (replace(chain(), labels=Labels(nodes=("a",))), "1 labels for 3 nodes"),
    "labels of bytes": (replace(chain(), labels=Labels(outputs=(b"y",))), "labels of outputs should be strings"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BROKEN)
def test_rules(name: str) -> None:
    graph, message = BROKEN[name]
    with pytest.raises(GraphError, match=message) as raised:
        validate(graph)
    assert "\n" not in str(raised.value).replace("Tensor\n", "")


MISFITS: list[tuple[TensorSpec, Recipe, str]] = [
    (I8, Uniform(0), "makes floats, not int8: use Integers"),
    (B1, Normal(0), "makes floats, not bool"),
    (I8, Exceptional(0), "makes floats"),
    (I8, Integers(0, 0, 129), r"\[0, 129\) is no interval of integers that int8 holds"),
    (I8, Integers(0, 3, 3), "no interval"),
    (B1, Integers(0, 0, 3), "no interval"),
    (F4, Integers(0, 0, 1 << 60), "no interval"),
    (F4, Uniform(0, 1.0, 1.0), "no interval of finite floats"),
    (F4, Uniform(0, 0.0, float("inf")), "no interval of finite floats"),
    (F4, Uniform(0, float("nan"), 1.0), "no interval of finite floats"),
    (F4, Uniform(0, -1.7e308, 1.7e308), "no interval of finite floats"),
    (F4, Uniform(-1), "a seed should be"),
    (F4, Uniform(1 << 128), "a seed should be"),
    (F4, Uniform(1.5), "a seed should be"),  # type: ignore[arg-type]
    (F4, Normal(0, 0.0, -1.0), "standard deviation -1.0"),
    (F4, Normal(0, float("inf")), "not finite|finite floats"),
    (F4, Exceptional(0, 1.5), "a share of 1.5"),
    (F4, Literal(bytes(15)), r"a literal of 15 bytes cannot be float32\[4\], which has 16"),
    (B1, Literal(b"\0\1\2\0"), "bytes 0 and 1 only"),
    (F4, Stored("ABC"), "64 lower-case hex digits"),
    (F4, Stored("../" * 20), "64 lower-case hex digits"),
    (I8, Constant(1.5), "the constant 1.5 does not fit int8"),
    (I8, Constant(128), "does not fit int8"),
    (F4, Constant(1j), "does not fit float32"),
    (F4, Constant("1"), "does not fit float32"),  # type: ignore[arg-type]
    (TensorSpec.contiguous("uint8", (300,)), Permutation(0), "cannot hold a permutation of 300"),
    (TensorSpec("int64", (3,), (0,)), Permutation(0), "expanded dimension"),
    (C64, Permutation(0), "makes no sense"),
    (F4, "uniform", "is no recipe"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("spec", "recipe", "message"), MISFITS, ids=lambda value: str(value)[:40])
def test_recipes_fit_their_specs(spec: TensorSpec, recipe: Recipe, message: str) -> None:
    with pytest.raises(GraphError, match=f"input 1: .*({message})"):
        validate(given_input(spec, recipe))


def test_what_fits() -> None:
    for spec, recipe in (
        (I8, Integers(0, -128, 128)),
        (TensorSpec.contiguous("uint64", (4,)), Integers(0, 0, 1 << 64)),
        (B1, Constant(True)),
        (F4, Constant(float("nan"))),
        (F4, Integers(0, 0, 2)),
        (C64, Constant(1j)),
        (C64, Normal(0)),
        (TensorSpec.contiguous("float32", (0, 1 << 40)), Uniform(0)),
    ):
        validate(given_input(spec, recipe))
