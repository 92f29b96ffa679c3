"""XLA's CPU client through torchax and JAX. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import Delegation, delegation_of
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.jax.backend import delegation
from mindgap_runtimes.jax.messages import TABLE, read
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM, ACCURATE = "jax/cpu", "jax/cpu@mode=accuracy,threads=1"
PROGRAM = """HloModule jit_run, is_scheduled=true, entry_computation_layout={(f32[4]{0})->(f32[4]{0})}

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %sine.1 = f32[4]{0} sine(%p), metadata={op_name="jit(run)/aten::sin/sin"}
}

ENTRY %main (x: f32[4]) -> (f32[4]) {
  %x = f32[4]{0} parameter(0)
  %fusion = f32[4]{0:T(128)} fusion(%x), kind=kLoop, calls=%fused
  %lapack = (f32[2,2]{0,1}, s32[]) custom-call(%fusion), custom_call_target="lapack_spotrf_ffi"
  %call = f32[4]{0} custom-call(%fusion), custom_call_target="xla_ffi_python_cpu_callback"
  ROOT %tuple = (f32[4]{0}) tuple(%call)
}
"""


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, ACCURATE) as pool:
        yield pool


def test_instructions_of_a_program_are_counted():
    assert delegation(PROGRAM) == Delegation(
        "XLA",
        {"sine": 1, "fusion": 1, "custom-call lapack_spotrf_ffi": 1},
        {"custom-call xla_ffi_python_cpu_callback": 1},
        "Python callbacks",
    )


def test_messages():
    lacking = type("OperatorNotFound", (Exception,), {})
    assert read(lacking("Operator with name aten::cummax has no lowering")).kind == "refusal"
    assert read(type("ConcretizationTypeError", (TypeError,), {})("Abstract tracer value")).kind == "refusal"
    assert read(TypeError("missing 1 required positional argument")).kind == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


@pytest.mark.nightly
def test_64_bits_are_an_option(pool: WorkerPool):
    graph, _ = captured(lambda x: x + 1, normal(3).double())
    found = {name: pool.run(Job(name, graph)).outputs[0].dtype for name in (PLATFORM, ACCURATE)}
    assert found == {PLATFORM: "float32", ACCURATE: "float64"}


def test_a_layer_with_weights_written_in_place(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3)
    graph, inputs = captured(lambda x: layer(x).relu_()[:, 1:].add_(1), normal(1, 2, 6, 6))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and found.delegate == "XLA" and found.ran["convolution"] == 1 and not found.gave_back


def test_an_operator_without_a_lowering_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(torch.special.airy_ai, normal(3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.special_airy_ai.default", outcome.message


def test_what_torchax_translates_as_a_function_only(pool: WorkerPool):
    graph, inputs = captured(lambda x: torch.linalg.det(x).to(torch.float16), normal(4, 4))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], rtol=1e-2)


def test_a_function_in_python_with_the_signature_of_its_operator(pool: WorkerPool):
    graph, inputs = captured(lambda x: torch.ops.aten.pad.default(x, [1, 2], "circular"), normal(2, 3))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_conversions_with_a_memory_format(pool: WorkerPool):
    def convert(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        near = torch.ops.aten.to.dtype(x, torch.float16, False, False, torch.preserve_format)
        device = torch.device("cpu")
        return near, torch.ops.aten.to.device(x, device, torch.int32, False, True, torch.contiguous_format)

    graph, inputs = captured(convert, normal(3, 4))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, right in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(found, right)


def test_its_description(pool: WorkerPool):
    said = pool.describe(ACCURATE)
    assert said["versions"]["torchax"] and said["x64"] is True and said["threads"] == 1
    assert said["dtypes"]["float64"]["computes_in"] == "float64"
    assert pool.describe(PLATFORM)["dtypes"]["float64"]["returns"] == "float32"
