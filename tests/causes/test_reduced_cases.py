"""Reduced findings are read with their graphs, and swapped operators run on the real platform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from causes.made_summaries import summary
from mindgap.findings.causes.mechanism import ShownDamage, same_mechanism
from mindgap.findings.causes.reduced_cases import reduced_cases, run_with
from mindgap.findings.reduction.files import Summary
from mindgap.graph import Graph, Input, Literal, Node, Ref, TensorSpec, TensorStore, contiguous_stride, save
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.platforms.name import parse
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool

ORT = parse("onnxruntime/cpu")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunContext]:
    store = TensorStore(tmp_path_factory.mktemp("tensors"))
    with WorkerPool(["cpu/eager"], tensors=store, busy=1, grows=True, idle_s=60.0) as pool:
        yield RunContext(pool.run, RunSettings(), store, pool.describe)


def pooled(op: str, *args: object) -> Graph:
    """A graph of one pooling operator of ordinary numbers."""
    space = (4,) * (3 if "3d" in op else 2)
    data = np.arange(np.prod(space), dtype=np.float32).reshape(1, 1, *space)
    spec = TensorSpec("float32", data.shape, contiguous_stride(data.shape))
    call = Node(f"aten.{op}.default", (Ref(0), *args), (), (spec,))  # pyright: ignore[reportArgumentType]
    return Graph((Input(spec, Literal(data.tobytes())),), (call,), (1,))


def written(out: Path, op: str, failing: Graph, passing: Graph) -> Summary:
    save(failing, out / f"{op}.graph")
    save(passing, out / f"{op}.passing.graph")
    return summary(ORT, "discrepant", op, stage="exporter", script=f"{op}.py")


@pytest.mark.nightly
def test_the_exporter_drops_the_divisor_of_both_poolings(tmp_path: Path, context: RunContext) -> None:
    two = (2, 2), (2, 2), (0, 0), False, True
    three = (2, 2, 2), (2, 2, 2), (0, 0, 0), False, True
    flat = written(tmp_path, "avg_pool2d", pooled("avg_pool2d", *two, 3), pooled("avg_pool2d", *two, None))
    deep = written(tmp_path, "avg_pool3d", pooled("avg_pool3d", *three, 3), pooled("avg_pool3d", *three, None))
    first, second = reduced_cases(tmp_path, [flat, deep])
    assert first.parts == ("avg_pool2d",) and first.passing is not None
    found = same_mechanism(first, second, run_with(context))
    assert found is not None and "aten.avg_pool3d.default in place of aten.avg_pool2d.default" in found.evidence
    assert found.evidence.endswith("it is right too.")
    assert same_mechanism(replace(first, graph=first.passing), second, run_with(context)) is None, "nothing is wrong"


@pytest.mark.nightly
def test_what_a_draft_shows_has_damage_and_stage(context: RunContext) -> None:
    run = run_with(context)
    assert run(ORT, pooled("avg_pool2d", (2, 2), (2, 2), (0, 0), False, True, 3)) == ShownDamage("values", "exporter")
    assert run(ORT, pooled("avg_pool2d", (2, 2))) == ShownDamage(None)
    assert run(ORT, pooled("avg_pool2d", (9, 9))) is None, "eager PyTorch refuses it"


def test_a_finding_without_graphs_is_read_too(tmp_path: Path) -> None:
    (case,) = reduced_cases(tmp_path, [summary(ORT, "discrepant", "gelu")])
    assert (case.graph, case.passing, case.parts) == (None, None, ())
