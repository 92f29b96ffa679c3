"""Measuring of PyTorch's functions: which are measured, in which order they arrive, and what is recorded."""

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

from mindgap.graph import MindgapError, default_tensor_store
from mindgap.graph.compare.reason import Reason
from mindgap.platforms.listing import PlatformInfo
from mindgap.platforms.registry import canonical
from mindgap.results.rows import Row
from mindgap_studies.porting_runs import pytorch_functions
from mindgap_studies.porting_runs.direct_client import NotMeasured
from mindgap_studies.porting_runs.pytorch_functions import PyTorchFunctions
from mindgap_studies.results.ported_functions import FunctionCell, PortingSettings, SampleResult


class CountedCalls:
    """Measures nothing: the source takes a second, the target two. `torch.bad` cannot be measured."""

    def __init__(self, target: str, *settings: Any) -> None:
        self.target = target

    def __enter__(self) -> "CountedCalls":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def seconds(self, source: str, rounds: int) -> dict[str, Any]:
        if source == "ops:bad#0":
            raise NotMeasured("it \x1b[96mhas\x1b[0m\nno export")
        return {"source_first": 1.0, "target_first": 9.0, "source": [1.0] * rounds, "target": [2.0] * rounds}


def cell(name: str, target: str) -> FunctionCell:
    return FunctionCell("pytorch", f"torch.{name}", target, (SampleResult(f"ops:{name}#0"),))


def test_each_ported_function_has_seconds_or_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch_functions, "DirectCalls", CountedCalls)
    targets = ["cpu/jit", "onnxruntime/cpu", "cpu/inductor"]
    functions = PyTorchFunctions(targets, PortingSettings(rounds=2), default_tensor_store())
    simulated = PlatformInfo("onnxruntime/cpu", "", True, "", "", {}, {}, execution="simulated")
    functions._infos[canonical("onnxruntime/cpu")] = simulated  # pyright: ignore[reportPrivateUsage]
    cells = [cell(name, target) for name in ("add", "bad") for target in targets]
    found = {(c.function, c.target): what for c, what in functions.measured_pass(cells, lambda *_: None)}
    assert len(found) == 6
    for target in ("cpu/jit", "cpu/inductor"):
        latency = found["torch.add", target]
        assert not isinstance(latency, str) and latency.target == ((2.0, 2.0),) and latency.target_first == (9.0,)
        assert found["torch.bad", target] == "it has no export"
    assert found["torch.add", "onnxruntime/cpu"] == "simulated: its seconds are not the device's"


def test_what_breaks_in_a_thread_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MindgapError("no environment jax")

    monkeypatch.setattr(pytorch_functions, "DirectCalls", broken)
    functions = PyTorchFunctions(["cpu/jit"], PortingSettings(), default_tensor_store())
    with pytest.raises(MindgapError, match="no environment jax"):
        list(functions.measured_pass([cell("add", "cpu/jit")], lambda *_: None))


def test_versions_of_the_runtimes_are_recorded() -> None:
    functions = PyTorchFunctions(["cpu/jit", "onnxruntime/cpu"], PortingSettings(), default_tensor_store())
    assert functions.versions()["onnxruntime"] == version("onnxruntime")


def test_a_refusal_is_not_implemented_save_where_the_device_got_nothing() -> None:
    def reason(message: str, *reasons: Reason) -> str:
        row = Row("m", canonical("onnxruntime/qnn"), "unsupported", None, message=message, reasons=reasons)
        return pytorch_functions._result("ops:arange#0", row, None).reason

    assert reason("aten.erfinv.default: the exporter has no ONNX translation") == "not implemented"
    before = Reason("computed_before")
    message = "model: ONNX Runtime computed all of it before QNNExecutionProvider got a node"
    assert reason(message, before) == "not compared"


def test_what_a_provider_takes_without_an_implementation_is_not_implemented() -> None:
    message = "QNNExecutionProvider took Gelu without an implementation: EP_FAIL : Failed to finalize QNN graph."
    row = Row("m", canonical("onnxruntime/qnn"), "compile_error", "failed", message=message)
    assert pytorch_functions._result("ops:gelu#0", row, None).reason == "not implemented"


def test_another_dtype_is_a_type_failure_and_other_values_are_precision() -> None:
    rows = [Row("m", canonical("cpu/jit"), "ok", verdict, detail="d") for verdict in ("structural", "discrepant")]
    assert [pytorch_functions._result("s", row, None).reason for row in rows] == ["type failure", "precision"]


def test_a_sample_that_mindgap_failed_on_says_why() -> None:
    row = Row("s", canonical("cpu/jit"), "ok", None, detail="mindgap failed", broken="Traceback\n  x\nKeyError: 3\n")
    found = pytorch_functions._result("s", row, None)
    assert (found.reason, found.message) == ("not compared", "mindgap failed: KeyError: 3")


def test_what_is_late_or_left_by_a_delegate_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], float]] = []
    late = {"cpu/jit": Row("s", canonical("cpu/jit"), "timeout", None, message="no answer within 60 s")}
    refusal = "aten.topk.default: XNNPACK took none of 1 operators: aten.topk.default (1)"
    names = "litert/cpu", "executorch/cpu@threads=1", "onnxruntime/coreml"
    none = (Reason("took_none"),)
    left = {name: Row("s", canonical(name), "unsupported", None, message=refusal, reasons=none) for name in names}

    def diff_many(subjects: Any, targets: list[str], settings: Any) -> Any:
        asked.append((targets, settings.deadline_s))
        first = {**late, **left} if len(asked) == 1 else {}
        rows = [first.get(each, Row("s", canonical(each), "ok", "identical")) for each in targets]
        return SimpleNamespace(rows=rows, refused=())

    functions = PyTorchFunctions(["cpu/jit", *names], PortingSettings(deadline_s=10), default_tensor_store())
    with functions:
        monkeypatch.setattr(functions, "_samples", lambda function: ["s"])
        monkeypatch.setattr(functions._session, "diff_many", diff_many)
        cells = functions.cells("torch.topk", ["cpu/jit", *names])
    own = ["litert/cpu@delegate=none"], ["executorch/cpu@delegate=none,threads=1"]
    assert asked == [(["cpu/jit", *names], 10), (["cpu/jit"], 40), (own[0], 10), (own[1], 10)]
    assert [cell.word for cell in cells] == ["success", "success", "success", "complete failure"]
    told = f"{refusal}; judged by the runtime's own kernels, litert/cpu@delegate=none"
    assert [cell.samples[0].message for cell in cells[:2]] == ["", told]


def test_judging_again_that_fails_leaves_the_sample_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "aten.topk.default: XNNPACK took none of 1 operators: aten.topk.default (1)"
    first = [
        Row("s", canonical("cpu/jit"), "timeout", None, message="no answer within 60 s"),
        Row("s", canonical("litert/cpu"), "unsupported", None, message=refusal, reasons=(Reason("took_none"),)),
        Row("s", canonical("cpu/inductor"), "ok", "identical"),
    ]

    def diff_many(subjects: Any, targets: list[str], settings: Any) -> Any:
        if len(targets) == 1:
            raise MindgapError(f"{targets[0]} cannot be started")
        return SimpleNamespace(rows=first, refused=())

    targets = [str(row.platform) for row in first]
    with PyTorchFunctions(targets, PortingSettings(), default_tensor_store()) as functions:
        monkeypatch.setattr(functions, "_samples", lambda function: ["s"])
        monkeypatch.setattr(functions._session, "diff_many", diff_many)
        late, left, fine = functions.cells("torch.topk", targets)
    assert [cell.word for cell in (late, left, fine)] == ["not compared", "not compared", "success"]
    assert late.samples[0].message == "cpu/jit cannot be started"
    assert left.samples[0].message.endswith("litert/cpu@delegate=none: litert/cpu@delegate=none cannot be started")
