"""Regions of small networks of several families, for what is to hold on real graphs."""

from __future__ import annotations

import random
from functools import cache

import torch
from torch import nn

from mindgap.graph import Graph
from mindgap.graph_capture import capture
from mindgap_campaign.synth.regions.cut import RegionCut, cut, cut_of
from mindgap_campaign.synth.regions.prepared import prepare_graph
from mindgap_campaign.synth.regions.region import Region
from mindgap_campaign.synth.regions.trial import region_of
from mindgap_campaign.synth.values.recipes import recipes


class Residual(nn.Module):
    """Convolutions, norms, pooling, a skip, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.group, self.head = nn.BatchNorm2d(8).eval(), nn.GroupNorm(2, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + nn.functional.silu(self.group(self.second(x)))
        x = nn.functional.max_pool2d(x, 2)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    """A table of words, attention by hand, layer norms, a gated feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix, self.out = nn.Embedding(11, 12), nn.Linear(12, 36), nn.Linear(12, 12)
        self.norm, self.up, self.down = nn.LayerNorm(12), nn.Linear(12, 24), nn.Linear(12, 12)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        x = self.words(i)
        q, k, v = self.mix(self.norm(x)).view(2, 6, 3, 3, 4).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(2, 6, 12))
        return x + self.down(nn.functional.glu(self.up(self.norm(x)), -1))


class Odds(nn.Module):
    """What others leave out: joints, masks, reductions, places, writes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        z = torch.cat([x, y], 1).clamp(-1, 1)
        mask = z > 0.1
        z = torch.where(mask, z, z.exp()).masked_fill(mask.logical_not(), 0.5)
        top, positions = z.max(1, keepdim=True)
        z = z / (1e-3 + z.abs().sum(1, keepdim=True))
        w = torch.zeros(4, 6).add_(z.mean(0)[:6]).mul_(2.0)
        return [top, positions, z.var(0), w.pow(2), torch.cumsum(w, 1), torch.sort(z, 1)[0], torch.log1p(z * z).mean()]


class Rows(nn.Module):
    """Nothing that mixes rows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.b(nn.functional.gelu(self.a(x)) * 0.5)) + 1


@cache
def graphs() -> tuple[Graph, ...]:
    """Each of them forward, two also backward."""
    torch.manual_seed(0)
    image, words = torch.randn(2, 3, 8, 8), torch.arange(12).reshape(2, 6) % 11
    numbers = (torch.randn(4, 3), torch.randn(4, 5))
    return (
        capture(Residual(), (image,), weights="seeded"),
        capture(Attention(), (words,), weights="seeded"),
        capture(Odds(), numbers),
        capture(Rows(), (torch.randn(5, 6),), weights="seeded"),
        capture(Residual(), (image,), backward=True, weights="seeded"),
        capture(Attention(), (words,), backward=True, weights="seeded"),
    )


def plain_region(base: str, piece: RegionCut, rng: random.Random) -> Region | str:
    """Makes a region of the unmutated cut, with recipes for its borders. Returns it, or why it is none."""
    edits, _ = recipes(piece.graph, rng)
    return region_of(base, piece, edits)


@cache
def regions() -> tuple[tuple[RegionCut, Region], ...]:
    """Each graph whole where it is small enough, and pieces of it."""
    rng = random.Random(0)
    found: list[tuple[RegionCut, Region]] = []
    for graph in graphs():
        base = prepare_graph(graph)
        pieces = [cut_of(base, range(len(graph.nodes)))] if len(graph.nodes) <= 50 else []
        pieces += [piece for _ in range(8) if (piece := cut(base, rng)) is not None]
        for piece in pieces:
            region = plain_region("test", piece, rng)
            if isinstance(region, Region):
                found.append((piece, region))
    return tuple(found)
