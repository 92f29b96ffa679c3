"""What is appended is what is asked for, whoever wrote it and however files were copied."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings, strategies as st

from mindgap.graph import Graph, Input, MindgapError, Stored, TensorStore, digest
from mindgap.results.store import (
    TABLES,
    VERSION,
    MergeCounts,
    Store,
    StoreError,
    small_segments,
    small_tables,
    views as store_views,
)
from mindgap.results.store.location import LocalLocation
from mindgap.run.system import remove_leftovers
from results.store.store_rows import outcome, small_graph


def statuses(store: Store) -> dict[str, str]:
    return {row["graph"][-2:]: row["status"] for row in store.rows("SELECT graph, status FROM outcomes")}


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("tables/*/*.parquet"))


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.append("outcomes", outcome(3, message="why — ×", op="aten.add.Tensor"))
    (row,) = Store(tmp_path / "s", create=False).rows("SELECT * EXCLUDE (_written, _writer, _seq) FROM outcomes")
    wanted = {**outcome(3), "message": "why — ×", "op": "aten.add.Tensor", "signature": None}
    assert row == wanted


def test_every_table_can_be_asked_before_anything_is_in_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for table in TABLES.values():
        assert store.query(f"SELECT * FROM {table.name}").schema.names == table.schema.names
        assert store.rows(f"SELECT count(*) AS n FROM {table.name}") == [{"n": 0}]


def test_parameters_are_values_and_never_sql(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append("outcomes", [outcome(1), outcome(2, platform="x'; DROP VIEW outcomes; --")])
    sql = "SELECT graph FROM outcomes WHERE platform = "
    assert len(store.rows(sql + "?", ["x'; DROP VIEW outcomes; --"])) == 1
    assert len(store.rows(sql + "$p", {"p": "cpu/eager"})) == 1
    with pytest.raises(StoreError, match=r"the query fails.*nonsense"):
        store.query("SELECT nonsense FROM outcomes")


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tables are read into memory, or their files by DuckDB."""
    if request.param == "large":
        monkeypatch.setattr(small_tables, "LIMIT", 0)
    return request.param


def test_of_rows_with_one_key_the_last_written_counts(tmp_path: Path, size: str) -> None:
    store = Store(tmp_path)
    store.append("outcomes", [outcome(1, status="crash"), outcome(1, status="timeout"), outcome(2)])
    assert statuses(store) == {"01": "timeout", "02": "ok"}
    store.append("outcomes", outcome(1, status="ok"))
    assert statuses(store) == {"01": "ok", "02": "ok"}
    assert store.rows("SELECT count(*) AS n FROM outcomes") == [{"n": 2}]
    assert (store.count_of("outcomes"), store.count_of("outcomes", "r"), store.count_of("outcomes", "other")) == (
        2,
        2,
        0,
    )
    assert sorted(row["graph"][-2:] for row in store.rows_of("outcomes", "r")) == ["01", "02"]


def test_rows_of_a_table_are_those_that_sql_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.append("runs", [{"run": each, "kind": "diff", "created": datetime.now(UTC), "seconds": 1.5} for each in "ab"])
    store.append("outcomes", [outcome(1), outcome(2, status="crash"), outcome(1, message="again — ×")])
    small = [store.rows_of(table) for table in TABLES]
    monkeypatch.setattr(small_tables, "LIMIT", 0)
    large = [Store(tmp_path).rows_of(table) for table in TABLES]
    assert small == large == [store.rows(f"SELECT * FROM {table}") for table in TABLES]


def test_a_table_grows_out_of_memory_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.append("outcomes", outcome(1))
    monkeypatch.setattr(small_tables, "LIMIT", segments(tmp_path)[0].stat().st_size * 3 // 2)
    assert statuses(store) == {"01": "ok"}
    store.append("outcomes", outcome(2))
    assert statuses(store) == {"01": "ok", "02": "ok"} and len(store.rows_of("outcomes")) == 2
    segments(tmp_path)[1].unlink()
    assert statuses(store) == {"01": "ok"} and len(store.rows_of("outcomes")) == 1


def test_small_tables_are_read_and_refused_without_duckdb(tmp_path: Path) -> None:
    Store(tmp_path).append("outcomes", outcome(1))
    store = Store(tmp_path)
    assert store.count_of("outcomes") == 1 and store._views._connection is None
    (path,) = segments(tmp_path)
    # Behind a right digest: only reading the rows can tell.
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.unlink()
    named = f"{path.stem.rpartition('-')[0]}-{xxhash.xxh3_128_hexdigest(data)}.parquet"
    path.with_name(named).write_bytes(data)
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=f"{named} is damaged or cut short"):
        store.rows_of("outcomes")
    assert store._views._connection is None


@settings(max_examples=15, deadline=None)
@given(
    writes=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from(["ok", "crash", "oom"])), max_size=12
    ),
    merges=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=6),
)
def test_merging_is_idempotent_and_has_no_order(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, int, str]], merges: list[tuple[int, int]]
) -> None:
    """Whatever was merged before, once everyone has everything all give one answer: the last write of each key."""
    root = tmp_path_factory.mktemp("merge")
    stores = [Store(root / str(number)) for number in range(3)]
    last: dict[str, str] = {}
    for number, key, status in writes:
        stores[number].append("outcomes", outcome(key, status=status))
        last[f"{key:02x}"] = status
    for source, target in merges:
        stores[target].merge(stores[source])
    for _ in range(2):
        for source in stores:
            for target in stores:
                target.merge(source)
    assert [statuses(store) for store in stores] == [last] * 3
    assert stores[0].merge(stores[1]) == MergeCounts(0, 0, 0)
    stores[0].compact()
    assert statuses(stores[0]) == last
    stores[0].merge(stores[2])
    assert statuses(stores[0]) == last


def test_merge_copies_graphs_and_tensors(tmp_path: Path) -> None:
    here, there = Store(tmp_path / "a"), Store(tmp_path / "b")
    key = there.put_graph(small_graph())
    tensor = there.tensors.put(np.ones(3, np.float32))
    there.append("outcomes", outcome(1))
    assert here.merge(tmp_path / "b") == MergeCounts(1, 1, 1)
    assert here.get_graph(key) == small_graph() and tensor in here.tensors
    assert here.check() == []


def test_compacting_keeps_rows_and_saves_files(tmp_path: Path, size: str) -> None:
    store = Store(tmp_path)
    for number in range(6):
        store.append("outcomes", outcome(number % 5, status="ok" if number < 5 else "oom"))
    before = statuses(store)
    reader = Store(tmp_path)
    assert statuses(reader) == before
    kept = [path.read_bytes() for path in segments(tmp_path)]
    names = segments(tmp_path)
    assert store.compact() == 6 and len(segments(tmp_path)) == 1
    assert statuses(store) == statuses(reader) == before and before["00"] == "oom"
    # An old segment comes back from another machine: nothing changes.
    names[0].write_bytes(kept[0])
    assert statuses(store) == before and store.check() == []


def test_a_graph_is_kept_under_its_digest_and_checked(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = store.put_graph(small_graph())
    assert key == digest(small_graph()) == store.put_graph(small_graph())
    assert store.get_graph(key) == small_graph()
    (file,) = tmp_path.glob("graphs/*/*.graph")
    other = store.put_graph(small_graph(2.0))
    file.write_bytes((tmp_path / "graphs" / other[:2] / f"{other}.graph").read_bytes())
    with pytest.raises(StoreError, match="holds another graph"):
        store.get_graph(key)
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(StoreError, match=rf"{file.name}.*copy it again"):
        store.get_graph(key)
    with pytest.raises(StoreError, match="does not keep"):
        store.get_graph("0" * 64)


def test_a_segment_that_was_cut_short_or_changed_is_named(tmp_path: Path, size: str) -> None:
    store = Store(tmp_path)
    store.append("outcomes", [outcome(number) for number in range(100)])
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for kept in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(StoreError, match=rf"{path.name} is damaged or cut short.*move it away"):
            Store(tmp_path).query("SELECT * FROM outcomes")
    # A byte of the data: only reading it all, or the page's own checksum, can tell.
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 0xFF]) + whole[201:])
    (said,) = Store(tmp_path).check()
    assert path.name in said and "does not hold what its name promises" in said
    with pytest.raises(StoreError, match=path.name):
        Store(tmp_path / "new").merge(tmp_path)
    assert Store(tmp_path / "new").rows("SELECT * FROM outcomes") == []
    # Other tables can still be asked, and once the file is away so can this one.
    path.rename(tmp_path / "away")
    assert Store(tmp_path).rows("SELECT * FROM outcomes") == []


def test_a_segment_of_another_table_or_version_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append("outcomes", outcome(1))
    (path,) = segments(tmp_path)
    (tmp_path / "tables" / "runs").mkdir()
    (tmp_path / "tables" / "runs" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(StoreError, match=f"{path.name} is not of the table runs"):
        store.query("SELECT * FROM runs")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"no store and not empty \(thesis.txt"):
        Store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(StoreError, match=r"is no store.*mindgap-store.json"):
        Store(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreError, match=r"thesis\.txt"):
        Store(tmp_path / "thesis.txt")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    Store(tmp_path)
    (tmp_path / "mindgap-store.json").write_text(json.dumps({"format": "mindgap-store", "version": 99}))
    with pytest.raises(StoreError, match=rf"version 99, this mindgap reads {VERSION}.*another directory"):
        Store(tmp_path)
    (tmp_path / "mindgap-store.json").write_text("{")
    with pytest.raises(StoreError, match=r"mindgap-store\.json is damaged"):
        Store(tmp_path)
    assert issubclass(StoreError, MindgapError)


def test_a_store_that_an_earlier_mindgap_wrote_is_read(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent / "earlier" / f"version-{VERSION}", tmp_path / "store")
    rows = Store(tmp_path / "store", create=False).rows("SELECT platform, status FROM outcomes ORDER BY platform")
    assert [tuple(row.values()) for row in rows] == [
        ("cpu/eager@threads=0", "runtime_error"), ("cpu/eager@threads=1", "ok"), ("cpu/eager@threads=2", "ok")
    ]  # fmt: skip


def test_a_segment_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append("outcomes", outcome(1))
    (segment,) = segments(tmp_path)
    rows = pq.read_table(segment)
    metadata = {**(rows.schema.metadata or {}), b"mindgap.store": b"1"}
    other = segment.with_name(f"f{segment.name[1:]}")
    pq.write_table(rows.replace_schema_metadata(metadata), other)
    with pytest.raises(StoreError, match=rf"{other.name} is of store version 1, this mindgap reads {VERSION}"):
        Store(tmp_path).rows("SELECT * FROM outcomes")
    other.unlink()
    assert statuses(Store(tmp_path)) == {"01": "ok"}


def test_a_first_query_that_meets_a_compaction_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "LIMIT", 0)
    store = Store(tmp_path)
    for number in range(3):
        store.append("blocks", {"run": "r", "block": number})
    location = type(store._location)
    names, check, moments = location.names, store_views.check_segment, list[str]()

    def listed(self: LocalLocation, directory: str) -> list[str]:
        found = names(self, directory)
        if directory == "tables/blocks" and not moments:
            # Compacted after it was listed, before the sizes are read.
            moments.append("listed")
            Store(tmp_path).compact()
        return found

    def checked(*given: Any) -> None:
        if moments == ["listed"]:
            # And before the segment in their place is checked.
            moments.append("gone")
            Store(tmp_path).append("blocks", {"run": "r", "block": 3})
            Store(tmp_path).compact()
        check(*given)

    monkeypatch.setattr(location, "names", listed)
    monkeypatch.setattr(store_views, "check_segment", checked)
    (row,) = Store(tmp_path).rows("SELECT count(*) AS n FROM blocks")
    assert row["n"] == 4 and moments == ["listed", "gone"]


def test_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    gone, mine = tmp_path / f"mindgap-segments-{int(dead.stdout)}-x", tmp_path / f"mindgap-segments-{os.getpid()}-y"
    other = tmp_path / "mindgap-segments-old"
    for folder in (gone, mine, other):
        folder.mkdir()
        (folder / "file").write_text("")
    remove_leftovers(tmp_path, "mindgap-segments-")
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


def test_leftovers_of_a_killed_writer_are_passed_over_and_cleaned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append("outcomes", outcome(1))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = os.uname().nodename
    folder = tmp_path / "tables" / "outcomes"
    leftover = folder / f".tmp-{host}-{dead.pid}-0123abcd"
    alive = folder / f".tmp-{host}-{os.getpid()}-0123abcd"
    elsewhere = folder / f".tmp-another-{dead.pid}-0123abcd"
    for file in (leftover, alive, elsewhere):
        file.write_bytes(b"PAR1 half a segm")
    assert statuses(store) == {"01": "ok"}
    assert statuses(Store(tmp_path)) == {"01": "ok"}
    assert not leftover.exists() and alive.exists() and elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    Store(tmp_path)
    assert not elsewhere.exists()


def test_a_store_may_lie_in_memory(tmp_path: Path) -> None:
    """fsspec's filesystem in memory stands for all that are no local directory."""
    url = f"memory://{tmp_path.name}/store"
    store = Store(url)
    store.append("outcomes", [outcome(1), outcome(2)])
    key = store.put_graph(small_graph())
    again = Store(url, create=False)
    assert statuses(again) == {"01": "ok", "02": "ok"} and again.get_graph(key) == small_graph()
    local = Store(tmp_path / "copy")
    assert local.merge(url) == MergeCounts(1, 1, 0)
    assert statuses(local) == statuses(store)
    again.append("outcomes", outcome(1, status="oom"))
    assert again.merge(local) == MergeCounts(0, 0, 0)
    assert statuses(again)["01"] == "oom" == statuses(store)["01"]
    with pytest.raises(StoreError, match="local stores only"):
        _ = store.tensors


def test_stored_tensors_come_along_on_request(tmp_path: Path) -> None:
    kept = TensorStore(tmp_path / "weights")
    graph = small_graph()
    key = kept.put(np.ones((2, 3), np.float32))
    weighted = Graph((Input(graph.inputs[0].spec, Stored(key)),), graph.nodes, graph.outputs)
    store = Store(tmp_path / "s")
    store.put_graph(weighted)
    assert key not in store.tensors
    store.put_graph(weighted, tensors=kept)
    assert key in store.tensors


def test_many_small_segments_are_put_together_for_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "LIMIT", 0)
    monkeypatch.setattr(small_segments, "MANY", 5)
    monkeypatch.setattr(small_segments, "_TOGETHER", 4)
    store = Store(tmp_path)
    for number in range(9):
        store.append("outcomes", outcome(number % 7, status="ok" if number < 7 else "oom"))
    expected = {f"{number:02x}": "oom" if number < 2 else "ok" for number in range(7)}
    reader = Store(tmp_path, create=False)
    assert statuses(reader) == expected
    # A later segment counts, and one that is taken away does no longer.
    store.append("outcomes", outcome(6, status="crash"))
    assert statuses(reader) == {**expected, "06": "crash"}
    last = segments(tmp_path)[-1]
    kept = last.read_bytes()
    last.unlink()
    assert statuses(reader) == expected
    last.write_bytes(kept)
    # A damaged one among them is named, by readers that have not seen it whole.
    damaged = segments(tmp_path)[3]
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"x" + damaged.read_bytes()[-8:])
    with pytest.raises(StoreError, match=damaged.name):
        statuses(Store(tmp_path))
    damaged.unlink()
    assert store.compact() > 0 and "03" not in statuses(reader)
    assert statuses(reader) == {**{key: value for key, value in expected.items() if key != "03"}, "06": "crash"}


def test_a_full_temporary_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "LIMIT", 0)
    monkeypatch.setattr(small_segments, "MANY", 2)
    store = Store(tmp_path)
    for number in range(3):
        store.append("outcomes", outcome(number))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may become larger than this, as on a disk with as much room.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(
            StoreError, match=r"small segments cannot be put together in /.*: File too large; make room"
        ):
            statuses(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(statuses(store)) == 3
