"""A quantised ONNX file on a platform that gives other integers: allowed by the format, of fewer bits, or wrong."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from judge.oracle.bench import Bench
from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, materialise_all
from mindgap.graph.compare.reason import has
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.own_path import with_own_path
from mindgap.judge.pipeline.quantised_files import _numbers_by_name  # pyright: ignore[reportPrivateUsage]
from mindgap.judge.quantised import quantised_values
from mindgap.onnx_files.probing import write_probed
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName, parse
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap.sources import Program, open_source
from mindgap.sources.source import SourceError

NPU = parse("onnxruntime/qnn")
REFEREE = parse("onnx/reference")
Integers = dict[str, Array]


@pytest.fixture(scope="module")
def quantised_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`x` quantised, a convolution with a scale for each channel, a sigmoid; the nodes between have no names."""
    numbers = np.random.default_rng(0)
    scales = numbers.uniform(0.005, 0.02, 6).astype(np.float32)
    stored: dict[str, Any] = {
        "xs": np.float32(0.03), "xz": np.uint8(120), "w": numbers.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8),
        "ws": scales, "wz": np.zeros(6, np.int8), "cs": np.float32(0.2), "cz": np.uint8(117),
        "gs": np.float32(1 / 256), "gz": np.uint8(0),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], name="first"),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0), node("Conv", ["xd", "wd"], ["c"], name="conv"),
        node("QuantizeLinear", ["c", "cs", "cz"], ["cq"], name="second"),
        node("DequantizeLinear", ["cq", "cs", "cz"], ["cd"]),
        node("Sigmoid", ["cd"], ["g"], name="sigmoid"), node("QuantizeLinear", ["g", "gs", "gz"], ["gq"]),
        node("DequantizeLinear", ["gq", "gs", "gz"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 6, 6])
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("quantised") / "model.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture(scope="module")
def captured(quantised_model: Path) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = open_source(str(quantised_model))[0]
        assert isinstance(program, Program)
        built = program.make()
        return capture(built.program, built.args)


def outputs_of(model: onnx.ModelProto, x: Array) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})


def platform(path: Path, folder: Path, change: Callable[[Integers, Array], None]) -> Any:
    """Runs the file; `change` moves integers of the convolution, from which the rest is computed again."""
    probed = write_probed(path, folder)
    assert probed is not None and probed.nodes == {"first": 1, "second": 2, "QuantizeLinear_7": 3} and probed.own == 1

    def run(name: PlatformName, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], Integers]:
        found = outputs_of(onnx.load(str(probed.path)), arrays[0])
        integers = {node: found[place] for node, place in probed.nodes.items()}
        if name != REFEREE:
            change(integers, arrays[0])
            real = (integers["second"].astype(np.float32) - 117) * np.float32(0.2)
            integers["QuantizeLinear_7"] = np.clip(
                np.rint(256 / (1 + np.exp(-real.astype(np.float64)))), 0, 255
            ).astype(np.uint8)
        return (integers["QuantizeLinear_7"].astype(np.float32) / np.float32(256),), integers

    return run


def exact(path: Path, x: Array, integers: Integers) -> Array:
    """The exact quotients of the convolution with the zero point, in float64."""
    import torch

    held = {each.name: numpy_helper.to_array(each) for each in onnx.load(str(path)).graph.initializer}
    weights = held["w"].astype(np.float64) * held["ws"].astype(np.float64).reshape(-1, 1, 1, 1)
    real = (integers["first"].astype(np.float64) - 120) * float(held["xs"])
    sums = torch.nn.functional.conv2d(torch.from_numpy(real), torch.from_numpy(weights)).numpy()
    return sums / float(held["cs"]) + 117


def executed(job: Job) -> Outcome:
    """Runs a graph on its own inputs."""
    given = dict(enumerate(materialise_all(job.graph, None)))
    return Bench().execute(dataclasses.replace(job, inputs=given | dict(job.inputs)))


def judged(
    path: Path, graph: Graph, folder: Path, change: Callable[[Integers, Array], None], row: Row | None = None,
    description: Mapping[str, Any] | None = None,
) -> Row:  # fmt: skip
    context = RunContext(executed, RunSettings(), describe=lambda name: description or {})
    comparison = GraphComparison(context, "model", graph)
    probe = platform(path, folder, change)
    (x,) = [a for a, given in zip(materialise_all(graph, None), graph.inputs, strict=True) if given.role == "input"]
    given, (right,) = probe(NPU, [x])[0], probe(REFEREE, [x])[0]
    run = OwnRun(NPU, "model.onnx", given, (right,), file=True, source_file=True)
    row = row or Row("model", NPU, "compile_error", "failed", message="code 1002", blame="platform")
    referee = OwnRun(REFEREE, "model.onnx", (right,), file=True)
    return with_own_path(
        comparison,
        row,
        run,
        lambda shown: None,
        lambda: (right,),
        lambda name: referee if name == REFEREE else None,
        probe,
    )


def test_the_file_decides_where_its_translated_graph_is_computed_in_fewer_bits(
    quantised_model: Path, captured: Graph, tmp_path: Path
) -> None:
    narrow = {"dtypes": {"float32": {"computes_in": "float16"}}}
    floats = Row("model", NPU, "ok", "reduced_precision", blame="platform", detail="of the graph in floats")
    found = judged(quantised_model, captured, tmp_path, lambda integers, x: None, floats, narrow)
    assert (found.verdict, found.finding, found.blame) == ("identical", False, None)
    assert found.detail.startswith(
        "judged on the outputs of model.onnx: the captured graph has findings of its own here"
    )
    assert found.own_path is not None
    assert found.own_path.detail == "each of the 3 quantised values that it shows is one that ONNX's definition allows"
    kept = judged(quantised_model, captured, tmp_path, lambda integers, x: None, floats)
    assert (kept.verdict, kept.finding) == ("identical", False), "the file is computed rightly"


def test_fewer_bits_are_one_policy(quantised_model: Path, captured: Graph, tmp_path: Path) -> None:
    def coarse(integers: Integers, x: Array) -> None:
        steps = (exact(quantised_model, x, integers) - 117) * (1 + 2.0**-10) + 117
        integers["second"] = np.clip(np.rint(steps), 0, 255).astype(np.uint8)

    found = judged(
        quantised_model, captured, tmp_path, coarse, description={"dtypes": {"float32": {"computes_in": "float16"}}}
    )
    assert (found.verdict, found.blame, found.status) == ("reduced_precision", "platform", "ok")
    assert found.culprit is not None and found.culprit.op == "dtype policy: float32 computed in float16"
    assert "elements of conv (Conv) are other integers than ONNX's definition allows, by up to 1 step" in found.detail
    assert "--allow 'onnxruntime/qnn: float32 in float16'" in found.faults[0].advice
    assert found.example is not None and found.example.given.endswith("of second (QuantizeLinear)")


def test_a_wrong_zero_point_is_named_at_the_operator(quantised_model: Path, captured: Graph, tmp_path: Path) -> None:
    def shifted(integers: Integers, _: Array) -> None:
        integers["second"] = np.clip(integers["second"].astype(np.int32) + 1, 0, 255).astype(np.uint8)

    found = judged(quantised_model, captured, tmp_path, shifted)
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and (found.culprit.op, found.culprit.label) == (
        "aten.conv2d.default",
        "conv (Conv)",
    )
    assert "every element is off by 1, as with another zero point" in found.detail
    assert len(found.faults) == 1, "the sigmoid of these integers is right"


def test_nothing_is_said_where_the_reference_evaluator_disagrees(
    quantised_model: Path, captured: Graph, tmp_path: Path
) -> None:
    def shifted(integers: Integers, _: Array) -> None:
        integers["second"] = np.clip(integers["second"].astype(np.int32) + 1, 0, 255).astype(np.uint8)

    probe = platform(quantised_model, tmp_path, shifted)
    from mindgap.judge.pipeline.quantised_files import quantised_file

    comparison = GraphComparison(RunContext(executed, RunSettings()), "model", captured)
    (x,) = [a for a, g in zip(materialise_all(captured, None), captured.inputs, strict=True) if g.role == "input"]
    given = probe(NPU, [x])[0]
    run = OwnRun(NPU, "model.onnx", given, given, file=True, source_file=True)
    found = quantised_file(comparison, run, lambda name, arrays: probe(NPU, arrays))
    assert found is not None and not found.decided and not found.faults
    assert found.detail.startswith(
        "second (QuantizeLinear) is not judged: other implementations give other integers than expected there too"
    )
    other = OwnRun(NPU, "model.onnx", (given[0] + 1,), given, file=True, source_file=True)
    found = quantised_file(comparison, other, probe)
    assert found is not None and not found.decided
    assert found.detail == "with its integers as further outputs the file gives other results"


def test_a_refused_file_is_no_finding_of_its_translated_graph(captured: Graph) -> None:
    left = "Fail: This session contains graph nodes that are assigned to the default CPU EP"
    floats = Row("model", NPU, "ok", "reduced_precision", blame="platform", detail="of the graph in floats")
    crash = Row("model", NPU, "crash", "failed", message="killed by SIGABRT while loading", blame="platform")
    comparison = GraphComparison(RunContext(executed, RunSettings()), "model", captured)

    def found(row: Row, **given: Any) -> Row:
        run = OwnRun(NPU, "model.onnx", None, reason=left, **given)
        return with_own_path(comparison, row, run, lambda shown: None, lambda: ())

    one = found(floats, file=True, source_file=True, refused=True)
    assert (one.word, one.finding, one.blame) == ("unsupported", False, None)
    assert one.message == f"model.onnx is refused: {left}"
    ended = found(crash, file=True, source_file=True, refused=True)
    assert (ended.word, ended.finding, ended.message) == ("failed", True, crash.message), "a crash is the runtime's own"
    program = found(floats, refused=True)
    assert (program.word, program.detail) == ("reduced_precision", floats.detail), "the captured graph ran"
    failed = found(floats, file=True, source_file=True)
    assert failed.word == "failed" and "model.onnx failed" in failed.faults[0].detail, "no refusal"


@pytest.mark.parametrize("status", ["crash", "timeout", "runtime_error"])
def test_a_crash_of_the_translated_graph_stays_a_finding(
    quantised_model: Path, captured: Graph, tmp_path: Path, status: Any
) -> None:
    narrow = {"dtypes": {"float32": {"computes_in": "float16"}}}
    failed = Row("model", NPU, status, "failed", message="signal 11", blame="platform")
    found = judged(quantised_model, captured, tmp_path, lambda integers, x: None, failed, narrow)
    assert (found.status, found.finding) == (("ok", False) if status == "runtime_error" else (status, True))


def test_a_nan_of_the_translated_graph_is_no_finding_of_a_file_that_is_computed_rightly(
    quantised_model: Path, captured: Graph, tmp_path: Path
) -> None:
    narrow = {"dtypes": {"float32": {"computes_in": "float16"}}}
    exceptional = Row("model", NPU, "ok", "exceptional", detail="NaN for 3", blame="platform")
    found = judged(quantised_model, captured, tmp_path, lambda integers, x: None, exceptional, narrow)
    assert (found.verdict, found.finding) == ("identical", False) and "(NaN for 3)" in found.detail


def with_probe(graph: Graph, probe: Any, referee_outputs: Array, way: str = "model.onnx") -> Row:
    """The row of a file that gives what `probe` says, on a platform that runs its translated graph rightly."""
    comparison = GraphComparison(RunContext(executed, RunSettings(), describe=lambda name: {}), "model", graph)
    (x,) = [a for a, given in zip(materialise_all(graph, None), graph.inputs, strict=True) if given.role == "input"]
    run = OwnRun(NPU, way, probe(NPU, [x])[0], (referee_outputs,), file=True, source_file=True)
    referee = OwnRun(REFEREE, way, (referee_outputs,), file=True)
    return with_own_path(
        comparison, Row("model", NPU, "ok", "identical"), run, lambda shown: None, lambda: (referee_outputs,),
        lambda name: referee if name != NPU else None, probe if way.endswith(".onnx") else (lambda name, arrays: None),
    )  # fmt: skip


def test_a_probe_that_makes_the_fault_leads_to_no_finding(
    quantised_model: Path, captured: Graph, tmp_path: Path
) -> None:
    """The output is right, but for a step; the integers of the sigmoid are in another encoding as an output."""
    probe = platform(quantised_model, tmp_path, lambda integers, x: None)
    (x,) = [a for a, g in zip(materialise_all(captured, None), captured.inputs, strict=True) if g.role == "input"]
    (right,) = probe(REFEREE, [x])[0]

    def encoded(name: PlatformName, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], Integers]:
        (output,), integers = probe(name, arrays)
        if name == REFEREE:
            return (output,), integers
        other = (integers["QuantizeLinear_7"] // 2 + 128).astype(np.uint8)
        return (output + np.float32(1 / 256),), {**integers, "QuantizeLinear_7": other}

    found = with_probe(captured, encoded, right)
    assert not found.finding and found.own_path is not None and found.own_path.status == "unjudged"
    assert found.word == "unjudged" and has(found.reasons, "own_path")
    assert "is not judged: what follows is right for the right integers" in found.own_path.detail


def test_values_that_are_not_shown_decide_nothing(quantised_model: Path, captured: Graph, tmp_path: Path) -> None:
    probe = platform(quantised_model, tmp_path, lambda integers, x: None)
    (x,) = [a for a, g in zip(materialise_all(captured, None), captured.inputs, strict=True) if g.role == "input"]
    (right,) = probe(REFEREE, [x])[0]

    def hidden(off: float) -> Any:
        def probed(name: PlatformName, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], Integers]:
            (output,), integers = probe(name, arrays)
            moved = output + np.float32(0 if name == REFEREE else off * np.abs(right).max())
            return (moved,), {"first": integers["first"]}

        return probed

    found = with_probe(captured, hidden(0.1), right)
    assert not found.finding and found.own_path is not None and found.own_path.status == "unjudged"
    assert found.word == "unjudged" and has(found.reasons, "own_path")
    assert "the integers of QuantizeLinear_7 (QuantizeLinear) are not shown" in found.own_path.detail
    far = with_probe(captured, hidden(0.2), right)
    assert far.verdict == "export" and "the runtime is wrong" in far.detail, "no step of 8 bits leads there"


def test_a_quantised_litert_file_is_never_an_export_finding(
    quantised_model: Path, captured: Graph, tmp_path: Path
) -> None:
    probe = platform(quantised_model, tmp_path, lambda integers, x: None)
    (x,) = [a for a, g in zip(materialise_all(captured, None), captured.inputs, strict=True) if g.role == "input"]
    (right,) = probe(REFEREE, [x])[0]
    found = with_probe(captured, lambda name, arrays: ((right + np.float32(0.25),), {}), right, "model.tflite")
    assert not found.finding and found.own_path is not None and found.own_path.status == "unjudged"
    assert found.word == "unjudged" and has(found.reasons, "own_path")
    assert "right kernels may give integers that are a step apart" in found.own_path.detail
    half = with_probe(captured, lambda name, arrays: ((right.astype(np.float16),), {}), right, "model.tflite")
    assert half.verdict == "export", "another dtype is no step"


def test_results_of_qlinear_operators_and_of_another_domain_are_shown(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    stored = {"s": np.float32(0.5), "z": np.int8(0), "w": np.ones((4, 3), np.int8)}
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], name="first", domain="com.microsoft"),
        node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "s", "z"], ["p"], name="product"),
        node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "qlinear.onnx"
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    (folder := tmp_path / "probed").mkdir()
    probed = write_probed(path, folder)
    assert probed is not None and probed.nodes == {"first": 1, "product": 2}
    first, second = outputs_of(onnx.load(str(probed.path)), np.eye(2, 4, dtype=np.float32))[1:]
    assert first.dtype == second.dtype == np.int8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = open_source(str(path))[0]
        assert isinstance(program, Program)
        built = program.make()
        functional = functionalize(capture(built.program, built.args))
    numbers = [each.number for each in quantised_values(functional.graph)]
    assert {*_numbers_by_name(functional, numbers)} == {"first", "product"}
    with pytest.raises(SourceError, match="it cannot be written with its integers as outputs"):
        write_probed(path, tmp_path / "absent")


def test_a_file_without_quantised_values_is_not_probed(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "float.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    assert write_probed(path, tmp_path) is None


def test_integers_that_a_model_returns_are_not_returned_twice(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.INT16, [2])
    held = [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.int16(3), "z")]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], held)
    path = tmp_path / "integers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(path))
    (folder := tmp_path / "probed").mkdir()
    probed = write_probed(path, folder)
    assert probed is not None and (probed.nodes, probed.own, probed.all) == ({"QuantizeLinear_0": 0}, 1, 1)
