"""Measures what a store of many small segments costs to list, query and compact.

A cluster writes a segment for each block and table.

    python benchmarks/store_segments.py [SEGMENTS] [--keep DIR]

Processor seconds, which other work on the machine does not change; a segment holds one row.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindgap.results.store import TABLES, Store
from mindgap.results.store.segment import packed, segment_name, to_arrow

_TABLE = TABLES["outcomes"]
_COUNT = "SELECT count(*) AS n FROM outcomes"


def _row(number: int) -> dict[str, Any]:
    return {
        "run": "r", "model": f"v{number:06d}", "graph": f"{number:064x}", "platform": "cpu/eager", "fingerprint": "f",
        "status": "ok", "outputs": [], "timings": {"run": number / 7},
    }  # fmt: skip


def write(path: Path, count: int) -> None:
    """Writes segments of one row each."""
    Store(path)
    folder = path / "tables" / _TABLE.name
    folder.mkdir(parents=True, exist_ok=True)
    stamped = [{**_row(n), "_written": 1_700_000_000_000_000 + n, "_writer": "aa", "_seq": n} for n in range(count)]
    rows = to_arrow(_TABLE, stamped)
    for number in range(count):
        data = packed(rows.slice(number, 1))
        (path / segment_name(_TABLE, data, 1_700_000_000_000_000 + number, "aa")).write_bytes(data)


def measure(path: Path) -> None:
    """Prints what each step takes."""
    store = Store(path, create=False)
    count = len(list((path / "tables" / _TABLE.name).iterdir()))
    print(f"{count:,} segments of one row")
    _timed("list", lambda: Store(path, create=False)._location.names("tables/outcomes"))
    _timed("first query", lambda: store.rows(_COUNT))
    _timed("next query", lambda: store.rows(_COUNT))
    store.append("outcomes", _row(count))
    _timed("query after one more segment", lambda: store.rows(_COUNT))
    removed = _timed("compact", store.compact)
    (found,) = Store(path, create=False).rows(_COUNT)
    print(f"{removed:,} segments compacted, {found['n']:,} rows")


def _timed(what: str, run: Callable[[], Any]) -> Any:
    before = time.process_time()
    found = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{what:<30}{time.process_time() - before:9.2f} CPU s {peak:6} MiB at most so far", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("segments", type=int, nargs="?", default=100_000)
    parser.add_argument(
        "--keep", type=Path, help="a store of an earlier run, or where to keep it; compacted in the end"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mindgap-segments-") as scratch:
        path: Path = asked.keep or Path(scratch)
        if not (path / "mindgap-store.json").exists():
            write(path, asked.segments)
        measure(path)


if __name__ == "__main__":
    main()
