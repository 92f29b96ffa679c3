"""A verdict per output, and the one word that stands for all."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, Bench, build, chain, normal, one_element, wrong_at
from mindgap.aten.tensors import to_numpy
from mindgap.graph import Graph, Ref
from mindgap.judge.trace.output_verdicts import differs_in, note_on_ill_conditioned, overall_verdict, same_bits


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["rounding"], "rounding"),
        (["identical", "rounding"], "rounding"),
        (["identical", "identical"], "rounding"),
        (["ill_conditioned"], "ill_conditioned"),
        (["identical", "ill_conditioned"], "ill_conditioned"),
        (["ill_conditioned", "ill_conditioned", "rounding"], "rounding"),
        (["undefined", "rounding"], "undefined"),
        (["undefined"], "undefined"),
        (["undefined", "ill_conditioned"], "ill_conditioned"),
        (["undefined", "ill_conditioned", "rounding"], "undefined"),
        (["internal", "identical"], "internal"),
        (["internal", "rounding"], "internal"),
        (["internal", "undefined"], "undefined"),
        (["internal", "ill_conditioned"], "ill_conditioned"),
    ],
)
def test_one_word_for_all_outputs(words: list[Any], word: str) -> None:
    assert overall_verdict(words) == word


def test_a_calm_word_says_how_many_outputs_it_leaves_out() -> None:
    assert note_on_ill_conditioned(["rounding", "identical"]) == ""
    assert note_on_ill_conditioned(["rounding", "ill_conditioned"]).startswith("; 1 of 2 outputs are ill-conditioned")


def cancelling() -> tuple[Graph, list[Any]]:
    """A result that is well-conditioned, one that is nothing but rounding, one that only moves data."""
    arrays = [normal(8, 16), normal(16, 16, seed=1)]
    calls = [
        ("a", "aten.mm.default", "i0", "i1"), ("e", "aten.exp.default", "a"), ("l", "aten.log.default", "e"),
        ("z", "aten.sub.Tensor", "l", "a"), ("m", "aten.neg.default", "i0"),
    ]  # fmt: skip
    return build(arrays, calls, ["e", "z", "m"]), arrays


def last_bits(y: torch.Tensor) -> torch.Tensor:
    signs = torch.empty(y.shape).bernoulli_(0.5, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return y * (1 + signs * 2**-23)


def test_an_ill_conditioned_output_does_not_hide_the_calm_of_others() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("exp", last_bits)}).judge(graph, arrays)
    assert found.verdicts == ("rounding", "ill_conditioned", "identical")
    assert found.verdict == "rounding" and "1 of 3 outputs are ill-conditioned" in found.detail


def test_where_only_ill_conditioned_outputs_differ_nothing_can_be_said() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("log", last_bits)}).judge(graph, arrays)
    assert found.verdicts == ("identical", "ill_conditioned", "identical")
    assert found.verdict == "ill_conditioned"


def test_a_finding_in_one_output_is_the_word_of_the_row_and_of_that_output() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("neg", one_element(3, 0.5))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.node == 4
    assert found.verdicts == ("identical", "identical", "discrepant")


def test_a_finding_behind_an_ill_conditioned_output_is_still_found() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("log", one_element(3, 0.01))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.op == "aten.log.default"


def test_a_single_output_has_the_word_of_the_row() -> None:
    graph, arrays = chain()
    for fault in ({}, {PLATFORM: wrong_at("gelu", one_element(0, 0.05))}):
        found = Bench(fault).judge(graph, arrays)
        assert found.verdicts == ("identical" if not fault else found.verdict,)


def test_bits_and_masks() -> None:
    a = to_numpy(torch.tensor([1.0, -0.0, float("nan")], dtype=torch.bfloat16))
    assert same_bits(a, a.copy()) and not same_bits(a, a[:2]) and not same_bits(a, a.astype(np.float32))
    assert not same_bits(np.zeros(1), -np.zeros(1)) and same_bits(np.zeros((0, 3)), np.zeros((0, 3)))
    x, y = np.array([1.0, np.nan, 3.0]), np.array([1.0, np.nan, 4.0])
    assert differs_in(torch.tensor([False, True, True]), x, y)
    assert not differs_in(torch.tensor([True, True, False]), x, y) and not differs_in(None, x, y)


def ties() -> Any:
    return np.random.Generator(np.random.Philox(0)).integers(0, 4, (3, 20)).astype(np.float32)


@pytest.mark.parametrize("op", ["sort", "topk", "argsort"])
def test_ties_are_undefined_and_their_positions_have_no_distance(op: str) -> None:
    x = ties()
    call = {"sort": ("s", "aten.sort.default", "i0", -1, False), "topk": ("s", "aten.topk.default", "i0", 20),
            "argsort": ("s", "aten.argsort.default", "i0", -1, False)}[op]  # fmt: skip
    graph = build([x], [call], ["s"] if op == "argsort" else ["s", "s.1"])

    def last_first(positions: torch.Tensor) -> torch.Tensor:
        """The same values in the same order, equal ones the other way round."""
        values = torch.from_numpy(x).gather(-1, positions)
        order = torch.argsort(torch.from_numpy(x).flip(-1), dim=-1, descending=op == "topk", stable=True)
        found = x.shape[-1] - 1 - order
        assert torch.equal(torch.from_numpy(x).gather(-1, found), values)
        return found

    found = Bench({PLATFORM: wrong_at(op, last_first, 0 if op == "argsort" else 1)}).judge(graph, [x])
    assert found.verdict == "undefined" and op in found.detail
    assert found.metrics["max_abs"] is None and found.metrics["n_differing"] > 0


def test_a_stable_sort_keeps_ties_in_order() -> None:
    x = ties()
    graph = build([x], [("s", "aten.sort.default", "i0", -1, False)], ["s", "s.1"])
    node = dataclasses.replace(
        graph.nodes[0], op="aten.sort.stable", args=(Ref(0),), kwargs=(("stable", True), ("dim", -1))
    )
    graph = dataclasses.replace(graph, nodes=(node,))
    swapped = wrong_at("sort", lambda y: y.flip(-1).sort(-1).indices, 1)
    assert Bench({PLATFORM: swapped}).judge(graph, [x]).verdict == "discrepant"


def test_a_near_tie_that_rounding_decides_is_rounding() -> None:
    x = np.array([[1.0, 1.0 + 2**-22, 3.0, 2.0]], np.float32)
    graph = build([x], [("e", "aten.exp.default", "i0"), ("s", "aten.sort.default", "e", -1, False)], ["s.1"])

    def swapped(y: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[y[0, 1], y[0, 0], y[0, 2], y[0, 3]]])

    assert Bench({PLATFORM: wrong_at("exp", swapped)}).judge(graph, [x]).verdict == "rounding"


def test_values_are_measured_before_positions() -> None:
    x = ties()
    graph = build([x], [("m", "aten.exp.default", "i0"), ("s", "aten.sort.default", "i0", -1, False)], ["s.1", "m"])

    def both(g: Graph, index: int, result: Any, args: Any) -> Any:
        if g.nodes[index].op == "aten.exp.default":
            return last_bits(result)
        return (result[0], x.shape[-1] - 1 - torch.argsort(torch.from_numpy(x).flip(-1), dim=-1, stable=True))

    found = Bench({PLATFORM: both}).judge(graph, [x])
    assert found.metrics["worst_output"] == 1 and found.metrics["max_abs"] < 1e-4
    assert found.verdicts == ("undefined", "rounding") and found.verdict == "undefined"
