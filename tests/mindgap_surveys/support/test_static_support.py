"""What PyTorch's sources and runtimes' packages list of operators, and where that is not what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindgap.platforms.name import parse
from mindgap.results.support_key import Key
from mindgap_surveys.support.matrix import Cell, CellWord, Matrix
from mindgap_surveys.support.operator_groups import (
    GROUPS,
    group_of,
    listed_shares,
    measured_shares,
    untried_packets,
)
from mindgap_surveys.support.static_support import (
    StaticList,
    device_lists,
    disagreements,
    functional_name,
    list_of,
    onnxruntime_kernels,
    runtime_lists,
)

QR, ADD, RELU, BAG = "aten.linalg_qr.default", "aten.add.Tensor", "aten.relu.default", "aten._embedding_bag.default"


def matrix(**words: dict[str, CellWord]) -> Matrix:
    """Of one key for each operator; `words`: of each platform, by operator."""
    keys = tuple(sorted(Key(op, "float32", "contiguous") for op in (QR, ADD, RELU, BAG)))
    cells = {
        parse(name.replace("_", "/")): {key: Cell(of.get(key.op, "agrees"), "why") for key in keys}
        for name, of in words.items()
    }
    return Matrix(keys, cells, {}, {})


def test_the_sources_of_pytorch_say_which_devices_have_a_kernel() -> None:
    lists = {each.name: each for each in device_lists()}
    assert lists["CPU"].word(ADD) == lists["CUDA"].word(ADD) == lists["MPS"].word(ADD) == "kernel"
    assert lists["CPU"].word("aten.einsum.default") == "composite", "made of others on every device"
    for op in ("aten._fused_adagrad_.default", "aten._fused_adagrad.default"):
        assert (lists["MPS"].word(op), lists["XPU"].word(op)) == ("none", "unknown"), (
            "only its in-place form has kernels"
        )
    assert lists["CUDA"].word("aten._fused_adagrad.default") == lists["MPS"].word("aten.fill.Scalar") == "composite"
    assert lists["CUDA"].word("aten._flash_attention_forward.default") == "kernel"
    assert lists["CPU"].word("aten._flash_attention_forward.default") == "none"
    assert (lists["CUDA"].word("aten.linalg_eig.default"), lists["MPS"].word("aten.linalg_eig.default")) == (
        "kernel", "none",
    )  # fmt: skip
    assert lists["XPU"].word(ADD) == "unknown" and "torch-xpu-ops" in lists["XPU"].unknown_otherwise
    assert lists["MPS"].word("aten.add_.Tensor") == "kernel"


def test_an_in_place_overload_counts_as_its_functional_form() -> None:
    assert functional_name("aten.relu_.default") == RELU
    assert functional_name("aten.__and__.Tensor") == "aten.__and__.Tensor"
    assert StaticList("x", "p", {RELU: "kernel"}).word("aten.relu_.default") == "kernel"


def test_lists_and_measurements_that_disagree() -> None:
    measured = matrix(tvm_cpu={QR: "refuses", ADD: "fails", BAG: "untried"})
    listed = StaticList("TVM", "p", {ADD: "kernel", RELU: "kernel", BAG: "kernel"})
    (found,) = disagreements(measured, [listed])
    assert (found.listed, found.unlisted) == ((ADD,), ())
    (other,) = disagreements(measured, [StaticList("TVM", "p", {})])
    assert (other.listed, other.unlisted) == ((), (RELU,))
    assert not disagreements(measured, [StaticList("OpenVINO", "p", {})])


def test_the_list_of_a_platform() -> None:
    pairs = {"cpu/jit": "CPU", "cuda/eager": "CUDA", "onnxruntime/webgpu": "ONNX exporter", "openvino/cpu": "OpenVINO",
             "openvino/cpu@frontend=onnx": "ONNX exporter", "ncnn/cpu": ""}  # fmt: skip
    assert {name: list_of(parse(name)) for name in pairs} == pairs


def test_groups_are_those_of_the_paper() -> None:
    pairs = {
        QR: "linear algebra", BAG: "embeddings", ADD: "other", "aten.mm.default": "other",
        "aten.fake_quantize_per_tensor_affine.default": "quantised", "aten._to_sparse_csr.default": "sparse",
        "aten._fused_adamw_.default": "fused training", "aten.cosine_embedding_loss.default": "other",
        "aten._scaled_dot_product_flash_attention_for_cpu.default": "attention", "aten.elu_.default": "other",
    }  # fmt: skip
    assert {op: group_of(op) for op in pairs} == pairs and set(pairs.values()) == set(GROUPS)


def test_shares_of_packets_that_run() -> None:
    measured = matrix(cpu_jit={}, tvm_cpu={QR: "refuses", ADD: "differs", BAG: "untried"})
    here, there = measured.platforms
    assert [(each.group, each.has, each.total) for each in measured_shares(measured, here)] == [
        ("all", 4, 4), ("embeddings", 1, 1), ("linear algebra", 1, 1), ("other", 2, 2)
    ]  # fmt: skip
    everything = measured_shares(measured, there)[0]
    lacks = ("aten._embedding_bag", "aten.linalg_qr")
    assert (everything.has, everything.total, everything.lacks) == (2, 4, lacks), "what differs runs"
    assert (untried_packets(measured, here), untried_packets(measured, there)) == (0, 1)
    assert listed_shares(StaticList("x", "p", {ADD: "composite"}), [ADD, RELU])[0].has == 1


def test_keys_that_were_left_out_on_purpose_make_no_packet_unknown() -> None:
    measured = matrix(tvm_cpu={QR: "refuses", ADD: "untried", BAG: "untried", RELU: "fails"})
    (platform,) = measured.platforms
    scalar = {Key(op, "float32", "scalar"): Cell("untried", "not asked by default") for op in (QR, ADD, RELU)}
    more = replace(
        measured,
        keys=(*measured.keys, *scalar),
        cells={platform: {**measured.cells[platform], **scalar}},
        left_out=frozenset([*scalar, Key(BAG, "float32", "contiguous")]),
    )
    assert untried_packets(more, platform) == 2, "the budget left one, and of the other nothing was asked"
    assert untried_packets(replace(more, left_out=frozenset()), platform) == 4


@pytest.mark.nightly
def test_runtimes_lists_are_read_from_their_packages() -> None:
    lists, absent = runtime_lists()
    by_name = {each.name: each for each in lists}
    exporter = by_name["ONNX exporter"]
    assert exporter.word(RELU) == exporter.word(ADD) == "kernel" and exporter.word(QR) == "none"
    if "OpenVINO" not in absent:
        assert by_name["OpenVINO"].word(RELU) == "kernel" and by_name["OpenVINO"].package.startswith("openvino==")
    assert all(reason for reason in absent.values())
    (cpu, *_) = [each for each in onnxruntime_kernels() if each.provider == "CPUExecutionProvider"]
    assert {"Relu", "Conv"} <= set(cpu.kernels) and not set(cpu.lacks) & set(cpu.kernels)
