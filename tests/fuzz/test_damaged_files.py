"""A damaged file of each of mindgap's formats is read, or refused with a typed error; nothing is written elsewhere."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from mindgap.results.store import StoreError

_SCRIPT = Path(__file__).with_name("damaged_files.py")


@pytest.fixture(scope="module")
def script() -> Any:
    about = importlib.util.spec_from_file_location("damaged_files", _SCRIPT)
    assert about is not None and about.loader is not None
    found = sys.modules["damaged_files"] = importlib.util.module_from_spec(about)
    about.loader.exec_module(found)
    return found


@pytest.mark.parametrize(("name", "number"), [
    ("model", 200), ("report", 200), ("machine", 200), ("bundle", 200), ("ledger", 200), ("baseline", 200),
    ("graph", 200), ("tflite", 200), ("onnx", 200), ("store", 3), ("rows", 3),
    pytest.param("store", 200, marks=pytest.mark.nightly),
    pytest.param("rows", 200, marks=pytest.mark.nightly),
])  # fmt: skip
def test_damage_is_read_or_refused(script: Any, name: str, number: int) -> None:
    found = script.damage(script.FORMATS[name], number, first=7_000)
    assert found.read + found.refused == number and found.refused > number / (10 if name == "rows" else 3)
    assert not found.untyped and not found.outside


def test_an_untyped_error_and_a_file_elsewhere_are_found(script: Any) -> None:
    def read(folder: Path) -> None:
        if not (folder / "file").read_bytes().startswith(b"whole"):
            (folder.parent.parent / "elsewhere").touch()
            raise IndexError("ours")

    each = script.Format("it", lambda _: b"whole file", lambda data, _: data[1:], read)
    found = script.damage(each, 40)
    assert sum(found.untyped.values()) > 20 and len(found.outside) > 20


def test_rows_that_hold_what_mindgap_does_not_write_are_one_line(script: Any, tmp_path: Path) -> None:
    """Behind right digests: no JSON in a row's settings."""
    whole = script.make_store(tmp_path)
    settings = sys.modules["damaged_stores"].with_cells(whole, "runs", "settings", "{")
    (folder := tmp_path / "read").mkdir()
    (folder / "file").write_bytes(settings)
    with pytest.raises(StoreError, match=r"rows of run .* hold what mindgap does not write \(JSONDecodeError"):
        script.read_store(folder)
