"""What is kept of a simulator's arithmetic: exact results, wrong ones with an example, what it does not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, Unsupported
from mindgap.platforms.simulated_arithmetic import check_arithmetic, known_arithmetic

VALUES = 1 << 14


class Flushing:
    """Adds and multiplies float32 in numpy. Denormal products are zero, and it has nothing else."""

    def describe(self) -> dict[str, Any]:
        return {"versions": {"flushing": "1"}, "execution": "simulated"}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Any:
        op = graph.nodes[0].op
        if op not in ("aten.add.Tensor", "aten.mul.Tensor") or inputs[0].dtype != np.float32:
            raise Unsupported(op, "it has no such operator")

        def run(operands: Sequence[Array]) -> list[Array]:
            with np.errstate(all="ignore"):
                found = operands[0] + operands[1] if op == "aten.add.Tensor" else operands[0] * operands[1]
            tiny = np.finfo(np.float32).tiny
            return [np.where(np.abs(found) < tiny, 0, found).astype(np.float32) if "mul" in op else found]

        return run


def test_the_answer_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    platform = Flushing()
    assert "not checked" in known_arithmetic(platform.describe())["arithmetic"]
    found = check_arithmetic(platform, VALUES)
    assert found["float32 add"] == "exact"
    assert found["float32 multiply"].split(":")[0].endswith(f"of {VALUES} are not exact")
    assert "multiply(" in found["float32 multiply"]
    assert found["float32 sqrt"] == "not run: aten.sqrt.default: it has no such operator"
    assert known_arithmetic({**platform.describe(), "dtypes": {}})["arithmetic"] == found
    assert "not checked" in known_arithmetic({**platform.describe(), "versions": {"flushing": "2"}})["arithmetic"]
