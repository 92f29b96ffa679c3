"""Measures the cost of digesting every value of a run: `python benchmarks/trace_cost.py [SOURCE…]`.

Each model runs on `cpu/eager@threads=1` in this process. A plain run gives the outputs. A traced run also digests the
result of every node, as `mindgap trace` does. The two alternate. Ratios are of processor time, which other work on the
machine touches least. Without sources, the models for measurements run. Target: a median ratio of 1.5 at most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from mindgap.cli.sources import subjects
from mindgap.graph import TensorStore, materialise_all
from mindgap.platforms.protocol import Traceable
from mindgap.platforms.registry import find
from mindgap.source_worker.client import SourceClient
from mindgap.workflows.diff import Subject
from mindgap_campaign.demo import DATA, DEMO_MODELS

#: Models for measurements: unlike in architecture.
MODELS = (
    *DEMO_MODELS,
    "timm:convnext_atto?size=64",
    "timm:mixer_s32_224",
    "timm:efficientnet_lite0?size=64",
    "timm:resmlp_12_224?size=64",
    "torchvision:mobilenet_v3_small?size=64",
    "torchvision:shufflenet_v2_x0_5?size=64",
    "torchvision:squeezenet1_1?size=64",
    "transformers:GPT2Model",
    "transformers:T5Model",
    "transformers:WhisperModel",
    "transformers:SegformerModel",
    "transformers:CLIPModel",
    "diffusers:UNet2DModel",
    "pyg:GAT",
    *(f"graph:{file}" for file in sorted(DATA.glob("*.graph"))),
)
_PLATFORM = "cpu/eager@threads=1"
#: Seconds of plain runs of one model, and the fewest runs.
_SECONDS = 1.0
_FEWEST = 15


def seconds_of(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def ratio_of(subject: Subject, tensors: TensorStore) -> tuple[str, float]:
    """Prints a line; returns the subject's name and the median ratio of a traced run to the plain run beside it."""
    graph = subject.captured()
    inputs = materialise_all(graph, tensors)
    backend, options = find(_PLATFORM)
    executable = backend.open(options).load(graph, inputs)
    assert isinstance(executable, Traceable)
    for _ in range(3):
        executable(inputs)
        _, digests = executable.digest_values(inputs)
    plain: list[float] = []
    traced: list[float] = []
    while len(plain) < _FEWEST or sum(plain) < _SECONDS:
        plain.append(seconds_of(lambda: executable(inputs)))
        traced.append(seconds_of(lambda: executable.digest_values(inputs)))
    ratio = statistics.median(t / p for t, p in zip(traced, plain, strict=True))
    views = sum(isinstance(digest, int) for digest in digests)
    megabytes = sum(s.nbytes for s in graph.values[len(graph.inputs) :] if s is not None) / 1e6
    times = f"{statistics.median(plain) * 1e3:>9.2f}{statistics.median(traced) * 1e3:>9.2f}{ratio:>7.2f}"
    name = os.path.basename(subject.name)
    print(f"{name:<48}{len(graph.nodes):>6}{views:>6}{megabytes:>8.1f}{times}", flush=True)
    return name, ratio


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args(argv)
    backend, options = find(_PLATFORM)
    os.environ.update(backend.environment(options))
    print(f"{'model':<48}{'nodes':>6}{'views':>6}{'MB':>8}{'plain ms':>9}{'traced':>9}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as directory, SourceClient(TensorStore(directory), 600.0) as client:
        tensors = TensorStore(directory)
        found = [ratio_of(subject, tensors) for subject in subjects(arguments.sources or MODELS, [], client)]
    name, worst = max(found, key=lambda pair: pair[1])
    print(f"{len(found)} models: median {statistics.median(r for _, r in found):.2f}, worst {worst:.2f} ({name})")


if __name__ == "__main__":
    main()
