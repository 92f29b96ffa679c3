"""Evolves regions by what they reach in Inductor, and counts what the same number of blind mutations reaches.

    mindgap synth CATALOGUE -n 100 --nodes 12 --pool pool.parquet
    python benchmarks/guided_search.py pool.parquet --tries 400 --out guided
    mindgap diff guided/*.mindgap -p cpu/inductor

A try mutates one region and lets Inductor write its code; no C++ compiler runs. New is a region that reaches a line of
`torch/_inductor` or `torch/_decomp`, or a call in the generated C++, that none before it reached. Guided: new regions
are mutated further, half of the time. Blind: each try mutates a region of the pool. Both start from the same regions
and get equally many tries. New regions of the guided search are written to `--out` as model files.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from synthesis_reach import no_binding, traced, writes_code
from torch._inductor.async_compile import AsyncCompile  # pyright: ignore[reportMissingTypeStubs]
from torch._inductor.graph import GraphLowering  # pyright: ignore[reportMissingTypeStubs]

from mindgap.aten.torch_private.inductor import inductor_config
from mindgap.graph import Graph, ModelFile, default_tensor_store, digest, stored_keys
from mindgap.graph.model_file import write_model
from mindgap_campaign.synth.regions.pool import RegionPool
from mindgap_campaign.synth.regions.sampler import SamplerOptions, sample_regions

#: A call in generated C++, with its template arguments: at::vec::VectorizedN<int64_t,2>::loadu.
_CALL = re.compile(r"[A-Za-z_][\w:]*(?:<[\w:, ]*>[\w:]*)?(?=\()")
_NUMBERED = re.compile(r"\d+")

Reach = set[tuple[str, int]]


@dataclass
class Search:
    """What the regions of one search reached. `lines`: files and numbers. `calls`: of generated C++."""

    lines: Reach = field(default_factory=Reach)
    calls: set[str] = field(default_factory=set[str])
    regions: list[Graph] = field(default_factory=list[Graph])
    written: int = 0

    def add(self, graph: Graph, codes: list[str]) -> bool:
        """Lets Inductor write the code of a graph. Returns whether it reaches what no graph before it reached."""
        codes.clear()
        lines = Reach()
        with traced(lines):
            self.written += writes_code(graph)
        calls = {_NUMBERED.sub("N", each) for code in codes for each in _CALL.findall(code)}
        new = bool(lines - self.lines or calls - self.calls)
        self.lines |= lines
        self.calls |= calls
        return new


def mutated(graph: Graph, draw: Random) -> Iterator[Graph]:
    """The mutations of a graph that run in eager mode."""
    for each in sample_regions(digest(graph), graph, draw, SamplerOptions(plain=1, mutated=1)):
        if each.region is not None and each.kind != "found":
            yield each.region.graph


def searched(pool: Sequence[Graph], start: Sequence[Graph], tries: int, guided: bool, codes: list[str]) -> Search:
    """Tries mutations, of new regions too where `guided`. What `start` reaches is not new."""
    draw, search, tried = Random(1), Search(), 0
    for graph in start:
        search.add(graph, codes)
    while tried < tries:
        further = guided and search.regions and draw.random() < 0.5
        for graph in mutated(draw.choice(search.regions if further else pool), draw):
            tried += 1
            if search.add(graph, codes):
                search.regions.append(graph)
            if tried == tries:
                break
    return search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--tries", type=int, default=400)
    parser.add_argument("--start", type=int, default=60, help="regions of the pool that both searches start from")
    parser.add_argument("--out", type=Path, help="folder for the new regions of the guided search")
    args = parser.parse_args()
    AsyncCompile.cpp_pybinding = no_binding
    codes = list[str]()
    GraphLowering.save_output_code = staticmethod(codes.append)  # pyright: ignore[reportAttributeAccessIssue]
    pool = [region.graph for region in RegionPool.load(args.pool) if not stored_keys(region.graph)]
    start = Random(0).sample(pool, min(args.start, len(pool)))
    with inductor_config.patch({"force_disable_caches": True}):
        for graph in start[:3]:
            writes_code(graph)  # imports
        columns = {name: searched(pool, start, args.tries, name == "guided", codes) for name in ("blind", "guided")}
    print(f"{'':32}" + "".join(f"{name:>10}" for name in columns))
    for label, count in (
        ("tries whose code was written", lambda each: each.written),
        ("new regions", lambda each: len(each.regions)),
        ("lines of the compiler", lambda each: len(each.lines)),
        ("calls in generated C++", lambda each: len(each.calls)),
    ):
        print(f"{label:32}" + "".join(f"{count(each):10,}" for each in columns.values()))
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        for number, graph in enumerate(columns["guided"].regions):
            name = f"guided-{number:04d}"
            write_model(args.out / f"{name}.mindgap", ModelFile(name, "", graph), default_tensor_store())


if __name__ == "__main__":
    main()
