"""How many distinct operators the corpus reaches, per source and pass, and in union.

    python benchmarks/operator_union.py [CATALOGUE]

Reads a catalogue that `mindgap corpus build` made. Without one it captures a sample on the spot: every operator and
module sample that a name gives forward and backward, and a dozen models forward, backward and with a step of each
optimiser (about 4 CPU minutes). An operator is an overload packet (`aten.add`), counted beside its overloads
(`aten.add.Tensor`). Prints a table, then a line of JSON. `only`: packets that no other source has.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

PASSES = ("forward", "backward", "sgd", "adamw")
MODELS = (
    "timm:resnet18?size=64", "timm:test_vit", "timm:test_convnext?size=64", "timm:test_efficientnet?size=64",
    "timm:swin_tiny_patch4_window7_224", "torchvision:ssdlite320_mobilenet_v3_large?size=64",
    "torchvision:deeplabv3_mobilenet_v3_large?size=64", "torchvision:densenet121?size=64",
    "transformers:BertModel", "transformers:GPT2Model", "transformers:T5Model", "transformers:LlamaModel",
)  # fmt: skip

#: (source, pass) -> the overloads in its graphs.
Reached = dict[tuple[str, str], set[str]]


def from_catalogue(path: Path) -> Reached:
    from mindgap.catalogue import Catalogue

    reached: Reached = defaultdict(set)
    for entry in Catalogue(path).entries("status IN ('captured', 'duplicate')"):
        reached[entry.scheme, entry.of].update(entry.operators)
    return reached


def captured() -> tuple[Reached, dict[tuple[str, str], list[int]]]:
    """What a sample reaches, and [tried, captured] programs."""
    from mindgap.corpus import CaptureFailure, capture_source

    reached: Reached = defaultdict(set)
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for kind, source, passes in sources():
        for of in passes:
            given: Any = {"backward": of == "backward", "optimizer": of if of in ("sgd", "adamw") else None}
            try:
                for _, graph in capture_source(source, **given):
                    counts[kind, of][0] += 1
                    if not isinstance(graph, CaptureFailure):
                        counts[kind, of][1] += 1
                        reached[kind, of].update(node.op for node in graph.nodes)
            except Exception as error:
                counts[kind, of][0] += 1
                print(f"{source} {of}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return reached, counts


def sources() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    from mindgap.corpus import module_samples, operator_samples

    for model in MODELS:
        yield "models", model, PASSES
    for name in operator_samples.names():
        yield "ops", f"ops:{name}", PASSES[:2]
    for name in module_samples.names():
        yield "modules", f"modules:{name}", PASSES[:2]


def packets(overloads: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in overloads}


def table(reached: Reached) -> dict[str, Any]:
    """Prints a row per source and pass, then the unions; gives the unions as data."""
    kinds = sorted({kind for kind, _ in reached})
    by_kind = {kind: set().union(*(ops for (k, _), ops in reached.items() if k == kind)) for kind in kinds}
    print(f"{'source':<14}{'pass':<10}{'packets':>9}{'overloads':>11}{'only':>7}")
    for kind in kinds:
        others = packets(set().union(*(ops for k, ops in by_kind.items() if k != kind)))
        for of in PASSES:
            if reached.get((kind, of)):
                ops = reached[kind, of]
                print(f"{kind:<14}{of:<10}{len(packets(ops)):>9}{len(ops):>11}{len(packets(ops) - others):>7}")
        whole = by_kind[kind]
        print(f"{kind:<14}{'any':<10}{len(packets(whole)):>9}{len(whole):>11}{len(packets(whole) - others):>7}")
    union: dict[str, Any] = {}
    for of in (*PASSES, "any"):
        ops = set().union(*(found for (_, o), found in reached.items() if of in (o, "any")))
        if ops:
            union[of] = {"packets": len(packets(ops)), "overloads": len(ops)}
            print(f"{'union':<14}{of:<10}{len(packets(ops)):>9}{len(ops):>11}")
    return union


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path, nargs="?", help="a directory made by `mindgap corpus build`")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    before = time.process_time()
    if chosen.catalogue is not None:
        reached, counts = from_catalogue(chosen.catalogue), {}
    else:
        reached, counts = captured()
    union = table(reached)
    tried = {f"{kind} {of}": {"tried": t, "captured": c} for (kind, of), (t, c) in counts.items()}
    print(json.dumps({"union": union, "programs": tried, "cpu_seconds": round(time.process_time() - before, 1)}))


if __name__ == "__main__":
    main()
