"""Conformance cases of ONNX: translated, proven against what ONNX expects, refused in one line."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from mindgap.graph import Uniform
from mindgap.onnx_files.node import TRANSLATIONS, OnnxNode
from mindgap.onnx_files.translation import translated
from mindgap.sources import SourceError, capture_program, capture_source, open_source
from mindgap.sources.translated_model import Untranslated
from mindgap_zoo.operator_samples.conformance import _compare, names


def test_the_cases_are_there_under_their_short_names():
    known = names()
    assert len(known) > 1800 and {"abs", "conv_with_strides_no_padding", "softmax_axis_0_expanded"} <= set(known)
    assert open_source("onnx:test_abs")[0].name == "abs"


@pytest.mark.parametrize(
    ("case", "operators"),
    [
        ("averagepool_2d_same_upper", {"aten.avg_pool2d.default", "aten.pad.default"}),
        ("gemm_all_attributes", {"aten.addmm.default"}),
        ("layer_normalization_4d_axis_negative_1", {"aten.native_layer_norm.default"}),
        ("reduce_sum_keepdims_random", {"aten.sum.dim_IntList"}),
        ("top_k_smallest", {"aten.topk.default"}),
        ("scatternd_add", {"aten.scatter_reduce.two"}),
        ("sce_mean_weight_ii_3d", {"aten.nll_loss_nd.default", "aten.log_softmax.int"}),
        ("resize_upsample_scales_linear", {"aten.upsample_bilinear2d.vec"}),
    ],
)
def test_a_case_becomes_the_operators_of_its_kind(case, operators):
    ((_, graph),) = capture_source(f"onnx:{case}")
    assert operators <= {node.op for node in graph.nodes}


CASES = [
    "add_uint64",
    "averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
    "batchnorm_example",
    "cast_no_saturate_FLOAT_to_FLOAT8E4M3FN",
    "dft_irfft",
    "gru_seq_length",
    "less_uint16",
    "lppool_2d_dilations",
    "lstm_with_peepholes",
    "maxpool_with_argmax_2d_precomputed_strides",
    "resize_downsample_scales_cubic_A_n0p5_exclude_outside",
    "resize_downsample_scales_linear_align_corners",
    "resize_downsample_sizes_cubic_antialias",
    "resize_tf_crop_and_resize_extrapolation_value",
    "resize_upsample_sizes_nearest_not_smaller",
    "roialign_aligned_true",
    "roialign_mode_max",
    "stft_with_window",
]


@pytest.mark.parametrize("case", CASES)
def test_a_case_gives_what_onnx_expects(case):
    graph = open_source(f"onnx:{case}")[0].make()  # compares, and raises `SourceError` where they differ
    assert graph.args


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_unsigned_integers_are_ordered_and_wrap_as_such(kind):
    largest = np.iinfo(kind).max
    a, b = np.array([largest, 3], kind), np.array([2, largest], kind)
    given = {name: torch.from_numpy(each) for name, each in (("a", a), ("b", b))}
    expected = {"Add": a + b, "Sub": a - b, "Less": a < b, "Max": np.maximum(a, b)}
    for op, right in expected.items():
        program = translated(model(helper.make_node(op, ["a", "b"], ["y"]), inputs=["a", "b"], outputs=["y"]), given)
        assert (program(*given.values())["y"].numpy() == right).all(), op


def test_an_lstm_with_other_activations_and_clipped_gates_is_what_onnx_runtime_gives():
    import onnxruntime

    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal(shape).astype("f")
        for name, shape in {"x": (4, 2, 3), "w": (2, 16, 3), "r": (2, 16, 4), "b": (2, 32), "p": (2, 12)}.items()
    }
    lengths = np.array([4, 2], np.int32)
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b", "lengths", "", "", "p"], ["y", "h", "c"], direction="bidirectional", hidden_size=4,
        activations=["HardSigmoid", "Relu", "Tanh"] * 2, clip=0.5,
    )  # fmt: skip
    one = model(node, inputs=[*given], outputs=["y", "h", "c"])
    one.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [2]))
    one.opset_import[0].version, one.ir_version = 14, 8
    for each in one.graph.input:
        if each.name in given:
            each.CopyFrom(helper.make_tensor_value_info(each.name, TensorProto.FLOAT, given[each.name].shape))
    session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {**given, "lengths": lengths})
    tensors = {name: torch.from_numpy(each) for name, each in {**given, "lengths": lengths}.items()}
    program = translated(one, tensors)
    for ours, theirs in zip(program(*[tensors[n] for n in program.argument_names]).values(), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-4, 1e-5)


def test_structural_inputs_are_baked_and_shapes_folded():
    ((_, graph),) = capture_source("onnx:slice")
    assert [label for label, i in zip(graph.labels.inputs, graph.inputs, strict=True) if i.role == "input"] == ["x"]
    ((_, graph),) = capture_source("onnx:softmax_axis_0_expanded")
    assert len(graph.inputs) == sum(given.role == "input" for given in graph.inputs) == 1
    assert not any("shape" in node.op for node in graph.nodes)


def test_a_seed_draws_floats_anew_in_their_range():
    ((_, first),), ((_, other),) = capture_source("onnx:add"), capture_source("onnx:add?seed=2")
    assert first.nodes == other.nodes
    assert all(isinstance(given.recipe, Uniform) for given in other.inputs)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("nonmaxsuppression_identical_boxes", "no translation of operator NonMaxSuppression"),
        ("string_concat", "a value of type string, which graphs do not hold"),
        ("sequence_insert_at_back", "a value of type list: graphs hold tensors"),
        ("shape", "shapes and constants decide the result"),
        ("training_dropout_default", "Dropout in training draws numbers of its own"),
        ("div_uint64", "Div of uint64 has no equivalent here"),
        ("scan_sum", "Scan_0 \\(Scan\\): of before operator set 9"),
        ("attention_4d_causal_with_past_and_present", "onnx.inliner cannot write out Attention: a check in onnx"),
        ("top_k_same_values", "PyTorch gives other values than ONNX in"),
    ],
)
def test_what_has_no_equivalent_is_refused_in_one_line(case, reason):
    with pytest.raises(SourceError, match=reason) as refused:
        capture_program(open_source(f"onnx:{case}")[0])
    assert str(refused.value).startswith(f"onnx:{case}: ") and "\n" not in str(refused.value)


def test_an_unknown_case_is_answered_with_near_ones():
    with pytest.raises(SourceError, match="ONNX has no case 'softmaxx'; did you mean softmax"):
        open_source("onnx:softmaxx")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.float32([1.0]), np.float64([1.0])),
        (np.float32([[1.0]]), np.float32([1.0])),
        (np.float32([1.0, 2.0]), np.float32([1.0, 2.1])),
        (np.float32([np.nan]), np.float32([1.0])),
    ],
)
def test_dtype_shape_and_values_are_compared(found, expected):
    with pytest.raises(Untranslated, match="PyTorch gives"):
        _compare("y", found, expected, 1e-3, 1e-7)
    _compare("y", expected, expected, 1e-3, 1e-7)


def model(*nodes, inputs, outputs):
    def values(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    return helper.make_model(helper.make_graph(list(nodes), "g", values(inputs), values(outputs)))


def test_an_operand_that_must_be_known_and_is_computed_from_a_shape_is():
    chain = model(
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Concat", ["s", "one"], ["to"], axis=0),
        helper.make_node("Reshape", ["r", "to"], ["y"]),
        inputs=["x", "one"], outputs=["y"],
    )  # fmt: skip
    program = translated(chain, {"x": torch.tensor([-1.0, 2.0]), "one": torch.tensor([1])})
    assert program.argument_names == ("x",) and [step.source_line for step in program.steps] == ["Relu", "Reshape"]
    assert program(torch.tensor([3.0, -4.0]))["y"].tolist() == [[3.0], [0.0]]


def test_an_operand_that_must_be_known_and_is_computed_from_values_bakes_those():
    chain = model(
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Reshape", ["y", "n"], ["z"]),
        inputs=["x", "y"], outputs=["z"],
    )  # fmt: skip
    program = translated(chain, {"x": torch.tensor([[0.0, 1.0]]), "y": torch.ones(1)})
    assert program.argument_names == ("y",)


def test_no_two_families_translate_one_operator():
    assert len(TRANSLATIONS) > 140
    with pytest.raises(ValueError, match="two translations of Abs"):
        from mindgap.onnx_files.node import translates

        translates("Abs")(lambda node, x: x)
    node = OnnxNode("Pad", {}, {1: np.array([1, 2])}, (True,))
    assert node.integers(1) == [1, 2] and node.integers(3, "axes") is None
