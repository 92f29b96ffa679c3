"""The tensor store: content-addressed, verified, safe to share."""

from __future__ import annotations

import mmap
import threading
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings, strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from graph.strategies import recipes, specs
from mindgap.graph import (
    DTYPES,
    GraphError,
    Input,
    PendingTensors,
    TensorStore,
    default_tensor_store,
    materialise,
    numpy_dtype,
    tensor_key,
)


@given(st.data())
@settings(max_examples=60)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    store = TensorStore(tmp_path_factory.mktemp("tensors") / "deep" / "down")
    spec = data.draw(specs())
    array = materialise(Input(spec, data.draw(recipes(spec, stored=False))))
    key = store.put(array)
    assert key == tensor_key(array) and key in store and store.put(array) == key
    back = store.get(key)
    assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()
    assert [file.name for file in store.path.iterdir()] == [f"{key}.safetensors"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_are_safetensors(dtype: str, tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    key = store.put(np.ones((2, 3), numpy_dtype(dtype)))
    with safe_open(tmp_path / f"{key}.safetensors", framework="np") as file:
        assert file.metadata() == {"dtype": dtype, "shape": "[2, 3]"}
        assert list(file.keys()) == ["tensor"]
    assert store.get(key).dtype == numpy_dtype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bfloat16", "bool"])
def test_tables_are_packed(dtype: str, tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    table = (np.arange(300)[:, None] // 20 - np.arange(300) // 20 > 0).astype(numpy_dtype(dtype))
    key = store.put(table)
    file = tmp_path / f"{key}.safetensors"
    with safe_open(file, framework="np") as opened:
        assert opened.metadata() == {"dtype": dtype, "shape": "[300, 300]", "packed": "zstd"}
    assert file.stat().st_size < table.nbytes / 20
    back = store.get(key)
    assert back.dtype == table.dtype and back.tobytes() == table.tobytes() and back.flags.writeable


def test_noise_is_not_packed(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    key = store.put(np.random.default_rng(0).standard_normal(5000))
    with safe_open(tmp_path / f"{key}.safetensors", framework="np") as opened:
        assert opened.metadata() == {"dtype": "float64", "shape": "[5000]"}


def test_a_frame_of_another_size_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    key = store.put(np.zeros(5000))
    frame = np.frombuffer(zstandard.ZstdCompressor().compress(bytes(1 << 24)), np.uint8)
    about = {"dtype": "float64", "shape": "[5000]", "packed": "zstd"}
    save_file({"tensor": frame}, tmp_path / f"{key}.safetensors", metadata=about)
    with pytest.raises(GraphError, match="does not hold 40000 bytes"):
        store.get(key)


def test_keys_tell_dtype_shape_and_bytes_apart() -> None:
    zeros = [np.zeros(shape, dtype) for shape in ((4,), (2, 2), (4, 1), ()) for dtype in (np.float32, np.int32)]
    zeros += [np.array([-0.0] * 4, np.float32), np.zeros(4, numpy_dtype("bfloat16")), np.zeros(4, np.float16)]
    assert len({tensor_key(array) for array in zeros}) == len(zeros)
    turned = np.arange(6.0).reshape(2, 3).T
    assert tensor_key(turned) == tensor_key(turned.copy())
    assert tensor_key(np.arange(3, dtype=np.int8)) == (
        "d6f4cd8a14d7d4cc7c757e869089507bd54e4916cf1a4f5e98ef5a0bfa942fe4"
    )


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    key = store.put(np.arange(100))
    file = tmp_path / f"{key}.safetensors"
    good = file.read_bytes()
    for bad, message in (
        (good[:-1], "cannot be read"),
        (b"", "cannot be read"),
        (good[:-1] + b"\1", "does not hold what its name promises"),
        (good.replace(b'"shape":"[100]"', b'"shape":"[99]" '), "cannot be read"),
        (good.replace(b"int64", b"int32", 1), "cannot be read"),
        (good.replace(b"int64", b"float64", 1).replace(b"  ", b"", 1), "does not hold"),
    ):
        file.write_bytes(bad)
        with pytest.raises(GraphError, match=message):
            store.get(key)


def test_missing_and_malformed_keys(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    with pytest.raises(GraphError, match=r"no tensor 0{64} in"):
        store.get("0" * 64)
    for key in ("../../etc/passwd", "0" * 63, "A" * 64, ""):
        assert key not in store
        with pytest.raises(GraphError, match="is no tensor key"):
            store.get(key)
    assert 7 not in store


def test_a_dtype_that_no_graph_holds() -> None:
    with pytest.raises(GraphError, match="cannot hold a tensor of dtype"):
        tensor_key(np.array(["text"]))


def test_many_may_put_the_same(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    array = np.arange(200_000)
    threads = [threading.Thread(target=lambda: [store.put(array), store.get(tensor_key(array))]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(tensor_key(array)).tolist() == array.tolist() and len(list(tmp_path.iterdir())) == 1


def test_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    assert default_tensor_store().path == tmp_path / "home" / "tensors"
    monkeypatch.delenv("MINDGAP_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert default_tensor_store().path == tmp_path / "cache" / "mindgap" / "tensors"


def test_pending_tensors_are_on_disk_when_they_are_kept_and_not_before(tmp_path: Path) -> None:
    kept = TensorStore(tmp_path)
    pending = PendingTensors(kept)
    one, other = np.arange(5.0), np.arange(6.0)
    keys = [pending.put(one), pending.put(other)]
    assert all(key in pending and key not in kept for key in keys) and pending.get(keys[0]) is one
    pending.keep(keys[:1])
    assert keys[0] in kept and keys[1] not in kept and np.array_equal(kept.get(keys[0]), one)
    other[0] = 7.0
    with pytest.raises(GraphError, match="is another than its key says"):
        pending.keep(keys[1:])
    assert keys[1] not in kept
    with pytest.raises(GraphError, match="no tensor"):
        pending.keep(["0" * 64])
    assert keys[0] in PendingTensors(kept), "what is in the directory is there too"


def test_a_large_tensor_is_mapped_and_its_readers_write_to_copies(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    array = np.random.default_rng(0).standard_normal((512, 1024), np.float32)
    key = store.put(array)
    file, mapped = store.file(key), store.get(key)
    assert mapped.ctypes.data % 64 == 0 and isinstance(_owner(mapped), mmap.mmap)
    mapped[3, 4] = 7.0
    assert mapped[3, 4] == 7.0 and np.array_equal(store.get(key), array)
    with safe_open(file, framework="np") as opened:
        assert np.array_equal(opened.get_tensor("tensor"), array)


def test_a_large_tensor_whose_middle_repeats_is_packed(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    table = np.tile(np.arange(1000), 1000)
    key = store.put(table)
    assert store.file(key).stat().st_size < table.nbytes / 100 and np.array_equal(store.get(key), table)


def test_a_file_whose_values_do_not_begin_at_a_multiple_of_64_bytes_is_read(tmp_path: Path) -> None:
    """Files of older versions."""
    array = np.random.default_rng(0).standard_normal((512, 1024), np.float32)
    store, key = TensorStore(tmp_path), tensor_key(array)
    for name in ("x", "xxxxxxxxx"):
        about = {"dtype": "float32", "shape": "[512, 1024]", "name": name}
        save_file({"tensor": array}, tmp_path / f"{key}.safetensors", metadata=about)
        assert np.array_equal(store.get(key), array)


def _owner(array: np.ndarray) -> object:
    """What holds the memory of an array that is a view."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner
