"""tinygrad's CPU device. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import torch

from mindgap.platforms.protocol import PlatformError
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.tinygrad import BACKEND, opencl_driver
from mindgap_runtimes.tinygrad.backend import CL, CompilerError, compiler_errors
from mindgap_runtimes.tinygrad.messages import TABLE, read
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "tinygrad/cpu"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM) as pool:
        yield pool


class Double:
    """A key that prints as tinygrad's dtype."""

    def __repr__(self) -> str:
        return "dtypes.double"


def test_messages():
    found = read(NotImplementedError("op='LSTM' is not supported"))
    assert (found.kind, found.operator) == ("refusal", "LSTM")
    assert read(ValueError("17 is not a valid OnnxDataType")).kind == "refusal"
    assert read(KeyError("dtypes.double")).kind == "failure"  # the text of a key, not a dtype
    assert read(KeyError(Double())).kind == "refusal"
    assert read(ValueError("axis out of range")).kind == "failure"
    assert read(AssertionError("")).kind == "failure"
    assert read(CompilerError("clang: unknown type name '__bf16'")).kind == "refusal"
    assert read(CompilerError("clang: expected ';'")).kind == "failure"


def test_the_compilers_message_is_the_errors(tmp_path, capfd):
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho \"<stdin>:1:1: error: unknown type name '__bf16'\" >&2\nexit 1\n")
    failing.chmod(0o755)
    with pytest.raises(CompilerError, match="cc: unknown type name '__bf16'"), compiler_errors():
        subprocess.check_output([str(failing)])
    assert "error: unknown type name" in capfd.readouterr().err
    with pytest.raises(ValueError, match="another"), compiler_errors():
        raise ValueError("another")
    assert len({row.name for row in TABLE}) == len([*TABLE])


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr("mindgap.platforms.host.importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("mindgap.platforms.host.importlib.metadata.version", lambda name: "1")
    monkeypatch.setenv("PATH", "")
    found = BACKEND.probe()
    assert not found.available and "clang, which is not on the PATH: apt install clang" in found.reason


def test_a_missing_loader_or_driver_of_opencl_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("mindgap_runtimes.tinygrad.opencl_driver._VENDORS", tmp_path)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libOpenCL.so.1")
    assert opencl_driver.missing().startswith(f"no OpenCL driver in {tmp_path}: apt-get install pocl-opencl-icd")
    with pytest.raises(PlatformError, match=r"device=pocl: no .*pocl.icd: apt-get install"):
        CL.environment({"device": "pocl"})
    (tmp_path / "pocl.icd").write_text("libpocl.so.2")
    assert opencl_driver.missing() == ""
    assert CL.environment({"device": "pocl"})["OCL_ICD_VENDORS"] == str(tmp_path / "pocl.icd")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert opencl_driver.missing().startswith("OpenCL's loader libOpenCL.so.1 is not on this machine: apt-get install")


@pytest.mark.nightly
def test_opencl_computes_what_eager_computes():
    if opencl_driver.missing():
        pytest.skip(opencl_driver.missing())
    with workers("tinygrad/cl") as pool:
        graph, inputs = captured(lambda x: torch.relu(x) * 2, normal(3, 4))
        outcome = pool.run(Job("tinygrad/cl", graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])
        said = pool.describe("tinygrad/cl")
        assert said["opencl_device"] and said["accuracy"] == "OpenCL C"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8, torch.bool])
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_a_layer_with_weights(pool: WorkerPool):
    torch.manual_seed(0)
    graph, inputs = captured(torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU()), normal(1, 2, 6, 6))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)


def test_other_inputs_give_other_results(pool: WorkerPool):
    """A runner of tinygrad keeps constants of its first call: the second must not see them."""
    graph, inputs = captured(lambda x, i: x.index_select(0, i), normal(4, 3), torch.tensor([0, 1]))
    first = pool.run(Job(PLATFORM, graph, want="outputs"))
    second = pool.run(Job(PLATFORM, graph, want="outputs", inputs={1: np.array([3, 2])}))
    assert first.arrays is not None and second.arrays is not None, (first.message, second.message)
    np.testing.assert_array_equal(first.arrays[0], inputs[0][[0, 1]])
    np.testing.assert_array_equal(second.arrays[0], inputs[0][[3, 2]])


def test_an_operator_that_the_front_end_lacks_is_a_refusal(pool: WorkerPool):
    torch.manual_seed(0)
    graph, _ = captured(lambda x, h, w: torch.ops.aten.gru.input(x, h, w, False, 1, 0.0, False, False, False)[0],
                        normal(3, 1, 2), normal(1, 1, 2), [normal(6, 2), normal(6, 2)])  # fmt: skip
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and "is not supported" in outcome.message
    assert outcome.op == "aten.gru.input"


def test_its_description(pool: WorkerPool):
    said = pool.describe(PLATFORM)
    assert said["versions"]["tinygrad"] and "clang" in said["compiler"] and said["environment"]["python"]
    assert said["dtypes"]["float64"]["matmul_in"] == "float64"


def test_a_float_sum_is_rearranged(pool: WorkerPool):
    """tinygrad makes y of (x + y) - x, so that no dtype explains its sums."""
    graph, inputs = captured(lambda x, y: (x + y) - x, torch.ones(2), torch.tensor([2.0**-30, 0.5]))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.arrays is not None and outcome.arrays[0].tolist() == inputs[1].tolist()
    assert pool.describe(PLATFORM)["dtypes"]["float32"]["computes_in"] == "unknown"
