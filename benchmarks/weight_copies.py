"""Measures how many copies of a graph's weights the worker of a platform makes.

    python benchmarks/weight_copies.py cpu/eager cpu/inductor jax/cpu     # 256 MiB of weights, float32
    python benchmarks/weight_copies.py cpu/jit --mib 16

Four products with square matrices run on the platform, first small ones, then large ones, in the same worker. Its
largest resident size (VmHWM) has grown by then; what it has grown by beyond the weights, which the worker maps from
the tensor store, in units of the weights, are its copies. `WEIGHT_COPIES` in a backend's description declares them; the
number declared is printed beside. Memory of compilers that the worker starts is not counted.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import numpy as np

from mindgap.graph import Graph, Input, Node, Normal, Ref, Stored, TensorSpec, TensorStore
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import MOST_COPIES, WEIGHT_COPIES, PlatformError
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool

_LAYERS = 4


def products(width: int, tensors: TensorStore) -> Graph:
    """Returns a graph of products of one row with square matrices of this width."""
    row, matrix = (TensorSpec.contiguous("float32", (rows, width)) for rows in (1, width))
    random = np.random.default_rng(width)
    keys = [
        tensors.put((random.random((width, width), np.float32) - np.float32(0.5)) / np.float32(width**0.5))
        for _ in range(_LAYERS)
    ]
    inputs = (Input(row, Normal(1)), *(Input(matrix, Stored(key), "parameter") for key in keys))
    first = len(inputs)
    nodes = tuple(
        Node("aten.mm.default", (Ref(first + at - 1 if at else 0), Ref(at + 1)), (), (row,)) for at in range(_LAYERS)
    )
    return Graph(inputs, nodes, (first + _LAYERS - 1,))


def largest_size(pid: int) -> int:
    """Returns the largest resident size of a process until now, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, f"process {pid} has ended"
    return int(found[1]) * 1024


def copies(platform: PlatformName, mib: int) -> tuple[float, str]:
    """Returns the copies that a platform's worker makes, and the number that its backend declares."""
    width = int((mib * 2**20 / 4 / _LAYERS) ** 0.5)
    with tempfile.TemporaryDirectory() as folder:
        tensors = TensorStore(folder)
        sizes: list[int] = []
        with WorkerPool([platform], tensors=tensors, memory_limit_bytes=8 << 30, recycle_bytes=8 << 30) as pool:
            for graph in (products(64, tensors), products(width, tensors)):
                outcome = pool.run(Job(platform, graph, deadline_s=600.0))
                if outcome.status != "ok":
                    raise SystemExit(f"{platform}: {outcome.status}: {outcome.message}")
                sizes.append(largest_size(pool.pids()[platform]))
            declared = pool.describe(platform).get(WEIGHT_COPIES, f"none, {MOST_COPIES:g} taken")
    weights = 4 * _LAYERS * width**2
    return (sizes[1] - sizes[0]) / weights - 1, str(declared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="+", metavar="PLATFORM")
    parser.add_argument("--mib", type=int, default=256, help="weights in MiB")
    chosen = parser.parse_args()
    try:
        platforms = [canonical(platform) for platform in chosen.platforms]
    except PlatformError as error:
        parser.error(str(error))
    for platform in platforms:
        made, declared = copies(platform, chosen.mib)
        print(f"{platform}: {made:.2f} copies of {chosen.mib} MiB; declared: {declared}", flush=True)


if __name__ == "__main__":
    main()
