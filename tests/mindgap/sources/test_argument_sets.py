"""Several sets of arguments of one program: returned by a function, or read from files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mindgap.sources import Program, SourceError, open_source

MODEL = """
import torch

class Sub(torch.nn.Module):
    def forward(self, x, *, y):
        return x - y

def sets():
    return Sub(), [(torch.ones(2),), (torch.zeros(3),)], {"y": torch.ones(1)}, {"x": {0: torch.export.Dim("n")}}

def batches():
    return torch.nn.ReLU(), (torch.full((n,), 1.0) for n in (1, 2, 3))

def one():
    return Sub(), (torch.ones(2),), {"y": torch.ones(2)}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def opened(text: str) -> list[Program]:
    return [one for one in open_source(text) if isinstance(one, Program)]


def test_each_tuple_of_a_list_and_each_item_of_an_iterator_is_a_set(model: Path) -> None:
    first, second = opened("model.py:sets")
    assert [first.make().args[0].shape, second.make().args[0].shape] == [(2,), (3,)]
    assert second.make().dynamic_shapes is not None
    assert (second.name, second.group) == ("model:sets (arguments 2)", "model:sets")
    assert (second.source, second.first) == ("model.py:sets?arguments=2", "model.py:sets?arguments=1")
    assert [one.make().args[0].numel() for one in opened("model.py:batches")] == [1, 2, 3]


def test_one_set_has_a_source_of_its_own(model: Path) -> None:
    (second,) = opened("model.py:sets?seed=1&arguments=2")
    assert second.make().args[0].shape == (3,) and second.group == ""
    with pytest.raises(SourceError, match="arguments=3: it returned 2 sets of arguments"):
        open_source("model.py:sets?arguments=3")


def test_tensors_of_a_file_are_matched_by_name_and_numbered_ones_by_order(model: Path) -> None:
    x, y = np.full(3, 5, np.float32), np.full(3, 2, np.float32)
    save_file({"y": torch.tensor(y), "x": torch.tensor(x)}, "named.safetensors")
    np.savez("other.npz", x, y)
    programs = opened("model.py:one?inputs=named.safetensors,other.npz")
    for one in programs:
        function, args, kwargs = one.build()
        assert function(*args, **kwargs).tolist() == [3, 3, 3]
    assert [one.group for one in programs] == ["model:one"] * 2
    assert programs[1].source == "model.py:one?inputs=other.npz"


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.ones(2), "y": np.ones(2, np.float32)}, r"x float64\[2\] where the program takes x float32\[2\]"),
        ({"x": np.ones(2, np.float32)}, r"it holds no y \(x\); the arguments are x float32\[2\], y float32\[2\]"),
        ({"x": np.ones((2, 2), np.float32), "y": np.ones(2, np.float32)}, r"x float32\[2, 2\] where the program takes"),
        ({name: np.ones(2, np.float32) for name in "xyz"}, "z: no such argument"),
        ({name: np.ones(2, np.float32) for name in "ab"}, r"it holds no x, y \(a, b\); the arguments are"),
    ],
)
def test_a_file_that_does_not_fit_is_told_in_one_line(model: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez("given.npz", **arrays)
    (one,) = opened("model.py:one?inputs=given.npz")
    with pytest.raises(SourceError, match=f"^inputs=given.npz: .*{said}"):
        one.make()


def _whole(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _with_text() -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("x", "text")
    return file.getvalue()


X = _whole(x=np.ones(2, np.float32))
ADVICE = r"; write it with numpy\.savez\(FILE, NAME=array\)$"
NONE = r"it is no \.npz archive, or part of it is missing" + ADVICE


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no archive", NONE), (b"", NONE), (X[: len(X) // 2], NONE), (X[128:], NONE),
        (X.replace(b"\x80?", b"\x81?"), "x cannot be read: Bad CRC-32" + ".*" + ADVICE),
        (_with_text(), "x is no array" + ADVICE),
        (_whole(x=np.array([{}])), "x cannot be read: Object arrays" + ".*" + ADVICE),
        (_whole(x=np.array(["a"])), "x is of <U1, which PyTorch has no tensors of: convert it$"),
        (_whole(x=np.ones(2, ml_dtypes.bfloat16)), r"x is of \|?V2, .*: bfloat16 and float8 go into a \.safetensors"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_tensors_is_one_line(model: Path, data: bytes, said: str) -> None:
    Path("given.npz").write_bytes(data)
    (one,) = opened("model.py:one?inputs=given.npz")
    with pytest.raises(SourceError, match=f"^inputs=given.npz: {said}") as caught:
        one.make()
    assert "\n" not in str(caught.value)


def test_numbers_of_another_order_of_bytes_are_taken(model: Path) -> None:
    np.savez("given.npz", x=np.array([1, 2], ">f4"), y=np.array([3, 4], np.float32))
    (one,) = opened("model.py:one?inputs=given.npz")
    assert one.make().args[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("option", "said"),
    [("inputs=absent.npz", "no such file"), ("inputs=a.txt", "give a file of tensors"), ("arguments=0", "from 1 up")],
)
def test_an_option_that_names_nothing_is_told(model: Path, option: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        open_source(f"model.py:one?{option}")


def test_a_batch_of_so_many_examples_repeats_those_that_are_given(model: Path) -> None:
    np.savez("given.npz", x=np.float32([1, 2]), y=np.float32([3, 4]))
    (one,) = opened("model.py:one?inputs=given.npz&examples=5")
    function, args, kwargs = one.build()
    assert function(*args, **kwargs).tolist() == [-2] * 5 and args[0].tolist() == [1, 2, 1, 2, 1]
    assert one.source == "model.py:one?inputs=given.npz&examples=5"
    with pytest.raises(SourceError, match="examples=none; it takes a whole number from 1 up"):
        open_source("model.py:one?examples=none")
