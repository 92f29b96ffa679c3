"""Operators with one right answer, beside ways to get it wrong that were met in compilers and runtimes.

Each case is one operator on given operands. Its right answer is computed by hand-written arithmetic that shares nothing
with the oracle (Python's integers and floats, fractions), its wrong ones by formulas that real implementations use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from judge.oracle.bench import PLATFORM, Bench, normal
from mindgap.aten.operators import overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, spec_of, to_torch
from mindgap.graph import Constant, DType, Graph, Input, Node, Ref
from mindgap.judge.trace.judgement import Judgement

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Exact:
    """`op` on `arrays` and `more` constants. `wrong`: by name, a function of the operands that gives a wrong result."""

    name: str
    op: str
    arrays: tuple[Array, ...]
    wrong: dict[str, Callable[..., Any]]
    more: tuple[Any, ...] = ()
    right: Callable[..., Any] | None = None
    also: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    slot: int = 0


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def ints(dtype: str, *values: int) -> Array:
    return np.array(values, dtype)


def by_formula(x: Array, y: Array) -> Array:
    """x - floor(x/y)·y, each step rounded."""
    with np.errstate(all="ignore"):
        return x - np.floor(x / y) * y


def by_truncating_formula(x: Array, y: Array) -> Array:
    """x - trunc(x/y)·y, each step rounded."""
    with np.errstate(all="ignore"):
        return x - np.trunc(x / y) * y


def floor_of_quotient(x: Array, y: Array) -> Array:
    """floor(x/y), the quotient rounded first."""
    with np.errstate(all="ignore"):
        return np.floor(x / y)


def python_remainder(x: Array, y: Array) -> Array:
    """The remainder as Python defines it, from exact fractions, rounded once."""
    return np.array([_modulo(float(a), float(b)) for a, b in zip(x, np.broadcast_to(y, x.shape), strict=True)], x.dtype)


def _modulo(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    if math.isinf(y):
        return x if x == 0 or (x > 0) == (y > 0) else y
    return float(Fraction(x) % Fraction(y))


def python_floor_divide(x: Array, y: Array) -> Array:
    """The quotient as Python defines it, from exact fractions, rounded once."""
    found = [_quotient(float(a), float(b)) for a, b in zip(x, np.broadcast_to(y, x.shape), strict=True)]
    return np.array(found, x.dtype)


def _quotient(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    if math.isinf(y):
        return 0.0 if x == 0 or (x > 0) == (y > 0) else -1.0
    return float(Fraction(x) // Fraction(y))


def c_fmod(x: Array, y: Array) -> Array:
    return np.array([math.fmod(float(a), float(b)) for a, b in zip(x, y, strict=True)], x.dtype)


def clipped(dtype: str, function: Callable[..., Any]) -> Callable[..., Array]:
    """Arithmetic that saturates instead of wrapping."""

    def saturating(*operands: Array) -> Array:
        limits = np.iinfo(dtype)
        wide = function(*(np.asarray(o, object) for o in operands))
        return np.array([min(max(v, limits.min), limits.max) for v in wide], dtype)

    return saturating


def through(dtype: str, function: Callable[..., Any]) -> Callable[..., Array]:
    """Integer arithmetic carried out in a float format."""

    def detour(*operands: Array) -> Array:
        return function(*(o.astype(dtype) for o in operands)).astype(operands[0].dtype)

    return detour


_LARGE = np.abs(normal(20)) * np.float32(1e9) + np.float32(1e9)
_MANY = normal(40, scale=10.0)
_DIVISORS = normal(40, seed=1, scale=3.0)
_TENTHS = np.arange(1, 41, dtype=np.float32) / np.float32(10)


def _remainders() -> Iterator[Exact]:
    for op, right in (("aten.remainder.Tensor", python_remainder), ("aten.fmod.Tensor", c_fmod)):
        formula = by_formula if "remainder" in op else by_truncating_formula
        packet = op.split(".")[1]
        three = np.full(20, 3.0, np.float32)
        yield Exact(f"{packet} of large numbers", op, (_LARGE, three), {"formula": formula}, right=right)
        yield Exact(f"{packet} of multiples of a tenth", op, (_TENTHS, np.full(40, 0.1, np.float32)),
                    {"formula": formula}, right=right)  # fmt: skip
        huge = np.linspace(1e30, 9e30, 20, dtype=np.float32)
        yield Exact(f"{packet} of huge numbers", op, (huge, np.full(20, -103.0, np.float32)),
                    {"formula": formula, "zero": lambda x, y: np.zeros_like(x)}, right=right)  # fmt: skip
        near_limit = np.full(20, 3.0e38, np.float32) * np.linspace(0.9, 1, 20, dtype=np.float32)
        yield Exact(f"{packet} next to the largest float", op, (near_limit, np.full(20, 7.0, np.float32)),
                    {"zero": lambda x, y: np.zeros_like(x), "formula": formula}, right=right)  # fmt: skip
        yield Exact(f"{packet} by a tiny number", op, (np.full(20, 5.0, np.float32), np.linspace(
            1e-30, 2e-30, 20, dtype=np.float32)), {"formula": formula}, right=right)  # fmt: skip
    yield Exact("remainder of mixed signs", "aten.remainder.Tensor", (_MANY, _DIVISORS),
                {"C's sign": lambda x, y: np.fmod(x, y), "double its own": lambda x, y: np.mod(x, y) * 2},
                right=python_remainder)  # fmt: skip
    yield Exact("remainder by an infinity", "aten.remainder.Tensor", (f32(5, -5, 0.5, 1e30), f32(INF, INF, -INF, INF)),
                {"formula": by_formula, "operand": lambda x, y: x}, right=python_remainder)  # fmt: skip


def _quotients() -> Iterator[Exact]:
    infinite = f32(INF, -INF, 5, -5, 5, -1), f32(3, 3, INF, INF, -INF, INF)
    for op, more in (("aten.floor_divide.default", ()), ("aten.div.Tensor_mode", ())):
        if "div.Tensor_mode" in op:
            continue
        yield Exact("floor division with infinities", op, infinite, {"floor of the quotient": floor_of_quotient},
                    more, python_floor_divide)  # fmt: skip
        yield Exact("floor division of mixed signs", op, (_MANY, _DIVISORS), {
            "truncated": lambda x, y: np.trunc(x / y), "one less": lambda x, y: np.floor(x / y) - 1,
        }, more, python_floor_divide)  # fmt: skip
        yield Exact("floor division by a tenth", op, (_TENTHS * 10, np.full(40, 0.1, np.float32)),
                    {"floor of the quotient": floor_of_quotient}, more, python_floor_divide)  # fmt: skip
        yield Exact("floor division of huge numbers", op, (np.full(20, 1e30, np.float32), np.linspace(
            1e-7, 3e-7, 20, dtype=np.float32)), {"zero": lambda x, y: np.zeros_like(x)}, more,
            python_floor_divide)  # fmt: skip


def _integers() -> Iterator[Exact]:
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        limits = np.iinfo(dtype)
        top = np.array([limits.max, limits.max - 1, limits.max // 2 + 1, 3], dtype)
        few = np.array([1, 5, limits.max // 2 + 1, 4], dtype)
        yield Exact(f"add wraps {dtype}", "aten.add.Tensor", (top, few), {"saturates": clipped(dtype, np.add)})
        yield Exact(f"mul wraps {dtype}", "aten.mul.Tensor", (top, few), {"saturates": clipped(dtype, np.multiply)})
        low = np.array([limits.min, limits.min + 1, 3, 7], dtype)
        yield Exact(f"sub wraps {dtype}", "aten.sub.Tensor", (low, few), {"saturates": clipped(dtype, np.subtract)})
        yield Exact(f"cumsum wraps {dtype}", "aten.cumsum.default", (np.repeat(top, 3).astype("int64"),),
                    {"in float32": lambda x: np.cumsum(x.astype(np.float32)).astype(np.int64) + 1}, (0,))  # fmt: skip
    beyond = np.array([2**53 + 1, 2**53 + 3, -(2**53) - 1, 2**62 + 1], np.int64)
    one = np.array([1, 1, 1, 3], np.int64)
    for op in ("add", "sub", "mul"):
        yield Exact(f"{op} beyond 2**53", f"aten.{op}.Tensor", (beyond, np.array([2, 4, 2, 3], np.int64)),
                    {"in float64": through("float64", {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op])},
                    )  # fmt: skip
    yield Exact("sum beyond 2**53", "aten.sum.default", (np.array([2**53, 1, 1], np.int64),), {
        "in float64": lambda x: np.int64(np.cumsum(x.astype(np.float64))[-1])})  # fmt: skip
    yield Exact("floor division beyond 2**53", "aten.floor_divide.default", (beyond, one), {
        "in float64": through("float64", np.floor_divide)})  # fmt: skip
    mixed, divisors = np.array([7, -7, 7, -7, 6], np.int32), np.array([3, 3, -3, -3, -3], np.int32)
    yield Exact("integer floor division", "aten.floor_divide.default", (mixed, divisors), {
        "truncates": lambda x, y: np.trunc(x / y).astype(x.dtype)},
        right=lambda x, y: np.array([int(a) // int(b) for a, b in zip(x, y, strict=True)], x.dtype))  # fmt: skip
    yield Exact("integer remainder", "aten.remainder.Tensor", (mixed, divisors), {
        "C's": lambda x, y: np.fmod(x, y)},
        right=lambda x, y: np.array([int(a) % int(b) for a, b in zip(x, y, strict=True)], x.dtype))  # fmt: skip
    yield Exact("integer fmod", "aten.fmod.Tensor", (mixed, divisors), {"Python's": lambda x, y: np.mod(x, y)})
    yield Exact("integer power", "aten.pow.Tensor_Scalar", (np.array([3, -3, 7, 10], np.int64),),
                {"in float64": lambda x: np.power(x.astype(np.float64), 19).astype(np.int64)}, (19,))  # fmt: skip
    yield Exact("product wraps", "aten.prod.default", (np.array([2**40, 2**30, 3], np.int64),),
                {"saturates": lambda x: np.int64(2**63 - 1)})  # fmt: skip
    yield Exact("right shift keeps the sign", "aten.bitwise_right_shift.Tensor",
                (np.array([-8, 7, -1], np.int32), np.array([1, 1, 3], np.int32)),
                {"fills with zeros": lambda x, y: (x.view(np.uint32) >> y.view(np.uint32)).view(np.int32)})  # fmt: skip
    yield Exact("left shift wraps", "aten.bitwise_left_shift.Tensor",
                (np.array([100, -100, 3], np.int8), np.array([1, 2, 3], np.int8)),
                {"saturates": clipped("int8", np.left_shift)})  # fmt: skip
    yield Exact("not of an unsigned number", "aten.bitwise_not.default", (np.array([0, 5, 255], np.uint8),),
                {"logical": lambda x: (x == 0).astype(np.uint8)})  # fmt: skip
    flags = np.array([True, True, False, True])
    yield Exact("sum of booleans", "aten.sum.default", (flags,), {"or": lambda x: np.int64(1)})
    yield Exact(
        "add of booleans",
        "aten.add.Tensor",
        (flags, ~flags),
        {"exclusive": lambda x, y: np.array([True, True, False, True])},
    )
    yield Exact("negative of the smallest", "aten.neg.default", (np.array([-128, 5], np.int8),),
                {"saturates": lambda x: np.array([127, -5], np.int8)})  # fmt: skip


def _comparisons() -> Iterator[Exact]:
    x, y = f32(1, 2, 3, NAN, 0.0), f32(1, 3, 2, 1, -0.0)
    wrong = {
        "ge": np.greater, "le": np.less, "gt": np.greater_equal, "lt": np.less_equal,
        "eq": lambda a, b: a.view(np.int32) == b.view(np.int32),
        "ne": lambda a, b: a.view(np.int32) != b.view(np.int32),
    }  # fmt: skip
    for op, other in wrong.items():
        yield Exact(f"{op} of equal numbers", f"aten.{op}.Tensor", (x, y), {"ties": other})
    big = np.array([2**53 + 1, 2**24 + 1], np.int64)
    yield Exact("eq of large integers", "aten.eq.Tensor", (big, big - 1), {
        "in float64": lambda a, b: a.astype(np.float32) == b.astype(np.float32)})  # fmt: skip
    yield Exact("isnan", "aten.isnan.default", (x,), {"never": lambda a: np.zeros(a.shape, bool)})
    yield Exact("logical_not", "aten.logical_not.default", (f32(0.3, 0, -0.0, NAN),), {
        "truncates": lambda a: np.array([True, True, True, False])})  # fmt: skip


def _steps() -> Iterator[Exact]:
    halves = f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0)
    yield Exact("round to even", "aten.round.default", (halves,), {
        "away from zero": lambda x: np.trunc(x + np.copysign(np.float32(0.5), x)), "up": lambda x: np.floor(x + 0.5),
    })  # fmt: skip
    for op, other in (("floor", np.trunc), ("ceil", np.trunc), ("trunc", np.floor)):
        yield Exact(f"{op} of negatives", f"aten.{op}.default", (f32(-1.5, 1.5, 0.2, -0.2),), {"other": other})
    yield Exact(
        "frac of negatives", "aten.frac.default", (f32(-1.25, 1.25, 7.5),), {"floor": lambda x: x - np.floor(x)}
    )
    yield Exact("sign of NaN", "aten.sign.default", (f32(NAN, -2, 0),), {"NaN": np.sign})
    yield Exact("float to int", "aten._to_copy.default", (f32(2.7, -2.7, 0.5, 1.5),), {
        "rounds": lambda x: np.rint(x).astype(np.int32), "floors": lambda x: np.floor(x).astype(np.int32),
    }, (DType("int32"),))  # fmt: skip
    yield Exact("float to bool", "aten._to_copy.default", (f32(0.5, -0.25, 0, NAN),), {
        "truncates": lambda x: np.array([False, False, False, True])}, (DType("bool"),))  # fmt: skip
    yield Exact("int to float", "aten._to_copy.default", (np.array([2**24 + 1, 2**24 + 3, 2**53 + 1], np.int64),), {
        "towards zero": lambda x: np.array([2**24, 2**24 + 2, 2**53], np.float32)}, (DType("float32"),))  # fmt: skip
    brain = normal(64)
    yield Exact("float32 to bfloat16", "aten._to_copy.default", (brain,), {
        "cuts off": lambda x: torch.from_numpy((x.view(np.int32) & ~0xFFFF).view(np.float32)).bfloat16(),
    }, (DType("bfloat16"),))  # fmt: skip
    yield Exact("float32 to float16", "aten._to_copy.default", (brain,), {
        "cuts off": lambda x: (x.view(np.int32) & ~0x1FFF).view(np.float32).astype(np.float16),
    }, (DType("float16"),))  # fmt: skip
    yield Exact("float64 to float32", "aten._to_copy.default", (normal(64, dtype="float64"),), {
        "cuts off": lambda x: (x.view(np.int64) & ~0x1FFFFFFF).view(np.float64).astype(np.float32),
    }, (DType("float32"),))  # fmt: skip


def _choices() -> Iterator[Exact]:
    x = f32(3, -1, NAN, 2, INF, -0.0)
    yield Exact("max with NaN", "aten.max.default", (x,), {"ignores": lambda a: np.float32(INF)})
    yield Exact("maximum with NaN", "aten.maximum.default", (x, x[::-1].copy()), {"ignores": np.fmax})
    yield Exact("fmax with NaN", "aten.fmax.default", (x, x[::-1].copy()), {"propagates": np.maximum})
    yield Exact(
        "clamp of NaN", "aten.clamp.default", (x,), {"loses": lambda a: np.fmin(np.fmax(a, -1), 1)}, (-1.0, 1.0)
    )
    yield Exact("relu of NaN", "aten.relu.default", (x,), {"loses": lambda a: np.fmax(a, 0)})
    yield Exact("copysign of zero", "aten.copysign.Tensor", (f32(1, 2), f32(-0.0, 0.0)), {
        "compares": lambda a, b: np.where(b < 0, -a, a)})  # fmt: skip
    picked = normal(64, 3)
    yield Exact("gather", "aten.embedding.default", (picked, np.array([0, 63, 5])), {
        "one off": lambda a, i: a[(i + 1) % 64], "one ulp": lambda a, i: np.nextafter(a[i], np.float32(9)),
    })  # fmt: skip
    yield Exact("sort", "aten.sort.default", (normal(64),), {"down": lambda a: np.sort(a)[::-1].copy()})
    yield Exact("argsort", "aten.argsort.default", (normal(64),), {"down": lambda a: np.argsort(-a)})
    yield Exact("nonzero", "aten.nonzero.default", (f32(0.5, 0, -0.25, NAN),), {
        "truncates": lambda a: np.array([[0], [3], [3]])})  # fmt: skip
    edges = np.array([1.0, 2.0, 3.0], np.float32)
    yield Exact("bucketize", "aten.bucketize.Tensor", (f32(0.5, 1.0, 2.0, 2.5, 3.0), edges), {
        "right": lambda a, e: np.digitize(a, e)})  # fmt: skip
    yield Exact("searchsorted", "aten.searchsorted.Tensor", (edges, f32(0.5, 1.0, 2.0, 2.5, 3.0)), {
        "right": lambda e, a: np.digitize(a, e)})  # fmt: skip
    yield Exact("nextafter", "aten.nextafter.default", (normal(20), normal(20, seed=1)), {
        "operand": lambda a, b: a, "two": lambda a, b: np.nextafter(np.nextafter(a, b), b)})  # fmt: skip
    yield Exact("frexp", "aten.frexp.Tensor", (normal(20) * np.float32(100),), {
        "one to two": lambda a: np.frexp(a)[0] * 2,
        "one ulp": lambda a: np.nextafter(np.frexp(a)[0], np.float32(9)),
    })  # fmt: skip
    yield Exact("ldexp", "aten.ldexp.Tensor", (normal(20), np.arange(-10, 10)), {
        "two ulps": lambda a, e: np.ldexp(a, e) * np.float32(1 + 2.0**-22)})  # fmt: skip
    yield Exact("permute", "aten.permute.default", (normal(8, 8),), {
        "one ulp at one place": lambda a: _nudged(a.T.copy())}, ([1, 0],))  # fmt: skip


def _nudged(a: Array) -> Array:
    a[2, 3] = np.nextafter(a[2, 3], np.float32(99))
    return a


def all_cases() -> list[Exact]:
    return [*_remainders(), *_quotients(), *_integers(), *_comparisons(), *_steps(), *_choices()]


def graph_of(case: Exact) -> Graph:
    """The one operator as a graph; all its results are outputs."""
    tensors = [to_torch(a).clone() for a in case.arrays]
    op, constants, named = case.op, case.more, ()
    given: list[Any] = [TORCH_DTYPES[c.name] if isinstance(c, DType) else list(c) if isinstance(c, (list, tuple)) else c
                        for c in constants]  # fmt: skip
    if op == "aten._to_copy.default":
        results = flatten_result(overload(op)(*tensors, dtype=given[0]))
        constants, named = (), (("dtype", case.more[0]),)
    else:
        results = flatten_result(overload(op)(*tensors, *given))
    refs = tuple(Ref(i) for i in range(len(tensors)))
    fixed = tuple(tuple(c) if isinstance(c, list) else c for c in constants)
    node = Node(op, (*refs, *fixed), named, tuple(spec_of(t) for t in results))
    shown = tuple(len(tensors) + slot for slot in range(len(results)))
    return Graph(tuple(Input(spec_of(t), Constant(0)) for t in tensors), (node,), shown)


def judged(case: Exact, graph: Graph, instead: Callable[..., Any] | None) -> Judgement:
    """The verdict on a platform that gives `instead` of the operator; on PyTorch itself without it."""

    def fault(_: Graph, __: int, result: Any, args: Any) -> Any:
        if instead is None:
            return result
        with np.errstate(all="ignore"):
            wrong = instead(*case.arrays)
        wrong = wrong if isinstance(wrong, torch.Tensor) else torch.from_numpy(np.asarray(wrong).copy())
        if isinstance(result, torch.Tensor):
            return wrong.to(result.dtype) if wrong.dtype != result.dtype else wrong
        return (wrong.to(result[0].dtype), *result[1:])

    return Bench({PLATFORM: fault}).judge(graph, case.arrays)
