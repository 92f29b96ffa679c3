"""Rows that are committed at once and only once, by whoever is first, and whatever the clocks say."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mindgap.results.store import Store, StoreError
from mindgap.results.store.commits import PendingRows
from mindgap.results.store.writer import Writer
from results.store.object_store import DENIED, FULL, ObjectStore, object_store

RUN = "campaign-1"


def block(number: int, seconds: float | None, **more: Any) -> dict[str, Any]:
    return {"run": RUN, "block": number, "shard": "0/1", "cases": 1, "seconds": seconds, **more}


def pending(store: Store, found: str, after: int = 0) -> PendingRows:
    """The rows of block 3, by a writer that found this."""
    rows = PendingRows(store)
    writer = Writer(rows, age_s=1e6, after=after)
    writer.append("blocks", block(3, 1.0, found=[found]))
    writer.close()
    return rows


def found(store: Store) -> list[Any]:
    return [row["found"] for row in store.rows("SELECT found FROM blocks WHERE seconds IS NOT NULL")]


@pytest.fixture(scope="module")
def server() -> Generator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as found:
        yield found


@pytest.mark.parametrize("place", ["local", "memory", "bucket"])
def test_of_two_that_do_the_same_work_one_counts(tmp_path: Path, place: str, request: pytest.FixtureRequest) -> None:
    if place == "bucket":
        request.getfixturevalue("server")
    urls = {"local": str(tmp_path / "store"), "memory": f"memory://{tmp_path.name}/store", "bucket": "s3://bucket/c"}
    url = urls[place]
    store, other = Store(url), Store(url)
    store.check_writable()
    commits = store.commits(RUN)
    assert not commits.committed("3") and commits.names() == set()
    assert commits.commit("3", pending(store, "first"))
    assert not other.commits(RUN).commit("3", pending(other, "second"))
    assert found(store) == found(other) == [["first"]]
    assert commits.names() == {"3"} and commits.settle(["3"]) == 0, "it is published and emptied"


def test_of_many_at_the_same_moment_one_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    start, first = threading.Barrier(8), list[str]()

    def work(name: str) -> None:
        rows = pending(store, name)
        start.wait()
        if store.commits(RUN).commit("3", rows):
            first.append(name)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(first) == 1 and found(store) == [first]
    assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 1}]


def test_what_a_killed_process_committed_is_published_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    commits = store.commits(RUN)
    with monkeypatch.context() as patched:
        # It dies when the file is there and no row is.
        patched.setattr(type(commits), "_publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            commits.commit("3", pending(store, "killed"))
    assert found(store) == [] and commits.committed("3")
    assert not commits.commit("3", pending(store, "again"))
    assert found(store) == [["killed"]]
    assert commits.settle(["3"]) == 0


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = tmp_path / "commits" / RUN
    folder.mkdir(parents=True)
    (folder / "3.rows").write_bytes(b"no archive")
    with pytest.raises(
        StoreError, match=r"commits/campaign-1/3.rows is damaged .*: remove it, and its rows are computed"
    ):
        store.commits(RUN).settle(["3"])
    whole = pending(store, "mine").to_bytes()
    for at in range(0, len(whole), 61):
        # A changed byte anywhere, and an end that is missing: nothing of it is published, and the commit stays.
        for data in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[:at] or b"x"):
            (folder / "3.rows").write_bytes(data)
            with pytest.raises(StoreError, match=r"3.rows is damaged"):
                store.commits(RUN).settle(["3"])
            assert (folder / "3.rows").read_bytes() == data
    assert found(store) == []


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "tables/blocks/../../evil", "mindgap-store.json", "graphs/ab/cd.graph",
             "tables/blocks/rows.parquet", "tables/elsewhere/" + "0" * 16 + "-0-" + "0" * 32 + ".parquet"],
)  # fmt: skip
def test_a_commit_writes_graphs_and_segments_only(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "store")
    rows = pending(store, "mine")
    rows._files[name] = b"evil"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="is neither a graph nor a segment"):
        store.commits(RUN).commit("3", rows)
    new = {path.name for path in {*tmp_path.rglob("*")} - {*before}}
    assert new == {"commits", RUN, "3.rows"}


def test_a_leftover_that_was_none_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, with a process table of its own, takes the temporary file for a dead writer's."""
    store, link, taken = Store(tmp_path), os.link, list[str]()

    def once(source: Path, target: Path) -> None:
        if not taken:
            taken.append(source.name)
            source.unlink()
        link(source, target)

    monkeypatch.setattr(os, "link", once)
    assert store.commits(RUN).commit("3", pending(store, "mine")) and taken
    assert found(store) == [["mine"]]
    (tmp_path / "commits" / "other").write_text("")
    with pytest.raises(StoreError, match=r"other/3.rows cannot be written"):
        store.commits("other").commit("3", pending(store, "mine"))


def test_an_append_counts_after_a_clock_that_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, real = Store(tmp_path), time.time_ns
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: real() + 86_400 * 10**9)
        store.append("blocks", block(3, None))
    store.append("blocks", block(3, 1.0, found=["later"]))
    assert found(store) == [["later"]]


def test_rows_after_those_of_a_clock_that_is_ahead_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    real = time.time_ns
    with monkeypatch.context() as patched:
        # A driver whose clock is a day ahead writes that the block has begun.
        patched.setattr(time, "time_ns", lambda: real() + 86_400 * 10**9)
        store.append("blocks", block(3, None))
    last = store.last_stamp()
    assert last > real() // 1000 + 86_000 * 10**6
    late = Store(tmp_path)
    assert late.commits(RUN).commit("3", pending(late, "behind", after=last))
    assert found(late) == [["behind"]]
    (row,) = late.rows("SELECT seconds FROM blocks")
    assert row["seconds"] == 1.0


def test_a_bucket_without_rights_or_room_is_one_line(server: ObjectStore) -> None:
    store = Store("s3://bucket/refused")
    server.refusal = DENIED
    try:
        with pytest.raises(StoreError, match=r"^s3://bucket/refused/commits/.* the credentials need the right to"):
            store.check_writable()
        server.refusal = FULL
        with pytest.raises(StoreError, match=r"3.rows cannot be written .*XMinioStorageFull; .*make room and go on"):
            store.commits(RUN).commit("3", pending(store, "full"))
    finally:
        server.refusal = None
    assert store.commits(RUN).names() == set() and found(store) == []


def test_a_place_that_writes_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    monkeypatch.setattr(type(store._location), "create", lambda *_: True)
    with pytest.raises(StoreError, match="replaces a file that is to be created only if it is new"):
        store.check_writable()


def test_a_filesystem_that_cannot_create_exclusively_is_refused(tmp_path: Path) -> None:
    store = Store(f"dir://::file://{tmp_path}/x")
    with pytest.raises(StoreError, match="a file cannot be created there only if it is new"):
        store.check_writable()
