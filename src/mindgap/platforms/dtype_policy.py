"""Measures in which dtype a platform computes what a graph declares in another.

A platform may compute float64 in float32, or 8-bit integers in 32 bits, and hand the result back in the
declared dtype. Tiny graphs show it: each holds operations whose results are exact in a wide enough dtype and
wrong in a narrower one. Which of the results are exact is compared with what numpy gives in each candidate dtype.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from mindgap.graph import (
    Graph,
    Input,
    Literal,
    Node,
    Ref,
    TensorSpec,
    contiguous_stride,
    dtype_name,
    kind_of,
    numpy_dtype,
)
from mindgap.platforms.protocol import Array, Platform, Unsupported

#: The key of `Platform.describe()` under which the measured policy stands.
KEY: Final = "dtypes"
#: The dtypes that are measured, with those in which each may turn out to be computed; itself comes first.
_CANDIDATES: Final[Mapping[str, tuple[str, ...]]] = {
    "float64": ("float64", "float32", "float16", "bfloat16"),
    "float32": ("float32", "float64", "float16", "bfloat16"),
    "float16": ("float16", "float32", "bfloat16", "float64"),
    "bfloat16": ("bfloat16", "float32", "float16", "float64"),
    "complex128": ("complex128", "complex64"),
    "complex64": ("complex64", "complex128"),
    "int64": ("int64", "int32", "float64", "float32"),
    "int32": ("int32", "int64", "float64", "float32"),
    "int16": ("int16", "int32", "int64", "float32", "float64"),
    "int8": ("int8", "int16", "int32", "int64", "float32", "float64"),
    "uint8": ("uint8", "int16", "int32", "int64", "float32", "float64"),
}
#: Matrix products may use a dtype that no tensor has: float32 with 10 bits of mantissa.
_TENSOR_FLOAT: Final = "tensorfloat32"
_MOST_TEXT: Final = 160


@dataclass(frozen=True, slots=True)
class DtypePolicy:
    """What a platform does with tensors of one dtype.

    `computes_in`: the dtype of the arithmetic, by additions, products and comparisons of elements. `unsupported`
    where the platform refuses the operations; `unknown` where the results fit no candidate, or the platform failed.
    `returns`: the dtype of the array that comes out, or the same two words.
    `matmul_in`: the dtype to which matrix products of floats round their operands; empty for other dtypes.
    `overflow`: of integers, `wraps`, or `saturates` where the largest number plus 1 is the largest number.
    `why`: what the platform said where it refused or failed, cut to one line.
    """

    computes_in: str
    returns: str
    matmul_in: str = ""
    overflow: str = ""
    why: str = ""

    def as_json(self) -> dict[str, str]:
        """The fields that say something."""
        found = {"computes_in": self.computes_in, "returns": self.returns}
        optional = {"matmul_in": self.matmul_in, "overflow": self.overflow, "why": self.why}
        return found | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """A dtype that a platform may compute in, and whether its overflow goes to the largest number."""

    dtype: str
    saturates: bool = False


@dataclass(frozen=True)
class _Probe:
    """A graph of elementwise operations on `inputs`, and the same in numpy.

    `steps`: (operator, left, right), by value number. `outputs`: value numbers. `exact`: what each output is
    in exact arithmetic; an output may differ from it, and where it does is what tells dtypes apart.
    """

    inputs: tuple[Array, ...]
    steps: tuple[tuple[str, int, int], ...]
    outputs: tuple[int, ...]
    exact: tuple[Array, ...]


_NUMPY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "gt": np.greater,
    "eq": np.equal,
}


def measured_dtypes(platform: Platform) -> dict[str, dict[str, str]]:
    """Dtype name -> `DtypePolicy` as JSON, measured by running some twenty tiny graphs on the platform.

    It takes what loading that many graphs takes: too long for a compiler that builds C++ for each.
    """
    return {dtype: _measured(platform, dtype).as_json() for dtype in _CANDIDATES}


def policies(description: Mapping[str, Any]) -> dict[str, DtypePolicy]:
    """The policies in what a platform says of itself; none where it did not measure them."""
    return {dtype: DtypePolicy(**policy) for dtype, policy in description.get(KEY, {}).items()}


def _measured(platform: Platform, dtype: str) -> DtypePolicy:
    probes = _integer_probes(dtype) if kind_of(dtype) == "int" else (_float_probe(dtype),)
    candidates = _arithmetics(dtype)
    returns, refused = "", ""
    for probe in probes:
        found = _run(platform, probe)
        if isinstance(found, Exception):
            refused = refused or _line(found)
            if not returns:
                word = "unsupported" if isinstance(found, Unsupported) else "unknown"
                return DtypePolicy(word, word, why=refused)
            continue
        returns = returns or dtype_name(found[0].dtype)
        seen = _exactness(found, probe)
        candidates = [candidate for candidate in candidates if _simulated(probe, candidate) == seen]
    matmul_in = _matmul_in(platform, dtype)
    if not candidates or (refused and len(candidates) > 1):
        return DtypePolicy("unknown", returns, matmul_in, why=refused)
    [best, *_] = candidates
    overflow = "" if kind_of(dtype) != "int" else "saturates" if best.saturates else "wraps"
    return DtypePolicy(best.dtype, returns, matmul_in, overflow, refused)


def _arithmetics(dtype: str) -> list[_Arithmetic]:
    found = [_Arithmetic(name) for name in _CANDIDATES[dtype]]
    return [*found, _Arithmetic(dtype, saturates=True)] if kind_of(dtype) == "int" else found


def _run(platform: Platform, probe: _Probe) -> list[Array] | Exception:
    graph = _graph(probe)
    return _outcome(platform, graph, probe.inputs)


def _outcome(platform: Platform, graph: Graph, inputs: Sequence[Array]) -> list[Array] | Exception:
    """What comes out, or what the platform raised: a fact about it, and kept as one."""
    try:
        return platform.load(graph, inputs)(inputs)
    except Exception as error:
        return error


def _line(error: Exception) -> str:
    """One line without what differs from process to process, since it becomes part of the fingerprint."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+|/[^ :]*', '…', text)}"[:_MOST_TEXT]


# The probes


def _float_probe(dtype: str) -> _Probe:
    """(1 + 2⁻ᵏ) − 1 is 2⁻ᵏ as long as the mantissa has k bits; (m + m) − m is m unless m + m overflows."""
    part = {"complex128": "float64", "complex64": "float32"}.get(dtype, dtype)
    kind = numpy_dtype(part)
    # Powers that are normal numbers of the dtype: what happens to subnormal ones is another question.
    lowest = -round(float(np.log2(float(_finfo(kind).smallest_normal))))
    powers = np.exp2(-np.arange(1.0, min(lowest, 60) + 1))
    largest = 2.0 ** int(_finfo(kind).maxexp - 1)
    left = np.append(np.ones_like(powers), largest).astype(numpy_dtype(dtype))
    right = np.append(powers, largest).astype(numpy_dtype(dtype))
    return _Probe((left, right), (("add", 0, 1), ("sub", 2, 0)), (3,), (right,))


def _integer_probes(dtype: str) -> tuple[_Probe, ...]:
    """Sums that need many bits, and powers whose overflow shows how many there are.

    Of b from 100 to 127, b² does not fit 8 bits, b⁴ not 16, b⁸ not 32 and b¹⁶ not 64; b⁴ + 1 does not fit the
    mantissa of float32, and b⁸ + 1 not that of float64.
    """
    kind = numpy_dtype(dtype)
    bits = [1 << bit for bit in range(int(np.iinfo(kind).bits) - 1)]
    powers = np.asarray(bits).astype(kind)
    sums = _Probe((powers, np.ones_like(powers)), (("add", 0, 1),), (2,), (powers + powers.dtype.type(1),))
    steps = (
        ("mul", 0, 0), ("mul", 2, 2), ("mul", 3, 3), ("mul", 4, 4),
        ("gt", 2, 0), ("gt", 3, 2), ("gt", 4, 3), ("gt", 5, 4),
        ("add", 3, 1), ("sub", 10, 3), ("eq", 11, 1), ("add", 4, 1), ("sub", 13, 4), ("eq", 14, 1),
    )  # fmt: skip
    base = np.arange(100, 128).astype(kind)
    outputs = (6, 7, 8, 9, 12, 15)
    overflow = _Probe((base, np.ones_like(base)), steps, outputs, (np.ones(base.shape, np.bool_),) * len(outputs))
    return sums, overflow


def _finfo(kind: np.dtype[Any]) -> Any:
    library: Any = ml_dtypes
    return library.finfo(kind)


def _graph(probe: _Probe) -> Graph:
    inputs = tuple(
        Input(TensorSpec.contiguous(dtype_name(array.dtype), array.shape), Literal(array.tobytes()))
        for array in probe.inputs
    )
    specs = [given.spec for given in inputs]
    nodes: list[Node] = []
    for op, left, right in probe.steps:
        kind = "bool" if op in ("gt", "eq") else specs[left].dtype
        specs.append(TensorSpec(kind, specs[left].shape, contiguous_stride(specs[left].shape)))
        nodes.append(Node(f"aten.{op}.Tensor", (Ref(left), Ref(right)), (), (specs[-1],)))
    return Graph(inputs, tuple(nodes), probe.outputs)


def _exactness(found: Sequence[Array], probe: _Probe) -> list[list[bool]]:
    """Which elements are exact. An array of another dtype or shape is compared by value."""
    if any(array.shape != exact.shape for array, exact in zip(found, probe.exact, strict=True)):
        return []
    return [np.equal(array, exact).tolist() for array, exact in zip(found, probe.exact, strict=True)]


def _simulated(probe: _Probe, candidate: _Arithmetic) -> list[list[bool]]:
    """The same for numpy, computing throughout in the candidate."""
    kind = numpy_dtype(candidate.dtype)
    with np.errstate(all="ignore"):
        values: list[Any] = [array.astype(kind) for array in probe.inputs]
        for op, left, right in probe.steps:
            operands = values[left], values[right]
            if candidate.saturates and op not in ("gt", "eq"):
                values.append(_saturated(op, *operands))
            else:
                values.append(_NUMPY[op](*operands))
        found = [values[number].astype(e.dtype) for number, e in zip(probe.outputs, probe.exact, strict=True)]
    return _exactness(found, probe)


def _saturated(op: str, left: Array, right: Array) -> Array:
    """An operation on integers in Python's own, which have no width, cut to the range of the dtype."""
    limits: Any = np.iinfo(left.dtype)
    exact = _NUMPY[op](left.astype(object), right.astype(object))
    return np.clip(exact, int(limits.min), int(limits.max)).astype(left.dtype)


# Matrix products


def _matmul_in(platform: Platform, dtype: str) -> str:
    """The dtype to which a matrix product rounds its operands, by 1·(1 + 2⁻ᵏ) − 1·1; empty for other than floats."""
    if kind_of(dtype) != "float":
        return ""
    kind = numpy_dtype(dtype)
    bits = round(-float(np.log2(float(_finfo(kind).eps))))
    # A power that is too large for float16 tells it from a float32 with as few bits of mantissa.
    large = 2.0 ** min(int(_finfo(kind).maxexp - 1), 100)
    upper = np.append(1 + np.exp2(-np.arange(1.0, bits + 1)), large)
    lower = np.append(np.ones(bits), 0.0)
    left = np.tile(np.asarray([[1.0, -1.0]]), (4, 1)).astype(kind)
    right = np.stack([upper, lower]).astype(kind)
    specs = [TensorSpec.contiguous(dtype, array.shape) for array in (left, right)]
    out = TensorSpec.contiguous(dtype, (4, bits + 1))
    node = Node("aten.mm.default", (Ref(0), Ref(1)), (), (out,))
    arrays = (left, right)
    graph = Graph(tuple(Input(s, Literal(a.tobytes())) for s, a in zip(specs, arrays, strict=True)), (node,), (2,))
    found = _outcome(platform, graph, arrays)
    if isinstance(found, Exception):
        return "unsupported" if isinstance(found, Unsupported) else "unknown"
    exact = upper - lower
    seen = (np.asarray(found[0], np.float64) == exact).all(axis=0).tolist()
    for candidate in (*_CANDIDATES[dtype], _TENSOR_FLOAT):
        if (_rounded(upper, candidate) - lower == exact).tolist() == seen:
            return candidate
    return "unknown"


def _rounded(values: Array, candidate: str) -> Array:
    """float64 values rounded to the candidate, as float64."""
    with np.errstate(over="ignore"):
        if candidate != _TENSOR_FLOAT:
            return values.astype(numpy_dtype(candidate)).astype(np.float64)
        bits = values.astype(np.float32).view(np.uint32)
        return (
            ((bits + 0x0FFF + ((bits >> 13) & 1)) & 0xFFFF_E000).astype(np.uint32).view(np.float32).astype(np.float64)
        )
