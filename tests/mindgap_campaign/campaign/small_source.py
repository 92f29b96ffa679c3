"""A case source for tests: three small graphs, each case with inputs of its own."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.graph import Graph, Input, Node, Normal, Ref, TensorSpec, Uniform, decode, digest, encode
from mindgap_campaign.campaign.cases.case import BLOCK, Case, CaseSource, CaseSourceFactory, graphs_of
from mindgap_campaign.campaign.plan import Plan

_BASES = "bases.json"
_SPEC = TensorSpec("float32", (6, 5), (5, 1))


def chain(*operators: str) -> Graph:
    """The operators one after the other; `add` adds the graph's input to the value before it."""
    nodes: list[Node] = []
    for position, name in enumerate(operators):
        args = (Ref(position), Ref(0)) if name == "add.Tensor" else (Ref(position),)
        nodes.append(Node(f"aten.{name}", args, (), (_SPEC,)))
    return Graph((Input(_SPEC, Uniform(0)),), tuple(nodes), (len(nodes),))


GRAPHS = (
    chain("exp.default", "add.Tensor", "relu.default"),
    chain("relu.default", "neg.default"),
    chain("add.Tensor", "relu.default"),
)


class SmallSource:
    """Cases out of a few graphs with one input each, in turn."""

    def __init__(self, plan: Plan, graphs: list[Graph], rare: bool = True) -> None:
        """`rare`: every tenth case brings a feature that no other has."""
        self._seed, self._count, self._graphs, self._rare = plan.seed, plan.variants.count, graphs, rare

    @property
    def identity(self) -> str:
        return hashlib.sha256("".join(digest(graph) for graph in self._graphs).encode()).hexdigest()

    def block(self, number: int) -> list[Case]:
        return [self._case(index) for index in range(number * BLOCK, min((number + 1) * BLOCK, self._count))]

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        return graphs_of(self, blocks)

    def _case(self, index: int) -> Case:
        which = index % len(self._graphs)
        rng = random.Random(f"{self._seed}/{index}")
        recipe = Normal(rng.getrandbits(32), 0.0, 1.0) if index % 2 else Uniform(rng.getrandbits(32), -1.0, 1.0)
        base = self._graphs[which]
        graph = replace(base, inputs=tuple(replace(given, recipe=recipe) for given in base.inputs))
        described = json.dumps({"base": which, "seed": index})
        rare = [f"rare {index}"] if self._rare and index % 10 == 7 else []
        features = (*(node.op for node in graph.nodes), *rare)
        data = encode(graph, labels=False)
        return Case(index, f"v{index:06d}", data, digest(graph), described, features, len(graph.nodes), str(which))


@dataclass(frozen=True)
class Small:
    """Makes such case sources. Their graphs are kept in the directory of the campaign."""

    graphs: tuple[Graph, ...] = GRAPHS
    rare: bool = True

    @property
    def files(self) -> Sequence[str]:
        return (_BASES,)

    def begin(self, plan: Plan, folder: Path) -> SmallSource:
        (folder / _BASES).write_text(json.dumps([encode(graph, labels=False).hex() for graph in self.graphs]))
        return self.reopen(plan, folder)

    def reopen(self, plan: Plan, folder: Path) -> SmallSource:
        kept = json.loads((folder / _BASES).read_text())
        return SmallSource(plan, [decode(bytes.fromhex(text)) for text in kept], self.rare)


@dataclass(frozen=True)
class FirstCases:
    """The first `count` cases of each block of another source; of the blocks after the first, `later`."""

    inner: CaseSourceFactory
    count: int
    later: int

    @property
    def files(self) -> Sequence[str]:
        return self.inner.files

    def begin(self, plan: Plan, directory: Path) -> CaseSource:
        return _FirstCases(self.inner.begin(plan, directory), self.count, self.later)

    def reopen(self, plan: Plan, directory: Path) -> CaseSource:
        return _FirstCases(self.inner.reopen(plan, directory), self.count, self.later)


class _FirstCases:
    def __init__(self, inner: CaseSource, count: int, later: int) -> None:
        self._inner, self._count, self._later = inner, count, later

    @property
    def identity(self) -> str:
        return self._inner.identity

    def block(self, number: int) -> list[Case]:
        count = self._later if number else self._count
        return self._inner.block(number)[:count] if count else []

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        return self._inner.samples(blocks)


def plan_text(count: int, platforms: dict[str, str], **more: str) -> str:
    """A plan; `platforms`: inline tables. `more`: lines of the table of that name, `top` for the first ones."""
    lines = [f'seed = 7\ncatalogue = "none"\n{more.get("top", "")}', f"[variants]\ncount = {count}", "[platforms]"]
    lines += [f'"{name}" = {{{inside}}}' for name, inside in platforms.items()]
    lines += [f"[limits]\n{more.get('limits', '')}", f"[stop]\n{more.get('stop', '')}"]
    return "\n".join(lines) + "\n"
