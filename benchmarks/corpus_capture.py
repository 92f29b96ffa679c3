"""How many of a sample of names capture, per source.

    python benchmarks/corpus_capture.py --sample 20 --seed 0 [--records FILE.parquet] [SCHEME …]

Prints a line of JSON per source: how many were tried, built and captured, whose outputs are finite
and not constant, the CPU seconds, and the reason of each failure. One thread; image models at 64
pixels where they take it, records and models of more than 30 million parameters are passed over.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.corpus import CaptureFailure, SourceError, capture_source, timm_zoo, torchvision_zoo, transformers_zoo
from mindgap.graph import Graph, materialise_all

RECORDS = Path(__file__).parents[2] / "shared" / "corpus" / "graphnet.parquet"
MOST_PARAMETERS = 30_000_000


def record_sources(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["id", "num_params"])
    rows = zip(table.column("id").to_pylist(), table.column("num_params").to_pylist(), strict=True)
    return [f"records:{path}#{name}" for name, parameters in rows if parameters <= MOST_PARAMETERS]


def sources(scheme: str, records: Path) -> list[str]:
    if scheme == "records":
        return record_sources(records) if records.is_file() else []
    zoo = {"timm": timm_zoo, "torchvision": torchvision_zoo, "transformers": transformers_zoo}[scheme]
    large = ("giant", "huge", "gigantic", "_so400m", "large", "xxlarge", "_7b", "_1b", "regnet_y_128gf", "vgg", "_h_14")
    return [f"{scheme}:{name}" for name in zoo.names() if not any(word in name.lower() for word in large)]


def outcome(source: str) -> tuple[str, str]:
    """(`captured`, `degenerate` or `failed`, the reason)."""
    for sized in [f"{source}?size=64", source] if source.startswith(("timm:", "torchvision:")) else [source]:
        reason = ""
        try:
            found = [graph for _, graph in capture_source(sized)]
        except SourceError as error:
            found = [CaptureFailure(sized, str(error))]
        graph = found[0]
        if isinstance(graph, CaptureFailure):
            reason = graph.reason
            continue
        return ("captured", "") if says_something(graph) else ("degenerate", "outputs not finite or constant")
    return "failed", reason


def says_something(graph: Graph) -> bool:
    inputs = [to_torch(array, given.spec) for array, given in zip(materialise_all(graph), graph.inputs, strict=True)]
    with torch.no_grad():
        outputs = Tape(graph).run(inputs)
    floats = [value for value in outputs if value.is_floating_point() and value.numel() > 1]
    return all(bool(torch.isfinite(value).all()) for value in floats) and any(value.std() > 0 for value in floats)


def measure(scheme: str, chosen: Sequence[str], verbose: bool) -> dict[str, object]:
    started = time.process_time()
    counts = {"captured": 0, "degenerate": 0, "failed": 0}
    reasons: dict[str, str] = {}
    for source in chosen:
        before = time.process_time()
        kind, reason = outcome(source)
        counts[kind] += 1
        if reason:
            reasons[source] = reason
        if verbose:
            print(f"{source}: {kind} {reason} ({time.process_time() - before:.1f} s)", flush=True)
    seconds = round(time.process_time() - started, 1)
    return {"source": scheme, "tried": len(chosen), **counts, "cpu_seconds": seconds, "reasons": reasons}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("schemes", nargs="*", default=["records", "timm", "torchvision", "transformers"])
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for scheme in given.schemes:
        known = sources(scheme, given.records)
        chosen = random.Random(given.seed).sample(known, min(given.sample, len(known)))
        print(json.dumps(measure(scheme, chosen, given.verbose)), flush=True)


if __name__ == "__main__":
    main()
