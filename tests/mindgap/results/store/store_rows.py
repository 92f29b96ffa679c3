"""Rows that stores take, for tests."""

from __future__ import annotations

from typing import Any

from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec


def outcome(number: int, *, run: str = "r", **more: Any) -> dict[str, Any]:
    """Row `number` of `outcomes`: a graph of its own on one platform."""
    return {
        "run": run, "model": "", "graph": f"{number:064x}", "platform": "cpu/eager", "fingerprint": "f",
        "status": "ok", "outputs": [], "timings": {"run": number / 7}, **more,
    }  # fmt: skip


def small_graph(value: float = 1.0) -> Graph:
    """relu of a constant."""
    spec = TensorSpec("float32", (2, 3), (3, 1))
    return Graph((Input(spec, Constant(value)),), (Node("aten.relu.default", (Ref(0),), (), (spec,)),), (1,))
