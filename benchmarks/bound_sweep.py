"""Measures how much wider each error bound is than the largest error of a correct implementation.

    python benchmarks/bound_sweep.py                     # families in growing sizes, elementwise operators
    python benchmarks/bound_sweep.py --samples           # every operator of PyTorch's own tests
    python benchmarks/bound_sweep.py --also onnxruntime/cpu

Each operator runs by itself on PyTorch's kernels at three vector levels, with and without oneDNN, and by the plain
formulas of `bound_cases.py`. Errors are distances to the exact result. The quotient of a row is the limit of the
verdict (16 hard bounds and the last rounding) divided by the error, at the element where it is smallest. With 50, no
implementation uses more than a fiftieth of the limit. Below 1, a correct implementation would be called wrong. `-`: all
are exact. `rule`: `measured` if no rule covers the operator. `ALSO`: the smallest quotient of a platform that is not
assumed to be correct.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from bound_cases import DTYPES, Call, elementwise, samples, sized
from torch import Tensor

from mindgap.aten.operators import overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import spec_of, to_numpy, to_torch, torch_dtype_name
from mindgap.graph import Arg, Constant, DType, Graph, Input, Layout, MemoryFormat, MindgapError, Node, Ref
from mindgap.judge.oracle import Expectation, Oracle, local_expectation
from mindgap.judge.oracle.bounds.rules import has_rule
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen
from mindgap.judge.oracle.examination import SIGMAS
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool

PLATFORMS: Final = ("cpu/eager", "cpu/eager@isa=default", "cpu/eager@isa=avx2", "cpu/eager@onednn=off")
WIDE: Final = 50.0


@dataclass
class Row:
    """The smallest quotient of one operator, dtype and size, and what is wide there."""

    quotient: float = math.inf
    also: float = math.inf
    calls: int = 0
    worst: str = ""
    alarms: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Prepared:
    """A call as a graph of one node, its operands, and what its results may be."""

    call: Call
    graph: Graph
    inputs: dict[int, Any]
    expected: Sequence[Expectation | None]


def prepare(call: Call) -> Prepared | None:
    """None for what has no graph or no shadow, or nothing that rounds."""
    tensors: list[Tensor] = []

    def argument(value: Any) -> Arg:
        if isinstance(value, Tensor):
            tensors.append(value.detach().contiguous())
            return Ref(len(tensors) - 1)
        if isinstance(value, (list, tuple)):
            return tuple(argument(v) for v in value)
        if isinstance(value, torch.dtype):
            return DType(torch_dtype_name(value))
        if isinstance(value, torch.memory_format):
            return MemoryFormat(str(value).removeprefix("torch."))
        return Layout(str(value).removeprefix("torch.")) if isinstance(value, torch.layout) else value

    positional = tuple(argument(a) for a in call.args)
    named = tuple((k, argument(v)) for k, v in sorted(call.kwargs.items()) if not isinstance(v, torch.device))
    try:
        with torch.no_grad():
            results = flatten_result(overload(call.op)(*call.args, **call.kwargs))
        node = Node(call.op, positional, named, tuple(spec_of(t) if t is not None else None for t in results))
        shown = tuple(len(tensors) + slot for slot, t in enumerate(results) if t is not None)
        graph = Graph(tuple(Input(spec_of(t), Constant(0)) for t in tensors), (node,), shown)
        arrays = [to_numpy(t) for t in tensors]
        expected = local_expectation(Oracle(graph, arrays), 0)
    except (MindgapError, RuntimeError, TypeError, KeyError, NotImplementedError) as error:
        print(f"# {call.op} {call.dtype}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
        return None
    if not any(e is not None and is_real(e.dtype) and not e.exact for e in expected.hard):
        return None
    return Prepared(call, graph, dict(enumerate(arrays)), expected.hard)


def quotient(expected: Expectation, got: Tensor) -> float:
    """The smallest limit over error; infinite where there is no error."""
    if not is_real(expected.dtype) or got.shape != expected.step.shape or expected.exact or not got.numel():
        return math.inf
    fmt = FORMATS[expected.dtype]
    size = torch.nan_to_num(torch.maximum(expected.step.abs(), expected.wide.abs()), nan=0.0, posinf=0.0)
    limit = SIGMAS * expected.sigma + 2 * fmt.u * size + fmt.tiny + 64 / fmt.largest_acc
    error = (widen(got) - expected.wide).abs()
    defined = torch.isfinite(error) & (error > 0)
    if expected.tainted is not None:
        defined &= ~expected.tainted
    ratios = (limit.expand(error.shape) / error)[defined]
    return float(ratios.min()) if ratios.numel() else math.inf


def formulas(one: Prepared) -> Iterable[tuple[str, Sequence[Any]]]:
    """What the other formulations of a call give."""
    if one.call.dtype != "float32":
        return
    for way in one.call.ways:
        with torch.no_grad():
            yield way.__name__, [to_numpy(way(*one.call.args, **one.call.kwargs))]


def swept(calls: Iterable[Call], pool: WorkerPool, also: Sequence[str]) -> dict[tuple[str, str, str], Row]:
    """All calls on all platforms, as rows by operator, dtype and size."""
    rows: dict[tuple[str, str, str], Row] = defaultdict(Row)
    for call in calls:
        one = prepare(call)
        if one is None:
            continue
        row = rows[call.op, call.dtype, call.size]
        row.calls += 1
        found = list(formulas(one))
        for platform in (*PLATFORMS, *also):
            outcome = pool.run(Job(platform, one.graph, want="outputs", repeat=1, inputs=one.inputs))
            if outcome.arrays is not None:
                found.append((platform, outcome.arrays))
        for name, arrays in found:
            _enter(row, one, name, arrays, name in also)
    return rows


def _enter(row: Row, one: Prepared, name: str, arrays: Sequence[Any], also: bool) -> None:
    shown = [e for e, s in zip(one.expected, one.graph.nodes[0].outputs, strict=True) if s is not None]
    for slot, (expected, array) in enumerate(zip(shown, arrays, strict=False)):
        if expected is None:
            continue
        found = quotient(expected, to_torch(array))
        if also:
            row.also = min(row.also, found)
        elif found < row.quotient:
            row.quotient, row.worst = found, f"{name} slot {slot}"


def show(rows: dict[tuple[str, str, str], Row], also: bool) -> None:
    """The table, by operator."""
    print(f"{'operator':<46}{'dtype':<11}{'size':<16}{'rule':<10}{'calls':>5}{'quotient':>10}", end="")
    print(f"{'ALSO':>10}" if also else "", " at")
    for (op, dtype, size), row in sorted(rows.items()):
        packet = op.split(".")[1]
        rule = "rule" if has_rule(packet) else "measured"
        print(f"{op:<46}{dtype:<11}{size:<16}{rule:<10}{row.calls:>5}{_figure(row.quotient):>10}", end="")
        flag = "  WIDE" if WIDE < row.quotient < math.inf else "  ALARM" if row.quotient < 1 else ""
        print(f"{_figure(row.also):>10}" if also else "", f" {row.worst}{flag}")
    known = [r.quotient for r in rows.values() if r.quotient < math.inf]
    wide = sum(q > WIDE for q in known)
    print(f"\n{len(known)} rows with an error, {wide} of them wider than {WIDE:g}, {sum(q < 1 for q in known)} alarms")


def _figure(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.3g}"


def main() -> None:
    """Runs the sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--most", type=int, default=3, help="samples of each overload")
    parser.add_argument("--dtype", action="append", choices=[*DTYPES])
    parser.add_argument("--op", default="", help="only operators whose name contains this")
    parser.add_argument("--also", action="append", default=[], help="a platform to hold against the bounds")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    calls: list[Call] = []
    for name in asked.dtype or ["float32", "bfloat16"]:
        dtype = DTYPES[name]
        if asked.samples:
            calls += samples(dtype, asked.most, backward=True)
        else:
            calls += [*sized(dtype), *elementwise(dtype)]
    with WorkerPool([*PLATFORMS, *asked.also], busy=1) as pool:
        rows = swept((c for c in calls if asked.op in c.op), pool, asked.also)
    show(rows, bool(asked.also))


if __name__ == "__main__":
    main()
