"""Draws the cases of a campaign as variants merged from a pool of regions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import torch

from mindgap.graph import Graph, MindgapError
from mindgap_campaign.campaign.cases.case import BLOCK, Case, graphs_of
from mindgap_campaign.campaign.cases.region_sampling import (
    OnTick,
    PoolYield,
    SamplingReport,
    bases_of,
    sample_catalogue,
)
from mindgap_campaign.campaign.plan import Plan, Variants
from mindgap_campaign.catalogue import Catalogue
from mindgap_campaign.synth.merging.merge import Merger
from mindgap_campaign.synth.merging.variant import Variant
from mindgap_campaign.synth.regions.pool import RegionPool, pool_metadata
from mindgap_campaign.synth.regions.sampler import SamplerOptions

_T = TypeVar("_T")

#: The pool of a catalogue, or of a campaign, in its directory.
POOL: Final = "pool.parquet"
#: A catalogue keeps the pool whose regions also get exceptional values next to the other.
EXCEPTIONAL_POOL: Final = "pool-exceptional.parquet"
#: Blocks that are drawn once more, to look at their operators, for less than going through a pool takes.
_FEW: Final = 4


class VariantSource:
    """Draws cases from a pool of regions. Not thread-safe."""

    def __init__(self, pool: RegionPool, plan: Plan) -> None:
        self._merger = Merger(pool)
        self._seed = plan.seed
        self._variants = plan.variants

    @property
    def identity(self) -> str:
        """Returns the pool's digest."""
        return self._merger.pool.digest

    def block(self, number: int) -> list[Case]:
        """Returns the cases from `number * BLOCK` on."""
        return draw_block(self._merger, self._seed, number, self._variants, self._case)

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        """Returns the graphs of the cases if the blocks are few; else the pool's regions, which hold the same
        operator calls except glue."""
        if len(blocks) <= _FEW:
            return graphs_of(self, blocks)
        return (region.graph for region in self._merger.pool)

    def _case(self, index: int, variant: Variant) -> Case:
        assembly = self._merger.assembly(variant)
        nodes = sum(piece.fragment.nodes for piece in assembly.pieces)
        features = tuple(sorted(self._merger.features(variant)))
        return Case(
            index, f"v{index:06d}", assembly.encode(), assembly.digest(), variant.to_json(), features, nodes
        )  # fmt: skip


def draw_block(merger: Merger, seed: int, block: int, wanted: Variants, make: Callable[[int, Variant], _T]) -> list[_T]:
    """Draws the variants of a block and returns `make(index, variant)` of each.

    `make` runs right after the draw, while the regions are in the processor's cache. Coverage starts empty in each
    block, so that no block depends on another.
    """
    rng = Random(f"{seed}/{block}")
    uncovered = merger.uncovered()
    made: list[_T] = []
    for index in range(block * BLOCK, min((block + 1) * BLOCK, wanted.count)):
        forward = wanted.forward > 0 and rng.random() < wanted.forward
        nodes = _nodes(rng, wanted)
        made.append(make(index, merger.draw(rng, nodes, uncovered, wanted.mutated, wanted.large, forward)))
    return made


def _nodes(rng: Random, wanted: Variants) -> int:
    """Draws a number of nodes from the plan's sizes."""
    left = rng.random()
    for size in wanted.sizes:
        left -= size.share
        if left < 0:
            return size.nodes
    return wanted.sizes[-1].nodes


def pool_of(
    directory: str | Path,
    wanted: SamplerOptions | None = None,
    *,
    file: str | Path | None = None,
    jobs: int | None = None,
    on_tick: OnTick | None = None,
    on_made: Callable[[SamplingReport], None] | None = None,
) -> RegionPool:
    """Loads the pool of a catalogue from `file` (default: in the catalogue), or makes a new one.

    A new one is made if the file was made from other graphs, with other options, or by another version of mindgap or
    PyTorch. `on_made` receives the report of a new pool. Raises `MindgapError` for a catalogue without graphs, and for
    a file that is no pool or damaged.
    """
    catalogue = Catalogue(directory)
    wanted = wanted or SamplerOptions()
    where = Path(file) if file is not None else Path(directory) / POOL
    bases = bases_of(catalogue)
    made_of = _made_of(bases, wanted)
    if where.exists() and pool_metadata(where)["made_of"] == made_of:
        return RegionPool.load(where)
    pool, tried = sample_catalogue(catalogue, bases, 0, wanted, jobs=jobs, on_tick=on_tick)
    pool.save(where, made_of, PoolYield(len(bases), tried.barren).to_json())
    if on_made is not None:
        on_made(tried)
    return pool


def pool_yield(file: str | Path) -> PoolYield | None:
    """Returns how many graphs gave the pool in a file its regions; None if the file does not hold the counts."""
    made = pool_metadata(file).get("made", "")
    return PoolYield.from_json(made) if made else None


def load_pool(file: str | Path) -> RegionPool:
    """Loads the pool in a file. Raises `MindgapError` if there is none."""
    if not Path(file).exists():
        raise MindgapError(f"{file}: no such pool; mindgap synth CATALOGUE makes one")
    return RegionPool.load(file)


def _made_of(bases: Sequence[str], wanted: SamplerOptions) -> str:
    parts = [version("mindgap"), torch.__version__, asdict(wanted), list(bases)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
