"""One worker writes a model, the others take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.platforms.onnx import export_cache as onnx_shared
from mindgap.platforms.onnx.export_cache import shared_export
from mindgap.platforms.protocol import CompileFailure, Unsupported
from platforms.onnx_graphs import captured, normal


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    made: list[Any] = []
    export = onnx_shared.export

    def counted(graph: Any, inputs: Any, **options: Any) -> Any:
        made.append(graph)
        return export(graph, inputs, **options)

    monkeypatch.setattr(onnx_shared, "export", counted)
    monkeypatch.setenv("MINDGAP_SHARED", str(tmp_path))
    return made


def test_a_model_is_written_once_and_comes_back_the_same(exports: list[Any], tmp_path: Path) -> None:
    graph, inputs = captured(torch.nn.Linear(4, 3), normal(2, 4))
    first, again = shared_export(graph, inputs), shared_export(graph, inputs)
    assert len(exports) == 1 and again == first
    changed = [array + 1 if given.role == "input" else array for given, array in zip(graph.inputs, inputs, strict=True)]
    assert shared_export(graph, changed) == first and len(exports) == 1
    others = [array + 1 for array in inputs]
    assert shared_export(graph, others).model != first.model and len(exports) == 2
    (file, *_) = tmp_path.iterdir()
    file.write_bytes(b"cut short")
    assert shared_export(graph, inputs) == first and shared_export(graph, others).model != first.model
    assert len(exports) == 3
    older = shared_export(graph, inputs, opset=18)
    assert older.model != first.model and shared_export(graph, inputs, opset=18) == older
    assert shared_export(graph, inputs) == first and len(exports) == 4


def test_refusals_and_failures_are_the_same_the_second_time(exports: list[Any]) -> None:
    for function, kind in ((torch.erfinv, Unsupported), (torch.amax, CompileFailure)):
        graph, inputs = captured(function, normal(3))
        said: list[tuple[str, Any]] = []
        for _ in range(2):
            with pytest.raises(kind) as refused:
                shared_export(graph, inputs)
            said.append((str(refused.value), getattr(refused.value, "op", None)))
        assert said[0] == said[1]
    assert len(exports) == 2


def test_the_oldest_go_and_a_full_disk_costs_only_time(
    exports: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_shared, "_MOST_FILES", 4)
    for value in range(6):
        graph, inputs = captured(lambda x, value=value: x + value, torch.tensor([0.5]))
        shared_export(graph, inputs)
    assert len(list(tmp_path.iterdir())) <= 5
    monkeypatch.setenv("MINDGAP_SHARED", str(tmp_path / "gone"))
    assert len(shared_export(graph, inputs).outputs) == 1
