"""A model file holds graph, weights and inputs, and is checked when it is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from mindgap.graph import (
    Graph,
    GraphError,
    Input,
    ModelFile,
    Normal,
    Stored,
    TensorSpec,
    TensorStore,
    contiguous_stride,
    read_model,
    stored_keys,
    write_model,
)

WEIGHTS = np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100)


def model(tensors: TensorStore) -> ModelFile:
    spec = TensorSpec("float32", WEIGHTS.shape, contiguous_stride(WEIGHTS.shape))
    inputs = (Input(spec, Stored(tensors.put(WEIGHTS))), Input(TensorSpec("float32", (3,), (1,)), Normal(1)))
    return ModelFile("net", "net.py:make", Graph(inputs=inputs, nodes=(), outputs=(0,)), {"torch": "2.13.0"})


def test_it_takes_the_weights_to_another_store(tmp_path: Path) -> None:
    here, there = TensorStore(tmp_path / "here"), TensorStore(tmp_path / "there")
    written = model(here)
    write_model(tmp_path / "net.mindgap", written, here)
    assert read_model(tmp_path / "net.mindgap", there) == written
    (key,) = stored_keys(written.graph)
    assert np.array_equal(there.get(key), WEIGHTS)


def test_without_weights_they_must_be_there(tmp_path: Path) -> None:
    here, there = TensorStore(tmp_path / "here"), TensorStore(tmp_path / "there")
    write_model(tmp_path / "net.mindgap", model(here), here, weights=False)
    assert read_model(tmp_path / "net.mindgap", here) == model(here)
    with pytest.raises(GraphError, match="without weights"):
        read_model(tmp_path / "net.mindgap", there)


def test_a_damaged_tensor_is_not_taken_over(tmp_path: Path) -> None:
    here, there = TensorStore(tmp_path / "here"), TensorStore(tmp_path / "there")
    written = model(here)
    (key,) = stored_keys(written.graph)
    file = here.file(key)
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    write_model(tmp_path / "net.mindgap", written, here)
    with pytest.raises(GraphError, match=r"promises|cannot be read"):
        read_model(tmp_path / "net.mindgap", there)
    assert key not in there and not list(there.path.iterdir())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"MGAP"])
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "net.mindgap"
    file.write_bytes(content)
    with pytest.raises(GraphError, match=r"net\.mindgap cannot be read"):
        read_model(file, TensorStore(tmp_path))


def test_another_version_is_refused(tmp_path: Path) -> None:
    here = TensorStore(tmp_path / "here")
    file = tmp_path / "net.mindgap"
    write_model(file, model(here), here)
    with zipfile.ZipFile(file) as archive:
        about = archive.read("model.json").decode()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", about.replace('"version": 1', '"version": 9'))
    with pytest.raises(GraphError, match="version 9"):
        read_model(file, here)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"absent\.mindgap cannot be read: No such file"):
        read_model(tmp_path / "absent.mindgap", TensorStore(tmp_path))
