"""However little of S is held at a time, everything comes out the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import build, chain, normal
from mindgap.graph import DType, Graph, Node, TensorSpec
from mindgap.judge.oracle import MANY, Oracle, OracleError, local_expectation, replays as noise_module
from mindgap.judge.oracle.evaluation.float64 import Float64Graph, bind_call, evaluate
from mindgap.judge.oracle.replays import a_start, disturbed, sign_pool, signs
from mindgap.judge.oracle.shadows import segments as segments_module, stepwise as shadow_module
from mindgap.judge.oracle.shadows.segments import (
    crossing,
    most_alive,
    needed_bytes,
    recomputed,
    replays_at_once,
    segment_bytes,
    segments,
)


def skipping() -> tuple[Graph, list[Any]]:
    """A skip across the whole graph, decisions, casts, an undefined cast, views, a value that is read by nobody."""
    arrays = [normal(6, 16), normal(16, 16, seed=1, scale=0.3)]
    calls = [
        ("a", "aten.mm.default", "i0", "i1"), ("v", "aten.view.default", "a", [96]), ("u", "aten.exp.default", "a"),
        ("t", "aten.topk.default", "a", 3), ("h", "aten.to.dtype", "v", DType("float16")),
        ("s", "aten.sin.default", "h"), ("big", "aten.mul.Tensor", "a", 1e12),
        ("c", "aten.to.dtype", "big", DType("int32")), ("m", "aten.gt.Scalar", "v", 0.0),
        ("w", "aten.where.self", "m", "v", "s"), ("r", "aten.view.default", "w", [6, 16]),
        ("z", "aten.add.Tensor", "r", "u"), ("n", "aten.native_layer_norm.default", "z", [16], None, None, 1e-5),
        ("f", "aten.fft_fft.default", "n.0"),
    ]  # fmt: skip
    return build(arrays, calls, ["n.0", "t.0", "t.1", "c", "f", "i0"]), arrays


def everything(oracle: Oracle) -> list[torch.Tensor]:
    """All that an oracle says, of outputs and of each node."""
    said: list[Any] = []
    for number in oracle.graph.outputs:
        expected = oracle.expectation(number, MANY)
        said += [expected.step, expected.wide, expected.sigma, expected.classes, *expected.seen, expected.tainted]
    for node in range(len(oracle.graph.nodes)):
        local = local_expectation(oracle, node)
        said += local.typical
        for slot in local.hard:
            said += [] if slot is None else [slot.step, slot.wide, slot.sigma, slot.classes, slot.tainted]
    return [t for t in said if t is not None]


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("case", ["skipping", "float32", "bfloat16"])
@pytest.mark.parametrize(("segment", "held"), [(1, 0), (4000, 0), (1, 1 << 30), (1 << 30, 0)])
def test_nothing_depends_on_how_much_is_held(case: str, hard: bool, segment: int, held: int) -> None:
    graph, arrays = skipping() if case == "skipping" else chain(case)
    whole = Oracle(graph, arrays, hard=hard)
    small = Oracle(graph, arrays, hard=hard, segment_bytes=segment, noise_bytes_held=held)
    assert len(whole.parts) == 1 and (len(small.parts) > 1) == (segment < 1 << 20)
    for one, other in zip(everything(whole), everything(small), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def test_what_is_computed_again_is_not_held_and_comes_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays = skipping()
    whole = Oracle(graph, arrays)
    monkeypatch.setattr(segments_module, "RECOMPUTED_BYTES", 0)
    monkeypatch.setattr(segments_module, "MOST_RECOMPUTED_NODES", 3)
    small = Oracle(graph, arrays, segment_bytes=1, noise_bytes_held=0)
    again = recomputed(graph, small.parts)
    # The product, what is made of it, and what is made of that.
    assert {graph.producer[value] for value in again} == {0, 1, 2, 4, 6, 8}
    assert {graph.producer[value]: nodes for value, nodes in again.items()}[8] == (0, 1, 8)
    assert not (again.keys() - small.watched) & small.step._kept.keys()
    for one, other in zip(everything(whole), everything(small), strict=True):
        assert one.dtype == other.dtype and torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def test_the_judge_of_packed_weights_needs_the_largest_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight layers of weights that the graph unpacks take as much as two."""
    monkeypatch.setattr(segments_module, "NOISE_BYTES", 0)

    def needed(layers: int) -> int:
        arrays: list[Any] = [normal(4, 1024)]
        calls: list[tuple[Any, ...]] = []
        for layer in range(1, layers + 1):
            arrays.append(np.full((1024, 1024), 3, np.uint8))
            calls += [
                (f"f{layer}", "aten.to.dtype", f"i{layer}", DType("float32")),
                (f"w{layer}", "aten.sub.Tensor", f"f{layer}", 8.0),
                (f"x{layer}", "aten.linear.default", f"x{layer - 1}" if layer > 1 else "i0", f"w{layer}"),
            ]
        graph = build(arrays, calls, [f"x{layers}"])
        return needed_bytes(graph, segments(graph, 1 << 20), frozenset(graph.outputs))[0]

    assert needed(8) < 1.05 * needed(2)


def test_any_order_of_questions_gets_the_same_answers() -> None:
    graph, arrays = skipping()
    whole, small = Oracle(graph, arrays), Oracle(graph, arrays, segment_bytes=1, noise_bytes_held=0)
    numbers = sorted(whole.step.values, reverse=True)
    assert numbers == sorted(small.step.values, reverse=True) and len(numbers) > len(graph.nodes)
    assert all(torch.equal(whole.step.values[n], small.step.values[n]) for n in numbers)
    with pytest.raises(KeyError):
        small.step.values[len(graph.values)]
    assert set(small.step.typical) == set(whole.step.typical) and len(graph.values) not in small.step.hard


@pytest.mark.parametrize(("most_bytes", "computed"), [(1 << 30, 1), (0, 6)])
def test_stretches_within_the_limit_are_computed_once(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, computed: int
) -> None:
    graph, arrays = skipping()
    made: list[range] = []
    piece = shadow_module._shadow_segment

    def counted(whole: Any, nodes: range, *others: Any) -> Any:
        made.append(nodes)
        return piece(whole, nodes, *others)

    monkeypatch.setattr(shadow_module, "_shadow_segment", counted)
    parts = (range(7), range(7, 14))
    inputs = [torch.from_numpy(a) for a in arrays]
    step = shadow_module.Stepwise(Float64Graph(graph), inputs, parts, most_bytes=most_bytes)
    for _ in range(5):
        assert [step.hard[n].numel() > 0 for n in step.hard] == [True] * len(step.hard)
    assert [made.count(nodes) for nodes in parts] == [computed, computed]


def test_a_round_through_the_graph_finds_what_the_last_one_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the longest unused went first, a round in order would find nothing."""
    graph, arrays = skipping()
    made: list[range] = []
    piece = shadow_module._shadow_segment

    def counted(whole: Any, nodes: range, *others: Any) -> Any:
        made.append(nodes)
        return piece(whole, nodes, *others)

    parts = segments(graph, 1)
    held = max(segment_bytes(graph, nodes) for nodes in parts) * 5
    inputs = [torch.from_numpy(a) for a in arrays]
    step = shadow_module.Stepwise(Float64Graph(graph), inputs, parts, most_bytes=held)
    monkeypatch.setattr(shadow_module, "_shadow_segment", counted)
    for _ in range(4):
        for number in step.hard:
            assert step.hard[number].numel() > 0
    # Of each round at least the segments that fit, but for the two latest.
    assert len(made) <= 4 * (len(parts) - 3), len(made)


def test_stretches_hold_what_they_may_and_borders_are_known() -> None:
    graph, _ = skipping()
    assert segments(graph) == (range(14),)
    assert segments(graph, 1) == tuple(range(i, i + 1) for i in range(14))
    cut = (range(3), range(3, 14))
    made = graph.first_value
    assert crossing(graph, cut) == {made[0], made[1], made[2]}
    # The product, its view and its exponential.
    assert most_alive(graph, cut) == 3 * 6 * 16 * 4 and replays_at_once(graph, cut) == 8
    assert crossing(graph, (range(14),)) == set() and most_alive(graph, (range(14),)) == 0


def test_a_graph_without_nodes_has_its_inputs() -> None:
    x = normal(4)
    graph = replace(build([x], [], []), outputs=(0,))
    assert [e.kind for e in Oracle(graph, [x]).examine([x])] == ["calm"]


def test_what_is_beyond_memory_is_refused_with_the_amount() -> None:
    node = Node("aten.zeros.default", ((1 << 45,),), (), (TensorSpec.contiguous("float32", (1 << 45,)),))
    graph = Graph((), (node,), (0,))
    with pytest.raises(OracleError, match=r"takes about \d+\.\d GiB .* largest operator alone.*and \d+\.\d are free"):
        Oracle(graph, [])


def test_signs_go_through_the_pool_again_and_again() -> None:
    pool = sign_pool()
    generator = torch.Generator().manual_seed(0)
    for count in (1, 1000, len(pool) // 2 + 1, 2 * len(pool) + 17):
        start = a_start(count, generator)
        assert torch.equal(signs(start, count), pool.repeat(5)[start : start + count])
    assert torch.equal(signs(start + 70, count - 70), signs(start, count)[70:])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("quiet", [True, False])
def test_chunks_change_no_bit(dtype: str, quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.Generator(np.random.Philox(0))
    y = torch.from_numpy(generator.standard_normal((7, 1000)))
    y[0, :4] = torch.tensor([-0.0, 0.0, float("inf"), float("nan")])
    size = torch.from_numpy(generator.random((7, 1000))).float() * 1e-3
    size[0] = 0
    plain = disturbed(y, size, (12345,), dtype, quiet)
    monkeypatch.setattr(noise_module, "_CHUNK", 333)
    chunked = disturbed(y, size, (12345,), dtype, quiet)
    assert plain.numpy().tobytes() == chunked.numpy().tobytes()
    assert bool((plain[1:] != y[1:]).any())
    if quiet:
        assert torch.signbit(chunked[0, 0]) and not torch.signbit(chunked[0, 1])


def test_a_view_in_float64_asks_nothing_of_strides() -> None:
    graph = build([normal(6, 16)], [("v", "aten.view.default", "i0", [96])], ["v"])
    x = torch.arange(96.0, dtype=torch.float64).reshape(16, 6).t()
    (viewed,) = evaluate(bind_call(graph, graph.nodes[0]), [x, [96]], {})
    assert torch.equal(viewed, x.flatten())
