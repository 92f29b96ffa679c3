"""Measures the store: rows appended per second, bytes per row, the writer's memory, queries over many outcomes.

`python benchmarks/store_write.py [ROWS]` (default 1,000,000). One process writes outcomes with one digested output
each, in segments as a writer makes them; memory is measured after 10,000 rows and again 100,000 rows later.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mindgap.graph.compare.digest import digested
from mindgap.results.store import Store, outcome_row
from mindgap.run.outcome import Outcome
from mindgap.run.system import own_bytes

QUERIES = {
    "first query: files checked, duplicates looked for": "SELECT count(*) FROM outcomes",
    "outcomes by platform and status": "SELECT platform, status, count(*) FROM outcomes GROUP BY ALL",
    "failures by signature": "SELECT signature, count(*) FROM outcomes WHERE status <> 'ok' GROUP BY ALL",
    "distinct outputs per graph": (
        "SELECT classes, count(*) FROM (SELECT graph, count(DISTINCT outputs[1].digest) AS classes "
        "FROM outcomes GROUP BY graph) GROUP BY ALL"
    ),
}


def row(number: int, random: np.random.Generator) -> dict[str, Any]:
    """An outcome as a campaign makes them: five platforms a graph, one in twenty fails."""
    platform = f"cpu/eager@threads={number % 5}"
    graph, timings = f"{number // 5:064x}", {"load": random.random(), "run": random.random(), "total": random.random()}
    if number % 20 == 0:
        message = f"RuntimeError: no kernel for operator {number % 7} at 0x{number:x}"
        return outcome_row("r", "", Outcome(platform, graph, "runtime_error", message=message, signature=message[:35]))
    outputs = (digested(random.random(4, np.float32)),)
    return outcome_row("r", "", Outcome(platform, graph, "ok", outputs, timings=timings, fingerprint="f" * 32))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        writing, memory = 0.0, {}
        with store.writer() as writer:
            for number in range(count):
                made = row(number, random)
                started = time.perf_counter()
                writer.append("outcomes", made)
                writing += time.perf_counter() - started
                if number + 1 in (10_000, 110_000):
                    memory[number + 1] = own_bytes("self")
            started = time.perf_counter()
        writing += time.perf_counter() - started
        files = list(Path(directory).glob("tables/*/*.parquet"))
        size = sum(file.stat().st_size for file in files)
        print(f"{count / writing:,.0f} rows/s appended, {size / count:.1f} bytes a row, {len(files)} segments")
        print("resident: " + ", ".join(f"{n:,} rows {found >> 20} MiB" for n, found in memory.items()))
        for what, sql in QUERIES.items():
            started = time.perf_counter()
            store.query(sql)
            print(f"{time.perf_counter() - started:6.2f} s  {what}")


if __name__ == "__main__":
    main()
