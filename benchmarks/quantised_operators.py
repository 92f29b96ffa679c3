"""Measures single quantised operators of ONNX (QDQ) on ONNX Runtime's CPU provider and on its QNN provider.

    python benchmarks/quantised_operators.py                        # all operators and types on the CPU provider
    python benchmarks/quantised_operators.py --soc 43 --only Conv   # on the simulated SM8550, in the environment `qnn`

Each model dequantises random integers of the whole range, computes one operator, and quantises the result. A line has
the number of elements, how many are not the half-to-even integer of the exact quotient, how far the integers are from
the right one at most, and by how much the exact quotient is further than half a step from the integer: 0.0000 are ties.
`--soc`: the provider's `soc_model`, `none` for v68. It imports no mindgap.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F

Array = np.ndarray[Any, np.dtype[Any]]
TYPES: dict[str, Any] = {"uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16}
ZERO = {"uint8": 120, "int8": -5, "uint16": 32000, "int16": 0}
IMAGE = (1, 4, 12, 12)


@dataclass(frozen=True)
class Operand:
    """Integers of a shape: drawn where `stored` is None. `full`: the width of the range of real numbers that all
    integers of the type stand for; of stored ones `scale`. `zero`: the zero point, by default that of the type."""

    shape: tuple[int, ...] = IMAGE
    full: float = 8.0
    zero: int | None = None
    stored: Array | None = None
    scale: Any = 0.0123
    axis: int | None = None


@dataclass(frozen=True)
class Case:
    """An operator. `right`: its result in float64. `full`, `zero`: of the result. `plain`: further inputs, as ONNX has
    them."""

    name: str
    operands: tuple[Operand, ...]
    full: float
    right: Callable[..., torch.Tensor]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    zero: int | None = None
    plain: tuple[Array | None, ...] = ()


def cases(dtype: str) -> Iterator[Case]:
    """Yields the cases of one type of activations. Weights are int8."""
    numbers, limits = np.random.default_rng(0), np.iinfo(TYPES[dtype])
    low = 0 if dtype.startswith("u") else int(limits.min)
    positive = {"full": 1.0 if low == 0 else 2.0, "zero": 0}

    def weights(*shape: int, scale: Any = 0.0123, axis: int | None = None) -> Operand:
        return Operand(shape, stored=numbers.integers(-127, 128, shape).astype(np.int8), scale=scale, axis=axis)

    channels = numbers.uniform(0.005, 0.02, 6).astype(np.float32)
    one, two = Operand(), Operand(full=3.0)
    yield Case("Conv", (one, weights(6, 4, 3, 3)), 60, F.conv2d)
    yield Case("Conv", (one, weights(6, 4, 3, 3, scale=channels, axis=0)), 60, F.conv2d)
    yield Case("MatMul", (Operand((4, 16, 32)), weights(32, 24)), 60, torch.matmul)
    yield Case("Gemm", (Operand((16, 32)), weights(24, 32)), 60, lambda a, b: a @ b.T, {"transB": 1})
    yield Case("Add", (one, two), 9, torch.add)
    yield Case("Sub", (one, two), 9, torch.sub)
    yield Case("Mul", (one, two), 9, torch.mul)
    yield Case("Concat", (one, two), 8, lambda a, b: torch.cat([a, b], 1), {"axis": 1})
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    yield Case("AveragePool", (one,), 7, lambda x: F.avg_pool2d(x, 3, 2), pool)
    yield Case("MaxPool", (one,), 8, lambda x: F.max_pool2d(x, 3, 2), pool)
    yield Case("GlobalAveragePool", (one,), 2, lambda x: x.mean((2, 3), keepdim=True))
    yield Case("Relu", (one,), 5, F.relu, zero=low)
    yield Case("Sigmoid", (Operand(full=16),), positive["full"], torch.sigmoid, zero=0)
    yield Case("Tanh", (one,), 2, torch.tanh)
    yield Case("HardSwish", (one,), 8, F.hardswish)
    yield Case("Gelu", (one,), 8, F.gelu)
    yield Case("Elu", (one,), 8, F.elu)
    yield Case("Sqrt", (Operand(zero=low),), 3, torch.sqrt, zero=low)
    yield Case("Exp", (Operand(full=4),), 8, torch.exp, zero=low)
    softmax = Operand((4, 16, 12), 16)
    yield Case("Softmax", (softmax,), positive["full"], lambda x: torch.softmax(x, -1), {"axis": -1}, zero=0)
    axes = (np.asarray([1], np.int64),)
    yield Case("ReduceMean", (one,), 4, lambda x: x.mean(1, keepdim=True), plain=axes)
    yield Case(
        "Resize", (Operand((1, 4, 6, 6)),), 8,
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        plain=(None, np.asarray([1, 1, 2, 2], np.float32)),
    )  # fmt: skip


def model(case: Case, dtype: str) -> tuple[onnx.ModelProto, dict[str, Array], list[Array], float, int]:
    """Returns the model, its inputs, the real numbers of its operands, and the scale and zero point of the result."""
    kind, width = TYPES[dtype], float(np.iinfo(TYPES[dtype]).max) - float(np.iinfo(TYPES[dtype]).min)
    numbers, nodes, stored, inputs, names = np.random.default_rng(1), [], dict[str, Any](), dict[str, Array](), []
    reals: list[Array] = []
    for index, operand in enumerate(case.operands):
        drawn = operand.stored is None
        limits = np.iinfo(kind)
        array = numbers.integers(limits.min, limits.max + 1, operand.shape).astype(kind) if drawn else operand.stored
        assert array is not None
        scale = np.asarray(operand.full / width if drawn else operand.scale, np.float32)
        zero = np.full(
            scale.shape, (ZERO[dtype] if operand.zero is None else operand.zero) if drawn else 0, array.dtype
        )
        shape = [-1 if operand.axis == place else 1 for place in range(array.ndim)] if scale.ndim else ()
        reals.append((array.astype(np.float64) - zero.reshape(shape)) * scale.astype(np.float64).reshape(shape))
        (inputs if drawn else stored)[f"x{index}"] = array
        stored |= {f"s{index}": scale, f"z{index}": zero}
        axis = {} if operand.axis is None else {"axis": operand.axis}
        names.append(f"d{index}")
        nodes.append(helper.make_node("DequantizeLinear", [f"{each}{index}" for each in "xsz"], names[-1:], **axis))
    for index, array in enumerate(case.plain):
        names.append("" if array is None else f"p{index}")
        stored |= {} if array is None else {f"p{index}": array}
    scale, zero = np.float32(case.full / width), ZERO[dtype] if case.zero is None else case.zero
    stored |= {"s": scale, "z": np.asarray(zero, kind)}
    nodes += [
        helper.make_node(case.name, names, ["y"], **case.attributes),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"]),
    ]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    given = [helper.make_tensor_value_info(name, element, array.shape) for name, array in inputs.items()]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("q", element, None)], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, inputs, reals, float(scale), zero


def run(made: onnx.ModelProto, inputs: dict[str, Array], soc: str) -> Array:
    """Returns the integers of the CPU provider, without its optimisations, or of QNN's simulator of a chip."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not soc:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, inputs)[0]
    import onnxruntime_qnn  # pyright: ignore[reportMissingImports] # in the environment `qnn`

    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    chip = {} if soc == "none" else {"soc_model": soc}
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **chip})
    return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, inputs)[0]


def measured(case: Case, dtype: str, soc: str) -> str:
    """Returns what a case gave, in words."""
    made, inputs, reals, scale, zero = model(case, dtype)
    try:
        got = run(made, inputs, soc).astype(np.float64)
    except Exception as error:  # a refusal, or a compiler's failure
        return f"does not run: {str(error)[:120]}"
    exact = case.right(*map(torch.from_numpy, reals)).numpy() / scale + zero
    exact = np.clip(exact, np.iinfo(TYPES[dtype]).min, np.iinfo(TYPES[dtype]).max)
    apart = np.abs(got - np.round(exact))
    beyond = max(float((np.abs(got - exact) - 0.5).max()), 0.0)
    return f"{got.size} elements, {int((apart > 0).sum())} differ, by {int(apart.max())} at most; beyond {beyond:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soc", default="", help="a soc_model of QNN, or none; by default the CPU provider")
    parser.add_argument("--only", nargs="*", default=[], help="operators")
    parser.add_argument("--types", nargs="*", default=[*TYPES], choices=[*TYPES])
    arguments = parser.parse_args()
    count = 0
    for dtype in arguments.types:
        for case in cases(dtype):
            if not arguments.only or case.name in arguments.only:
                print(f"{dtype} {case.name}: {measured(case, dtype, arguments.soc)}", flush=True)
                count += 1
    print(f"{count} runs on {'QNN, soc_model ' + arguments.soc if arguments.soc else 'the CPU provider'}")
    sys.exit(not count)


if __name__ == "__main__":
    main()
