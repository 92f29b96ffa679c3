"""Measures where the processor time of `mindgap diff` of four tiny decoders goes.

    python benchmarks/small_diff_costs.py

One command compares the decoders (one to four blocks, a step with a filled cache) on the platforms. A row of the table
is one part of the work, a column one platform:

    start      starting worker processes: the platforms', those of sources and own paths
    captured   running the captured graph: conversion and two runs; the reference's runs are its column
    own path   the program by the way of the platform's users: export, compilation, two runs, other arguments
    located    the search for the submodule at fault
    sources    opening the file and capturing the programs
    judge      making a row in the command's process: comparing outputs, the oracle, single operators

The rest is that of the command's process and of the fork server: imports and forks. Processor seconds, one thread
for each process (`OMP_NUM_THREADS=1`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from small_diff import DECODER

PLATFORMS = ("cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu@precision=f32")
PARTS = ("start", "captured", "own path", "located", "sources", "judge")
#: Parts of the work of own paths, by the kind of a request; all others run the program.
_KINDS = {"locate": "located", "changes": "located", "nodes": "located"}
#: The decoders: so many blocks each.
_BLOCKS = (1, 2, 3, 4)
_MORE = """

def _made(count):
    decoder, (token, cache) = make(count)
    decoder.blocks = nn.ModuleList([Block(32) for _ in range(count)]).eval()
    return decoder, (token, [(torch.randn(1, 5, 32), torch.randn(1, 5, 32)) for _ in range(count)])
"""

Costs = defaultdict[tuple[str, str], float]


def watched(costs: Costs) -> None:
    """Sums in `costs`, by part and platform, the processor seconds of what follows in this process."""
    from mindgap.own_path.client import OwnPathClient
    from mindgap.run.worker_client import WorkerClient
    from mindgap.workflows.diff.subject_runner import SubjectRunner

    charge, ask, judged = WorkerClient._charge, OwnPathClient._ask, SubjectRunner._judged
    #: By the thread that asks: what an own path works on.
    asked: dict[int, tuple[str, str]] = {}

    def charged(client: WorkerClient, worker: Any, purpose: Any) -> None:
        before = client.spent
        charge(client, worker, "running")
        seconds, client.spent = client.spent - before, client.spent if purpose != "starting" else before
        service = client._start.service
        part = "captured" if service.endswith(":platform_service") else "sources"
        place = (
            (part, str(client._name))
            if "own_path" not in service
            else asked.get(threading.get_ident(), ("own path", ""))
        )
        costs["start" if purpose == "starting" else place[0], place[1]] += seconds

    def asking(client: OwnPathClient, kind: str, source: str, platform: Any, *rest: Any, **more: Any) -> Any:
        asked[threading.get_ident()] = _KINDS.get(kind, "own path"), str(platform)
        return ask(client, kind, source, platform, *rest, **more)

    def judging(runner: SubjectRunner, captured: Any, comparison: Any, platform: Any, alone: bool) -> Any:
        before = time.thread_time()
        try:
            return judged(runner, captured, comparison, platform, alone)
        finally:
            costs["judge", str(platform)] += time.thread_time() - before

    WorkerClient._charge, OwnPathClient._ask, SubjectRunner._judged = charged, asking, judging


def print_table(costs: Costs, total: float) -> None:
    names = [*dict.fromkeys(name for _, name in costs if name), ""]
    heads = [name or "shared" for name in names]
    print(f"{'part':<10}{''.join(f'{head:>28}' for head in heads)}{'sum':>8}")
    for part in PARTS:
        row = [costs[part, name] for name in names]
        print(f"{part:<10}{''.join(f'{seconds:28.2f}' for seconds in row)}{sum(row):8.2f}")
    print(f"{'rest':<10}{'':{28 * len(names)}}{total - sum(costs.values()):8.2f}")
    print(f"{'all':<10}{'':{28 * len(names)}}{total:8.2f}")


def inside(arguments: list[str]) -> int:
    """Runs a command in this process, and writes what its parts cost to `costs.json`."""
    from mindgap.cli import main as command

    costs: Costs = defaultdict(float)
    watched(costs)
    status = command(arguments)
    Path("costs.json").write_text(json.dumps([[*place, seconds] for place, seconds in costs.items()]))
    return status


def main() -> None:
    if sys.argv[1:2] == ["diff"]:
        sys.exit(inside(sys.argv[1:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", default=list(PLATFORMS), metavar="PLATFORM")
    parser.add_argument("--decoders", type=int, default=len(_BLOCKS), help="how many of the four")
    wanted = parser.parse_args()
    names = [f"d{count}" for count in _BLOCKS[: wanted.decoders]]
    functions = "".join(f"def {name}(): return _made({name[1:]})\n" for name in names)
    with tempfile.TemporaryDirectory(prefix="small-diff-costs-") as name:
        folder = Path(name)
        (folder / "decoders.py").write_text(DECODER + _MORE + functions)
        more = {"OMP_NUM_THREADS": "1", "MINDGAP_HOME": f"{name}/home", "TORCHINDUCTOR_CACHE_DIR": f"{name}/inductor"}
        arguments = [
            *(f"decoders.py:{each}" for each in names),
            *(p for each in wanted.platforms for p in ("-p", each)),
        ]
        done = subprocess.run(
            [sys.executable, Path(__file__).resolve(), "diff", *arguments, "--json"], cwd=folder, check=False,
            env={**os.environ, **more}, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            sys.exit(done.returncode)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs: Costs = defaultdict(float)
        for part, platform, seconds in json.loads((folder / "costs.json").read_text()):
            costs[part, platform] += seconds
    print(f"{len(names)} decoders on {len(wanted.platforms)} platforms, load {os.getloadavg()[0]:.1f} at the end")
    print_table(costs, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
