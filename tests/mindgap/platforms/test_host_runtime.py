"""What `HostRuntime` gives a runtime: a simulator works in a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindgap.graph import Array, Graph
from mindgap.platforms.host_runtime import HostRuntime
from mindgap.platforms.protocol import Options, Unsupported
from mindgap_runtimes.executorch.tosa import BACKEND as TOSA
from mindgap_runtimes.onnxruntime_providers.providers import QNN
from mindgap_runtimes.rknn.backend import BACKEND as RKNN
from platforms.torch_graphs import unary


class Littering:
    """A platform that writes a file wherever it works, as simulators do, and notes where."""

    def __init__(self, options: Options) -> None:
        self.seen = list[str]()
        self.facts = {"note": 1}

    def _write(self) -> None:
        Path("log.txt").write_text("written by the simulator", encoding="utf-8")
        self.seen.append(os.getcwd())

    def describe(self) -> Mapping[str, Any]:
        self._write()
        return {}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Littering:
        self._write()
        if not inputs:
            raise Unsupported("model", "no inputs")
        return self

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        self._write()
        return list(inputs)


@pytest.mark.parametrize("backend", [QNN, RKNN, TOSA])
def test_a_simulator_writes_nothing_into_the_callers_directory(
    backend: HostRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = Littering({})
    graph, x = unary("aten.relu.default", "float32"), np.ones((3, 4), np.float32)
    opened = replace(backend, platform=lambda options: written).open({})
    opened.describe()
    loaded = opened.load(graph, [x])
    assert loaded([x])[0] is x and getattr(loaded, "facts", None) == {"note": 1}
    with pytest.raises(Unsupported):
        opened.load(graph, [])
    assert len(set(written.seen)) == 4 and os.getcwd() == str(tmp_path) and not any(tmp_path.iterdir())
    assert not any(Path(each).exists() for each in written.seen)


def test_another_runtime_works_in_the_callers_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replace(QNN, platform=Littering, execution="").open({}).describe()
    assert [each.name for each in tmp_path.iterdir()] == ["log.txt"]
