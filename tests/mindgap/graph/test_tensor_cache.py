"""The limit of the user's tensor store, with real processes that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mindgap.graph import MindgapError, TensorStore
from mindgap.graph.tensor_cache import CacheUsage, limit_bytes, trim, usage

KIB = 1 << 10


def filled(folder: Path, count: int = 4) -> list[str]:
    """A store of tensors of 4 KiB and more each; the first was used 1,000 s ago, the second 999 s ago, …"""
    store = TensorStore(folder)
    keys = [store.put(np.random.default_rng(n).standard_normal(KIB).astype(np.float32)) for n in range(count)]
    for number, key in enumerate(keys):
        moment = store.file(key).stat().st_mtime - 1000 + number
        os.utime(store.file(key), (moment, moment))
    return keys


def kept(folder: Path, keys: list[str]) -> list[int]:
    return [number for number, key in enumerate(keys) if (folder / f"{key}.safetensors").exists()]


def python(home: Path, text: str, gib: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MINDGAP_HOME": str(home), "MINDGAP_CACHE_GIB": str(gib)}
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)


def test_least_recently_used_tensors_go_first(tmp_path: Path) -> None:
    keys = filled(tmp_path)
    size = (tmp_path / f"{keys[0]}.safetensors").stat().st_size
    TensorStore(tmp_path).get(keys[0])
    assert trim(tmp_path, 2 * size) == 2 * size
    assert kept(tmp_path, keys) == [0, 3]
    assert trim(tmp_path, 2 * size) == 0


@pytest.mark.parametrize("how", ["put", "in", "file"])
def test_every_use_counts(tmp_path: Path, how: str) -> None:
    keys, store = filled(tmp_path), TensorStore(tmp_path)
    if how == "put":
        store.put(np.random.default_rng(1).standard_normal(KIB).astype(np.float32))
    elif how == "in":
        assert keys[1] in store
    else:
        store.file(keys[1])
    trim(tmp_path, (tmp_path / f"{keys[1]}.safetensors").stat().st_size)
    assert kept(tmp_path, keys) == [1]


def test_what_a_running_process_uses_stays_until_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "tensors"
    keys = filled(folder)
    text = (
        "from mindgap.graph import default_tensor_store; import sys\n"
        f"store = default_tensor_store(); store.get({keys[0]!r})\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "MINDGAP_HOME": str(tmp_path), "MINDGAP_CACHE_GIB": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", text], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert usage(folder).processes == 1
        trim(folder, 0)
        assert kept(folder, keys) == [0]
        other.kill()
    # Killed: it could not release its file, and the lock went with it.
    assert usage(folder).processes == 0
    trim(folder, 0)
    assert kept(folder, keys) == []
    assert list(folder.iterdir()) == []


def test_a_process_trims_when_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "tensors"
    keys = filled(folder)
    size = (folder / f"{keys[0]}.safetensors").stat().st_size
    text = f"from mindgap.graph import default_tensor_store; default_tensor_store().get({keys[1]!r})"
    done = python(tmp_path, text, 1.5 * size / (1 << 30))
    assert done.returncode == 0, done.stderr
    assert kept(folder, keys) == [1]
    assert usage(folder) == CacheUsage(1, size, 20 << 30, 0)


def test_leftover_temporary_files_go(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    (tmp_path / ".put-old").write_bytes(b"x")
    os.utime(tmp_path / ".put-old", (0, 0))
    (tmp_path / ".put-new").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("somebody's")
    trim(tmp_path, 0)
    assert sorted(os.listdir(tmp_path)) == [".put-new", "notes.txt"]


def test_a_wrong_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv("MINDGAP_CACHE_GIB", text)
        with pytest.raises(MindgapError, match=f"MINDGAP_CACHE_GIB={text}: it takes a number of GiB"):
            limit_bytes()
    monkeypatch.setenv("MINDGAP_CACHE_GIB", "0.5")
    assert limit_bytes() == 1 << 29
