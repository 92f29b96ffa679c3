"""ncnn through torch.jit.trace and pnnx. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.ncnn.conversion import ModelPort, ports_of
from mindgap_runtimes.ncnn.messages import TABLE, aten_operator, functions, kind_of, refusals
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM, EXACT = "ncnn/cpu", "ncnn/cpu@opt=off,precision=f32,threads=1"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, EXACT) as pool:
        yield pool


def test_messages():
    printed = "FLOPS = 6\nslice along batch axis 0 is not supported\nreshape has unsupported physical rank 5\n"
    assert refusals(printed) == printed.splitlines()[1:]
    assert refusals("############# pass_ncnn\nmodel inputshape = [2,3]f32\n") == []
    rank = "convert numpy.ndarray to ncnn.Mat only dims <=4 support now, but given 5"
    assert kind_of(rank, "RuntimeError") == "refusal" and kind_of("network graph not ready") == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


def test_the_operator_that_pnnx_leaves():
    graph, _ = captured(lambda x: torch.relu_(x.cumsum(0)).gt(1.0).float(), normal(2, 3))
    assert aten_operator(graph, ["torch.gt"]) == "aten.gt.Scalar"
    assert aten_operator(graph, ["F.relu"]) == "aten.relu_.default"
    assert aten_operator(graph, ["nn.GRU"]) == "nn.GRU" and aten_operator(graph, []) == ""
    assert functions("1 1 in0 out0 0=add(fmod(@0,2),1)") == ["add", "fmod"]
    graph, _ = captured(torch.special.airy_ai, normal(2))
    assert aten_operator(graph, []) == "aten.special_airy_ai.default"


def test_the_ports_of_scripts_of_both_forms():
    """pnnx 20261020 hands ncnn the index of the batch; before, its scripts remove and add the dimension."""
    indexed = """ex.input("in0", ncnn.Mat(in0.numpy(), batch_index=0).clone())
            out.append(torch.from_numpy(out0.numpy(batch_index=233)))"""
    removed = """ex.input("in0", ncnn.Mat(in0.squeeze(0).numpy()).clone())
            ex.input("in1", ncnn.Mat(in1.numpy()).clone())
            out.append(torch.from_numpy(np.array(out0)).unsqueeze(1))
            out.append(torch.from_numpy(np.array(out1)))"""
    assert ports_of(indexed) == ([ModelPort("in0", 0, True)], [ModelPort("out0", 233, True)])
    assert ports_of(removed) == (
        [ModelPort("in0", 0, False), ModelPort("in1", None, False)],
        [ModelPort("out0", 1, False), ModelPort("out1", None, False)],
    )


@pytest.mark.parametrize("batch", [1, 2])
def test_a_net_with_a_batch(pool: WorkerPool, batch: int):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 3)
    )
    graph, inputs = captured(lambda x: torch.softmax(net(x), 1), normal(batch, 2, 6, 6))
    for platform, most in ((PLATFORM, 1e-3), (EXACT, 1e-6)):
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=most)


def test_weights_are_rounded_to_float16_unless_told_otherwise(pool: WorkerPool):
    layer = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1 + 2**-12)
    graph, _ = captured(layer, torch.ones(2, 1))
    found = {}
    for platform in (PLATFORM, EXACT):
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        found[platform] = float(outcome.arrays[0][0, 0])
    assert found == {PLATFORM: 1.0, EXACT: 1 + 2**-12}


@pytest.mark.parametrize(
    ("program", "operator", "reason"),
    [
        (lambda x: torch.special.airy_ai(x + 1), "aten.special_airy_ai.default", "no layer aten::special_airy_ai"),
        (lambda x: x.relu().hypot(x), "aten.hypot.default", "no layer aten::hypot"),
        (lambda x: x.double().sin().float(), "aten.to.dtype", "computes float32; a value is float64"),
        (lambda x: x + x.gt(0), "aten.gt.Scalar", "no layer torch.gt"),
        (lambda x: x.relu() > 0, "aten.gt.Scalar", "computes float32; a value is bool"),
        (lambda x: x.reshape(1, 1, 2, 1, 3).permute(4, 3, 2, 1, 0), "aten.permute.default", "pnnx: permute 5-rank"),
        (lambda x: torch.cholesky_solve(x, x), "aten.cholesky_solve.default", "LAPACK"),
    ],
)  # fmt: skip
def test_refusals(pool: WorkerPool, program, operator: str, reason: str):
    graph, _ = captured(program, normal(3, 3) if "cholesky" in operator else normal(2, 3))
    outcome = pool.run(Job(EXACT, graph))
    assert (outcome.status, outcome.op) == ("unsupported", operator) and reason in outcome.message, outcome


@pytest.mark.parametrize(
    "given", [normal(3).double(), torch.arange(3), torch.tensor(2.0), normal(0, 3), normal(1, 1, 1, 1, 2)]
)
def test_what_a_matrix_cannot_hold(pool: WorkerPool, given: torch.Tensor):
    graph, _ = captured(lambda x: x + 1, given)
    outcome = pool.run(Job(EXACT, graph))
    assert outcome.status == "unsupported", outcome


def test_a_program_that_computes_nothing(pool: WorkerPool):
    """pnnx 20261020 writes no input for it, and ncnn gives an empty matrix."""
    graph, _ = captured(lambda x: x.contiguous(), normal(2, 3))
    outcome = pool.run(Job(EXACT, graph))
    assert outcome.status == "runtime_error" and "computes no out0" in outcome.message, outcome


def test_odd_outputs_and_inputs(pool: WorkerPool):
    """An input that is an output, one value twice, an input that is written to, one that nothing reads."""

    def program(x, unread):
        y = x.add_(2)
        return y, y, x.relu() * 3

    graph, inputs = captured(program, normal(2, 3), normal(2))
    for _ in range(2):
        outcome = pool.run(Job(EXACT, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_its_description(pool: WorkerPool):
    said = pool.describe(EXACT)
    assert said["versions"]["pnnx"] and said["threads"] == said["threads_in_force"] == 1
    off = ("use_fp16_storage", "use_fp16_arithmetic", "use_winograd_convolution", "use_vulkan_compute")
    assert not any(said["ncnn_options"][name] for name in off) and not said["weights_in_float16"]
    assert (
        said["dtypes"]["float32"]["computes_in"] == "float32"
        and said["dtypes"]["int32"]["computes_in"] == "unsupported"
    )
    assert pool.describe(PLATFORM)["weights_in_float16"]


@pytest.mark.nightly
@pytest.mark.usefixtures("pool")
def test_a_program_of_integers_gets_its_own_operands(tmp_path: Path):
    """pnnx's script draws operands, integers by another function than floats. Its net takes what the graph does not."""
    (tmp_path / "ids.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Embedding(7, 3), (torch.tensor([1, 2, 6]),)\n"
    )
    command = [sys.executable, "-m", "mindgap", "diff", "ids.py:make", "-p", EXACT, "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    (row,) = json.loads(ran.stdout)["rows"]
    assert row["own_path"]["status"] == "same", row
