"""Evaluates a program of IREE's in numpy, one element after the other, while it is still operations on tensors.

After `--compile-to=input` or `--compile-to=global-optimization`, a program is loops over elements (`linalg.generic`)
around scalar operations. Their meaning is MLIR's documentation. What it leaves undefined gives a value that no right
result has: NaN for an element outside of a tensor, the least integer for a number that an integer type cannot hold.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mindgap.platforms.protocol import Array, Unsupported

#: Operations that give their operands.
_SAME: Final = frozenset(
    {
        "iree_tensor_ext.compute_barrier.start", "iree_tensor_ext.compute_barrier.end", "hal.tensor.barrier",
        "util.optimization_barrier", "tensor.cast", "tensor.bitcast",
    }
)  # fmt: skip
_FLOATS: Final = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_FUNCTION: Final = "main$async"
_AFFINE: Final = re.compile(r"affine_map<\((?P<dims>[^)]*)\) -> \((?P<results>.*)\)>")
_MOST_ELEMENTS: Final = 1 << 16
_DYNAMIC: Final = -(1 << 63)


def evaluate(program: str, inputs: Sequence[Array]) -> list[Array]:
    """The results of a program, which `iree-compile` printed. Raises `Unsupported`."""
    ir: Any = importlib.import_module("iree.compiler.ir")
    passes: Any = importlib.import_module("iree.compiler.passmanager").PassManager
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(program)
        passes.parse("builtin.module(util.func(linalg-generalize-named-ops))").run(module.operation)
        for function in module.body.operations:
            if _FUNCTION in str(function.attributes.get("sym_name", "")):
                return _Evaluation(ir).function(function.operation, inputs)
    raise Unsupported("model", f"IREE's program has no function {_FUNCTION}")


class _Evaluation:
    """The values of one function, by the value of MLIR."""

    def __init__(self, ir: Any) -> None:
        self._ir = ir
        self._values: dict[Any, Any] = {}

    def function(self, function: Any, inputs: Sequence[Array]) -> list[Array]:
        """The tensors that the function exports, in order."""
        block = function.regions[0].blocks[0]
        for place, array in enumerate(inputs):
            self._values[block.arguments[place]] = array
        for operation in block.operations:
            if operation.operation.name == "util.return":
                return [np.asarray(self._values[value]) for value in operation.operands]
            self._run(operation.operation)
        raise Unsupported("model", "the function does not return")

    def _run(self, operation: Any) -> None:
        name = str(operation.name)
        found = self._computed(name, operation)
        for result, value in zip(operation.results, found, strict=True):
            self._values[result] = value

    def _computed(self, name: str, operation: Any) -> list[Any]:
        operands = [self._values.get(value) for value in operation.operands]
        if name in _SAME:
            return [each for each, _ in zip(operands, operation.results, strict=False)]
        if name == "hal.tensor.import":
            return [np.asarray(operands[0]).astype(self._dtype(operation.results[0])).reshape(self._shape(operation))]
        if name == "hal.tensor.export":
            return [operands[0]]
        if name == "linalg.generic":
            return self._generic(operation, operands)
        if name.startswith("tensor."):
            return [self._tensor(name, operation, operands)]
        return [self._scalar(name, operation, operands)]

    def _shape(self, operation: Any) -> tuple[int, ...]:
        declared = self._ir.RankedTensorType(operation.results[0].type)
        if not declared.has_static_shape:
            raise Unsupported("model", "no evaluation of IREE's program with dynamic shapes")
        return tuple(declared.shape)

    def _dtype(self, value: Any) -> np.dtype[Any]:
        kind = value.type
        name = str(self._ir.RankedTensorType(kind).element_type if str(kind).startswith("tensor<") else kind)
        return _numpy(name)

    def _generic(self, operation: Any, operands: Sequence[Any]) -> list[Any]:
        """Runs the region once for each point. Later operands are the initial results."""
        outputs = [np.array(each) for each in operands[len(operands) - len(operation.results) :]]
        arrays = [np.asarray(each) for each in operands[: len(operands) - len(outputs)]]
        maps = [_Map(str(each)) for each in operation.attributes["indexing_maps"]]
        sizes = _sizes(maps, [*arrays, *outputs])
        if math.prod(sizes) > _MOST_ELEMENTS:
            raise Unsupported("model", "the program has too many elements to be evaluated one after the other")
        block = operation.regions[0].blocks[0]
        for point in itertools.product(*map(range, sizes)):
            places = [each.at(point) for each in maps]
            given = [array[place] for array, place in zip([*arrays, *outputs], places, strict=True)]
            found = self._region(block, given, point)
            for output, place, value in zip(outputs, places[len(arrays) :], found, strict=True):
                output[place] = value
        return list(outputs)

    def _region(self, block: Any, given: Sequence[Any], point: Sequence[int]) -> list[Any]:
        """Runs a block of scalar operations, and returns what it yields."""
        self._values |= zip(block.arguments, given, strict=True)
        for operation in block.operations:
            inner = operation.operation
            name = str(inner.name)
            if name in ("linalg.yield", "tensor.yield"):
                return [self._values[value] for value in inner.operands]
            if name == "linalg.index":
                self._values[inner.results[0]] = np.int64(point[int(self._attribute(inner, "dim"))])
            else:
                self._run(inner)
        raise Unsupported("model", "a region yields nothing")

    def _attribute(self, operation: Any, name: str) -> Any:
        """An attribute as a number, a list of numbers or an array."""
        held, ir = operation.attributes[name], self._ir
        if isinstance(held, (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr)):
            return held.value
        return list(held) if isinstance(held, ir.DenseI64ArrayAttr) else np.array(held)

    def _tensor(self, name: str, operation: Any, operands: Sequence[Any]) -> Any:
        if name == "tensor.extract":
            return _element(np.asarray(operands[0]), [int(each) for each in operands[1:]])
        if name == "tensor.empty":
            return np.zeros(self._shape(operation), self._dtype(operation.results[0]))
        if name in ("tensor.expand_shape", "tensor.collapse_shape"):
            return np.asarray(operands[0]).reshape(self._shape(operation))
        if name == "tensor.from_elements":
            return np.array(operands, self._dtype(operation.results[0])).reshape(self._shape(operation))
        if name == "tensor.pad":
            return self._padded(operation, np.asarray(operands[0]))
        if name in ("tensor.extract_slice", "tensor.insert_slice"):
            return self._sliced(name, operation, operands)
        if name == "tensor.concat":
            return np.concatenate([np.asarray(each) for each in operands], int(self._attribute(operation, "dim")))
        if name == "tensor.dim":
            return np.int64(np.asarray(operands[0]).shape[int(operands[1])])
        raise Unsupported("model", f"no evaluation of MLIR's {name}")

    def _padded(self, operation: Any, array: Array) -> Array:
        low, high = (self._static(operation, name) for name in ("static_low", "static_high"))
        if any(size < 0 for size in (*low, *high)):
            raise Unsupported("model", "MLIR's tensor.pad has a negative size")
        block = operation.regions[0].blocks[0]
        shape = self._shape(operation)
        found = np.empty(shape, array.dtype)
        for point in np.ndindex(*shape):
            inside = [at - before for at, before in zip(point, low, strict=True)]
            held = all(0 <= at < size for at, size in zip(inside, array.shape, strict=True))
            filled = [] if held else self._region(block, [np.int64(at) for at in point], point)
            found[point] = array[tuple(inside)] if held else filled[0]
        return found

    def _sliced(self, name: str, operation: Any, operands: Sequence[Any]) -> Array:
        starts, sizes, strides = (
            self._static(operation, each) for each in ("static_offsets", "static_sizes", "static_strides")
        )
        place = tuple(
            slice(start, start + (size - 1) * step + 1 if size else start, step)
            for start, size, step in zip(starts, sizes, strides, strict=True)
        )
        if name == "tensor.extract_slice":
            return np.asarray(operands[0])[place].reshape(self._shape(operation))
        into = np.array(operands[1])
        into[place] = np.asarray(operands[0]).reshape(sizes)
        return into

    def _static(self, operation: Any, name: str) -> list[int]:
        found = [int(each) for each in self._attribute(operation, name)]
        if _DYNAMIC in found:
            raise Unsupported("model", f"no evaluation of MLIR's {operation.name} with a {name} that is computed")
        return found

    def _scalar(self, name: str, operation: Any, operands: Sequence[Any]) -> Any:
        if name == "arith.constant":
            return self._constant(operation)
        if name in ("arith.cmpi", "arith.cmpf"):
            return _compared(name, int(self._attribute(operation, "predicate")), operands)
        if name == "arith.select":
            return operands[1] if bool(operands[0]) else operands[2]
        if name in ("util.null", "cf.assert"):
            return None
        function = _SCALAR.get(name)
        if function is None or any(each is None for each in operands):
            raise Unsupported("model", f"no evaluation of MLIR's {name}")
        dtype = self._dtype(operation.results[0])
        with np.errstate(all="ignore"):
            return np.asarray(function(dtype, *map(np.asarray, operands))).astype(dtype)[()]

    def _constant(self, operation: Any) -> Any:
        found = self._attribute(operation, "value")
        dtype = self._dtype(operation.results[0])
        if isinstance(found, np.ndarray):
            return found.astype(dtype).reshape(self._shape(operation))
        return np.array(found).astype(dtype)[()]


class _Map:
    """An affine map: which element of a tensor a point of a loop is for."""

    def __init__(self, text: str) -> None:
        found = _AFFINE.search(text)
        if found is None or "ceildiv" in text:
            raise Unsupported("model", f"no evaluation of MLIR's {text}")
        self._dims = [each.strip() for each in found["dims"].split(",") if each.strip()]
        self.results = [each.strip() for each in found["results"].split(",") if each.strip()]
        expression = found["results"].replace("floordiv", "//").replace("mod", "%")
        self._code = compile(f"({expression},)" if self.results else "()", "affine_map", "eval")

    def at(self, point: Sequence[int]) -> tuple[int, ...]:
        """The place of the element."""
        return tuple(eval(self._code, {"__builtins__": {}}, dict(zip(self._dims, point, strict=True))))

    def dimension(self, result: int) -> int | None:
        """The loop whose number is the result; None for a result that is computed."""
        return self._dims.index(self.results[result]) if self.results[result] in self._dims else None

    @property
    def loops(self) -> int:
        """The number of loops."""
        return len(self._dims)


def _sizes(maps: Sequence[_Map], arrays: Sequence[Array]) -> list[int]:
    """The number of steps of each loop, by the tensors that it runs over."""
    found: dict[int, int] = {}
    for each, array in zip(maps, arrays, strict=True):
        for result, size in enumerate(array.shape):
            loop = each.dimension(result)
            if loop is not None:
                found[loop] = size
    if len(found) != maps[0].loops:
        raise Unsupported("model", "no evaluation of a loop of MLIR's whose size no tensor tells")
    return [found[loop] for loop in range(len(found))]


def _element(array: Array, place: Sequence[int]) -> Any:
    if all(0 <= at < size for at, size in zip(place, array.shape, strict=True)):
        return array[tuple(place)]
    undefined = np.nan if array.dtype.kind == "f" else 1 if array.dtype == np.bool_ else np.iinfo(array.dtype).min
    return array.dtype.type(undefined)


def _numpy(name: str) -> np.dtype[Any]:
    """numpy's dtype of an element type; integers have no sign and are read as signed."""
    if name in _FLOATS:
        return np.dtype(_FLOATS[name])
    if name == "i1":
        return np.dtype(np.bool_)
    if name == "index":
        return np.dtype(np.int64)
    if name in ("i8", "i16", "i32", "i64"):
        return np.dtype(f"int{name[1:]}")
    raise Unsupported("model", f"no evaluation of MLIR's type {name}")


def _compared(name: str, predicate: int, operands: Sequence[Any]) -> Any:
    """The predicates of `arith` in the order of their numbers."""
    one, other = operands
    if name == "arith.cmpi":
        if predicate >= 6:
            one, other = _unsigned(np.asarray(one)), _unsigned(np.asarray(other))
        order = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")[predicate][-2:]
        return np.bool_(_ORDER[order](one, other))
    if predicate in (0, 15):
        return np.bool_(predicate == 15)
    text = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")[
        predicate - 1
    ]
    unordered = bool(np.isnan(one) or np.isnan(other))
    if text in ("ord", "uno"):
        return np.bool_(unordered == (text == "uno"))
    return np.bool_(text[0] == "u") if unordered else np.bool_(_ORDER[text[1:]](one, other))


_FLOAT_PREDICATES: Final = (
    "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
)  # fmt: skip
_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _unsigned(array: Array) -> Array:
    return array.view(f"u{array.dtype.name}") if array.dtype.kind == "i" else array


def _to_integer(dtype: np.dtype[Any], value: Array) -> Any:
    """A number that the signed type cannot hold is undefined."""
    limits = np.iinfo(dtype)
    whole = np.trunc(np.float64(value))
    return whole if limits.min <= whole <= limits.max else limits.min


def _to_unsigned(dtype: np.dtype[Any], value: Array) -> Any:
    whole = np.trunc(np.float64(value))
    limits = np.iinfo(f"u{dtype.name}")
    return np.array(whole if 0 <= whole <= limits.max else limits.max).astype(f"u{dtype.name}").view(dtype)


def _extended(dtype: np.dtype[Any], value: Array) -> Any:
    return _unsigned(value).astype(np.uint64).astype(dtype) if value.dtype != np.bool_ else value


def _divided(dtype: np.dtype[Any], one: Array, other: Array) -> Any:
    return np.trunc(one / other) if other else np.iinfo(dtype).min


def _sign_extended(dtype: np.dtype[Any], value: Array) -> Any:
    return -value.astype(dtype) if value.dtype == np.bool_ else value


def _bits(dtype: np.dtype[Any], value: Array) -> Any:
    return value.view(dtype)


def _rounded(value: Array) -> Any:
    return np.copysign(np.floor(np.abs(value) + 0.5), value)


def _multiplied_and_added(one: Array, other: Array, added: Array) -> Any:
    return one * other + added


def _erf(value: Array) -> Any:
    return math.erf(float(value))


def _rsqrt(value: Array) -> Any:
    return 1 / np.sqrt(value)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(dtype: np.dtype[Any], *values: Array) -> Any:
        return function(*values)

    return run


_SCALAR: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"arith.{name}": _plain(function)
        for name, function in {
            "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "negf": np.negative,
            "remf": np.fmod, "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
            "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or,
            "xori": np.bitwise_xor, "shli": np.left_shift, "shrsi": np.right_shift, "maxsi": np.maximum,
            "minsi": np.minimum, "floordivsi": np.floor_divide, "remsi": np.fmod,
            "extf": np.asarray, "truncf": np.asarray, "sitofp": np.asarray, "index_cast": np.asarray,
            "trunci": np.asarray,
        }.items()
    },
    **{
        f"math.{name}": _plain(getattr(np, numpy_name))
        for name, numpy_name in {
            "absf": "abs", "absi": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
            "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "ceil": "ceil", "floor": "floor",
            "trunc": "trunc", "cos": "cos", "sin": "sin", "tan": "tan", "cosh": "cosh", "sinh": "sinh", "tanh": "tanh",
            "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log10": "log10", "log1p": "log1p",
            "log2": "log2", "sqrt": "sqrt", "roundeven": "rint", "copysign": "copysign", "powf": "power",
            "fpowi": "power", "cbrt": "cbrt", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
        }.items()
    },
    "math.rsqrt": _plain(_rsqrt),
    "math.fma": _plain(_multiplied_and_added),
    "math.erf": _plain(_erf),
    "math.round": _plain(_rounded),
    "arith.uitofp": _plain(_unsigned),
    "arith.divsi": _divided,
    "arith.extsi": _sign_extended,
    "arith.extui": _extended,
    "arith.index_castui": _extended,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_unsigned,
    "arith.bitcast": _bits,
}  # fmt: skip
