"""Platforms in this process, with faults put in at will, and graphs to try them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from mindgap.aten.operators import overload
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, spec_of, to_numpy, to_torch
from mindgap.graph import Constant, DType, Graph, Input, Node, Ref, operands
from mindgap.judge.trace.judge import Judge
from mindgap.judge.trace.judgement import Judgement
from mindgap.run.outcome import Job, Outcome

#: (graph, node index, result, arguments) -> the result that the platform gives instead.
Fault = Callable[[Graph, int, Any, Sequence[Any]], Any]
REFERENCE = "cpu/eager"
PLATFORM = "bug/eager"


@dataclass
class Bench:
    """Runs jobs in this process. `faults`: by platform; `refuse`: raises in place of running, by platform."""

    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    refuse: dict[str, Callable[[Graph], None]] = field(default_factory=dict[str, Callable[[Graph], None]])
    jobs: int = 0

    def execute(self, job: Job) -> Outcome:
        self.jobs += 1
        graph, fault = job.graph, self.faults.get(job.platform)
        arrays = [job.inputs[i] for i in range(len(graph.inputs))]

        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            result = function(*args, **kwargs)
            return result if fault is None else fault(graph, index, result, args)

        try:
            if job.platform in self.refuse:
                self.refuse[job.platform](graph)
            with torch.no_grad():
                inputs = [to_torch(a, i.spec) for a, i in zip(arrays, graph.inputs, strict=True)]
                outputs = Tape(graph).run(inputs, call=call)
            return Outcome(job.platform, "", "ok", arrays=tuple(to_numpy(t).copy() for t in outputs))
        except Exception as error:
            return Outcome(job.platform, "", "runtime_error", message=str(error), signature=str(error))

    def judge(self, graph: Graph, arrays: Sequence[Any], trace: bool = True, accuracy: str = "") -> Judgement:
        """The platform against the reference."""
        given = dict(enumerate(arrays))
        judge = Judge(graph, arrays, self.execute, REFERENCE, trace=trace, accuracy=accuracy)
        outcomes = [self.execute(Job(name, graph, inputs=given)) for name in (PLATFORM, REFERENCE)]
        return judge.judge(*outcomes)


def wrong_at(op: str, damage: Callable[[torch.Tensor], Any], slot: int = 0) -> Fault:
    """A fault of one operator (its in-place twin too), wherever it is."""

    def fault(graph: Graph, index: int, result: Any, args: Sequence[Any]) -> Any:
        if graph.nodes[index].op.split(".")[1].rstrip("_") != op:
            return result
        if isinstance(result, torch.Tensor):
            return _put(result, damage(result.clone()), args)
        parts = list(result)
        parts[slot] = damage(parts[slot].clone())
        return tuple(parts)

    return fault


def fused_fault(graph: Graph, index: int, result: Any, args: Any) -> Any:
    """Wrong only where a relu and the sigmoid after it are in one graph."""
    ops = [n.op for n in graph.nodes]
    pair = ("aten.relu.default", "aten.sigmoid.default")
    joined = any((a, b) == pair for a, b in pairwise(ops)) and _adjacent(graph)
    return result + 0.1 if joined and graph.nodes[index].op == pair[1] else result


def _adjacent(graph: Graph) -> bool:
    """The sigmoid reads the relu, not an input that stands for it."""
    made = {graph.first_value[i] for i, n in enumerate(graph.nodes) if n.op == "aten.relu.default"}
    read = [v for n in graph.nodes if n.op == "aten.sigmoid.default" for v in operands(n)]
    return bool(made & set(read))


def _put(result: torch.Tensor, wrong: Any, args: Sequence[Any]) -> Any:
    """An in-place operator's wrong values land in its operand."""
    same = bool(args) and isinstance(args[0], torch.Tensor) and args[0].data_ptr() == result.data_ptr()
    in_place = same and isinstance(wrong, torch.Tensor) and wrong.shape == result.shape and wrong.dtype == result.dtype
    return result.copy_(wrong) if in_place else wrong


def scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Every element off by a factor."""
    return lambda y: (y * factor).to(y.dtype)


def bent(curve: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Off by a share of the square: no normalisation takes that out again."""
    return lambda y: (y + curve * y * y).to(y.dtype)


def one_element(position: int, value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A single element off by an absolute value."""

    def damage(y: torch.Tensor) -> torch.Tensor:
        y = y.contiguous()
        y.view(-1)[position] += value
        return y

    return damage


def normal(*shape: int, seed: int = 0, dtype: str = "float32", scale: float = 1.0, shift: float = 0.0) -> Any:
    """Normal numbers as an array of a graph's dtype."""
    drawn = np.random.Generator(np.random.Philox(seed)).standard_normal(shape) * scale + shift
    return to_numpy(torch.from_numpy(np.asarray(drawn)).to(TORCH_DTYPES[dtype]))


def together(*faults: Fault) -> Fault:
    """Every fault, one after the other."""

    def fault(graph: Any, index: int, result: Any, args: Any) -> Any:
        for each in faults:
            result = each(graph, index, result, args)
        return result

    return fault


def build(arrays: Sequence[Any], calls: Sequence[tuple[Any, ...]], outputs: Sequence[str]) -> Graph:
    """A graph of calls (name, op, args…), an operand being the name of an earlier call or `i0`, `i1`, … for inputs.

    The members of a result that is a tuple are called `name.0`, `name.1`, …
    """
    values: list[Any] = [to_torch(a).clone() for a in arrays]
    names = {f"i{k}": k for k in range(len(values))}
    inputs = tuple(Input(spec_of(t), Constant(0)) for t in values)
    nodes: list[Node] = []

    def ref(arg: Any) -> Any:
        if isinstance(arg, str):
            return Ref(names[arg])
        return tuple(ref(a) for a in arg) if isinstance(arg, (list, tuple)) else arg

    def value(arg: Any) -> Any:
        if isinstance(arg, str):
            return values[names[arg]]
        if isinstance(arg, DType):
            return TORCH_DTYPES[arg.name]
        return [value(a) for a in arg] if isinstance(arg, (list, tuple)) else arg

    with torch.no_grad():
        for name, op, *args in calls:
            results = flatten_result(overload(op)(*[value(a) for a in args]))
            names[name] = len(values)
            names.update({f"{name}.{slot}": len(values) + slot for slot in range(len(results))})
            values.extend(results)
            nodes.append(Node(op, tuple(ref(a) for a in args), (), tuple(spec_of(t) for t in results if t is not None)))
    return Graph(inputs, tuple(nodes), tuple(names[o] for o in outputs))


def chain(dtype: str = "float32") -> tuple[Graph, list[Any]]:
    """linear → gelu → layer_norm → linear → softmax."""
    arrays = [normal(8, 32, dtype=dtype), normal(48, 32, seed=1, dtype=dtype, scale=0.2),
              normal(16, 48, seed=2, dtype=dtype, scale=0.2)]  # fmt: skip
    calls = [
        ("a", "aten.linear.default", "i0", "i1"), ("b", "aten.gelu.default", "a"),
        ("c", "aten.layer_norm.default", "b", [48]), ("d", "aten.linear.default", "c", "i2"),
        ("e", "aten.softmax.int", "d", -1),
    ]  # fmt: skip
    return build(arrays, calls, ["e"]), arrays
