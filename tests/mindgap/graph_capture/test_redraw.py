"""Other arguments of the proof keep what operators document of their operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture
from mindgap.graph_capture.recording import RecordedInput
from mindgap.graph_capture.redraw import InputDemand, input_demands, redraw


def bags(indices: torch.Tensor, offsets: torch.Tensor, weight: torch.Tensor) -> Any:
    return F.embedding_bag(indices, weight, offsets, mode="sum", padding_idx=2, include_last_offset=True)


def bags_of_shifted_offsets(indices: torch.Tensor, offsets: torch.Tensor, weight: torch.Tensor) -> Any:
    return F.embedding_bag(indices, weight, (offsets.view(-1) - 1).to(torch.int64), include_last_offset=True)


INDICES, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 5, 8])
WEIGHT = torch.linspace(-1.0, 1.0, 40).sin().reshape(10, 4)


@pytest.mark.parametrize(
    ("program", "offsets"), [(bags, OFFSETS), (bags_of_shifted_offsets, (OFFSETS + 1).to(torch.int32))]
)
def test_offsets_stay_offsets(tmp_path: Path, program: Any, offsets: torch.Tensor) -> None:
    """Unsorted offsets leave bags that no kernel writes, so that graph and program differ by chance."""
    graph = capture(program, (INDICES, offsets, WEIGHT), tensors=TensorStore(tmp_path))
    assert input_demands(graph)[1].demands == {"offsets"}


def test_a_baked_table_is_still_seen(tmp_path: Path) -> None:
    """A sorted argument that no operator demands to be sorted is shuffled as before."""

    def program(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor(positions.numpy().copy())

    with pytest.raises(CaptureError):
        capture(program, (torch.ones(5), torch.arange(5)), tensors=TensorStore(tmp_path))


def other(tensor: torch.Tensor, demand: InputDemand) -> torch.Tensor:
    return redraw([tensor], [RecordedInput(tensor, tensor, "input", "x")], demanded={0: demand})[0]


@given(st.lists(st.integers(-9, 40), min_size=2, max_size=9), st.booleans())
def test_sorted_integers_stay_sorted_between_their_ends(numbers: list[int], strict: bool) -> None:
    drawn = sorted(set(numbers) if strict else numbers)
    found = other(torch.tensor(drawn), InputDemand(frozenset({"sorted"})))
    assert found[0] == drawn[0] and found[-1] == drawn[-1]
    assert bool((found.diff() >= (1 if len(set(drawn)) == len(drawn) else 0)).all())


def test_sorted_numbers_and_matrices_get_other_values() -> None:
    edges = torch.tensor([[0.0, 1.0, 2.0, 5.0], [1.0, 1.5, 3.0, 4.0]])
    found = other(edges, InputDemand(frozenset({"sorted"})))
    assert bool((found.diff() >= 0).all()) and not torch.equal(found, edges)
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    found = other(matrix, InputDemand(frozenset({"positive definite"})))
    assert float(np.linalg.eigvalsh(found.numpy()).min()) > 0 and not torch.equal(found, matrix)


def test_equal_probabilities_stay_probabilities() -> None:
    found = other(torch.ones(4), InputDemand(frozenset({"interval"}), 0.0, 1.0))
    assert bool(((found >= 0) & (found <= 1)).all()) and not torch.equal(found, torch.ones(4))
