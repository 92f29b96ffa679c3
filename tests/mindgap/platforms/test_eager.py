import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import DType, Graph, Input, Normal, Ref, TensorSpec
from mindgap.platforms.protocol import Fallback, Traceable, Unsupported
from mindgap.platforms.pytorch.device.availability import processor
from mindgap.platforms.pytorch.execution.eager_executable import cotangent
from mindgap.platforms.pytorch.execution.input_binding import check_devices
from mindgap.platforms.registry import backends, find
from platforms.torch_graphs import (
    arrays,
    cast_chain,
    conv_net,
    counter,
    node,
    opened,
    plain_conv_net,
    run,
    same,
    spec,
    unary,
)


def test_eager_is_bit_for_bit_what_pytorch_gives():
    inputs = arrays(conv_net())
    assert same(run("cpu/eager", conv_net(), inputs), plain_conv_net(inputs))


def test_running_twice_leaves_inputs_and_buffers_as_they_were():
    inputs = arrays(counter())
    before = inputs[0].copy()
    executable = opened("cpu/eager").load(counter(), inputs)
    first, second = executable(inputs), executable(inputs)
    assert same(first, second)
    assert same([first[0], first[1]], [before + np.float32(1.5), (before + np.float32(1.5)) * (before * np.float32(2))])
    assert (inputs[0] == before).all()


def test_an_output_never_shares_memory_with_an_input():
    graph = Graph(
        (Input(spec("float32", (4,)), Normal(0)),),
        (node("aten.view.default", Ref(0), (2, 2), out=spec("float32", (2, 2))),),
        (0, 1),
    )
    inputs = arrays(graph)
    for output in run("cpu/eager", graph, inputs):
        assert not np.shares_memory(output, inputs[0])


def test_a_change_to_an_input_array_is_seen_even_where_its_tensor_is_kept():
    strided = TensorSpec("float32", (3, 4), (1, 3))
    graph = Graph((Input(strided, Normal(0)), Input(spec("float32", (3, 4)), Normal(1))),
                  (node("aten.add.Tensor", Ref(0), Ref(1), out=spec("float32", (3, 4))),), (2,))  # fmt: skip
    inputs = arrays(graph)
    executable = opened("cpu/eager").load(graph, inputs)
    executable(inputs)
    for array in inputs:
        array[:] = 1.0
        assert (executable(inputs)[0] == inputs[0] + inputs[1]).all()


def test_wrong_inputs_are_said_to_be():
    executable = opened("cpu/eager").load(counter(), arrays(counter()))
    with pytest.raises(ValueError, match="takes 1 inputs"):
        executable([])
    with pytest.raises(ValueError, match="input 0 has the shape"):
        executable([np.zeros((2, 2), np.float32)])


def test_the_trace_gives_each_value_as_of_its_creation():
    executable = opened("cpu/eager").load(counter(), arrays(counter()))
    assert isinstance(executable, Traceable)
    (start,) = arrays(counter())
    doubled, added, product = executable.trace([start])
    assert same([doubled, added, product], [start * np.float32(2), start + np.float32(1.5), doubled * added])

    inputs = arrays(conv_net())
    convolved, rectified, *_ = opened("cpu/eager").load(conv_net(), inputs).trace(inputs)
    assert (convolved < 0).any() and (rectified >= 0).all()
    assert (np.maximum(convolved, 0) == rectified).all()


def test_a_view_in_the_trace_is_what_it_was_before_its_base_was_overwritten():
    x = spec("float32", (4,))
    graph = Graph((Input(x, Normal(0)),), (
        node("aten.mul.Tensor", Ref(0), 2.0, out=x),
        node("aten.slice.Tensor", Ref(1), 0, 0, 2, out=spec("float32", (2,))),
        node("aten.zero_.default", Ref(1), out=x),
    ), (2, 3))  # fmt: skip
    inputs = arrays(graph)
    executable = opened("cpu/eager").load(graph, inputs)
    product, view, zeroed = executable.trace(inputs)
    assert (product == inputs[0] * 2).all() and (view == inputs[0][:2] * 2).all() and (zeroed == 0).all()
    assert (executable(inputs)[0] == 0).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "complex64", "int8", "bool"])
def test_narrow_and_complex_dtypes_go_through_bit_for_bit(dtype):
    graph = unary("aten.clone.default", dtype)
    inputs = arrays(graph)
    assert same(run("cpu/eager", graph, inputs), inputs)


# ---- options


def settings(name: str):
    return opened(name).describe()


def test_float64_computes_in_float64_and_gives_back_the_declared_dtypes():
    inputs = arrays(cast_chain())
    plain, half = run("cpu/eager", cast_chain(), inputs)
    wide, wide_half = run("cpu/eager@dtype=float64", cast_chain(), inputs)
    assert (wide.dtype, wide_half.dtype) == (np.float32, np.float16)
    assert (wide == np.exp(inputs[0].astype(np.float64)).astype(np.float32)).all()
    assert (plain != wide).any() and (half == wide_half).all()
    assert torch.get_default_dtype() == torch.float32


def test_float64_refuses_what_lives_in_bits():
    graph = unary("aten.view.dtype", "float32", (3, 4), DType("int32"), out="int32")
    with pytest.raises(Unsupported) as refused:
        run("cpu/eager@dtype=float64", graph)
    assert refused.value.op == "aten.view.dtype"


def test_float64_makes_tensors_without_a_dtype_float64_too():
    out = spec("float32", (7,))
    nodes = (
        node("aten.arange.default", 7, out=spec("int64", (7,))),
        node("aten.div.Scalar", Ref(0), 3, out=out),
        node("aten.exp.default", Ref(1), out=out),
    )
    graph = Graph((), nodes, (2,))
    (found,) = run("cpu/eager@dtype=float64", graph, [])
    assert (found == np.exp(np.arange(7) / 3).astype(np.float32)).all()
    assert found.dtype == np.float32


def test_autocast_rounds_to_bfloat16_and_gives_back_float32():
    inputs = arrays(conv_net())
    plain, cast = run("cpu/eager", conv_net(), inputs)[2], run("cpu/eager@autocast=bfloat16", conv_net(), inputs)[2]
    assert cast.dtype == np.float32
    assert (cast == cast.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
    assert 1e-4 < np.abs(plain - cast).max() < 0.5


def test_channels_last_moves_memory_and_turns_views_into_reshapes():
    graph = conv_net()
    executable = opened("cpu/eager@layout=channels_last").load(graph, arrays(graph))
    convolved = []
    executable._tape.run(
        executable._feeds(arrays(graph)), on_node=lambda i, r: convolved.append(r[0].stride()) if i == 0 else None
    )
    assert convolved == [(144, 1, 24, 4)]
    for one, other in zip(executable(arrays(graph)), run("cpu/eager", graph), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_channels_last_refuses_what_names_memory():
    image = spec("float32", (1, 2, 3, 3))
    graph = Graph(
        (Input(image, Normal(0)),),
        (node("aten.as_strided.default", Ref(0), (4,), (1,), out=spec("float32", (4,))),),
        (1,),
    )
    with pytest.raises(Unsupported, match="addresses memory"):
        run("cpu/eager@layout=channels_last", graph)
    written = Graph((Input(image, Normal(0)),), (
        node("aten.view.default", Ref(0), (18,), out=spec("float32", (18,))),
        node("aten.zero_.default", Ref(1), out=spec("float32", (18,))),
    ), (0,))  # fmt: skip
    with pytest.raises(Unsupported, match="written through"):
        run("cpu/eager@layout=channels_last", written)
    assert (run("cpu/eager", written)[0] == 0).all()


def test_contiguous_lays_a_strided_input_out_in_rows():
    image = TensorSpec("float32", (1, 2, 3, 3), (18, 1, 6, 2))
    graph = Graph(
        (Input(image, Normal(0)),), (node("aten.view.default", Ref(0), (18,), out=spec("float32", (18,))),), (1,)
    )
    inputs = arrays(graph)
    with pytest.raises(RuntimeError, match="view size"):
        run("cpu/eager", graph, inputs)
    assert (run("cpu/eager@layout=contiguous", graph, inputs)[0] == inputs[0].reshape(18)).all()


def test_settings_act_during_a_run_and_are_described_and_do_not_outlive_it():
    assert settings("cpu/eager@matmul=medium")["matmul_precision"] == "medium"
    assert settings("cpu/eager")["matmul_precision"] == "highest" == torch.get_float32_matmul_precision()
    assert settings("cpu/eager@onednn=off")["onednn"] is False
    assert settings("cpu/eager")["onednn"] is torch.backends.mkldnn.is_available()
    assert settings("cpu/eager")["float32_product_bits"]["matmul"] >= 18


def test_without_onednn_a_convolution_is_another():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    x, w = spec("float32", (2, 16, 30, 30)), spec("float32", (16, 16, 3, 3))
    convolution = node("aten.conv2d.default", Ref(0), Ref(1), out=spec("float32", (2, 16, 28, 28)))
    graph = Graph((Input(x, Normal(0)), Input(w, Normal(1))), (convolution,), (2,))
    assert not same(run("cpu/eager", graph), run("cpu/eager@onednn=off", graph))


IN_A_WORKER = """
import json, sys
from mindgap.platforms.registry import find
sys.path.insert(0, sys.argv[2])
from platforms.torch_graphs import arrays, conv_net, node, spec, unary
import hashlib
backend, options = find(sys.argv[1])
platform = backend.open(options)
graph = unary("aten.gelu.default", "float32", (300, 57))
inputs = arrays(graph)
(found,) = platform.load(graph, inputs)(inputs)
print(json.dumps([platform.describe(), hashlib.sha256(found.tobytes()).hexdigest()]))
"""


def in_a_worker(name: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """A process that starts with the environment that the platform asks for (or another one)."""
    backend, options = find(name)
    wanted = backend.environment(options) if environment is None else environment
    command = [sys.executable, "-c", IN_A_WORKER, name, str(Path(__file__).parents[1])]
    return subprocess.run(command, env={**os.environ, **wanted}, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_each_tier_of_instructions_is_in_force_and_rounds_in_its_own_way():
    tiers = ["default"]
    tiers += ["avx2"] if {"avx2", "fma"} <= processor().flags else []
    tiers += ["avx512"] if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= processor().flags else []
    if len(tiers) < 2:
        pytest.skip("this processor has one tier only")
    digests = set()
    for tier in tiers:
        done = in_a_worker(f"cpu/eager@isa={tier},threads=1")
        assert done.returncode == 0, done.stderr
        said, digest = json.loads(done.stdout.splitlines()[-1])
        assert said["capability"] == tier.upper()
        assert said["threads"]["aten"] == 1
        digests.add(digest)
    assert len(digests) == len(tiers)


@pytest.mark.nightly
def test_the_level_of_one_library_leaves_the_others_alone():
    if "avx2" not in processor().flags:
        pytest.skip("this processor has no AVX2 to leave out")
    free = json.loads(in_a_worker("cpu/eager").stdout.splitlines()[-1])[0]
    for option, key, value in (
        ("aten=default", "capability", "DEFAULT"),
        ("onednn_isa=avx", "onednn_isa", "Intel AVX"),
        ("mkl=compatible", "mkl_branch", "compatible"),
    ):
        done = in_a_worker(f"cpu/eager@{option}")
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])[0]
        assert said[key] == value != free[key]
        levels = {"capability", "onednn_isa", "mkl_branch"} - {key}
        assert {name: said[name] for name in levels} == {name: free[name] for name in levels}


def test_a_level_of_onednn_that_is_not_in_force_is_a_fallback():
    if "avx2" not in processor().flags:
        pytest.skip("this processor has no AVX2 to fall back to")
    done = in_a_worker("cpu/eager@onednn_isa=avx", {"ONEDNN_MAX_CPU_ISA": "AVX2"})
    assert done.returncode != 0
    assert "Fallback: onednn_isa=avx is not in force: oneDNN uses Intel AVX2" in done.stderr


def test_a_tier_that_is_not_in_force_is_a_fallback():
    if "avx2" not in processor().flags:
        pytest.skip("this processor has no AVX2 to fall back to")
    done = in_a_worker("cpu/eager@isa=default", {"ATEN_CPU_CAPABILITY": "avx2"})
    assert done.returncode != 0
    assert "Fallback: isa=default is not in force: ATen uses AVX2" in done.stderr


def test_a_tier_that_the_processor_lacks_is_a_fallback(monkeypatch):
    from mindgap.platforms.pytorch.device import settings as module

    monkeypatch.setattr(module, "processor", lambda: type(processor())("an old one", "", frozenset({"sse4_1"})))
    with pytest.raises(Fallback, match="this processor has no avx512f"):
        opened("cpu/eager@isa=avx512")


def test_threads_are_in_force():
    done = in_a_worker("cpu/eager@threads=3")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[0]["threads"] == {"aten": 3, "openmp": 3, "mkl": 3}


def test_a_lower_precision_that_nobody_asked_for_is_a_fallback():
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(Fallback, match=r"matrix products keep \d bits only"):
        opened("cpu/eager")


# ---- gradients


def test_gradients_follow_the_outputs_and_are_those_of_autograd():
    inputs = arrays(conv_net())
    *outputs, of_weight, of_bias = run("cpu/eager", conv_net(grad=(1, 2)), inputs)
    assert same(outputs, plain_conv_net(inputs))

    image, weight, bias = (to_torch(a.copy()) for a in inputs)
    weight.requires_grad_(), bias.requires_grad_()
    flat = torch.relu(torch.conv2d(image, weight, bias)).view(2, 144)
    parts = [flat[:, :72], torch.softmax(flat[:, 72:], -1), flat]
    sum((part * cotangent(part)).sum() for part in parts).backward()
    np.testing.assert_allclose(of_weight, weight.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_bias, bias.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(of_weight).max() > 0.1


def test_the_gradient_of_what_no_output_depends_on_is_zero():
    x = spec("float32", (3,))
    graph = Graph(
        (Input(x, Normal(0)), Input(x, Normal(1), "parameter")),
        (node("aten.sin.default", Ref(0), out=x),),
        (2,),
        (0, 1),
    )
    inputs = arrays(graph)
    _, of_used, of_unused = run("cpu/eager", graph, inputs)
    assert same([of_unused], [np.zeros(3, np.float32)])
    np.testing.assert_allclose(of_used, np.cos(inputs[0]) * cotangent(torch.empty(3)).numpy(), rtol=1e-6)


def test_the_cotangent_is_never_zero_and_exact_in_sixteen_bits():
    wide = cotangent(torch.empty(5, 17, dtype=torch.float64))
    assert (wide != 0).all() and wide.abs().max() < 1.1 and len(wide.unique()) == 17
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert (cotangent(torch.empty(5, 17, dtype=dtype)).double() == wide).all()


# ---- refusals, and what is none


def test_a_refusal_names_the_operator():
    with pytest.raises(Unsupported) as refused:
        run("cpu/eager", unary("aten.ceil.default", "complex64"))
    assert refused.value.op == "aten.ceil.default"
    with pytest.raises(Unsupported) as refused:
        opened("cpu/eager").load(unary("aten.erfinv.default", "complex64"), []).trace(
            arrays(unary("aten.erfinv.default", "complex64"))
        )
    assert "not implemented for 'ComplexFloat'" in refused.value.why


def test_a_plain_failure_stays_what_it_is():
    x = spec("float32", (3, 4))
    graph = Graph((Input(x, Normal(0)),), (node("aten.mm.default", Ref(0), Ref(0), out=x),), (1,))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run("cpu/eager", graph)


def test_an_output_on_another_device_is_a_fallback():
    with pytest.raises(Fallback, match="output 1 is on meta, the platform is cpu"):
        check_devices([torch.empty(1), torch.empty(1, device="meta")], "cpu")


@pytest.mark.parametrize("name", ["cuda/eager", "cuda/inductor", "mps/eager", "xpu/eager"])
def test_a_device_that_is_not_there_is_said_not_to_be(name):
    found = backends()[name].probe()
    if found.available:
        device = name.split("/")[0]
        assert run(name, unary("aten.sin.default", "float32"))[0].dtype == np.float32
        assert found.hardware and device
    else:
        assert any(word in found.reason for word in ("torch", "macOS", "device"))
        assert found.versions["torch"] == version("torch") or name == "mps/eager"


# ---- cost


def test_kept_tensors_make_a_repeated_call_cheap():
    """≤ 5 % over the bare calls for a graph of some 10 ms, with room for a loaded machine."""
    wide = spec("float32", (384, 384))
    count = 40
    inputs = (Input(wide, Normal(0)), *(Input(wide, Normal(i), "parameter") for i in range(count)))
    nodes = tuple(node("aten.mm.default", Ref(0 if i == 0 else count + i), Ref(1 + i), out=wide) for i in range(count))
    graph = Graph(inputs, nodes, (2 * count,))
    given = [a / np.float32(20) for a in arrays(graph)]
    executable = opened("cpu/eager").load(graph, given)
    tensors = [to_torch(a) for a in given]
    multiply = torch.ops.aten.mm.default

    def bare():
        value = tensors[0]
        with torch.no_grad():
            for weight in tensors[1:]:
                value = multiply(value, weight)
        return value

    executable(given)
    ratios = []
    for _ in range(15):
        start = time.perf_counter()
        bare()
        middle = time.perf_counter()
        executable(given)
        ratios.append((time.perf_counter() - middle) / (middle - start))
    assert sorted(ratios)[3] < 1.25, ratios


def test_a_parameter_that_has_to_be_converted_is_converted_once():
    graph = conv_net()
    inputs = arrays(graph)
    executable = opened("cpu/eager@dtype=float64").load(graph, inputs)
    executable(inputs)
    image, weight, bias = executable._feeds(inputs)
    again = executable._feeds(inputs)
    assert again[1] is weight and again[2] is bias
    assert again[0] is not image and again[0].dtype == torch.float64
