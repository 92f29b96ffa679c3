"""A finding says that it lies only where a mask among the inputs lets nothing through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, Bench, build, normal
from mindgap.graph import Labels
from mindgap.judge.trace.masked_places import masked_places


def attention(mask: Any, *outputs: str) -> Any:
    arrays = [normal(1, 2, 4, 8), mask]
    calls = [("y", "aten.scaled_dot_product_attention.default", "i0", "i0", "i0", "i1"), ("z", "aten.sin.default", "y")]
    graph = build(arrays, calls, outputs or ["z"])
    return replace(graph, labels=Labels(inputs=("hidden", "mask"))), arrays


def test_a_row_that_its_mask_lets_nothing_through() -> None:
    mask = np.tril(np.ones((1, 1, 4, 4), np.bool_))
    mask[..., 0, :] = False
    graph, arrays = attention(mask)

    def fault(graph: Any, index: int, result: Any, args: Any) -> Any:
        return result.index_fill(2, torch.tensor([0]), 7.0) if "attention" in graph.nodes[index].op else result

    found = Bench({PLATFORM: fault}).judge(graph, arrays)
    assert found.blame == "platform" and found.detail.endswith("; only in rows that `mask` lets nothing through")
    assert found.faults[0].fault.detail == found.detail
    anywhere = Bench({PLATFORM: lambda g, i, r, a: r + 0.5}).judge(graph, arrays)
    assert anywhere.blame == "platform" and "only in" not in anywhere.detail


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.array([[1, 1, 0], [1, 0, 0]]), "only where `m` is 0"),
        (np.array([[False, False, True], [False, True, True]]), "only where `m` is 1"),
        (np.array([[0, 0, -np.inf], [0, -1e9, -np.inf]]), "only where `m` is not 0"),
        (np.array([[1.0, 2.0, 0.0], [1.0, 0.0, 0.0]]), ""),
        (np.array([[1, 1, 0], [1, 1, 0]]), ""),
        (np.zeros((2, 3), np.int64), ""),
    ],
)
def test_padded_positions(mask: Any, words: str) -> None:
    x = normal(2, 3, 5)
    graph = build([x, mask], [("y", "aten.sin.default", "i0")], ["y"])
    graph = replace(graph, labels=Labels(inputs=("x", "m")))
    wrong = x.copy()
    wrong[0, 2], wrong[1, 1], wrong[0, 0, 0] = np.nan, 9.0, wrong[0, 0, 0] + 1e-6
    assert masked_places(graph, [x, mask], [wrong], [x]) == words
