"""Measures bytes and time per node of the graph codec, over real graphs.

    python benchmarks/graph_codec.py --graphs DIRECTORY       # of .graph files
    python benchmarks/graph_codec.py torchvision:resnet18 timm:vit_tiny_patch16_224
    python benchmarks/graph_codec.py                          # a fixed list of sources

Targets: at most 16 bytes a node without labels, and at most 50 µs a node to decode with full
validation, in the median. Times are CPU time, best of a few.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mindgap.graph import Graph, decode, digest, encode, load, structure_digest

SOURCES = (
    "torchvision:resnet18", "torchvision:mobilenet_v3_small", "torchvision:squeezenet1_1", "torchvision:densenet121",
    "torchvision:googlenet", "torchvision:shufflenet_v2_x0_5", "torchvision:swin_t", "torchvision:vit_b_16",
    "timm:vit_tiny_patch16_224", "timm:deit_tiny_patch16_224", "timm:convnext_atto", "timm:efficientnet_b0",
    "timm:swin_tiny_patch4_window7_224", "timm:mixer_s32_224", "timm:mobilevit_xxs", "timm:regnetx_002",
    "transformers:bert", "transformers:gpt2", "transformers:t5", "transformers:llama",
)  # fmt: skip


def captured(sources: list[str]) -> Iterator[tuple[str, Graph]]:
    """The graphs of these sources; one that cannot be captured is said and left out."""
    from mindgap.models.corpus.opening import capture_source

    for source in sources:
        for name, graph in capture_source(source, verify=False):
            if isinstance(graph, Graph):
                yield name, graph
            else:
                print(f"{name}: {graph.reason}", file=sys.stderr)


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of five calls."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def measured(graph: Graph) -> dict[str, float]:
    """Bytes and microseconds a node."""
    nodes = max(len(graph.nodes), 1)
    bare, labelled = encode(graph, labels=False), encode(graph)
    assert encode(decode(labelled)) == labelled
    return {
        "bytes": len(bare) / nodes,
        "with labels": len(labelled) / nodes,
        "encode µs": 1e6 * seconds(lambda: encode(graph, labels=False)) / nodes,
        "decode µs": 1e6 * seconds(lambda: decode(bare)) / nodes,
        "digest µs": 1e6 * seconds(lambda: digest(graph)) / nodes,
        "structure µs": 1e6 * seconds(lambda: structure_digest(graph)) / nodes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=SOURCES)
    parser.add_argument("--graphs", type=Path, help="a directory of .graph files, instead of capturing")
    chosen = parser.parse_args()
    if chosen.graphs:
        graphs: Iterator[tuple[str, Graph]] = (
            (path.stem, load(path)) for path in sorted(chosen.graphs.glob("*.graph"))
        )
    else:
        graphs = captured(list(chosen.sources))
    rows: list[dict[str, float]] = []
    for name, graph in graphs:
        rows.append(measured(graph))
        if len(rows) == 1:
            print(f"{'graph':40}{'nodes':>7}{'inputs':>7}" + "".join(f"{what:>13}" for what in rows[0]))
        print(f"{name:40}{len(graph.nodes):7}{len(graph.inputs):7}" + "".join(f"{v:13.1f}" for v in rows[-1].values()))
    if not rows:
        sys.exit("no graphs")
    for percent in (10, 50, 90, 100):
        line = [np.percentile([row[what] for row in rows], percent) for what in rows[0]]
        print(f"{f'percentile {percent} of {len(rows)} graphs':54}" + "".join(f"{value:13.1f}" for value in line))


if __name__ == "__main__":
    main()
