"""The dtype in which a platform computes is measured, on real platforms and on ones made to err."""

import json

import numpy as np
import pytest

from mindgap.graph import numpy_dtype
from mindgap.platforms.dtype_policy import (
    KEY,
    DtypeArithmetic,
    _arithmetics,
    _integer_probes,
    _simulated,
    measured_dtypes,
    policies,
)
from mindgap.platforms.onnxruntime import backend as onnxruntime
from mindgap.platforms.openvino import backend as openvino
from mindgap.platforms.protocol import CompileFailure, Unsupported
from mindgap.platforms.pytorch import eager, jit
from mindgap.run.pool import WorkerPool

OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "gt": np.greater, "eq": np.equal}


class Numpy:
    """Computes the declared dtypes in those of `within`, and gives back the declared ones unless told otherwise."""

    def __init__(self, within=(), returns=(), refuses=(), fails=()):
        self.within, self.returns = dict(within), dict(returns)
        self.refuses, self.fails = refuses, fails

    def describe(self):
        return {}

    def load(self, graph, inputs):
        ops = {node.op for node in graph.nodes}
        if refused := sorted(ops & set(self.refuses)):
            raise Unsupported(refused[0], "not here")
        if ops & set(self.fails):
            raise CompileFailure("broken at 0x7f00 in /tmp/abc\nmore")
        return lambda inputs: self.run(graph, inputs)

    def run(self, graph, inputs):
        kinds = [numpy_dtype(self.within.get(given.spec.dtype, given.spec.dtype)) for given in graph.inputs]
        with np.errstate(all="ignore"):
            values = [array.astype(kind) for array, kind in zip(inputs, kinds, strict=True)]
            for node in graph.nodes:
                operands = [values[arg.index] for arg in node.args]
                name = node.op.split(".")[1]
                values.append(self.product(*operands) if name == "mm" else OPERATIONS[name](*operands))
            specs = [graph.values[number] for number in graph.outputs]
            dtypes = [numpy_dtype(self.returns.get(spec.dtype, spec.dtype)) for spec in specs]
            return [values[number].astype(dtype) for number, dtype in zip(graph.outputs, dtypes, strict=True)]

    def product(self, left, right):
        return left @ right


def test_a_platform_that_computes_as_declared():
    for dtype, policy in measured_dtypes(Numpy()).items():
        assert (policy["computes_in"], policy["returns"]) == (dtype, dtype)
        assert policy.get("overflow", "wraps") == "wraps"
        assert policy.get("matmul_in", dtype) == dtype


@pytest.mark.parametrize(
    ("dtype", "within"),
    [
        ("float64", "float32"), ("float64", "float16"), ("float64", "bfloat16"), ("float32", "float64"),
        ("float32", "bfloat16"), ("float32", "float16"), ("float16", "float32"), ("bfloat16", "float32"),
        ("complex128", "complex64"), ("int64", "int32"), ("int64", "float32"), ("int64", "float64"),
        ("int32", "int64"), ("int32", "float32"), ("int16", "int32"), ("int8", "int32"), ("uint8", "int32"),
        ("uint8", "float32"),
    ],
)  # fmt: skip
def test_another_dtype_is_told(dtype, within):
    measured = measured_dtypes(Numpy({dtype: within}))
    assert (measured[dtype]["computes_in"], measured[dtype]["returns"]) == (within, dtype)
    assert all(p["computes_in"] == name for name, p in measured.items() if name != dtype)


def test_the_dtype_that_comes_out_is_told():
    measured = measured_dtypes(Numpy({"float64": "float32", "int64": "int32"}, {"float64": "float32"}))
    assert (measured["float64"]["computes_in"], measured["float64"]["returns"]) == ("float32", "float32")
    assert (measured["int64"]["computes_in"], measured["int64"]["returns"]) == ("int32", "int64")


@pytest.mark.parametrize("within", ["bfloat16", "float16"])
def test_products_that_round_their_operands(within):
    class Products(Numpy):
        def product(self, left, right):
            kind = numpy_dtype(within) if left.dtype == np.float32 else left.dtype
            return left.astype(kind) @ right.astype(kind)

    policy = measured_dtypes(Products())["float32"]
    assert (policy["computes_in"], policy["matmul_in"]) == ("float32", within)


def test_products_in_tensor_float():
    class Products(Numpy):
        def product(self, left, right):
            if left.dtype == np.float32:
                left, right = ((a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for a in (left, right))
            return left @ right

    assert measured_dtypes(Products())["float32"]["matmul_in"] == "tensorfloat32"


def test_a_dtype_that_is_refused_does_not_hide_the_others():
    class NoHalf(Numpy):
        def load(self, graph, inputs):
            if any(given.spec.dtype == "float16" for given in graph.inputs):
                raise Unsupported("aten.add.Tensor", "no float16")
            return super().load(graph, inputs)

    measured = measured_dtypes(NoHalf({"float64": "float32"}))
    assert (measured["float16"]["computes_in"], measured["float64"]["computes_in"]) == ("unsupported", "float32")
    assert measured["float32"] == {"computes_in": "float32", "returns": "float32", "matmul_in": "float32"}


def test_overflow_of_a_platform_that_saturates():
    class Saturating(Numpy):
        def run(self, graph, inputs):
            values = [array.astype(object) if array.dtype == np.int8 else array for array in inputs]
            for node in graph.nodes:
                left, right = (values[arg.index] for arg in node.args)
                name = node.op.split(".")[1]
                found = left @ right if name == "mm" else OPERATIONS[name](left, right)
                narrow = found.dtype == object and name not in ("gt", "eq")
                values.append(np.clip(found, -128, 127) if narrow else found)
            kinds = [numpy_dtype(graph.values[number].dtype) for number in graph.outputs]
            return [values[number].astype(kind) for number, kind in zip(graph.outputs, kinds, strict=True)]

    assert measured_dtypes(Saturating())["int8"] == {
        "computes_in": "int8", "returns": "int8", "overflow": "saturates",
    }  # fmt: skip


def test_a_refusal_and_a_failure_are_recorded_without_what_changes_from_process_to_process():
    refused = measured_dtypes(Numpy(refuses=["aten.add.Tensor"]))["float32"]
    assert refused["computes_in"] == refused["returns"] == "unsupported"
    assert refused["why"].endswith(": not here")
    failed = measured_dtypes(Numpy(fails=["aten.sub.Tensor"]))["float32"]
    assert (failed["computes_in"], failed["why"]) == ("unknown", "CompileFailure: broken at … in …")


def test_half_a_measurement_of_a_narrow_integer_says_nothing_of_its_arithmetic():
    policy = measured_dtypes(Numpy(refuses=["aten.gt.Tensor"]))
    assert policy["int8"]["computes_in"] == "unknown" and policy["int8"]["returns"] == "int8"
    assert "not here" in policy["int8"]["why"]


def test_eager_computes_as_declared():
    for backend in (eager.CPU, jit.CPU):
        measured = backend.open({}).describe()[KEY]
        assert {name: p["computes_in"] for name, p in measured.items()} == {name: name for name in measured}


def test_eager_with_another_dtype():
    assert eager.CPU.open({"dtype": "float64"}).describe()[KEY]["float32"]["computes_in"] == "float64"
    assert eager.CPU.open({"autocast": "bfloat16"}).describe()[KEY]["float32"]["matmul_in"] == "bfloat16"


@pytest.mark.nightly
def test_openvino_computes_float64_in_float32_and_saturates_bytes():
    found = policies(openvino.BACKEND.open({"precision": "f32"}).describe())
    assert found["float64"] == DtypeArithmetic("float32", "float64", "float32")
    assert found["float32"] == DtypeArithmetic("float32", "float32", "float32")
    assert (found["int64"].computes_in, found["int64"].returns) == ("int32", "int64")
    assert found["int8"].overflow == "saturates"


def test_onnx_runtime_computes_float64_as_declared_and_float16_in_float32():
    found = policies(onnxruntime.BACKEND.open({}).describe())
    assert found["float64"].computes_in == "float64"
    assert found["float16"] == DtypeArithmetic("float32", "float16", "float16")
    assert found["bfloat16"].computes_in == "unsupported" and "Add" in found["bfloat16"].why


@pytest.mark.nightly
def test_the_description_stays_data():
    said = openvino.BACKEND.open({"precision": "f32"}).describe()
    assert json.loads(json.dumps(said)) == said
    assert policies({}) == {}


@pytest.mark.nightly
def test_the_description_reaches_the_parent():
    with WorkerPool(["openvino/cpu@precision=f32"]) as pool:
        assert policies(pool.describe("openvino/cpu@precision=f32"))["float64"].computes_in == "float32"


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_the_probes_tell_all_candidates_apart(dtype):
    candidates = _arithmetics(dtype)
    seen = {str([_simulated(probe, candidate) for probe in _integer_probes(dtype)]) for candidate in candidates}
    assert len(seen) == len(candidates)
