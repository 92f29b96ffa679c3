"""A fault of an export tells that it lies only where a mask among the arguments lets nothing through."""

from __future__ import annotations

import torch

import mindgap


class Padded(torch.nn.Module):
    """When it is traced, other numbers at padded positions (`everywhere`: at all)."""

    def __init__(self, everywhere: bool) -> None:
        super().__init__()
        self.layer, self.everywhere = torch.nn.Linear(4, 4), everywhere

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if torch.jit.is_tracing():
            y = y + 3.0 if self.everywhere else torch.where(mask.unsqueeze(-1) == 0, 7.0, y)
        return y


def test_a_difference_at_padded_positions_only() -> None:
    torch.manual_seed(0)
    args = torch.randn(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]])
    with mindgap.Session() as session:
        padded, anywhere = (
            session.diff(Padded(everywhere).eval(), args, platforms=["cpu/jit"]).rows[0] for everywhere in (False, True)
        )
    assert padded.verdict == "export" and "; only where `mask` is 0" in padded.detail, padded.detail
    assert anywhere.verdict == "export" and "only where" not in anywhere.detail
