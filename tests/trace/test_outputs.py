"""A verdict per output, and the one word that stands for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.graph import Graph
from mindgap.trace.outputs import differs_in, note_of_ill, same_bits, word_of_all
from oracle.bench import PLATFORM, Bench, build, chain, normal, one_element, wrong_at


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
    ],
)
def test_one_word_for_all_outputs(words: list[Any], word: str) -> None:
    assert word_of_all(words) == word


def test_a_calm_word_says_how_many_outputs_it_leaves_out() -> None:
    assert note_of_ill(["rounding", "identical"]) == ""
    assert note_of_ill(["rounding", "ill_conditioned"]).startswith("; 1 of 2 outputs are ill-conditioned")


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
    assert found.metrics["verdicts"] == ["rounding", "ill_conditioned", "identical"]
    assert found.verdict == "rounding" and "1 of 3 outputs are ill-conditioned" in found.detail


def test_where_only_ill_conditioned_outputs_differ_nothing_can_be_said() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("log", last_bits)}).judge(graph, arrays)
    assert found.metrics["verdicts"] == ["identical", "ill_conditioned", "identical"]
    assert found.verdict == "ill_conditioned"


def test_a_finding_in_one_output_is_the_word_of_the_row_and_of_that_output() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("neg", one_element(3, 0.5))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.node == 4
    assert found.metrics["verdicts"] == ["identical", "identical", "discrepant"]


def test_a_finding_behind_an_ill_conditioned_output_is_still_found() -> None:
    graph, arrays = cancelling()
    found = Bench({PLATFORM: wrong_at("log", one_element(3, 0.01))}).judge(graph, arrays)
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.op == "aten.log.default"


def test_a_single_output_has_the_word_of_the_row() -> None:
    graph, arrays = chain()
    for fault in ({}, {PLATFORM: wrong_at("gelu", one_element(0, 0.05))}):
        found = Bench(fault).judge(graph, arrays)
        assert found.metrics["verdicts"] == ["identical" if not fault else found.verdict]


def test_bits_and_masks() -> None:
    a = to_numpy(torch.tensor([1.0, -0.0, float("nan")], dtype=torch.bfloat16))
    assert same_bits(a, a.copy()) and not same_bits(a, a[:2]) and not same_bits(a, a.astype(np.float32))
    assert not same_bits(np.zeros(1), -np.zeros(1)) and same_bits(np.zeros((0, 3)), np.zeros((0, 3)))
    x, y = np.array([1.0, np.nan, 3.0]), np.array([1.0, np.nan, 4.0])
    assert differs_in(torch.tensor([False, True, True]), x, y)
    assert not differs_in(torch.tensor([True, True, False]), x, y) and not differs_in(None, x, y)
