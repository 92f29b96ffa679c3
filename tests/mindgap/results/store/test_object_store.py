"""A store in a bucket: two writers at once, and what a server may refuse."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator

import pytest

from mindgap.results.store import Store, StoreError
from results.store.object_store import DENIED, FULL, QUOTA, ObjectStore, object_store
from results.store.store_rows import outcome, small_graph


@pytest.fixture(scope="module")
def server() -> Generator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as found:
        yield found


def count(store: Store) -> int:
    return store.rows("SELECT count(*) AS n FROM outcomes")[0]["n"]


@pytest.mark.nightly
def test_two_processes_write_compact_and_read_at_once(server: ObjectStore) -> None:
    url, wrong = "s3://bucket/two", list[BaseException]()

    def write(first: int) -> None:
        try:
            store = Store(url)
            for number in range(first, first + 6):
                store.append("outcomes", outcome(number))
                if number % 3 == 2:
                    # Each may take away what the other is about to read.
                    store.compact()
        except BaseException as error:
            wrong.append(error)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 6)]
    for writer in writers:
        writer.start()
    reader, seen = Store(url), [0]
    while any(writer.is_alive() for writer in writers):
        seen.append(count(reader))
    for writer in writers:
        writer.join()
    assert wrong == [] and seen == sorted(seen)
    store = Store(url, create=False)
    key = store.put_graph(small_graph())
    assert count(store) == count(reader) == 12 and store.check() == [] and reader.get_graph(key) == small_graph()


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (FULL, r"the server says XMinioStorageFull.*make room"),
        (QUOTA, r"the server says QuotaExceeded.*make room"),
        (DENIED, r"the credentials need the right to read, list, write and delete"),
    ],
)
def test_what_is_refused_is_one_line_and_loses_nothing(
    server: ObjectStore, refusal: tuple[int, str], said: str
) -> None:
    store = Store(f"s3://bucket/{refusal[1]}")
    store.append("outcomes", outcome(1))
    writer = store.writer(age_s=1000.0)
    writer.append("outcomes", outcome(2))
    server.refusal = refusal
    try:
        with pytest.raises(
            StoreError, match=rf"s3://bucket/{refusal[1]}/tables/outcomes/.* cannot be written.*{said}"
        ) as error:
            writer.flush()
        assert "\n" not in str(error.value)
        assert count(store) == 1
    finally:
        server.refusal = None
    writer.close()
    assert count(store) == 2


def test_a_bucket_that_is_not_there_is_not_made(server: ObjectStore) -> None:
    import s3fs

    with pytest.raises(StoreError, match=r"s3://other/store/.* cannot be written .* bucket does not exist.*name one"):
        Store("s3://other/store")
    with pytest.raises(StoreError, match=re.escape("s3://bucket/none is no store")):
        Store("s3://bucket/none", create=False)
    assert s3fs.S3FileSystem().ls("") == ["bucket"]


def test_a_server_that_is_not_there_and_credentials_that_are_not(
    server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"s3://bucket/store/mindgap-store.json cannot be read: Could not connect to"):
        Store("s3://bucket/store")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(StoreError, match="cannot be read: Unable to locate credentials"):
        Store("s3://bucket/store")
    s3fs.S3FileSystem.clear_instance_cache()
