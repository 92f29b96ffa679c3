"""ONNX Runtime: real models near eager, refusals told from failures, nothing converted on the way out."""

import json
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

from mindgap.graph import Constant, DType, Graph, Input, Node, Ref, TensorSpec
from mindgap.platforms.delegation import Delegation, delegation_of
from mindgap.platforms.onnx import external_data
from mindgap.platforms.onnxruntime import messages as onnxruntime_messages
from mindgap.platforms.onnxruntime.backend import BACKEND, _assigned
from mindgap.platforms.protocol import (
    CompileFailure,
    Executable,
    Fallback,
    RunFailure,
    Unsupported,
)
from mindgap.run.local import run_job
from mindgap.run.outcome import Job
from platforms.onnx_graphs import MODELS, captured, eager, normal


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def runtime():
    return BACKEND.open({})


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opt", ["all", "off"])
def test_real_models_stay_near_eager(name, opt):
    model, example = MODELS[name]()
    graph, inputs = captured(model, example)
    executable = BACKEND.open({"opt": opt}).load(graph, inputs)
    assert isinstance(executable, Executable)
    for ours, theirs in zip(executable(inputs), eager(graph, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=1e-3 * max(1.0, np.abs(theirs).max()))


def test_the_same_inputs_give_the_same_bytes_and_stay_as_they_were(runtime):
    graph, inputs = captured(lambda x: x.softmax(-1).add_(1), normal(4, 5))
    before = inputs[0].copy()
    executable = runtime.load(graph, inputs)
    assert executable(inputs)[0].tobytes() == executable(inputs)[0].tobytes()
    np.testing.assert_array_equal(inputs[0], before)


@pytest.mark.parametrize("value", ["off", "on"])
def test_deterministic_kernels_are_asked_for_in_the_session(value: str) -> None:
    graph, inputs = captured(lambda x: x + 1, torch.zeros(3))
    executable: Any = BACKEND.open({"deterministic": value}).load(graph, inputs)
    assert executable._session.get_session_options().use_deterministic_compute == (value == "on")
    # The script of a finding sets no such option.
    assert (BACKEND.script_runner({"deterministic": value}) is None) == (value == "on")


def test_earlier_outputs_survive_a_later_call(runtime):
    graph, inputs = captured(lambda x: x + 1, torch.zeros(3))
    executable = runtime.load(graph, inputs)
    first = executable(inputs)[0]
    executable([np.full(3, 7.0, np.float32)])
    assert first.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int64, torch.bool]
)
def test_plain_dtypes_go_in_and_out(runtime, dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x]).reshape(2, 2, 2), normal(2, 2).to(dtype))
    found, expected = runtime.load(graph, inputs)(inputs)[0], eager(graph, inputs)[0]
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


def test_bfloat16_goes_in_and_out(runtime):
    graph, inputs = captured(lambda x: torch.cat([x.reshape(4), x.reshape(4)]), normal(2, 2, dtype=torch.bfloat16))
    found = runtime.load(graph, inputs)(inputs)[0]
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tobytes() == eager(graph, inputs)[0].tobytes()


def test_float8_goes_in_and_out(runtime):
    narrow, wide = (TensorSpec.contiguous(dtype, (2, 2)) for dtype in ("float8_e5m2", "float32"))
    nodes = (
        Node("aten._to_copy.default", (Ref(0),), (("dtype", DType("float32")),), (wide,)),
        Node("aten._to_copy.default", (Ref(1),), (("dtype", DType("float8_e5m2")),), (narrow,)),
    )
    inputs = [np.array([[1.5, -2.0], [0.25, 96.0]]).astype(ml_dtypes.float8_e5m2)]
    widened, narrowed = runtime.load(Graph((Input(narrow, Constant(0)),), nodes, (1, 2)), inputs)(inputs)
    assert widened.tolist() == [[1.5, -2.0], [0.25, 96.0]]
    assert (narrowed.dtype, narrowed.tobytes()) == (inputs[0].dtype, inputs[0].tobytes())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_goes_in_and_out(runtime, dtype):
    numbers = torch.complex(normal(2, 3).double(), normal(2, 3, seed=1).double()).to(dtype)
    graph, inputs = captured(lambda z: (z * z, torch.view_as_real(z)), numbers)
    for ours, theirs in zip(runtime.load(graph, inputs)(inputs), eager(graph, inputs), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_wrong_dtype_is_not_repaired(runtime):
    """The exporter writes the sum of halves as a float32 sum: whoever runs it gets float32."""
    graph, inputs = captured(lambda x: x.sum(), normal(8, dtype=torch.float16))
    assert graph.values[graph.outputs[0]].dtype == "float16"
    assert runtime.load(graph, inputs)(inputs)[0].dtype == np.float32


def test_a_kernel_that_is_missing_is_a_refusal_by_the_aten_operator(runtime):
    graph, inputs = captured(torch.maximum, torch.ones(2, dtype=torch.int16), torch.zeros(2, dtype=torch.int16))
    with pytest.raises(Unsupported, match="NOT_IMPLEMENTED") as refused:
        runtime.load(graph, inputs)
    assert refused.value.op == "aten.maximum.default"


def test_a_kernel_missing_inside_an_expanded_operator_is_a_refusal(runtime):
    graph, inputs = captured(lambda x: x.softmax(-1), normal(2, 2, dtype=torch.bfloat16))
    with pytest.raises(Unsupported, match="ReduceMax") as refused:
        runtime.load(graph, inputs)
    assert refused.value.op == "aten.softmax.int"


def test_a_dtype_that_the_onnx_operator_does_not_take_is_a_failure_by_the_aten_operator(runtime):
    """The exporter succeeds and writes an invalid model: a failure of the pair that users have."""
    weights = normal(3, 2, 3, 3, dtype=torch.bfloat16)
    graph, inputs = captured(lambda x, w: F.conv2d(x, w).relu(), normal(1, 2, 5, 5, dtype=torch.bfloat16), weights)
    with pytest.raises(CompileFailure, match="bfloat16") as failed:
        runtime.load(graph, inputs)
    assert failed.value.op == "aten.conv2d.default"


def test_a_kernel_that_refuses_when_it_runs_is_a_refusal(runtime):
    """The session is made; the kernel reads its reduction and its dtype only then."""
    x, index = normal(2, 3, dtype=torch.float16), torch.zeros(2, 3, dtype=torch.int64)
    graph, inputs = captured(lambda x, i, y: (x + y).scatter_reduce(1, i, y, "prod"), x, index, x)
    executable = runtime.load(graph, inputs)
    with pytest.raises(Unsupported, match="MLFloat16 data type is not supported") as refused:
        executable(inputs)
    assert refused.value.op == "aten.scatter_reduce.two"
    outcome = run_job(runtime, Job("onnxruntime/cpu", graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.scatter_reduce.two")


def test_a_kernel_that_fails_when_it_runs_names_the_aten_operator(runtime):
    index = torch.tensor(0)
    graph, inputs = captured(lambda x: x.scatter(0, index, 1.0), normal())
    with pytest.raises(RunFailure, match="is not in valid range") as failed:
        runtime.load(graph, inputs)(inputs)
    assert failed.value.op == "aten.scatter.value"
    outcome = run_job(runtime, Job("onnxruntime/cpu", graph))
    assert (outcome.status, outcome.op) == ("runtime_error", "aten.scatter.value")


def test_a_missing_translation_is_a_refusal(runtime):
    graph, inputs = captured(torch.erfinv, torch.tensor([0.5]))
    with pytest.raises(Unsupported) as refused:
        runtime.load(graph, inputs)
    assert refused.value.op == "aten.erfinv.default"


def test_a_model_that_stops_the_session_is_a_failure(runtime):
    """A product whose sizes do not fit: the exporter writes it, ONNX Runtime's shape inference stops at it."""
    spec = TensorSpec.contiguous("float32", (2, 3))
    product = Node("aten.mm.default", (Ref(0), Ref(1)), (), (TensorSpec.contiguous("float32", (2, 2)),))
    broken = Graph((Input(spec, Constant(0)), Input(spec, Constant(0))), (product,), (2,))
    with pytest.raises(CompileFailure, match="Incompatible dimensions"):
        runtime.load(broken, [np.zeros((2, 3), np.float32)] * 2)


def test_a_node_on_another_provider_is_a_fallback():
    graph, inputs = captured(lambda x: x + 1, normal(2))
    from mindgap.platforms.onnx.export import export

    providers = onnxruntime.get_available_providers()
    if len(providers) == 1:
        pytest.skip("this build of ONNX Runtime has the CPU provider only")
    session = onnxruntime.InferenceSession(export(graph, inputs).model, providers=providers)
    with pytest.raises(Fallback, match="not on CPUExecutionProvider alone"):
        _assigned(session)


def test_the_provider_runs_every_node_of_the_optimised_graph(runtime):
    graph, inputs = captured(lambda x: x.softmax(-1) @ x, normal(4, 4))
    found = delegation_of(runtime.load(graph, inputs).facts)
    assert found == Delegation("CPUExecutionProvider", {"Softmax": 1, "MatMul": 1})


def test_description_says_what_is_in_force():
    said = BACKEND.open({"opt": "off", "threads": "2"}).describe()
    assert json.loads(json.dumps(said)) == said
    assert (said["graph_optimization"], said["intra_op_threads"]) == ("off", 2)
    assert said["inference_only"] is True
    assert said["versions"]["onnxruntime"] == onnxruntime.__version__
    assert BACKEND.probe().available


def test_optimisation_levels_are_what_they_say():
    graph, inputs = captured(lambda x: x + 1, normal(2))
    level = onnxruntime.GraphOptimizationLevel
    for opt, expected in (("all", level.ORT_ENABLE_ALL), ("off", level.ORT_DISABLE_ALL)):
        session = BACKEND.open({"opt": opt, "threads": "2"}).load(graph, inputs)._session
        assert session.get_session_options().graph_optimization_level == expected
        assert session.get_session_options().intra_op_num_threads == 2


def test_without_options_onnx_runtime_chooses_the_threads():
    import onnxruntime

    graph, inputs = captured(*MODELS[next(iter(MODELS))]())
    chosen = BACKEND.open({}).load(graph, inputs)._session.get_session_options()
    plain = onnxruntime.SessionOptions()
    assert chosen.intra_op_num_threads == plain.intra_op_num_threads
    assert chosen.graph_optimization_level == plain.graph_optimization_level
    assert chosen.execution_mode == plain.execution_mode


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["direct", "official"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_outside_the_model_give_the_same_bits(monkeypatch, way, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(1200, 512), torch.nn.Linear(512, 1200), torch.nn.LayerNorm(1200))
    graph, inputs = captured(model.eval().to(dtype), torch.tensor([[3, 5, 1199]]))
    runtime = BACKEND.open({"threads": "1", "export": way})
    within = runtime.load(graph, inputs)(inputs)
    monkeypatch.setattr(external_data, "_MODEL_BYTES", 256 << 10)
    loaded = runtime.load(graph, inputs)
    assert loaded._weights.arrays
    for _ in range(2):
        assert [a.tobytes() for a in loaded(inputs)] == [a.tobytes() for a in within]


def test_a_bfloat16_weight_outside_the_model(monkeypatch):
    monkeypatch.setattr(external_data, "_MODEL_BYTES", 1 << 20)
    graph, inputs = captured(torch.nn.Embedding(4096, 512).to(torch.bfloat16), torch.tensor([[3, 4095]]))
    loaded = BACKEND.open({}).load(graph, inputs)
    assert len(loaded._weights.arrays) == 1
    assert loaded(inputs)[0].tobytes() == eager(graph, inputs)[0].tobytes()


def test_a_fusion_without_a_kernel_is_a_failure() -> None:
    """ONNX Runtime 1.24.4 says so of silu in float64, and runs it without its optimiser."""
    said = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Failed to find kernel for {}(1) (node:'n')"
    assert onnxruntime_messages.read(said.format("com.microsoft.QuickGelu")).kind == "failure"
    assert onnxruntime_messages.read(said.format("Gelu")).kind == "refusal"
