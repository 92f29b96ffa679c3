"""LiteRT through litert-torch. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import Delegation, delegation_of
from mindgap.platforms.protocol import Fallback
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.litert import BACKEND
from mindgap_runtimes.litert.delegated_nodes import delegation
from mindgap_runtimes.litert.messages import TABLE, read
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM, KERNELS = "litert/cpu", "litert/cpu@delegate=none,threads=1,x64=on"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, KERNELS) as pool:
        yield pool


def node(name: str, inputs: list[int], *outputs: int) -> dict[str, object]:
    return {"op_name": name, "inputs": np.array(inputs), "outputs": np.array(outputs)}


def test_the_nodes_of_a_part_are_those_between_its_ends():
    model = [
        node("ADD", [0, 9], 1),
        node("SIN", [1], 2),
        node("MUL", [2, 1], 3),
        node("SUB", [3], 4),
        node("EXP", [0], 5),
    ]
    parts = [node("DELEGATE", [0, 9], 1), node("DELEGATE", [1, 2], 4)]
    assert delegation([*model, *parts], "xnnpack") == Delegation(
        "XNNPACK", {"ADD": 1, "MUL": 1, "SUB": 1}, {"SIN": 1, "EXP": 1}, "LiteRT's kernels", 2
    )
    assert delegation(model[:1], "none") == Delegation("LiteRT's kernels", {"ADD": 1})
    with pytest.raises(Fallback, match="ADD, MUL, SUB on a delegate"):
        delegation([*model, *parts], "none")


def test_messages():
    assert read(RuntimeError("Lowering not found: aten.cumprod.default\n\nWhile executing")).kind == "refusal"
    assert read(KeyError(torch.complex64)).kind == "refusal"
    assert read(RuntimeError("torch.complex64\n\nWhile executing %_to_copy : [num_users=1]")).kind == "refusal"
    assert read(RuntimeError("torch.complex64")).kind == "failure"
    assert read(TypeError("Got unsupported ScalarType BFloat16\n\nWhile executing %held")).kind == "refusal"
    assert read(KeyError("add")).kind == "failure"
    illegal = "error: failed to legalize operation 'tfl.add' that was explicitly marked illegal"
    assert read(ValueError(f"Failed to run converter passes: {illegal}")).kind == "refusal"
    lacking = "Failed to export flatbuffer:\nSome ops are not supported by the native TFLite runtime, you can enable …"
    assert read(ValueError(lacking)).kind == "refusal"
    assert read(ValueError("Failed to export flatbuffer:\n")).kind == "failure"
    assert read(ValueError("Invalid tensor size.")).kind == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool])
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(KERNELS, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_a_dtype_that_an_operator_does_not_take_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(lambda x: torch.cat([x, x], 1), normal(3, 4).double())
    outcome = pool.run(Job(KERNELS, graph))
    assert outcome.status == "unsupported" and "tfl.concatenation" in outcome.message


def test_64_bits_are_an_option(pool: WorkerPool):
    graph, _ = captured(lambda x: x * x, normal(3).double())
    found = {name: pool.run(Job(name, graph)).outputs[0].dtype for name in (PLATFORM, KERNELS)}
    assert found == {PLATFORM: "float32", KERNELS: "float64"}


def test_a_layer_with_weights_written_in_place(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3)
    graph, inputs = captured(lambda x: layer(x).relu_()[:, 1:].add_(1), normal(1, 2, 6, 6))
    for platform in (PLATFORM, KERNELS):
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)


def test_what_the_delegate_took(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    graph, _ = captured(lambda x: torch.cumsum(torch.relu(layer(x)), 1), normal(2, 4))
    found = delegation_of(pool.run(Job(PLATFORM, graph)).facts)
    assert found is not None and found.delegate == "XNNPACK" and found.ran["FULLY_CONNECTED"] == 1
    assert found.gave_back == {"CUMSUM": 1} and found.parts == 1
    found = delegation_of(pool.run(Job(KERNELS, graph)).facts)
    assert found is not None and found.delegate == "LiteRT's kernels" and found.ran["FULLY_CONNECTED"] == 1


def test_an_operator_without_a_lowering_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(torch.special.airy_ai, normal(3))
    outcome = pool.run(Job(KERNELS, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.special_airy_ai.default", outcome.message


def test_odd_outputs_and_inputs(pool: WorkerPool):
    """A scalar, an input that is an output, one value twice, an input that is written to, one that nothing reads."""

    def program(x, scalar, unread):
        y = x.add_(scalar)
        return y, y, scalar, x.sum()

    graph, inputs = captured(program, normal(2, 3), torch.tensor(2.0), normal(2))
    outcome = pool.run(Job(KERNELS, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_its_description(pool: WorkerPool):
    said = pool.describe(KERNELS)
    assert said["versions"]["litert-torch"] and said["threads"] == 1 and said["x64"] is True


def test_a_refusal_beside_an_operator_with_several_results(pool: WorkerPool):
    graph, _ = captured(lambda x: (*torch.sort(x), torch.linalg.svdvals(x)), normal(3, 3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten._linalg_svd.default"), outcome.message


def test_a_file_is_run_by_the_interpreter_with_the_kernels_that_the_options_name():
    plain = BACKEND.file_runner({}, "m.tflite")
    assert plain is not None and "Interpreter('m.tflite', num_threads=None" in plain.run
    assert "OpResolverType.AUTO" in plain.run and plain.packages == ("ai-edge-litert",)
    reference = BACKEND.file_runner({"kernels": "reference", "threads": "4"}, "m.tflite")
    assert reference is not None and "OpResolverType.BUILTIN_REF" in reference.run
    assert "num_threads=4" in reference.run
    none = BACKEND.file_runner({"delegate": "none"}, "m.tflite")
    assert none is not None and "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES" in none.run
    assert BACKEND.file_runner({"x64": "on"}, "m.tflite") is None
