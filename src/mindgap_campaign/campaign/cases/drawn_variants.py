"""Draws variants of a catalogue's regions for commands that run sources of many graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mindgap.graph import Graph, decode
from mindgap.results.catalogue import Catalogue
from mindgap_campaign.campaign.cases.case import BLOCK
from mindgap_campaign.campaign.cases.variants import draw_block, pool_of
from mindgap_campaign.campaign.plan import Size, Variants
from mindgap_campaign.synth.merging.merge import Merger
from mindgap_campaign.synth.merging.variant import Variant


def drawn_variants(
    directory: Path, count: int, nodes: int, seed: int
) -> Iterator[tuple[str, Callable[[], Graph], Path]]:
    """Yields variants as a campaign draws them: a name, what makes the graph, and the folder of its tensors."""
    merger = Merger(pool_of(directory))
    wanted = Variants(count=count, sizes=(Size(nodes=nodes, share=1.0),))
    where = Catalogue(directory).tensors
    for block in range(-(-count // BLOCK)):
        for index, variant in draw_block(merger, seed, block, wanted, lambda index, variant: (index, variant)):
            yield f"v{index:06d}", partial(_merged, merger, variant), where


def _merged(merger: Merger, variant: Variant) -> Graph:
    return decode(merger.assembly(variant).encode())
