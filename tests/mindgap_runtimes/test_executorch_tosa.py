"""TOSA by ExecuTorch's Arm backend. Its workers run where the environment of its recipe is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import mindgap
from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.environments import EnvironmentProblem, find
from mindgap.platforms.protocol import PlatformError
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.executorch.tosa import BACKEND
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "executorch/tosa"


def find_python(environment: str) -> str:
    """The Python of an environment of mindgap's; skips the test where there is none."""
    try:
        return str(find(environment).python)
    except EnvironmentProblem as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM) as pool:
        yield pool


def test_a_network_is_one_part_and_simulated(pool: WorkerPool):
    """Statistics of the normalisation are buffers: the backend folds no others."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU()).eval()
    graph, inputs = captured(net, normal(1, 3, 8, 8))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and (found.delegate, found.gave_back, found.parts) == ("TOSA", {}, 1)
    assert pool.describe(PLATFORM)["execution"] == "simulated"


def test_an_operator_that_is_not_lowered_is_refused_by_name(pool: WorkerPool):
    graph, _ = captured(lambda x: torch.relu(x).sort(-1).values, normal(2, 8))
    outcome = pool.run(Job(PLATFORM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.sort.default"), outcome.message


def test_outputs_come_in_their_order(pool: WorkerPool):
    graph, inputs = captured(lambda x, y: (x - y, torch.relu(y), x * 2), normal(2, 8), normal(2, 8, seed=1))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for ours, theirs in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_operand_of_which_only_the_shape_counts_is_no_input(pool: WorkerPool):
    graph, inputs = captured(lambda x, y: torch.zeros_like(x) + y, normal(2, 8), normal(2, 8, seed=1))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_tensors_have_the_shapes_and_layouts_of_the_program(pool: WorkerPool):
    """A part of TOSA holds a channels-last tensor as (N, H, W, C), and a result without dimensions with one."""
    torch.manual_seed(0)
    images = normal(1, 3, 8, 6).contiguous(memory_format=torch.channels_last)
    conv = torch.nn.Conv2d(3, 4, 3).eval()
    number = torch.tensor(2.5)
    for program, operand in ((conv, images), (torch.linalg.vector_norm, normal(3, 5)), (lambda x: x / -1, number)):
        graph, inputs = captured(program, operand)
        outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        (right,) = eager(graph, inputs)
        assert outcome.arrays[0].shape == right.shape
        np.testing.assert_allclose(outcome.arrays[0], right, rtol=1e-5, atol=1e-5)


def test_a_graph_of_which_nothing_is_left_says_nothing_of_tosa(pool: WorkerPool):
    graph, _ = captured(torch.atleast_3d, normal(2, 8, 3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and "before TOSA got a node" in outcome.message


def test_the_int_profile_takes_programs_and_names_what_it_leaves():
    runner = BACKEND.script_runner({"profile": "int"})
    assert runner is not None and 'create_from_string("TOSA-1.0+INT")' in runner.run
    text = "ExecuTorch's Arm backend leaves aten.sin.default in TOSA's INT profile"
    assert re.search(runner.refusal, text) and not re.search(runner.refusal, "RuntimeError: TOSA_UNPREDICTABLE")
    floats = BACKEND.script_runner({"profile": "fp"})
    assert floats is not None and floats.run != runner.run and "TOSA-1.0+FP" in floats.run
    with pytest.raises(PlatformError, match="option profile=int8: must be one of fp, int"):
        BACKEND.open({"profile": "int8"})


#: Quantises a linear layer with a ReLU, and a convolution of images in the channels-last format, and runs them in the
#: INT profile. Prints how far apart the outputs are, in steps.
INTEGERS = """
import sys
import torch
from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
from executorch.backends.arm.tosa import TosaSpecification
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
sys.path.insert(0, sys.argv[1])
from mindgap_runtimes.executorch.tosa_run import run_integers
torch.manual_seed(0)
images = torch.randn(1, 3, 8, 6).contiguous(memory_format=torch.channels_last)
for layer, x in ((torch.nn.Linear(8, 6), torch.randn(5, 8)), (torch.nn.Conv2d(3, 4, 3), images)):
    quantiser = TOSAQuantizer(TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+INT")))
    quantiser.set_global(get_symmetric_quantization_config())
    net = torch.nn.Sequential(layer, torch.nn.ReLU()).eval()
    prepared = prepare_pt2e(torch.export.export(net, (x,)).module(), quantiser)
    prepared(x)
    module = convert_pt2e(prepared)
    with torch.no_grad():
        found, right = run_integers(module, lambda: (x.clone(),))[0], module(x)
    levels = right.unique()
    step = (levels[1:] - levels[:-1]).min()
    assert found.shape == right.shape
    print("steps", ((found - right).abs().max() / step).round().item(), len(levels) > 8)
"""


@pytest.mark.nightly
def test_a_program_of_the_pt2e_flow_runs_in_the_int_profile():
    python = find_python("tosa")
    command = [python, "-c", INTEGERS, str(Path(mindgap.__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("steps")]
    assert len(lines) == 2, done.stdout + done.stderr
    assert {*lines} <= {"steps 0.0 True", "steps 1.0 True"}, done.stdout + done.stderr
