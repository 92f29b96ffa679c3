"""Measures the dtype in which a platform computes what a graph declares in another.

A platform may compute float64 in float32, or 8-bit integers in 32 bits, and hand the result back in the
declared dtype. Tiny graphs reveal it: their results are exact in a wide enough dtype and wrong in a narrower one.
The exact results are compared with those of numpy in each candidate dtype.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from mindgap.graph import Graph, Input, Literal, Node, Ref, TensorSpec, concatenate, dtype_name, kind_of, numpy_dtype
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
#: Dtypes that are measured in one graph where the platform takes them together, which costs one compilation.
_GROUPS: Final = (
    ("float64", "float32", "float16", "bfloat16"),
    ("complex128",),
    ("complex64",),
    ("int64", "int32", "int16", "int8", "uint8"),
)
#: Matrix products may use a dtype that no tensor has: float32 with 10 bits of mantissa.
_TENSOR_FLOAT: Final = "tensorfloat32"
_REFUSAL: Final = re.compile(r"unsupported|not[_ ](?:yet )?(?:supported|implemented)", re.IGNORECASE)
_MOST_TEXT: Final = 160


@dataclass(frozen=True, slots=True)
class DtypeArithmetic:
    """The arithmetic of a platform for tensors of one dtype.

    `computes_in`: the dtype of the arithmetic, by additions, products and comparisons of elements. `unsupported`
    where the platform refuses the operations; `unknown` where the results fit no candidate, or the platform failed.
    `returns`: the dtype of the array that comes out, or the same two words.
    `matmul_in`: the dtype to which matrix products of floats round their operands; empty for other dtypes.
    `overflow`: of integers, what the largest number plus 1 gives: `wraps` to the smallest, `saturates`, or `unknown`.
    `why`: the platform's message if it refused or failed, one line.
    """

    computes_in: str
    returns: str
    matmul_in: str = ""
    overflow: str = ""
    why: str = ""

    def as_json(self) -> dict[str, str]:
        """The non-empty fields."""
        words = {"computes_in": self.computes_in, "returns": self.returns}
        optional = {"matmul_in": self.matmul_in, "overflow": self.overflow, "why": self.why}
        return words | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """A dtype that a platform may compute in, and whether its overflow saturates."""

    dtype: str
    saturates: bool = False


@dataclass(frozen=True)
class _Probe:
    """A graph of operations on `inputs`, and the same in numpy.

    `steps`: (operator, left, right), by value number. `outputs`: value numbers. `exact`: what each output is
    in exact arithmetic; the elements where an output differs from it identify the dtype.
    """

    inputs: tuple[Array, ...]
    steps: tuple[tuple[str, int, int], ...]
    outputs: tuple[int, ...]
    exact: tuple[Array, ...]


#: What came out of a probe, or what the platform raised: a fact about it, and kept as one.
_Found = list[Array] | Exception

_NUMPY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "gt": np.greater,
    "eq": np.equal,
}


def measured_dtypes(platform: Platform) -> dict[str, dict[str, str]]:
    """Measures a `DtypeArithmetic` as JSON for each dtype name, by running tiny graphs on the platform.

    It runs three graphs if the platform takes every dtype, else about twenty: too many for a compiler that builds C++
    for each.
    """
    arithmetics: dict[str, list[_Found]] = {}
    for group in _GROUPS:
        probes = {dtype: _probes(dtype) for dtype in group}
        every = [probe for dtype in group for probe in probes[dtype]]
        together = _run(platform, every)
        results: list[_Found] = []
        if isinstance(together, list):
            results += together
        else:
            results += [_alone(platform, probe) for probe in every] if len(every) > 1 else [together]
        remaining = iter(results)
        for dtype in group:
            arithmetics[dtype] = [next(remaining) for _ in probes[dtype]]
    return {dtype: _policy(dtype, results).as_json() for dtype, results in arithmetics.items()}


def policies(description: Mapping[str, Any]) -> dict[str, DtypeArithmetic]:
    """Reads the policies from a platform's description; none if it has not measured them."""
    return {dtype: DtypeArithmetic(**policy) for dtype, policy in description.get(KEY, {}).items()}


def _alone(platform: Platform, probe: _Probe) -> _Found:
    run = _run(platform, [probe])
    return run if isinstance(run, Exception) else run[0]


def _run(platform: Platform, probes: Sequence[_Probe]) -> list[list[Array]] | Exception:
    """Runs all probes as one graph. Returns the outputs of each."""
    inputs = [array for probe in probes for array in probe.inputs]
    try:
        outputs = iter(platform.load(concatenate([_graph(probe) for probe in probes]), inputs)(inputs))
    except Exception as error:
        return error
    return [[next(outputs) for _ in probe.outputs] for probe in probes]


def _policy(dtype: str, results_by_probe: Sequence[_Found]) -> DtypeArithmetic:
    """Derives a dtype's policy from the results of its probes. The first probe is the simplest."""
    products = _matmul_in(dtype, results_by_probe[-1]) if kind_of(dtype) == "float" else ""
    results = results_by_probe[:-1] if products else results_by_probe
    errors = [result for result in results if isinstance(result, Exception)]
    why = _line(errors[0]) if errors else ""
    if isinstance(results[0], Exception):
        word = "unsupported" if isinstance(results[0], Unsupported) else "unknown"
        return DtypeArithmetic(word, word, why=why)
    candidates = [c for c in _arithmetics(dtype) if _fits(c, zip(_probes(dtype), results, strict=False))]
    certain = candidates and not (errors and len(candidates) > 1)
    overflow = _overflow(results[0][0]) if kind_of(dtype) == "int" else ""
    computes_in = candidates[0].dtype if certain else "unknown"
    return DtypeArithmetic(computes_in, dtype_name(results[0][0].dtype), products, overflow, why)


def _arithmetics(dtype: str) -> list[_Arithmetic]:
    arithmetics = [_Arithmetic(name) for name in _CANDIDATES[dtype]]
    return [*arithmetics, _Arithmetic(dtype, saturates=True)] if kind_of(dtype) == "int" else arithmetics


def _fits(candidate: _Arithmetic, results: Iterable[tuple[_Probe, _Found]]) -> bool:
    """Returns whether the candidate is exact where the platform is, for every probe that ran."""
    return all(
        isinstance(run, Exception) or _exactness(run, probe) == _simulated(probe, candidate) for probe, run in results
    )


def _overflow(sums: Array) -> str:
    """Classifies overflow by the last element, which is the largest number plus 1."""
    limits: Any = np.iinfo(sums.dtype) if sums.dtype.kind in "iu" else None
    words = {} if limits is None else {int(limits.min): "wraps", int(limits.max): "saturates"}
    return words.get(int(sums[-1]), "unknown")


def _line(error: Exception) -> str:
    """Returns the message's reason without text that differs between processes: it is part of the fingerprint."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = next((line for line in lines if _REFUSAL.search(line)), lines[0])
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+|/[^ :]*', '…', text)}"[:_MOST_TEXT]


# The probes


def _probes(dtype: str) -> tuple[_Probe, ...]:
    """Makes the probes of a dtype, the simplest first; for floats, a matrix product last."""
    if kind_of(dtype) == "int":
        return _integer_probes(dtype)
    return (_float_probe(dtype), _product_probe(dtype)) if kind_of(dtype) == "float" else (_float_probe(dtype),)


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
    limits: Any = np.iinfo(kind)
    powers = [1 << bit for bit in range(int(limits.bits) - 1)]
    terms = np.asarray([*powers, int(limits.max)]).astype(kind)
    wrapped = np.asarray([*(power + 1 for power in powers), int(limits.min)]).astype(kind)
    sums = _Probe((terms, np.ones_like(terms)), (("add", 0, 1),), (2,), (wrapped,))
    steps = (
        ("mul", 0, 0), ("mul", 2, 2), ("mul", 3, 3), ("mul", 4, 4),
        ("gt", 2, 0), ("gt", 3, 2), ("gt", 4, 3), ("gt", 5, 4),
        ("add", 3, 1), ("sub", 10, 3), ("eq", 11, 1), ("add", 4, 1), ("sub", 13, 4), ("eq", 14, 1),
    )  # fmt: skip
    base = np.arange(100, 128).astype(kind)
    outputs = (6, 7, 8, 9, 12, 15)
    overflow = _Probe((base, np.ones_like(base)), steps, outputs, (np.ones(base.shape, np.bool_),) * len(outputs))
    return sums, overflow


def _product_probe(dtype: str) -> _Probe:
    """1·(1 + 2⁻ᵏ) − 1·1 is 2⁻ᵏ as long as the operands keep k bits.

    A last column with a power that is too large for float16 separates it from a float32 with as few bits of mantissa.
    """
    kind = numpy_dtype(dtype)
    bits = round(-float(np.log2(float(_finfo(kind).eps))))
    large = 2.0 ** min(int(_finfo(kind).maxexp - 1), 100)
    upper = np.append(1 + np.exp2(-np.arange(1.0, bits + 1)), large)
    lower = np.append(np.ones(bits), 0.0)
    left = np.tile(np.asarray([[1.0, -1.0]]), (4, 1)).astype(kind)
    right = np.stack([upper, lower]).astype(kind)
    exact = np.tile(upper - lower, (4, 1)).astype(kind)
    return _Probe((left, right), (("mm", 0, 1),), (2,), (exact,))


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
        shape = (*specs[left].shape[:-1], specs[right].shape[-1])
        specs.append(TensorSpec.contiguous(kind, shape))
        name = "aten.mm.default" if op == "mm" else f"aten.{op}.Tensor"
        nodes.append(Node(name, (Ref(left), Ref(right)), (), (specs[-1],)))
    return Graph(inputs, tuple(nodes), probe.outputs)


def _exactness(arrays: Sequence[Array], probe: _Probe) -> list[list[bool]]:
    """Returns which elements are exact. An array of another dtype or shape is compared by value."""
    if any(array.shape != exact.shape for array, exact in zip(arrays, probe.exact, strict=True)):
        return []
    return [_exact(array, exact).tolist() for array, exact in zip(arrays, probe.exact, strict=True)]


def _exact(array: Array, exact: Array) -> Any:
    """Which elements are exact. Of floats, 2⁻¹² of an element is ignored.

    A format with too few bits for a power of two in a sum loses all of it, or doubles it. Some runtimes return values
    of a 16-bit format with stray bits in float32.
    """
    if kind_of(dtype_name(exact.dtype)) not in ("float", "complex"):
        return np.equal(array, exact)
    wide = np.complex128 if np.iscomplexobj(exact) else np.float64
    with np.errstate(invalid="ignore"):
        return np.isclose(array.astype(wide), exact.astype(wide), rtol=2.0**-12, atol=0.0)


def _simulated(probe: _Probe, candidate: _Arithmetic) -> list[list[bool]]:
    """Returns which elements are exact if numpy computes in the candidate throughout."""
    kind = numpy_dtype(candidate.dtype)
    with np.errstate(all="ignore"):
        values: list[Any] = [array.astype(kind) for array in probe.inputs]
        for op, left, right in probe.steps:
            operands = values[left], values[right]
            if candidate.saturates and op not in ("gt", "eq"):
                values.append(_saturated(op, *operands))
            else:
                values.append(_NUMPY[op](*operands))
        results = [values[number].astype(e.dtype) for number, e in zip(probe.outputs, probe.exact, strict=True)]
    return _exactness(results, probe)


def _saturated(op: str, left: Array, right: Array) -> Array:
    """Computes an operation on Python's unbounded integers, saturated to the range of the dtype."""
    limits: Any = np.iinfo(left.dtype)
    exact = _NUMPY[op](left.astype(object), right.astype(object))
    return np.clip(exact, int(limits.min), int(limits.max)).astype(left.dtype)


def _matmul_in(dtype: str, result: _Found) -> str:
    """Derives the dtype to which a matrix product rounds its operands from the outputs of `_product_probe`."""
    if isinstance(result, Exception):
        return "unsupported" if isinstance(result, Unsupported) else "unknown"
    probe = _product_probe(dtype)
    [seen] = _exactness(result, probe)
    left, right = (array.astype(np.float64) for array in probe.inputs)
    for candidate in (*_CANDIDATES[dtype], _TENSOR_FLOAT):
        # Sums of two products are exact in float64: what is lost is lost in the operands.
        with np.errstate(invalid="ignore"):
            product = left @ _rounded(right, candidate)
        if np.equal(product, probe.exact[0].astype(np.float64)).tolist() == seen:
            return candidate
    return "unknown"


def _rounded(values: Array, candidate: str) -> Array:
    """Rounds float64 values to the candidate, as float64."""
    with np.errstate(over="ignore"):
        if candidate != _TENSOR_FLOAT:
            return values.astype(numpy_dtype(candidate)).astype(np.float64)
        bits = values.astype(np.float32).view(np.uint32)
        return (
            ((bits + 0x0FFF + ((bits >> 13) & 1)) & 0xFFFF_E000).astype(np.uint32).view(np.float32).astype(np.float64)
        )
