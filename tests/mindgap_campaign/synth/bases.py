"""Small programs with what real ones have: embeddings, masks, views that are written to, norms, attention."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

from mindgap.graph import Constant, Graph, Input, Node, Recipe, Ref, Role, TensorSpec
from mindgap.graph_capture import capture


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu_(self.norm(self.first(x)))
        y = nn.functional.max_pool2d(y, 2)
        y[:, 0] += 1.0
        return torch.log_softmax(self.last(y.flatten(1)), -1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.places = nn.Embedding(12, 16)
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = ids != 3
        x = self.words(ids) + self.places(torch.cumsum(mask, 1) - 1)
        weight = self.query(x) @ self.key(x).transpose(1, 2) / 4.0
        weight = weight.masked_fill(~mask[:, None, :], float("-inf"))
        y = self.norm(torch.softmax(weight, -1) @ x)
        scale = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        kept = torch.tensor([[5, 3, 3, 1, 2, 3, 4, 4], [3, 1, 1, 1, 3, 3, 1, 0]]) != 3
        return y * scale, y[kept].sum(0)


def convolutions(*, backward: bool = False) -> Graph:
    torch.manual_seed(0)
    return capture(Convolutions().eval(), (torch.randn(2, 3, 8, 8),), weights="seeded", backward=backward)


def words(*, backward: bool = False) -> Graph:
    torch.manual_seed(0)
    ids = torch.tensor([[4, 9, 3, 29, 1, 0, 3, 8], [1, 2, 3, 4, 5, 6, 7, 8]])
    return capture(Words(), (ids,), weights="seeded", backward=backward)


@cache
def all_bases() -> dict[str, Graph]:
    return {
        f"{make.__name__}{' backward' if backward else ''}": make(backward=backward)
        for make in (convolutions, words)
        for backward in (False, True)
    }


def floats(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec.contiguous(dtype, shape)


def border(spec: TensorSpec, recipe: Recipe | None = None, role: Role = "input") -> Input:
    """An input as `extract` leaves it, or with a recipe."""
    return Input(spec, recipe or Constant(False if spec.kind == "bool" else 0), role)


def call(op: str, *args: object, out: TensorSpec | tuple[TensorSpec | None, ...], **kwargs: object) -> Node:
    """A node of the aten namespace; value numbers are given as `Ref`."""
    outputs = out if isinstance(out, tuple) else (out,)
    return Node(f"aten.{op}", args, tuple(sorted(kwargs.items())), outputs)  # type: ignore[arg-type]


__all__ = ["Ref", "all_bases", "border", "call", "convolutions", "floats", "words"]
