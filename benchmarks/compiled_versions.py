"""Counts the graphs that two compiling platforms give the same bits for.

    python benchmarks/compiled_versions.py 'variants:CAT?count=2000' cpu/aotinductor cpu/aotinductor@env=torch214

Graphs are compiled in batches, each platform in a worker of its own, so that thousands take hours and not days. Inputs
are drawn from each graph's own recipes. Outputs that differ are not judged: `mindgap upgrade` does that. For each graph
that differs the largest difference is printed, over the largest magnitude of the output.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from mindgap.cli.stored_graphs import stored_subjects
from mindgap.graph import TensorStore
from mindgap.graph.compare.digest import widened
from mindgap.graph.compare.metrics import StructuralMismatch, measure
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.platforms.protocol import Array
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool


def apart(reference: Array, other: Array) -> float:
    """The largest difference over the largest finite magnitude; infinity for another shape, NaN or infinity."""
    found = measure(reference, other)
    if isinstance(found, StructuralMismatch) or found.nan_mismatch or found.inf_mismatch:
        return float("inf")
    size = np.abs(widened(reference))
    return float(found.max_abs or 0.0) / float(size[np.isfinite(size)].max(initial=0.0) or 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("platforms", nargs=2)
    parser.add_argument("--batch", type=int, default=50)
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tensors = TensorStore(Path(folder))
        with WorkerPool(arguments.platforms, tensors=tensors) as pool, ThreadPoolExecutor(2) as threads:
            source = stored_subjects(arguments.source, tensors)
            while subjects := list(itertools.islice(source, arguments.batch)):
                graphs = [subject.graph() for subject in subjects]
                found = threads.map(
                    lambda platform, graphs=graphs: pool.run_together(
                        [Job(platform, graph, "outputs", deadline_s=60.0) for graph in graphs], 60.0 * len(graphs)
                    ),
                    arguments.platforms,
                )
                for subject, one, other in zip(subjects, *found, strict=True):
                    if one.arrays is None or other.arrays is None:
                        word = f"{one.status}, {other.status}"
                    else:
                        pairs = [pair for pair in zip(one.arrays, other.arrays, strict=True) if not same_bits(*pair)]
                        word = "other bits" if pairs else "same"
                        if pairs:
                            print(f"{subject.name}: {max(apart(*pair) for pair in pairs):.2g}")
                    counts[word] += 1
                print(f"{counts.total()} graphs: {', '.join(f'{n} {word}' for word, n in counts.items())}", flush=True)


if __name__ == "__main__":
    main()
