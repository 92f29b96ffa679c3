"""Measures the time to assemble graphs of a thousand nodes from prepared regions, and the time to prepare these.

    python benchmarks/assembly.py                              # a fixed list of sources
    python benchmarks/assembly.py torchvision:resnet18 timm:vit_tiny_patch16_224 --nodes 1000 --seed 0
    python benchmarks/assembly.py --graphs DIRECTORY           # of .graph files

Regions of real graphs are prepared once. An assembly takes about forty of them and connects half of the inputs for
which an earlier value fits. On average one and a half regions get new glue of one to five nodes. The column `glue` is
the time to build, check and prepare it. Targets: content and digest within 2.5 ms, the encoded bytes within 6 ms, 30 µs
per glue of three nodes. Times are CPU time of one core, median of the assemblies.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mindgap.graph import (
    Assembly,
    Fragment,
    Graph,
    Input,
    Node,
    Normal,
    Parts,
    Piece,
    Ref,
    Source,
    TensorSpec,
    digest,
    encode,
    extract,
    load,
)

SOURCES = (
    "torchvision:resnet18", "torchvision:mobilenet_v3_small", "torchvision:squeezenet1_1", "torchvision:densenet121",
    "torchvision:shufflenet_v2_x0_5", "timm:vit_tiny_patch16_224", "timm:convnext_atto", "timm:efficientnet_b0",
    "timm:mixer_s32_224", "timm:mobilevit_xxs",
)  # fmt: skip
#: Pieces of glue for each region: any of these.
GLUE = (1, 2)
PARTS = Parts()


def captured(sources: list[str]) -> Iterator[Graph]:
    """The graphs of these sources, backward passes included; one that cannot be captured is said and left out."""
    from mindgap.models.corpus.opening import capture_source

    for source in sources:
        for name, graph in capture_source(source, verify=False):
            if isinstance(graph, Graph):
                yield graph
            else:
                print(f"{name}: {graph.reason}", file=sys.stderr)


def regions(graph: Graph, draw: random.Random) -> Iterator[Graph]:
    """Runs of 20 to 25 nodes, each with the values that nothing inside it reads as outputs."""
    start = 0
    while start + 20 <= len(graph.nodes):
        size = min(draw.randint(20, 25), len(graph.nodes) - start)
        nodes = range(start, start + size)
        made = [value for node in nodes for value in range(graph.first_value[node], graph.first_value[node] + 1)]
        last = [value for value in made if graph.values[value] is not None][-1:]
        yield extract(graph, nodes, last)[0]
        start += size


def glue(draw: random.Random, spec: TensorSpec) -> Graph:
    """One to five nodes with attributes that have not been seen before."""
    nodes: list[Node] = []
    for index in range(draw.randint(1, 5)):
        op, args = draw.choice(
            (
                ("aten.add.Scalar", (Ref(index), draw.random())),
                ("aten.mul.Scalar", (Ref(index), draw.random())),
                ("aten.clamp.default", (Ref(index), -draw.random(), draw.random())),
                ("aten.relu.default", (Ref(index),)),
            )
        )
        nodes.append(Node(op, args, (), (spec,)))
    return Graph((Input(spec, Normal(draw.getrandbits(32))),), tuple(nodes), (len(nodes),))


@dataclass
class Plan:
    """What an assembly is made of: for each piece its graph, its fragment where it is a region, and its feeds."""

    parts: list[tuple[Graph, Fragment | None, dict[int, Source]]]
    outputs: tuple[Source, ...]

    def prepared(self) -> list[Fragment]:
        """The fragments, those of glue new."""
        return [Fragment(graph, PARTS) if fragment is None else fragment for graph, fragment, _ in self.parts]

    def assembly(self, fragments: list[Fragment]) -> Assembly:
        return Assembly(
            tuple(Piece(fragment, feeds) for fragment, (_, _, feeds) in zip(fragments, self.parts, strict=True)),
            self.outputs,
        )


def planned(pool: list[tuple[Graph, Fragment]], nodes: int, draw: random.Random) -> Plan:
    """Regions drawn from the pool until there are so many nodes."""
    parts: list[tuple[Graph, Fragment | None, dict[int, Source]]] = []
    values: dict[TensorSpec | None, list[Source]] = {}
    count = 0

    def put(graph: Graph, fragment: Fragment | None, feeds: dict[int, Source]) -> int:
        parts.append((graph, fragment, feeds))
        for value in range(len(graph.inputs), len(graph.values)):
            values.setdefault(graph.values[value], []).append((len(parts) - 1, value))
        return len(graph.nodes)

    while count < nodes:
        region, fragment = draw.choice(pool)
        feeds = {n: draw.choice(values[i.spec]) for n, i in enumerate(region.inputs) if i.spec in values}
        count += put(region, fragment, feeds)
        for _ in range(draw.choice(GLUE)):
            floats = [spec for spec in values if spec is not None and spec.kind == "float"]
            if floats:
                spec = draw.choice(floats)
                count += put(glue(draw, spec), None, {0: draw.choice(values[spec])})
    outputs = tuple(draw.choice(found) for spec, found in values.items() if spec is not None)
    return Plan(parts, outputs[:20])


def microseconds(call: Callable[[], object]) -> float:
    """CPU time of the fastest of three calls."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time_ns()
        call()
        best = min(best, (time.process_time_ns() - start) / 1e3)
    return best


def measured(plan: Plan) -> dict[str, float]:
    """What one assembly takes, after its bytes were seen to be those that the encoder writes of its graph."""
    fragments = plan.prepared()
    whole = plan.assembly(fragments)
    graph = whole.graph()
    assert whole.encode() == encode(graph) and whole.digest() == digest(graph)
    new = [graph for graph, fragment, _ in plan.parts if fragment is None]
    return {
        "nodes": len(graph.nodes),
        "inputs": len(graph.inputs),
        "pieces": len(fragments),
        "bytes": len(whole.content()),
        "compressed": len(whole.encode()),
        "content and digest": microseconds(lambda: plan.assembly(fragments).digest()),
        "the same, encoded": microseconds(lambda: (made := plan.assembly(fragments)).digest() and made.encode()),
        "a piece of glue": microseconds(lambda: [Fragment(Graph(g.inputs, g.nodes, g.outputs), PARTS) for g in new])
        / len(new),
        "graph()": microseconds(lambda: plan.assembly(fragments).graph()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=SOURCES)
    parser.add_argument("--graphs", type=Path, help="a directory of .graph files, instead of capturing")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--assemblies", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draw = random.Random(chosen.seed)
    bases = (
        [load(p) for p in sorted(chosen.graphs.glob("*.graph"))] if chosen.graphs else list(captured(chosen.sources))
    )
    cut = [region for base in bases for region in regions(base, draw)]
    if not cut:
        sys.exit("no graph of twenty nodes")
    tracemalloc.start()
    pool = [(region, Fragment(region, PARTS)) for region in cut]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    each = microseconds(lambda: [Fragment(region, PARTS) for region in cut]) / len(cut)
    nodes = statistics.mean(len(region.nodes) for region in cut)
    print(
        f"{len(pool)} regions of {nodes:.1f} nodes and {statistics.mean(len(r.inputs) for r in cut):.1f} inputs from"
        f" {len(bases)} graphs: {held / len(pool):.0f} bytes a fragment beside its graph, prepared in {each:.0f} µs"
    )
    rows = [measured(planned(pool, chosen.nodes, draw)) for _ in range(chosen.assemblies)]
    print(f"{'':20}{'median':>12}{'largest':>12}")
    for what in rows[0]:
        found = [row[what] for row in rows]
        print(f"{what:20}{statistics.median(found):12.0f}{max(found):12.0f}")


if __name__ == "__main__":
    main()
