"""Outputs, and places of outputs, that nobody reads are left out of the program, and counted."""

from __future__ import annotations

import pytest
import torch

from mindgap.sources.program import Built
from mindgap.sources.read_outputs import OutputSelection, OutputsLeftOut, selected
from mindgap.sources.source import SourceError
from mindgap.workflows.diff import Session


class Attention(torch.nn.Module):
    """A row of `scores` whose mask lets nothing through is NaN."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = (x @ x.mT).masked_fill(mask[:, :, None] == 0, -torch.inf)
        return {"scores": scores.softmax(-1), "sum": x.sum()}


X, MASK = torch.arange(12.0).reshape(1, 4, 3) / 10, torch.tensor([[1, 0, 1, 1]])


@pytest.mark.parametrize(("mask", "hidden", "count"), [("mask", [1], 4), ("~mask", [0, 2, 3], 12)])
def test_places_that_a_mask_hides_are_zero_and_counted(mask: str, hidden: list[int], count: int) -> None:
    with pytest.warns(OutputsLeftOut, match=f"sum is left out; {count} of 16 elements of scores"):
        built = selected(Built(Attention(), (X, MASK)), OutputSelection(("sum",), mask))
    outputs = built.program(*built.args)
    assert [*outputs] == ["scores"]
    expected = Attention()(X, MASK)["scores"]
    for row in range(4):
        right = torch.zeros(4) if row in hidden else expected[0, row]
        torch.testing.assert_close(outputs["scores"][0, row], right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (OutputSelection(("logits",)), "--ignore-output logits: the outputs are scores, sum"),
        (OutputSelection(("scores", "sum")), "no output is left of scores, sum"),
        (OutputSelection(mask="m"), "--output-mask m: the tensors among the arguments are x, mask"),
        (OutputSelection(mask="x"), "--output-mask x: it is [1, 4, 3], and no output begins so: scores [1, 4, 4]"),
    ],
)
def test_what_names_nothing_is_an_error(selection: OutputSelection, words: str) -> None:
    with pytest.raises(SourceError) as refused:
        selected(Built(Attention(), (X, MASK)), selection)
    assert words in str(refused.value)


def test_a_comparison_leaves_them_out() -> None:
    with Session() as session, pytest.warns(OutputsLeftOut, match="4 of 16 elements of scores"):
        (row,) = session.diff(Attention(), (X, MASK), platforms=["cpu/jit"], output_mask="mask").rows
    assert (row.verdict, row.non_finite, len(row.digests)) == ("identical", (), 2)
