"""Operators of `com.microsoft`, and quantised ones: the translation gives what ONNX Runtime gives on the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import helper

from mindgap.aten.tensors import to_numpy
from mindgap.graph import materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.onnx_files.node import TRANSLATIONS
from mindgap.onnx_files.translation import translated
from mindgap.platforms.onnx_reference.backend import OnnxReferencePlatform

Array = Any
MS = "com.microsoft"


def f(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def u8(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Array:
    """Of seven bits: kernels for processors without VNNI saturate pairs of products at 16 bits."""
    return np.random.default_rng(list(shape)).integers(-64, 65, shape).astype(np.int8)


def s(value: float) -> Array:
    return np.float32(value)


def z(value: int, kind: type = np.uint8) -> Array:
    return kind(value)


def i(*values: int, kind: type = np.int64) -> Array:
    return np.array(values, kind)


COS, SIN = np.cos(f(16, 4)), np.sin(f(16, 4))
MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
# fmt: off
# ruff: noqa: E501
#: Operator, domain, attributes, operands (None: left out), outputs.
CASES: dict[str, tuple[str, str, dict[str, Any], list[Any], int]] = {
    "qlinear_conv": ("QLinearConv", "", {"pads": [1, 1, 1, 1], "strides": [2, 1]},
        [u8(1, 3, 6, 6), s(0.02), z(120), i8(4, 3, 3, 3), np.full(4, 0.01, np.float32) * (1 + np.arange(4, dtype=np.float32)),
         np.zeros(4, np.int8), s(0.1), z(100), np.arange(4, dtype=np.int32) * 50], 1),
    "qlinear_conv_deep": ("QLinearConv", "", {},
        [u8(1, 64, 5, 5), s(0.02), z(128), i8(2, 64, 3, 3), s(0.01), z(0, np.int8), s(0.9), z(100)], 1),
    "qlinear_matmul": ("QLinearMatMul", "", {},
        [u8(2, 3, 8), s(0.02), z(120), i8(8, 5), s(0.03), z(0, np.int8), s(0.2), z(128)], 1),
    "qgemm": ("QGemm", MS, {"transB": 1}, [u8(3, 8), s(0.02), z(120), i8(5, 8), np.abs(f(5)) * 0.02,
        np.zeros(5, np.int8), np.arange(5, dtype=np.int32), s(0.2), z(128)], 1),
    "qgemm_float": ("QGemm", MS, {}, [u8(3, 8), s(0.02), z(120), i8(8, 5), s(0.03), z(0, np.int8)], 1),
    "matmul_integer_to_float": ("MatMulIntegerToFloat", MS, {},
        [u8(3, 8), u8(8, 5, seed=1), s(0.02), s(0.03), z(120), z(110), f(5)], 1),
    "dynamic_quantize_matmul": ("DynamicQuantizeMatMul", MS, {}, [f(3, 8), u8(8, 5), s(0.03), z(110), f(5)], 1),
    "dynamic_quantize_lstm": ("DynamicQuantizeLSTM", MS, {"hidden_size": 3},
        [f(5, 1, 4), i8(1, 4, 12), i8(1, 3, 12), f(1, 24), None, f(1, 1, 3), f(1, 1, 3), None,
         np.float32([0.01]), np.int8([3]), np.float32([0.02]), np.int8([0])], 3),
    "dynamic_quantize_lstm_by_channel": ("DynamicQuantizeLSTM", MS, {"hidden_size": 3, "direction": "bidirectional"},
        [f(5, 1, 4), u8(2, 4, 12), u8(2, 3, 12), None, None, None, None, None,
         np.abs(f(2, 12)) * 0.01, np.full((2, 12), 128, np.uint8), np.abs(f(2, 12)) * 0.02, np.full((2, 12), 128, np.uint8)], 1),
    "qlinear_add": ("QLinearAdd", MS, {}, [u8(3, 8), s(0.02), z(120), u8(3, 8, seed=1), s(0.03), z(5), s(0.04), z(9)], 1),
    "qlinear_mul": ("QLinearMul", MS, {}, [u8(3, 8), s(0.02), z(120), u8(3, 8, seed=1), s(0.03), z(5), s(0.04), z(9)], 1),
    "qlinear_where": ("QLinearWhere", MS, {}, [u8(3, 8) > 127, u8(3, 8), s(0.02), z(120), u8(3, 8, seed=1), s(0.03), z(5), s(0.04), z(9)], 1),
    "qattention": ("QAttention", MS, {"num_heads": 2, "unidirectional": 1},
        [u8(2, 6, 8), i8(8, 24), f(24), s(0.02), s(0.01), i(4, 6, kind=np.int32), z(120), z(0, np.int8)], 1),
    "qattention_past": ("QAttention", MS, {"num_heads": 2},
        [u8(2, 3, 8), u8(8, 24), f(24), s(0.02), s(0.01), None, z(120), z(110), f(2, 2, 2, 4, 4)], 2),
    "qlinear_sigmoid": ("QLinearSigmoid", MS, {}, [u8(3, 8), s(0.02), z(120), s(0.004), z(0)], 1),
    "qlinear_leaky_relu": ("QLinearLeakyRelu", MS, {"alpha": 0.1}, [u8(3, 8), s(0.02), z(120), s(0.03), z(10)], 1),
    "qlinear_softmax": ("QLinearSoftmax", MS, {"axis": -1, "opset": 13}, [u8(3, 8), s(0.02), z(120), s(1 / 256), z(0)], 1),
    "quantize": ("QuantizeLinear", MS, {}, [f(3, 8), s(0.02), z(120)], 1),
    "quantize_by_channel": ("QuantizeLinear", MS, {"axis": 0}, [f(3, 8), np.abs(f(3)) * 0.02, np.zeros(3, np.int8)], 1),
    "dequantize": ("DequantizeLinear", MS, {}, [u8(3, 8), s(0.02), z(120)], 1),
    "qlinear_average_pool": ("QLinearAveragePool", MS, {"kernel_shape": [2, 2]},
        [u8(1, 2, 5, 5), s(0.02), z(120), s(0.02), z(120)], 1),
    "qlinear_global_average_pool": ("QLinearGlobalAveragePool", MS, {}, [u8(1, 2, 5, 5), s(0.02), z(120), s(0.02), z(120)], 1),
    "qlinear_concat": ("QLinearConcat", MS, {"axis": 1},
        [s(0.03), z(100), u8(2, 3), s(0.02), z(120), u8(2, 4), s(0.04), z(7)], 1),
    "matmul_4_bits": ("MatMulNBits", MS, {"K": 40, "N": 6, "bits": 4, "block_size": 16},
        [f(3, 40), u8(6, 3, 8), np.abs(f(18))], 1),
    "matmul_4_bits_zeros": ("MatMulNBits", MS, {"K": 64, "N": 6, "bits": 4, "block_size": 16},
        [f(2, 3, 64), u8(6, 4, 8), np.abs(f(24)), u8(12, seed=3)], 1),
    "matmul_8_bits": ("MatMulNBits", MS, {"K": 32, "N": 6, "bits": 8, "block_size": 16},
        [f(3, 32), u8(6, 2, 16), np.abs(f(12))], 1),
    "matmul_nf4": ("MatMulBnb4", MS, {"K": 40, "N": 6, "block_size": 16, "quant_type": 1},
        [f(3, 40), u8(120), np.abs(f(15))], 1),
    "matmul_fp4": ("MatMulBnb4", MS, {"K": 36, "N": 5, "block_size": 32, "quant_type": 0},
        [f(2, 3, 36), u8(90), np.abs(f(6))], 1),
    "gather_4_bits": ("GatherBlockQuantized", MS, {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
        [u8(9, 16), i(3, 0, 8), np.abs(f(9, 2)), u8(9, 1, seed=2)], 1),
    "gelu": ("Gelu", MS, {}, [f(3, 8)], 1),
    "bias_gelu": ("BiasGelu", MS, {}, [f(3, 8), f(8)], 1),
    "fast_gelu": ("FastGelu", MS, {}, [f(3, 8), f(8)], 1),
    "quick_gelu": ("QuickGelu", MS, {}, [f(3, 8)], 1),
    "fused_matmul": ("FusedMatMul", MS, {"alpha": 0.5, "transB": 1}, [f(2, 3, 8), f(2, 5, 8)], 1),
    "fused_matmul_batches": (
        "FusedMatMul", MS, {"transBatchA": 1, "transBatchB": 1, "transB": 1}, [f(3, 2, 8), f(5, 2, 8)], 1,
    ),
    "fused_conv": ("FusedConv", MS, {"activation": "Relu"}, [f(1, 3, 5, 5), f(4, 3, 3, 3), f(4)], 1),
    "fused_gemm": ("FusedGemm", MS, {"activation": "LeakyRelu", "activation_alpha": 0.1}, [f(3, 8), f(8, 5), f(5)], 1),
    "simplified_layer_norm": ("SimplifiedLayerNormalization", "", {}, [f(3, 8), f(8)], 1),
    "skip_layer_norm": ("SkipLayerNormalization", MS, {}, [f(2, 3, 8), f(2, 3, 8, seed=1), f(8), f(8, seed=1), f(8, seed=2)], 1),
    "skip_layer_norm_sum": ("SkipLayerNormalization", MS, {}, [f(2, 3, 8), f(2, 3, 8, seed=1), f(8)], 4),
    "skip_rms_norm": ("SkipSimplifiedLayerNormalization", MS, {}, [f(2, 3, 8), f(2, 3, 8, seed=1), f(8)], 4),
    "embed_layer_norm": ("EmbedLayerNormalization", MS, {},
        [np.array([[3, 1, 2]], np.int32), np.array([[0, 1, 1]], np.int32), f(9, 8), f(5, 8), f(2, 8), f(8), f(8, seed=1)], 2),
    "rotary_offset": ("RotaryEmbedding", MS, {}, [f(2, 3, 16), i(2), COS, SIN], 1),
    "rotary_positions": ("RotaryEmbedding", MS, {"interleaved": 1},
        [f(1, 2, 3, 8), np.array([[4, 0, 7]]), COS, SIN], 1),
    "multi_head_attention": ("MultiHeadAttention", MS, {"num_heads": 2},
        [f(2, 3, 8), f(2, 6, 8, seed=1), f(2, 6, 8, seed=2), f(24), MASK], 1),
    "multi_head_attention_past": ("MultiHeadAttention", MS, {"num_heads": 2, "unidirectional": 1, "scale": 0.3},
        [f(2, 3, 8), f(2, 3, 8, seed=1), f(2, 3, 8, seed=2), None, None, None, f(2, 2, 4, 4), f(2, 2, 4, 4, seed=1)], 3),
    "attention": ("Attention", MS, {"num_heads": 2}, [f(2, 6, 8), f(8, 24), f(24), MASK], 1),
    "attention_causal": ("Attention", MS, {"num_heads": 2, "unidirectional": 1}, [f(2, 6, 8), f(8, 24), f(24)], 1),
    **{f"attention_{name}": ("Attention", MS, {"num_heads": 2, **more}, [f(2, 6, 8), f(8, 24) * 0.3, f(24), *operands], 1)
       for name, more, operands in [
        ("causal_sharp", {"unidirectional": 1, "scale": 30.0}, []),
        ("causal_left_padding", {"unidirectional": 1}, [np.array([[0, 0, 1, 1, 1, 1], [1] * 6], np.int32)]),
        ("ends", {}, [i(4, 6, kind=np.int32)]), ("ends_starts", {"unidirectional": 1}, [i(5, 6, 1, 2, kind=np.int32)]),
        ("packed_ends", {}, [i(4, 6, 0, 4, 10, 0, 4, 10, kind=np.int32)]),
        ("mask_by_query", {"unidirectional": 1}, [u8(2, 6, 6).astype(np.int32) % 2]),
        ("added", {"unidirectional": 1}, [i(4, 6, kind=np.int32), None, f(1, 2, 6, 6)]),
    ]},
    "attention_sizes": ("Attention", MS, {"num_heads": 2, "qkv_hidden_sizes": [12, 12, 8]}, [f(2, 6, 8), f(8, 32), f(32)], 1),
    "attention_causal_half": ("Attention", MS, {"num_heads": 2, "unidirectional": 1},
        [(each * 0.3).astype(np.float16) for each in (f(2, 6, 8), f(8, 24), f(24))], 1),
    "attention_past": ("Attention", MS, {"num_heads": 2, "unidirectional": 1},
        [f(2, 3, 8), f(8, 24) * 0.3, f(24), i(5, 6, kind=np.int32), f(2, 2, 2, 3, 4)], 2),
    **{f"multi_head_attention_{name}": ("MultiHeadAttention", MS, {"num_heads": 2, **more},
        [f(2, 3, 8), *operands], count) for name, more, operands, count in [
        ("by_head", {}, [f(2, 2, 6, 4), f(2, 2, 6, 4, seed=1), f(24)], 1),
        ("other_width", {}, [f(2, 6, 8), f(2, 6, 12), f(28)], 1),
        ("ends", {}, [f(2, 6, 8), f(2, 6, 8, seed=2), f(24), i(4, 6, kind=np.int32)], 1),
        ("mask_by_query", {}, [f(2, 6, 8), f(2, 6, 8, seed=2), None, u8(2, 3, 6).astype(np.int32) % 2], 1),
        ("past_by_head", {}, [f(2, 2, 3, 4), f(2, 2, 3, 4, seed=1), f(24), None, None, f(2, 2, 4, 4), f(2, 2, 4, 4, seed=1)], 3),
    ]},
    **{f"group_query_attention_{name}": ("GroupQueryAttention", MS, {"num_heads": 4, "kv_num_heads": 2},
        [f(2, 1, 32), f(2, 1, 16), f(2, 1, 16, seed=1), f(2, 2, 10, 8), f(2, 2, 10, 8, seed=1),
         i(*lengths, kind=np.int32), np.int32(max(lengths) + 1)], 3)
       for name, lengths in [("with_room", (4, 4)), ("several_lengths", (4, 9))]},
    "group_query_attention": ("GroupQueryAttention", MS, {"num_heads": 4, "kv_num_heads": 2},
        [f(2, 1, 32), f(2, 1, 16), f(2, 1, 16, seed=1), f(2, 2, 4, 8), f(2, 2, 4, 8, seed=1), i(4, 4, kind=np.int32),
         np.int32(5)], 3),
    "group_query_attention_rotary": ("GroupQueryAttention", MS, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1,
        "local_window_size": 2, "softcap": 5.0},
        [f(1, 3, 64), f(1, 3, 32), f(1, 3, 32, seed=1), f(1, 2, 4, 16), f(1, 2, 4, 16, seed=1), i(6, kind=np.int32),
         np.int32(7), np.cos(f(16, 8)), np.sin(f(16, 8))], 3),
    "group_query_attention_smooth": ("GroupQueryAttention", MS, {"num_heads": 4, "kv_num_heads": 2, "smooth_softmax": 1},
        [f(1, 3, 64), f(1, 3, 32), f(1, 3, 32, seed=1), f(1, 2, 4, 16), f(1, 2, 4, 16, seed=1), i(6, kind=np.int32),
         np.int32(7)], 3),
    "group_query_attention_sink_and_positions": ("GroupQueryAttention", MS, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        [f(1, 3, 64), f(1, 3, 32), f(1, 3, 32, seed=1), f(1, 2, 4, 16), f(1, 2, 4, 16, seed=1), i(6, kind=np.int32),
         np.int32(7), np.cos(f(16, 8)), np.sin(f(16, 8)), i(5, 7, 9).reshape(1, 3), None, f(4)], 3),
    "lstm": ("LSTM", "", {"hidden_size": 4, "direction": "bidirectional"},
        [f(5, 2, 3), f(2, 16, 3), f(2, 16, 4), f(2, 32), None, f(2, 2, 4), f(2, 2, 4, seed=1)], 3),
    "lstm_reverse": ("LSTM", "", {"hidden_size": 4, "direction": "reverse"}, [f(5, 2, 3), f(1, 16, 3), f(1, 16, 4)], 3),
    "gru": ("GRU", "", {"hidden_size": 4, "linear_before_reset": 1}, [f(5, 2, 3), f(1, 12, 3), f(1, 12, 4), f(1, 24)], 2),
    "rnn": ("RNN", "", {"hidden_size": 4}, [f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), f(1, 8)], 2),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_operator_gives_what_onnx_runtime_gives(case: str) -> None:
    op, domain, attributes, operands, count = CASES[case]
    given = {f"i{n}": np.asarray(each) for n, each in enumerate(operands) if each is not None}
    skipped = op.startswith("Skip") and count == 4
    outputs = [f"o{n}" if not skipped or n in (0, 3) else "" for n in range(count)]
    node = helper.make_node(
        op,
        [f"i{n}" if each is not None else "" for n, each in enumerate(operands)],
        outputs,
        domain=domain,
        **attributes,
    )
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, results), ir_version=9,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)],
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    expected = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, given)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in given.items()}
    program = translated(model, tensors)
    found = program(*[tensors[name] for name in program.argument_names])
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert ours.dtype == torch.from_numpy(theirs).dtype
        # A runtime may dequantise by a table: one step.
        apart = 1 if theirs.dtype.kind in "iu" else 0.002
        half = theirs.dtype == np.float16
        np.testing.assert_allclose(
            ours.numpy().astype(float),
            theirs.astype(float),
            1e-2 if half else 1e-4,
            apart if "q" in case or half else 1e-4,
        )


def test_each_operator_of_com_microsoft_has_a_case() -> None:
    """Apart from those that are ONNX's own under another domain."""
    own = {id(each.function) for op, each in TRANSLATIONS.items() if not op.startswith(MS)}
    ours = {op for op, each in TRANSLATIONS.items() if op.startswith(MS) and id(each.function) not in own}
    without_kernel = {f"{MS}.GemmFastGelu"}
    assert ours - without_kernel <= {f"{domain}.{op}" for op, domain, *_ in CASES.values()} and len(ours) > 25


def test_a_gemm_with_gelu_is_what_its_parts_are() -> None:
    """ONNX Runtime has no kernel of it for the CPU."""
    x, weight, bias = (torch.from_numpy(each) for each in (f(3, 8), f(8, 5), f(5)))
    found = TRANSLATIONS[f"{MS}.GemmFastGelu"].function(None, x, weight, bias)
    assert torch.equal(found, TRANSLATIONS[f"{MS}.FastGelu"].function(None, x @ weight, bias))


def test_dynamic_quantisation_is_translated_to_operators_that_are_exported(tmp_path: Path) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    inputs = [helper.make_tensor_value_info("x", 1, [3, 8])]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 20)]
    )
    program = translated(model, {"x": torch.from_numpy(f(3, 8))})
    store = TensorStore(tmp_path)
    graph = capture(program, (torch.from_numpy(f(3, 8)),), tensors=store)
    given = materialise_all(graph, store)
    found = OnnxReferencePlatform(20).load(graph, given)(given)
    expected = [to_numpy(each) for each in program(torch.from_numpy(f(3, 8))).values()]
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))


def attention_model(*shapes: tuple[int, ...]) -> Any:
    """MultiHeadAttention of two heads on operands of these shapes."""
    names = [f"i{n}" for n in range(len(shapes))]
    node = helper.make_node("MultiHeadAttention", names, ["o"], domain=MS, num_heads=2)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("o")])
    return helper.make_model(
        graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    )


@pytest.mark.parametrize("packed", ["qkv", "kv"])
def test_packed_operands_of_attention_are_those_that_onnx_runtime_takes_apart(packed: str) -> None:
    q, k, v = f(2, 3, 2, 4), f(2, 3, 2, 4, seed=1), f(2, 3, 2, 4, seed=2)  # [batch, positions, heads, size]
    apart = {f"i{n}": each.reshape(2, 3, 8) for n, each in enumerate((q, k, v))}
    session = onnxruntime.InferenceSession(attention_model(*[(2, 3, 8)] * 3).SerializeToString())
    given = [np.stack([q, k, v], 3)] if packed == "qkv" else [apart["i0"], np.stack([k, v], 3)]
    tensors = {f"i{n}": torch.from_numpy(each) for n, each in enumerate(given)}
    program = translated(attention_model(*[each.shape for each in given]), tensors)
    outcome = program(*[tensors[name] for name in program.argument_names])
    np.testing.assert_allclose(outcome["o"].numpy(), session.run(None, apart)[0], rtol=1e-5, atol=1e-6)
