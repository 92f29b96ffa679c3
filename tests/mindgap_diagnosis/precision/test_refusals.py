"""What is refused in one line: a platform on which no operator runs in the smaller format."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import nn, randn

from mindgap.graph import Array, MindgapError, TensorStore
from mindgap.platforms.name import parse
from mindgap.run.outcome import Job, Outcome
from mindgap_diagnosis.precision.finding import Bound, find_precision
from mindgap_diagnosis.precision.targets import FileTarget, GraphTarget
from mindgap_diagnosis.precision.tool_runs import ToolFailed
from precision.eager_here import target_of


@pytest.fixture
def target(tmp_path: Path) -> GraphTarget:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    return target_of(model, (randn(2, 4),), "float16", TensorStore(tmp_path))


def test_a_platform_without_kernels_of_the_format(target: GraphTarget) -> None:
    run = target.execute

    def execute(job: Job) -> Outcome:
        low = [n.op for n in job.graph.nodes for spec in n.outputs if spec is not None and spec.dtype == "float16"]
        ops = [op for op in low if op != "aten._to_copy.default"]
        return Outcome(job.platform, "", "unsupported", message="no kernel\nof float16", op=ops[0]) if ops else run(job)

    target.execute = execute
    with pytest.raises(MindgapError) as refused:
        find_precision(target, Bound(1e-4), "net")
    assert str(refused.value) == (
        "net on cpu/eager: it ran with no operator in float16, the first failure: unsupported at aten.linear.default: "
        "no kernel of float16"
    )


class _Refusing:
    """A tool whose converted files never run; the model as it is does."""

    def __init__(self, outputs: Sequence[Array]) -> None:
        self._outputs = outputs

    def about(self) -> Mapping[str, Any]:
        return {}

    def run(self, to: str, kept: Sequence[str] | None, path: Path | None = None) -> Sequence[Array]:
        if kept is not None:
            raise ToolFailed("converting the model failed: NotImplementedError: Gelu(1)")
        return self._outputs


def test_a_tool_of_which_no_converted_file_runs(target: GraphTarget) -> None:
    exact = target.outputs(frozenset(range(len(target.of.operators))))
    assert exact is not None
    runs: Any = _Refusing(exact)
    file = FileTarget(target.graph, target.arrays, target.of, "int8", parse("onnxruntime/cpu"), runs, {}, ())
    with pytest.raises(MindgapError, match=r"it ran with no operator in int8, the first failure: .*Gelu\(1\)"):
        find_precision(file, Bound(1e-3), "net")
