"""Options that are switches of PyTorch: obeyed, read back, and put back as they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.graph import Graph, Input, Integers, Normal, Ref
from mindgap.platforms.protocol import Fallback, Unsupported
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.device.settings import in_force
from mindgap.platforms.pytorch.device.switches import fp32_precisions, not_in_force, switches
from platforms.torch_graphs import conv_net, node, opened, run, same, spec


def attention() -> Graph:
    heads = spec("float32", (1, 2, 70, 24))
    call = node("aten.scaled_dot_product_attention.default", Ref(0), Ref(1), Ref(2), out=heads)
    return Graph(tuple(Input(heads, Normal(i)) for i in range(3)), (call,), (3,))


def scattered() -> Graph:
    """`put_` without accumulation: of two values for one place, either may stay."""
    x, places = spec("float32", (6,)), spec("int64", (3,))
    inputs = (Input(x, Normal(0)), Input(places, Integers(1, 0, 6)), Input(spec("float32", (3,)), Normal(2)))
    return Graph(inputs, (node("aten.put_.default", Ref(0), Ref(1), Ref(2), out=x),), (3,))


def test_deterministic_refuses_an_operator_that_has_no_such_algorithm():
    inputs = [np.zeros(6, np.float32), np.array([1, 2, 3]), np.ones(3, np.float32)]
    assert run("cpu/eager", scattered(), inputs)[0].sum() == 3
    with pytest.raises(Unsupported) as refused:
        run("cpu/eager@deterministic=on", scattered(), inputs)
    assert refused.value.op == "aten.put_.default" and "does not have a deterministic" in refused.value.why
    assert not torch.are_deterministic_algorithms_enabled()
    assert opened("cpu/eager@deterministic=on").describe()["deterministic"] is True
    assert opened("cpu/eager").describe()["deterministic"] is False


def test_deterministic_leaves_no_memory_uninitialised():
    x = spec("float32", (4, 5))
    graph = Graph((), (node("aten.empty.memory_format", (4, 5), out=x),), (0,))
    (found,) = run("cpu/eager@deterministic=on", graph, [])
    assert np.isnan(found).all()
    assert same(run("cpu/eager@deterministic=on", conv_net()), run("cpu/eager", conv_net()))


def test_full_float32_is_proven_by_measuring_it():
    said = opened("cpu/eager@tf32=off").describe()
    assert said["fp32_precision"]["mkldnn.matmul"] == said["fp32_precision"]["mkldnn.conv"] == "ieee"
    assert min(said["float32_product_bits"].values()) >= 16
    assert same(run("cpu/eager@tf32=off", conv_net()), run("cpu/eager", conv_net()))


def test_tf32_is_in_force_or_a_fallback():
    """Few processors have it, and oneDNN computes in float32 on the others without a word."""
    before = fp32_precisions()
    try:
        said = opened("cpu/eager@tf32=on").describe()
    except Fallback as fallback:
        assert "tf32=on, and float32 matrix products keep" in str(fallback)
    else:
        assert said["float32_product_bits"]["matmul"] < 16
    assert fp32_precisions() == before


def test_the_kernels_of_attention_differ_and_both_are_right():
    plain, math, flash = (run(f"cpu/eager{at}", attention()) for at in ("", "@sdpa=math", "@sdpa=flash"))
    assert not same(math, flash), "one kernel twice: was the other switched off?"
    np.testing.assert_allclose(math[0], flash[0], rtol=1e-4, atol=1e-5)
    assert same(plain, flash)
    assert torch.backends.cuda.math_sdp_enabled() and torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize("word", ["efficient", "cudnn", "overrideable"])
def test_a_kernel_of_attention_that_the_device_lacks_is_a_fallback(word):
    with pytest.raises(Fallback, match=f"sdpa={word} is not to be had on this cpu: No viable backend"):
        opened(f"cpu/eager@sdpa={word}")


def test_torchscript_obeys_them_too():
    assert same(run("cpu/jit@sdpa=math", attention()), run("cpu/eager@sdpa=math", attention()))
    with pytest.raises(Unsupported, match="deterministic"):
        run("cpu/jit@deterministic=on", scattered(), [np.zeros(6, np.float32), np.arange(3), np.ones(3, np.float32)])


# The switches of an accelerator are there on every build, and can be turned and read without one.
CUDA = {
    "deterministic": "on", "tf32": "on", "cudnn": "deterministic", "fp16_reduction": "off", "bf16_reduction": "off",
    "fp16_accumulation": "on", "sdpa": "efficient",
}  # fmt: skip


def state() -> list[object]:
    return [switch.read() for switch in switches(CUDA, DEVICES["cuda"])]


def test_the_switches_of_cuda_are_turned_and_put_back():
    before = state()
    with in_force(CUDA, DEVICES["cuda"]):
        assert torch.backends.cuda.matmul.fp32_precision == torch.backends.cudnn.conv.fp32_precision == "tf32"
        assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark
        assert not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        assert torch.backends.cuda.matmul.allow_fp16_accumulation
        assert torch.backends.cuda.mem_efficient_sdp_enabled() and not torch.backends.cuda.math_sdp_enabled()
        assert torch.are_deterministic_algorithms_enabled()
    assert state() == before
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("setting", [*CUDA.items(), ("cudnn", "off"), ("cudnn", "benchmark"), ("tf32", "off")])
def test_a_switch_that_does_not_hold_is_told_by_its_name(setting, monkeypatch):
    option, value = setting
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    asked = {option: value}
    other = {"on": "off", "off": "on", "deterministic": "on", "benchmark": "off", "efficient": "math"}[value]
    with in_force({option: other}, DEVICES["cuda"]):
        said = not_in_force(asked, DEVICES["cuda"])
    assert said.startswith(f"{option}={value} is not in force: ")


def test_deterministic_products_need_a_fixed_workspace(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with in_force({"deterministic": "on"}, DEVICES["cuda"]):
        said = not_in_force({"deterministic": "on"}, DEVICES["cuda"])
    assert said.startswith("CUBLAS_WORKSPACE_CONFIG must be ':4096:8' before torch is imported")


def test_convolutions_of_cudnn_need_cudnn():
    if torch.backends.cudnn.is_available():
        pytest.skip("this build has it")
    with in_force({"cudnn": "benchmark"}, DEVICES["cuda"]):
        assert "no cuDNN or MIOpen" in not_in_force({"cudnn": "benchmark"}, DEVICES["cuda"])
    with in_force({"cudnn": "off"}, DEVICES["cuda"]):
        assert not_in_force({"cudnn": "off"}, DEVICES["cuda"]) == ""
