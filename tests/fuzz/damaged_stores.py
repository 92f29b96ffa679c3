"""Makes a store, damages its files or the values in its rows, and reads it: formats `store`, `rows` and `segment` of
`tests/fuzz/damaged_files.py`.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mindgap.graph import digest
from mindgap.graph.compare.culprit import OperatorCulprit
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.results.from_store import report_of
from mindgap.results.recording import recording
from mindgap.results.rows import Model, PlatformFacts, Report, Row
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.results.store.errors import StoreError
from mindgap.results.store.location import LocalLocation
from mindgap.results.store.segment import check_segment, folder_of, packed_segment, segment_name, to_arrow
from mindgap.results.store.tables import TABLES, TableSchema
from mindgap.run.outcome import Outcome

sys.path.insert(0, str(Path(__file__).parent))

from damaged_contents import FLOATS, NUMBERS, STRINGS, damaged_bytes, damaged_tree, unzipped, zipped
from damaged_graphs import small_graph


def small_report() -> Report:
    platform = parse("onnxruntime/cpu")
    rows = (
        Row("m", platform, "ok", "discrepant", culprit=OperatorCulprit(("aten.sin.default",), 0, "layer (m.py:3)"),
            blame="platform", detail="wrong", digests=("float32[2]:00",), timings={"judge": 1.0}),
        Row("m", CPU_EAGER, "ok", "identical"),
    )  # fmt: skip
    facts = tuple(PlatformFacts(name, str(name), True) for name in (CPU_EAGER, platform))
    model = Model("m", "0" * 64, 1, 1, ("float32[2]",), ("float32[2]",), "ok", reference_digests=("float32[2]:00",))
    return Report(CPU_EAGER, facts, (model,), rows, created="2026-11-25T00:00:00+00:00", version="0")


def make_store(folder: Path) -> bytes:
    """The bytes of a store: its files, packed."""
    made = folder / "made"
    store, report = Store(made), small_report()
    with recording(store, RunSettings(), lambda _: {}) as record:
        record.begin(report.created, "0", report.platforms, [row.platform for row in report.rows])
        record.graph("m", small_graph())
        record.model(0, report.models[0], Outcome(CPU_EAGER, digest(small_graph()), "ok"))
        for row in report.rows:
            record.row(small_graph(), row, None)
        record.finish(1.0)
    files = {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}
    return zipped(files)


def damaged_store(data: bytes, random_: random.Random) -> bytes:
    """One file damaged, renamed or moved. Damage to rows keeps the digest in a segment's name right."""
    import xxhash

    files = unzipped(data)
    name = random_.choice(list(files))
    content = files.pop(name)
    folder, _, last = name.rpartition("/")
    match random_.randrange(3):
        case 0:
            last = damaged_bytes(last.encode(), random_).decode("latin-1").replace("/", "_").replace("\0", "_") or "x"
        case 1:
            folder = random_.choice([other.rpartition("/")[0] for other in files] or [folder])
        case _:
            content = damaged_bytes(content, random_)
            parts = last.removesuffix(".parquet").rsplit("-", 1)
            if last.endswith(".parquet"):
                last = f"{parts[0]}-{xxhash.xxh3_128_hexdigest(content)}.parquet"
    # A name of a file has at most 255 bytes.
    return zipped({**files, f"{folder}/{last}".encode()[:200].decode(errors="ignore"): content})


def read_store(folder: Path) -> object:
    (folder / "store").mkdir()
    for name, content in unzipped((folder / "file").read_bytes()).items():
        path = folder / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    store = Store(folder / "store", create=False)
    return store.check(), report_of(store).to_json()


def make_segment(folder: Path) -> bytes:
    """The bytes of the segment of verdicts."""
    files = unzipped(make_store(folder))
    return next(data for name, data in files.items() if name.startswith(folder_of(TABLES["verdicts"])))


def read_segment(folder: Path) -> object:
    """Checks a segment as a store does before it is queried. Its name holds the digest of what is there."""
    data = (folder / "file").read_bytes()
    name = segment_name(TABLES["verdicts"], data, 1, "0" * 8)
    (folder / name).parent.mkdir(parents=True)
    shutil.move(folder / "file", folder / name)
    return check_segment(LocalLocation(folder), name, TABLES["verdicts"])


def damaged_rows(data: bytes, random_: random.Random) -> bytes:
    """Damages values in rows of a packed store; the segment is written again under its right name."""
    names = [name for name in unzipped(data) if name.startswith("tables/") and name.endswith(".parquet")]
    while True:
        name = random_.choice(names)
        table, rows = _rows_of(data, name)
        for _ in range(random_.randint(1, 3)):
            row = random_.choice(rows)
            column = random_.choice([each for each in table.schema if each.name != "_writer"])
            row[column.name] = _other_cell(row[column.name], random_)
        try:
            return _with_rows(data, name, table, rows)
        except (StoreError, ValueError, OverflowError, TypeError):  # the column has no such value
            continue


def with_cells(data: bytes, table: str, column: str, value: Any) -> bytes:
    """Returns a packed store with another value in this column of all rows of a table."""
    for name in [name for name in unzipped(data) if name.startswith(f"tables/{table}/")]:
        about, rows = _rows_of(data, name)
        data = _with_rows(data, name, about, [{**row, column: value} for row in rows])
    return data


def _rows_of(data: bytes, name: str) -> tuple[TableSchema, list[dict[str, Any]]]:
    rows = pq.read_table(io.BytesIO(unzipped(data)[name])).to_pylist(maps_as_pydicts="strict")
    return TABLES[name.split("/")[1]], rows


def _with_rows(data: bytes, name: str, table: TableSchema, rows: list[dict[str, Any]]) -> bytes:
    """Returns a packed store with other rows in one segment, under the name that their digest gives it."""
    files = unzipped(data)
    del files[name]
    last, segment = packed_segment(table, to_arrow(table, rows))
    files[last] = segment
    return zipped(files)


def _other_cell(value: Any, random_: random.Random) -> Any:
    """Returns another value of a cell: JSON text damaged as a tree, lists and mappings by their members."""
    if random_.random() < 0.15:
        return None
    match value:
        case bool():
            return not value
        case int():
            return random_.choice((value - 1, value + 1, *NUMBERS))
        case float():
            return random_.choice(FLOATS)
        case str() if value[:1] in ("{", "["):
            try:
                return json.dumps(damaged_tree(json.loads(value), random_))
            except ValueError:
                return random_.choice(STRINGS)
        case str():
            return random_.choice((*STRINGS, value[:-1], value + "x", "{", "nul"))
        case list() | dict() if value:
            return damaged_tree(value, random_)
        case list():
            return [random_.choice((*STRINGS, *NUMBERS))]
        case dict():
            return {random_.choice(STRINGS): random_.choice((*STRINGS, *NUMBERS))}
        case _:
            return random_.choice((*STRINGS, *NUMBERS, *FLOATS, True, [], {}))
