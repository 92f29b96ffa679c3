"""Builds model files as exporters, converters, optimisers, quantisers and hands write them.

    python tests/everyday/files.py FOLDER      # all of them

`FILES` has one builder for each: it takes the path without an ending, writes the file, and returns its path. `INPUTS`
has the inputs that a file does not describe.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

#: The writer of LiteRT files lies with the tests of that format, also where this file is run as a script.
sys.path.append(str(Path(__file__).parents[1] / "mindgap_runtimes"))

FLOAT, HALF, INT64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL
MICROSOFT = "com.microsoft"

#: Name -> builder.
FILES: dict[str, Callable[[Path], Path]] = {}
#: Name -> the inputs that `--inputs` gives, where the file has no shapes.
INPUTS: dict[str, dict[str, Any]] = {}


def file(build: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """Registers a builder by its name."""
    FILES[build.__name__] = build
    return build


def values(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * 0.3).astype(dtype)


def info(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def model_of(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], held: dict[str, Any] | None = None,
    opset: int = 17, domains: Sequence[str] = (), ir: int = 9, name: str = "graph", **more: Any,
) -> Any:  # fmt: skip
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in (held or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors, **more)
    imports = [helper.make_opsetid(each, version) for each, version in [("", opset), *((d, 1) for d in domains)]]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir)


def saved(path: Path, *args: Any, **options: Any) -> Path:
    path = path.with_suffix(".onnx")
    onnx.save(model_of(*args, **options), str(path))
    return path


# Exporters


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8 * 16, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(images))), 2)
        return self.head(x.flatten(1)).softmax(-1)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(30, 8), nn.LSTM(8, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(tokens))[0])


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(tokens), src_key_padding_mask=~mask)


def exported(path: Path, module: nn.Module, args: tuple[Any, ...], **options: Any) -> Path:
    path = path.with_suffix(".onnx")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.get("dynamo"):
            torch.onnx.export(module.eval(), args, verbose=False, **options).save(str(path))
        else:
            torch.onnx.export(module.eval(), args, str(path), dynamo=False, **options)
    return path


def net() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Net(), (torch.rand(2, 3, 8, 8),)


def encoder() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Encoder(), (torch.randint(0, 30, (2, 6)), torch.ones(2, 6, dtype=torch.bool))


def perceptron(width: int = 32) -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width), nn.Linear(2 * width, width))
    return layers, (torch.randn(3, width),)


@file
def exported_net(path: Path) -> Path:
    return exported(path, *net(), dynamo=True)


@file
def exported_net_by_tracing(path: Path) -> Path:
    return exported(path, *net(), input_names=["images"], output_names=["classes"])


@file
def exported_with_any_batch(path: Path) -> Path:
    module, args = net()
    return exported(path, module, args, dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=16)},))


@file
def exported_by_tracing_with_any_batch(path: Path) -> Path:
    module, args = net()
    return exported(path, module, args, input_names=["images"], dynamic_axes={"images": {0: "N"}}, opset_version=13)


@file
def exported_lstm_by_tracing(path: Path) -> Path:
    torch.manual_seed(0)
    return exported(path, Tagger(), (torch.randint(0, 30, (2, 5)),), opset_version=14)


@file
def exported_encoder(path: Path) -> Path:
    return exported(path, *encoder(), dynamo=True)


@file
def exported_half(path: Path) -> Path:
    module, args = perceptron()
    return exported(path, module.half(), tuple(each.half() for each in args), dynamo=True)


@file
def external_weights(path: Path) -> Path:
    model = onnx.load(exported(path, *perceptron(), dynamo=True))
    named = {"all_tensors_to_one_file": True, "location": f"{path.name}.data", "size_threshold": 64}
    onnx.save_model(model, str(path.with_suffix(".onnx")), save_as_external_data=True, **named)
    return path.with_suffix(".onnx")


# Converters, optimisers, quantisers


@file
def optimised_by_a_session(path: Path) -> Path:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path.with_suffix(".onnx"))
    source = exported(path.with_name(f"{path.name}_source"), *encoder(), dynamo=True)
    onnxruntime.InferenceSession(str(source), options)
    return path.with_suffix(".onnx")


class Named(nn.Module):
    """Takes tokens and mask by position, and returns a tuple."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.model(input_ids=tokens, attention_mask=mask, return_dict=False)[:2]


def bert(path: Path) -> Path:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                        attn_implementation="eager", max_position_embeddings=32)  # fmt: skip
    named = {"input_names": ["input_ids", "attention_mask"], "output_names": ["hidden", "pooled"]}
    module = Named(BertModel(config))
    return exported(path, module, (torch.randint(0, 50, (2, 6)), torch.ones(2, 6, dtype=torch.int64)), **named)


def optimised(path: Path, **options: Any) -> Path:
    """What ONNX Runtime's optimiser for transformers makes of BERT."""
    from onnxruntime.transformers import optimizer

    logging.disable(logging.WARNING)
    try:
        source = bert(path.with_name(f"{path.name}_source"))
        found = optimizer.optimize_model(str(source), model_type="bert", num_heads=2, hidden_size=16, opt_level=0)
        if options:
            found.convert_float_to_float16(**options)
        found.save_model_to_file(str(path.with_suffix(".onnx")))
    finally:
        logging.disable(logging.NOTSET)
    return path.with_suffix(".onnx")


@file
def bert_by_tracing(path: Path) -> Path:
    return bert(path)


@file
def bert_optimised(path: Path) -> Path:
    return optimised(path)


@file
def bert_optimised_in_half(path: Path) -> Path:
    return optimised(path, keep_io_types=True)


@file
def converted_to_half(path: Path) -> Path:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(exported(path, *net(), input_names=["images"]))
    onnx.save(convert_float_to_float16(model, keep_io_types=True), str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


@file
def slimmed(path: Path) -> Path:
    import onnxslim

    found = onnxslim.slim(onnx.load(bert(path.with_name(f"{path.name}_source"))))
    onnx.save(found, str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


@file
def quantised_dynamic(path: Path) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    source = exported(path.with_name(f"{path.name}_source"), *perceptron(), input_names=["rows"])
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(str(source), str(path.with_suffix(".onnx")))
    finally:
        logging.disable(logging.NOTSET)
    return path.with_suffix(".onnx")


def quantised_static(path: Path, form: str) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter([{"images": np.abs(values(2, 3, 8, 8, seed=n))} for n in range(4)])

        def get_next(self) -> Any:
            return next(self.batches, None)

    source = exported(path.with_name(f"{path.name}_source"), *net(), input_names=["images"])
    logging.disable(logging.WARNING)
    try:
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": form == "QDQ"}
        quantize_static(str(source), str(path.with_suffix(".onnx")), Reader(), quant_format=QuantFormat[form],
                        extra_options={"WeightSymmetric": True}, reduce_range=True, **types)  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return path.with_suffix(".onnx")


@file
def quantised_static_qdq(path: Path) -> Path:
    return quantised_static(path, "QDQ")


@file
def quantised_static_operators(path: Path) -> Path:
    return quantised_static(path, "QOperator")


@file
def quantised_to_four_bits(path: Path) -> Path:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    made = model_of([node("MatMul", ["x", "w"], ["m"], name="mix"), node("Relu", ["m"], ["y"])],
                    [info("x", [2, 64])], [info("y", [2, 16])], {"w": values(64, 16)}, opset=21, ir=10)  # fmt: skip
    logging.disable(logging.WARNING)
    try:
        quantizer = MatMulNBitsQuantizer(made, block_size=32, is_symmetric=True)
        quantizer.process()
    finally:
        logging.disable(logging.NOTSET)
    quantizer.model.save_model_to_file(str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


# Files by hand


@file
def unsorted(path: Path) -> Path:
    nodes = [node("Relu", ["a"], ["y"]), node("Add", ["x", "b"], ["a"])]
    return saved(path, nodes, [info("x", [2, 8])], [info("y", [2, 8])], {"b": values(8)})


@file
def operator_set_9(path: Path) -> Path:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
        node("Upsample", ["n", "s"], ["u"], mode="nearest"),
        node("Flatten", ["u"], ["f"]),
        node("Softmax", ["f"], ["y"]),
    ]
    held = {"w": values(4, 3, 3, 3), "g": np.ones(4, "f4"), "b": values(4), "m": values(4, seed=1),
            "v": np.ones(4, "f4"), "s": np.array([1, 1, 2, 2], "f4")}  # fmt: skip
    return saved(path, nodes, [info("x", [1, 3, 4, 4])], [info("y", [1, 256])], held, opset=9, ir=4)


@file
def operator_set_6(path: Path) -> Path:
    nodes = [node("Gemm", ["x", "w", "b"], ["g"], broadcast=1, transB=1), node("Dropout", ["g"], ["d"], ratio=0.5),
             node("Add", ["d", "b"], ["a"], broadcast=1, axis=1), node("LogSoftmax", ["a"], ["y"])]  # fmt: skip
    return saved(
        path, nodes, [info("x", [2, 6])], [info("y", [2, 4])], {"w": values(4, 6), "b": values(4)}, opset=6, ir=3
    )


@file
def function_of_the_file(path: Path) -> Path:
    body = [node("Sigmoid", ["X"], ["S"]), node("Mul", ["X", "S"], ["Y"])]
    swish = helper.make_function("local", "Swish", ["X"], ["Y"], body, [helper.make_opsetid("", 17)])
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Swish", ["m"], ["y"], domain="local")]
    model = model_of(nodes, [info("x", [2, 6])], [info("y", [2, 4])], {"w": values(6, 4)}, domains=["local"])
    model.functions.append(swish)
    onnx.save(model, str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


@file
def initialisers_that_are_inputs(path: Path) -> Path:
    nodes = [node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["y"])]
    inputs = [info("x", [1, 2, 5, 5]), info("w", [3, 2, 2, 2]), info("b", [3])]
    return saved(
        path, nodes, inputs, [info("y", [1, 3, 4, 4])], {"w": values(3, 2, 2, 2), "b": values(3)}, opset=8, ir=3
    )


@file
def branch(path: Path) -> Path:
    """`If` by a number among the inputs."""
    then = helper.make_graph([node("Neg", ["x"], ["t"])], "then", [], [info("t", [2, 3])])
    other = helper.make_graph([node("Exp", ["x"], ["e"])], "else", [], [info("e", [2, 3])])
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
             node("If", ["c"], ["y"], then_branch=then, else_branch=other)]  # fmt: skip
    return saved(path, nodes, [info("x", [2, 3])], [info("y", [2, 3])], {"zero": np.float32(0)})


@file
def loop(path: Path) -> Path:
    body = helper.make_graph(
        [node("Add", ["state", "x"], ["next"]), node("Identity", ["going"], ["go"]),
         node("Mul", ["next", "next"], ["row"])],
        "body", [info("n", [], INT64), info("going", [], BOOL), info("state", [2])],
        [info("go", [], BOOL), info("next", [2]), info("row", [2])],
    )  # fmt: skip
    nodes = [node("Loop", ["count", "true", "x"], ["y", "rows"], body=body)]
    held = {"count": np.int64(3), "true": np.bool_(True)}
    return saved(path, nodes, [info("x", [2])], [info("y", [2]), info("rows", [3, 2])], held)


@file
def scan(path: Path) -> Path:
    body = helper.make_graph(
        [node("Add", ["sum", "row"], ["next"]), node("Tanh", ["next"], ["out"])], "body",
        [info("sum", [3]), info("row", [3])], [info("next", [3]), info("out", [3])],
    )  # fmt: skip
    nodes = [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)]
    return saved(path, nodes, [info("x", [4, 3])], [info("last", [3]), info("y", [4, 3])], {"start": np.zeros(3, "f4")})


@file
def sequences(path: Path) -> Path:
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=1),
        node("SequenceAt", ["parts", "one"], ["second"]),
        node("SequenceInsert", ["parts", "second"], ["more"]),
        node("ConcatFromSequence", ["more"], ["y"], axis=0),
    ]
    return saved(path, nodes, [info("x", [3, 4])], [info("y", [4, 4])], {"one": np.int64(1)})


@file
def tree_ensemble(path: Path) -> Path:
    tree = node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, post_transform="NONE",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[0.25, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0], nodes_missing_value_tracks_true=[0, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[-1.5, 2.0],
    )  # fmt: skip
    model = model_of([tree], [info("x", [3, 2])], [info("y", [3, 1])], opset=15)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    onnx.save(model, str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


@file
def linear_with_scaler(path: Path) -> Path:
    """As converters of table models write a regression."""
    nodes = [node("Scaler", ["X"], ["scaled"], domain="ai.onnx.ml", offset=[0.5, -1.0, 2.0], scale=[2.0, 0.5, 1.0]),
             node("LinearRegressor", ["scaled"], ["variable"], domain="ai.onnx.ml", coefficients=[0.5, -2.0, 1.25],
                  intercepts=[0.1])]  # fmt: skip
    model = model_of(nodes, [info("X", [None, 3])], [info("variable", [None, 1])], opset=15)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, str(path.with_suffix(".onnx")))
    return path.with_suffix(".onnx")


@file
def from_channels_last(path: Path) -> Path:
    """As converters from TensorFlow write: transposes around a convolution, names of scopes, sizes without a name."""
    nodes = [
        node("Transpose", ["serving_default_images:0"], ["model/conv/Transpose:0"], perm=[0, 3, 1, 2]),
        node("Conv", ["model/conv/Transpose:0", "const_fold_opt__7", "model/conv/bias"], ["model/conv/Conv2D:0"],
             auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Clip", ["model/conv/Conv2D:0", "zero", "six"], ["model/relu6:0"]),
        node("Resize", ["model/relu6:0", "", "", "model/resize/size"], ["model/up:0"], mode="linear",
             coordinate_transformation_mode="half_pixel", nearest_mode="floor"),
        node("ReduceMean", ["model/up:0"], ["model/mean:0"], axes=[2, 3], keepdims=0),
        node("MatMul", ["model/mean:0", "model/dense/kernel"], ["model/dense/MatMul:0"]),
        node("Softmax", ["model/dense/MatMul:0"], ["Identity:0"], axis=1),
    ]  # fmt: skip
    held = {"const_fold_opt__7": values(4, 3, 3, 3), "model/conv/bias": values(4), "zero": np.float32(0),
            "six": np.float32(6), "model/resize/size": np.array([1, 4, 7, 7]),
            "model/dense/kernel": values(4, 5)}  # fmt: skip
    given = info("serving_default_images:0", [1, 9, 9, 3])
    return saved(path, nodes, [given], [info("Identity:0", ["unk__12", 5])], held, opset=13, ir=7, name="tf2onnx")


@file
def without_a_graph_name(path: Path) -> Path:
    return saved(path, [node("Relu", ["x"], ["y"])], [info("x", [2, 8])], [info("y", [2, 8])], opset=13, ir=8, name="")


@file
def untyped_value_info(path: Path) -> Path:
    more = {"value_info": [onnx.ValueInfoProto(name="a")]}
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])]
    return saved(path, nodes, [info("x", [2, 8])], [info("y", [2, 8])], opset=13, ir=8, **more)


@file
def size_minus_one(path: Path) -> Path:
    return saved(path, [node("Tanh", ["x"], ["y"])], [info("x", [-1, 8])], [info("y", [-1, 8])], opset=13, ir=8)


@file
def inputs_without_shapes(path: Path) -> Path:
    inputs = [info("x", None), info("z", None)]
    return saved(path, [node("MatMul", ["x", "z"], ["y"])], inputs, [info("y", None)], opset=13, ir=8)


INPUTS["inputs_without_shapes"] = {"x": values(2, 3), "z": values(3, 4)}


@file
def missing_import(path: Path) -> Path:
    nodes = [node("BiasGelu", ["x", "b"], ["y"], domain=MICROSOFT)]
    return saved(path, nodes, [info("x", [2, 8])], [info("y", [2, 8])], {"b": values(8)})


@file
def without_inputs(path: Path) -> Path:
    nodes = [node("Conv", ["c", "w"], ["y"])]
    return saved(path, nodes, [], [info("y", [1, 3, 4, 4])], {"c": values(1, 2, 5, 5), "w": values(3, 2, 2, 2)})


@file
def shape_among_the_inputs(path: Path) -> Path:
    nodes = [node("Expand", ["x", "shape"], ["e"]), node("Mul", ["e", "scale"], ["y"])]
    inputs = [info("x", [3, 1]), info("shape", [2], INT64)]
    return saved(path, nodes, inputs, [info("y", [None, None])], {"scale": np.float32(2)})


INPUTS["shape_among_the_inputs"] = {"x": values(3, 1), "shape": np.array([3, 4])}


@file
def suppression(path: Path) -> Path:
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"])]
    inputs = [info("boxes", [1, 6, 4]), info("scores", [1, 1, 6])]
    held = {"most": np.array([3]), "overlap": np.array([0.5], "f4"), "least": np.array([0.1], "f4")}
    return saved(path, nodes, inputs, [info("y", [None, 3], INT64)], held)


INPUTS["suppression"] = {
    "boxes": np.array([[[0, 0, 2, 2], [0, 0, 2, 2.2], [3, 3, 5, 5], [3, 3.1, 5, 5], [8, 8, 9, 9], [0, 5, 1, 6]]], "f4"),
    "scores": np.array([[[0.9, 0.8, 0.7, 0.75, 0.05, 0.3]]], "f4"),
}


@file
def gated_units(path: Path) -> Path:
    nodes = [node("GRU", ["x", "w", "r", "b"], ["rows", "last"], hidden_size=4, direction="bidirectional")]
    held = {"w": values(2, 12, 3), "r": values(2, 12, 4), "b": values(2, 24)}
    return saved(path, nodes, [info("x", [5, 2, 3])], [info("rows", [5, 2, 2, 4]), info("last", [2, 2, 4])], held)


@file
def indices_and_einsum(path: Path) -> Path:
    nodes = [node("Einsum", ["x", "w"], ["e"], equation="bi,ij->bj"), node("ScatterND", ["e", "places", "new"], ["s"]),
             node("GatherElements", ["s", "order"], ["y"], axis=1)]  # fmt: skip
    held = {"w": values(4, 5), "places": np.array([[0, 1], [2, 3]]), "new": np.array([7, -7], "f4"),
            "order": np.array([[1, 0], [3, 3], [4, 3]])}  # fmt: skip
    return saved(path, nodes, [info("x", [3, 4])], [info("y", [3, 2])], held)


@file
def attention_with_past_in_half(path: Path) -> Path:
    given = [info("q", [1, 1, 8], HALF), info("k", [1, 1, 8], HALF), info("v", [1, 1, 8], HALF),
             info("past_key", [1, 2, 3, 4], HALF), info("past_value", [1, 2, 3, 4], HALF)]  # fmt: skip
    made = [info("y", [1, 1, 8], HALF), info("key", [1, 2, 4, 4], HALF), info("value", [1, 2, 4, 4], HALF)]
    nodes = [node("MultiHeadAttention", ["q", "k", "v", "", "", "", "past_key", "past_value"], ["y", "key", "value"],
                  domain=MICROSOFT, num_heads=2)]  # fmt: skip
    return saved(path, nodes, given, made, domains=[MICROSOFT])


@file
def causal_attention(path: Path) -> Path:
    nodes = [node("Attention", ["x", "w", "b"], ["y"], domain=MICROSOFT, num_heads=2, unidirectional=1)]
    held = {"w": values(8, 24), "b": values(24)}
    return saved(path, nodes, [info("x", [2, 6, 8])], [info("y", [2, 6, 8])], held, domains=[MICROSOFT])


@file
def brain_floats(path: Path) -> Path:
    nodes = [node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16), node("Cast", ["h"], ["y"], to=FLOAT)]
    return saved(path, nodes, [info("x", [2, 8])], [info("y", [2, 8])])


@file
def unknown_operator(path: Path) -> Path:
    return saved(path, [node("Fancy", ["x"], ["y"])], [info("x", [2, 8])], [info("y", [2, 8])], opset=13, ir=8)


@file
def invalid(path: Path) -> Path:
    """Two nodes that make one value, and an input that is named twice."""
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]
    return saved(path, nodes, [info("x", [2, 8]), info("x", [2, 8])], [info("y", [2, 8])])


@file
def cut_short(path: Path) -> Path:
    whole = saved(
        path, [node("MatMul", ["x", "w"], ["y"])], [info("x", [2, 8])], [info("y", [2, 64])], {"w": values(8, 64)}
    )
    whole.write_bytes(whole.read_bytes()[:-700])
    return whole


# LiteRT


@file
def litert_floats(path: Path) -> Path:
    from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes

    tensors = [FileTensor("x", (2, 6)), constant("w", values(4, 6)), constant("b", values(4)), FileTensor("h", (2, 4)),
               FileTensor("y", (2, 4))]  # fmt: skip
    nodes = [
        FileNode("FULLY_CONNECTED", ["x", "w", "b"], ["h"], {0: ("b", 1)}),
        FileNode("SOFTMAX", ["h"], ["y"], {0: ("f", 1.0)}),
    ]
    path.with_suffix(".tflite").write_bytes(model_bytes(tensors, nodes, ["x"], ["y"]))
    return path.with_suffix(".tflite")


@file
def litert_convolution(path: Path) -> Path:
    from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes

    tensors = [FileTensor("x", (1, 6, 6, 3)), constant("w", values(4, 3, 3, 3)), constant("b", values(4)),
               FileTensor("c", (1, 6, 6, 4)), constant("axes", np.array([1, 2], np.int32)),
               FileTensor("y", (1, 4))]  # fmt: skip
    conv = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1), 4: ("i", 1), 5: ("i", 1)}
    nodes = [
        FileNode("CONV_2D", ["x", "w", "b"], ["c"], conv),
        FileNode("MEAN", ["c", "axes"], ["y"], {0: ("?", False)}),
    ]
    path.with_suffix(".tflite").write_bytes(model_bytes(tensors, nodes, ["x"], ["y"]))
    return path.with_suffix(".tflite")


@file
def litert_integers(path: Path) -> Path:
    from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes

    weights = np.random.default_rng(0).integers(-100, 101, (4, 6)).astype(np.int8)
    tensors = [FileTensor("x", (2, 6)), FileTensor("q", (2, 6), "int8", scale=0.02, zero=3),
               constant("w", weights, scale=0.01), constant("b", np.arange(4, dtype=np.int32) * 20, scale=0.0002),
               FileTensor("h", (2, 4), "int8", scale=0.03, zero=-5), FileTensor("y", (2, 4))]  # fmt: skip
    nodes = [FileNode("QUANTIZE", ["x"], ["q"]), FileNode("FULLY_CONNECTED", ["q", "w", "b"], ["h"], {0: ("b", 0)}),
             FileNode("DEQUANTIZE", ["h"], ["y"])]  # fmt: skip
    path.with_suffix(".tflite").write_bytes(model_bytes(tensors, nodes, ["x"], ["y"]))
    return path.with_suffix(".tflite")


def numpy_softmax(x: Any) -> Any:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def integer_product(x: Any) -> Any:
    """The result of `litert_integers` by the definition of the quantisation."""
    weights = np.random.default_rng(0).integers(-100, 101, (4, 6))
    whole = np.clip(np.round(x.astype(np.float64) / np.float32(0.02)) + 3, -128, 127)
    total = (whole - 3) @ weights.T + np.arange(4) * 20
    scale = float(np.float32(0.02)) * float(np.float32(0.01)) / float(np.float32(0.03))
    return ((np.clip(np.round(total * scale) - 5, -128, 127) + 5) * 0.03).astype(np.float32)


def convolved_mean(x: Any) -> Any:
    """The result of `litert_convolution`, whose operands have their channels last."""
    given = torch.as_tensor(x).permute(0, 3, 1, 2)
    weight = torch.as_tensor(values(4, 3, 3, 3)).permute(0, 3, 1, 2)
    y = F.conv2d(given, weight, torch.as_tensor(values(4)), padding="same")
    return F.relu(y).mean((2, 3)).numpy()


#: What the LiteRT files give, by their definitions.
DEFINITIONS: dict[str, Callable[[Any], Any]] = {
    "litert_floats": lambda x: numpy_softmax(np.maximum(x @ values(4, 6).T + values(4), 0)),
    "litert_convolution": convolved_mean,
    "litert_integers": integer_product,
}


def build_all(folder: Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """Writes the files (all, or those named) into a folder, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or FILES:
        if name in INPUTS:
            np.savez(folder / f"{name}.npz", **INPUTS[name])
    return {name: FILES[name](folder / name) for name in names or FILES}


if __name__ == "__main__":
    for made in build_all(Path(sys.argv[1]), sys.argv[2:]).values():
        print(made)
