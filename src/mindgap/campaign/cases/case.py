"""Defines a case (one graph to run), blocks of 500 cases, shards, and the protocol of their source.

A block depends on the plan, on the source's identity and on its number only. A resume, or several machines that each
take every n-th block, need not know of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mindgap.graph import Graph, MindgapError, decode
from mindgap.run.cache import Cache
from mindgap.run.identity import remember

#: Cases of a block; the last may have fewer.
BLOCK: Final = 500
#: Roughly what a node takes, decoded; what the latest graphs may take.
_NODE_BYTES: Final = 2048
_LATEST: Final[Cache[str, Graph]] = Cache(64, 1 << 26)
_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Case:
    """A graph to run. `index` is its number in the whole campaign, `name` what rows call it.

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
    def graph(self) -> Graph:
        """Decoded when asked for; the latest are remembered. Raises `GraphError`."""
        with _LOCK:
            found = _LATEST.get(self.digest)
        if found is None:
            found = decode(self.data)
            remember(found, self.digest, self.data)
            with _LOCK:
                _LATEST.put(self.digest, found, _NODE_BYTES * self.nodes)
        return found


class CaseSource(Protocol):
    """What makes the cases."""

    @property
    def identity(self) -> str:
        """A digest of all that cases are made of, besides the plan: equal where the same plan gives the same cases."""
        ...

    def block(self, number: int) -> list[Case]:
        """The cases from `number * BLOCK` on. Raises `MindgapError` where nothing can be made."""
        ...

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        """Graphs that hold the operator calls of the cases in these blocks."""
        ...


def graphs_of(case_source: CaseSource, blocks: Sequence[int]) -> Iterator[Graph]:
    """The graphs of all cases in these blocks."""
    for number in blocks:
        for case in case_source.block(number):
            yield decode(case.data)


@dataclass(frozen=True, slots=True)
class Shard:
    """Of all blocks, those whose number is `index` modulo `of`."""

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
        """The numbers of the blocks that hold the shard's part of `count` cases."""
        return iter(range(self.index, -(-count // BLOCK), self.of))

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"
