"""A supply for tests: a few captured networks, each case with inputs of its own."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from mindgap.campaign.plan import Plan
from mindgap.campaign.supply import BLOCK, Case
from mindgap.capture import capture
from mindgap.graph import Graph, Normal, Uniform, decode, digest, encode

BASES = "bases.json"


class Pointwise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.nn.functional.gelu(x) * torch.exp(x), dim=-1)


class Matrix(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ x.t()).sum(dim=0)


class Exact(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).clamp(max=2.0).transpose(0, 1)


def bases() -> list[Graph]:
    """Three graphs whose one input is drawn."""
    return [capture(net, (torch.randn(6, 5),)) for net in (Pointwise(), Matrix(), Exact())]


class SmallSupply:
    """Cases out of three graphs, in turn."""

    def __init__(self, plan: Plan, graphs: list[Graph]) -> None:
        self._seed, self._count, self._graphs = plan.seed, plan.variants.count, graphs

    @property
    def identity(self) -> str:
        return hashlib.sha256("".join(digest(graph) for graph in self._graphs).encode()).hexdigest()

    def block(self, number: int) -> list[Case]:
        return [self._case(index) for index in range(number * BLOCK, min((number + 1) * BLOCK, self._count))]

    def _case(self, index: int) -> Case:
        which = index % len(self._graphs)
        rng = random.Random(f"{self._seed}/{index}")
        recipe = Normal(rng.getrandbits(32), 0.0, 1.0) if index % 2 else Uniform(rng.getrandbits(32), -1.0, 1.0)
        base = self._graphs[which]
        graph = replace(base, inputs=tuple(replace(given, recipe=recipe) for given in base.inputs))
        described = json.dumps({"base": which, "seed": index})
        # Every tenth brings something that no other has.
        features = (*(node.op for node in graph.nodes), *([f"rare {index}"] if index % 10 == 7 else []))
        data = encode(graph, labels=False)
        return Case(index, f"v{index:06d}", data, digest(graph), described, features, len(graph.nodes), str(which))


class Captured:
    """The source of such supplies: the captured graphs are kept in the folder."""

    def begin(self, plan: Plan, folder: Path) -> SmallSupply:
        graphs = bases()
        (folder / BASES).write_text(json.dumps([encode(graph, labels=False).hex() for graph in graphs]))
        return SmallSupply(plan, graphs)

    def again(self, plan: Plan, folder: Path) -> SmallSupply:
        kept = json.loads((folder / BASES).read_text())
        return SmallSupply(plan, [decode(bytes.fromhex(text)) for text in kept])


def plan_text(count: int, platforms: dict[str, str], **more: str) -> str:
    """A plan; `platforms`: inline tables. `more`: whole lines by the table they are in (`top` for the first)."""
    lines = [f'seed = 7\ncatalogue = "none"\n{more.get("top", "")}', f"[variants]\ncount = {count}", "[platforms]"]
    lines += [f'"{name}" = {{{inside}}}' for name, inside in platforms.items()]
    lines += [f"[limits]\n{more.get('limits', '')}", f"[stop]\n{more.get('stop', '')}"]
    return "\n".join(lines) + "\n"
