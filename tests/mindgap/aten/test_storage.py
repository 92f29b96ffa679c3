"""What operators that read memory give: in the functional form, in the shadow, and cut out of the graph."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, REFERENCE, Bench, build, normal
from mindgap.aten.functional import functionalize
from mindgap.aten.storage import UnknownStorage, storage_reads
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, Input, Node, TensorSpec
from mindgap.judge.oracle import Oracle, OracleError
from mindgap.judge.trace.independent import second_opinion

END = 9223372036854775807
Calls = list[tuple[Any, ...]]

#: Programs on i0 (a vector of 10) or on i1 (2 by 5); the outputs are the values named.
PROGRAMS: dict[str, tuple[Calls, list[str]]] = {
    "an offset": ([("v", "aten.slice.Tensor", "i0", 0, 2, END), ("y", "aten.as_strided.default", "v", (3,), (1,), 1)],
                  ["y"]),
    "the operand's own offset": (
        [("v", "aten.slice.Tensor", "i0", 0, 2, END), ("y", "aten.as_strided_copy.default", "v", (3,), (2,))], ["y"]),
    "strides of a transpose": ([("v", "aten.t.default", "i1"), ("y", "aten.as_strided.default", "v", (3,), (1,))],
                               ["y"]),
    "a result that lies transposed": (
        [("v", "aten.t.default", "i1"), ("m", "aten.mul.Tensor", "v", 2.0),
         ("y", "aten.as_strided.default", "m", (2, 2), (1, 1), 3)], ["y"]),
    "expanded": ([("s", "aten.slice.Tensor", "i0", 0, 0, 1), ("v", "aten.expand.default", "s", (4,)),
                  ("y", "aten.as_strided.default", "v", (3,), (1,))], ["y"]),
    "a view of a view": (
        [("v", "aten.as_strided.default", "i0", (2, 3), (4, 1), 2), ("w", "aten.select.int", "v", 0, 1),
         ("y", "aten.as_strided_copy.default", "w", (2,), (1,), 0)], ["y"]),
    "scattered": (
        [("v", "aten.slice.Tensor", "i0", 0, 2, END), ("s", "aten.slice.Tensor", "i0", 0, 8, END),
         ("y", "aten.as_strided_scatter.default", "v", "s", (2,), (1,), 3)], ["y"]),
    "scattered into an expanded operand, which is copied first": (
        [("s", "aten.slice.Tensor", "i0", 0, 0, 1), ("v", "aten.expand.default", "s", (5,)),
         ("c", "aten.slice.Tensor", "i0", 0, 7, END),
         ("y", "aten.as_strided_scatter.default", "v", "c", (3,), (1,), 1)],
        ["y"]),
    "a write through overlapping memory": (
        [("a", "aten.mul.Tensor", "i0", 2.0), ("v", "aten.slice.Tensor", "a", 0, 2, END),
         ("w", "aten.unfold.default", "v", 0, 2, 3), ("x", "aten.mul_.Tensor", "w", 5.0)], ["a", "v", "w"]),
    "a write through as_strided": (
        [("a", "aten.mul.Tensor", "i0", 2.0), ("v", "aten.slice.Tensor", "a", 0, 1, END),
         ("w", "aten.as_strided.default", "v", (3,), (2,), 1), ("x", "aten.mul_.Tensor", "w", 5.0)], ["a", "v", "w"]),
    "a write to what is a part of other memory": (
        [("a", "aten.mul.Tensor", "i0", 2.0), ("b", "aten.slice.Tensor", "i0", 0, 3, 8),
         ("h", "aten.slice.Tensor", "a", 0, 0, 5), ("c", "aten.clone.default", "h"),
         ("w", "aten.copy_.default", "c", "b"), ("y", "aten.as_strided.default", "c", (2,), (2,), 1)], ["y", "c"]),
    "a write to a transpose": (
        [("a", "aten.mul.Tensor", "i1", 2.0), ("v", "aten.t.default", "a"), ("s", "aten.select.int", "v", 0, 1),
         ("x", "aten.add_.Tensor", "s", 3.0), ("y", "aten.as_strided.default", "v", (4,), (2,), 1)], ["y", "a"]),
}  # fmt: skip


def graph_of(name: str) -> tuple[Graph, list[Any]]:
    arrays = [normal(10), normal(2, 5, seed=1)]
    calls, outputs = PROGRAMS[name]
    return built(arrays, calls, outputs), arrays


def built(arrays: list[Any], calls: Calls, outputs: list[str]) -> Graph:
    """Every call runs on tensors that later calls may write to, so that the arrays are given as copies."""
    return build([a.copy() for a in arrays], calls, outputs)


def run(graph: Graph, arrays: list[Any]) -> list[np.ndarray[Any, Any]]:
    given = [to_torch(a.copy(), i.spec) for a, i in zip(arrays, graph.inputs, strict=True)]
    return [to_numpy(t).copy() for t in Tape(graph).run(given)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_functional_form_and_the_shadow_give_what_eager_does(name: str) -> None:
    graph, arrays = graph_of(name)
    eager = run(graph, arrays)
    functional = functionalize(graph).graph
    assert all(np.array_equal(a, b) for a, b in zip(run(functional, arrays), eager, strict=True))
    oracle = Oracle(functional, arrays)
    assert [e.kind for e in oracle.examine(eager)] == ["calm"] * len(eager)
    wrong = [np.where(np.arange(a.size).reshape(a.shape) == a.size - 1, a + 1, a).astype(a.dtype) for a in eager]
    assert [e.kind for e in oracle.examine(wrong)] == ["discrepant"] * len(eager)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cell_by_cell_reading_agrees_with_the_shadow(name: str) -> None:
    graph, arrays = graph_of(name)
    functional = functionalize(graph).graph
    oracle = Oracle(functional, arrays)
    reads = storage_reads(functional)
    assert reads
    for node in reads:
        opinion = second_opinion(oracle, node)
        assert opinion is not None
        assert torch.equal(opinion[0], oracle.step.wide(functional.first_value[node]))


def without_offset(g: Graph, index: int, result: Any, args: Any) -> Any:
    """A runtime that knows values and no memory: it reads a row-major copy of the operand."""
    if g.nodes[index].op not in ("aten.as_strided.default", "aten.as_strided_copy.default"):
        return result
    operand, size, stride, *offset = args
    cells = torch.cat([operand.reshape(-1), torch.zeros(32)])
    return torch.as_strided(cells, size, stride, *(offset or [0])).clone()


@pytest.mark.parametrize("name", ["an offset", "strides of a transpose", "a result that lies transposed", "expanded"])
def test_a_platform_that_loses_the_layout_is_blamed_and_eager_is_not(name: str) -> None:
    graph, arrays = graph_of(name)
    assert Bench().judge(graph, arrays).verdict in ("identical", "rounding")
    found = Bench({PLATFORM: without_offset}).judge(graph, arrays)
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and found.culprit.op == "aten.as_strided.default"
    mirrored = Bench({REFERENCE: without_offset}).judge(graph, arrays)
    assert (mirrored.verdict, mirrored.blame, mirrored.culprit) == ("discrepant", "reference", found.culprit)


def test_memory_that_no_value_shows_is_not_judged() -> None:
    """Between the elements of a strided input there may be anything: nobody is accused."""
    graph, arrays = graph_of("an offset")
    spaced = Input(TensorSpec("float32", (10,), (2,)), graph.inputs[0].recipe)
    graph = replace(graph, inputs=(spaced, graph.inputs[1]), nodes=(_spaced(graph.nodes[0]), graph.nodes[1]))
    assert storage_reads(graph)[1].layout == spaced.spec
    with pytest.raises(OracleError, match="no value says what is there"):
        Oracle(graph, arrays).examine(run(graph, arrays))
    found = Bench({PLATFORM: without_offset}).judge(graph, arrays)
    assert (found.verdict, found.blame, found.culprit) == ("ill_conditioned", None, None)
    assert "nothing can be said" in found.detail


def _spaced(node: Node) -> Node:
    return replace(node, outputs=(TensorSpec("float32", (8,), (2,)),))


def test_another_dtype_in_the_same_memory_is_unknown() -> None:
    arrays = [normal(4, 2)]
    calls: Calls = [
        ("c", "aten.view_as_complex.default", "i0"), ("y", "aten.as_strided.default", "c", (2,), (1,), 1)
    ]  # fmt: skip
    with pytest.raises(UnknownStorage, match="another dtype"):
        storage_reads(build(arrays, calls, ["y"]))


def drawn_program(seed: int) -> tuple[Calls, list[str]]:
    """Views of views, reads and writes through them, all within one memory of 24 cells."""
    draw = random.Random(seed)
    calls: Calls = [("a", "aten.mul.Tensor", "i0", 2.0)]
    tensors: list[tuple[str, int]] = [("a", 2)]  # name and number of dimensions
    for step in range(8):
        source, dims = draw.choice(tensors)
        name = f"n{step}"
        kind = draw.choice(["slice", "t", "strided", "copy", "scatter", "mul_", "add"])
        if kind == "slice" and dims == 2:
            calls.append((name, "aten.slice.Tensor", source, draw.randrange(2), draw.randrange(2), END))
        elif kind == "t" and dims == 2:
            calls.append((name, "aten.t.default", source))
        elif kind == "mul_":
            calls.append((name, "aten.mul_.Tensor", source, 3.0))
            continue
        elif kind == "add":
            calls.append((name, "aten.add.Tensor", source, 1.0))
        elif kind in ("strided", "copy"):
            op = "aten.as_strided.default" if kind == "strided" else "aten.as_strided_copy.default"
            calls.append((name, op, source, (2, 2), (draw.choice([3, 4]), 1), draw.randrange(3)))
            dims = 2
        elif kind == "scatter":
            calls.append((name, "aten.as_strided_scatter.default", source, "i1", (2, 2), (3, 1), draw.randrange(3)))
        else:
            continue
        tensors.append((name, dims))
    return calls, [name for name, _ in tensors]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_views_and_writes(seed: int) -> None:
    arrays = [normal(4, 6), normal(2, 2, seed=1)]
    calls, outputs = drawn_program(seed)
    try:
        graph = built(arrays, calls, outputs)
    except RuntimeError:
        pytest.skip("PyTorch refuses the program: it reads past the memory, or writes to what overlaps")
    eager = run(graph, arrays)
    functional = functionalize(graph).graph
    assert all(np.array_equal(a, b) for a, b in zip(run(functional, arrays), eager, strict=True))
    assert [e.kind for e in Oracle(functional, arrays).examine(eager)] == ["calm"] * len(eager)
