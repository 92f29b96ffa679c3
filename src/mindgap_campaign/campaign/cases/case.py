"""Defines a case (one graph to run), blocks of 500 cases, shards, and the case source protocol.

A block depends on the plan, on the source's identity and on its number only. A resume, or several machines that each
take every n-th block, need not know of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from mindgap.graph import Graph, MindgapError, decode
from mindgap.graph.cache import Cache
from mindgap.run.identity import remember
from mindgap_campaign.campaign.plan import BLOCK, Plan

__all__ = ["BLOCK", "Case", "CaseSource", "CaseSourceFactory", "Shard", "graphs_of"]

#: Roughly what a node takes, decoded; what the latest graphs may take.
_NODE_BYTES: Final = 2048
_LATEST: Final[Cache[str, Graph]] = Cache(64, 1 << 26)
_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Case:
    """One graph to run. `index`: its number in the campaign. `name`: its name in rows.

    `data`: the canonical bytes without labels, `digest` theirs. `description`: JSON from which the graph can be made
    again, empty where it cannot. `features`: what running it covers. `base`: what it shares inputs with other cases
    of; cases of one base run one after the other.
    """

    index: int
    name: str
    data: bytes
    digest: str
    description: str
    features: tuple[str, ...]
    nodes: int
    base: str = ""

    @property
    def outline(self) -> Case:
        """What a block selection looks at: the case without its graph and description."""
        return replace(self, data=b"", description="")

    @property
    def graph(self) -> Graph:
        """Decoded when needed; the latest are remembered. Raises `GraphError`."""
        with _LOCK:
            decoded = _LATEST.get(self.digest)
        if decoded is None:
            decoded = decode(self.data)
            remember(decoded, self.digest, self.data)
            with _LOCK:
                _LATEST.put(self.digest, decoded, _NODE_BYTES * self.nodes)
        return decoded


class CaseSource(Protocol):
    """Makes the cases of a campaign, block by block."""

    @property
    def identity(self) -> str:
        """Returns a digest of the source. The same plan and an equal digest give the same cases."""
        ...

    def block(self, number: int) -> list[Case]:
        """Returns the cases from `number * BLOCK` on. Raises `MindgapError` if none can be made."""
        ...

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        """Returns graphs that contain all operator calls of the cases in these blocks."""
        ...


class CaseSourceFactory(Protocol):
    """Opens the case source of a campaign, for its first session and for later ones. A copy of it is sent to the nodes
    of a cluster."""

    @property
    def files(self) -> Sequence[str]:
        """The files in the campaign's directory from which `reopen` opens the source."""
        ...

    def begin(self, plan: Plan, directory: Path) -> CaseSource:
        """Opens the source and keeps in the directory all that a resume needs. Raises `MindgapError` if no case can be
        made."""
        ...

    def reopen(self, plan: Plan, directory: Path) -> CaseSource:
        """Opens the same source from the directory. Raises `MindgapError` if a file that it needs is missing."""
        ...


def graphs_of(case_source: CaseSource, blocks: Sequence[int]) -> Iterator[Graph]:
    """Yields the graphs of all cases in these blocks."""
    for number in blocks:
        for case in case_source.block(number):
            yield decode(case.data)


@dataclass(frozen=True, slots=True)
class Shard:
    """Selects the blocks whose number is `index` modulo `of`."""

    index: int = 0
    of: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """`2/8`: the third of eight. Raises `MindgapError`."""
        index, slash, of = text.partition("/")
        if not (slash and index.isdecimal() and of.isdecimal() and int(index) < int(of)):
            raise MindgapError(f"--shard {text}: it takes i/n with i from 0 to n - 1, as in 0/4")
        return Shard(int(index), int(of))

    def blocks(self, count: int) -> Iterator[int]:
        """Returns the numbers of the shard's blocks among those of `count` cases."""
        return iter(range(self.index, -(-count // BLOCK), self.of))

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"
