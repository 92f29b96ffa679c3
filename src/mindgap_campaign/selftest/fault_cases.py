"""Chooses the faults to inject into a graph: a seeded sample of every kind that its operators admit."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Graph, Node, TensorSpec, kind_of
from mindgap_campaign.selftest.report import Expectation

#: Attributes worth getting wrong, by operator packet: other values that leave the shape as it is.
_ATTRIBUTES: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "gelu": ({"approximate": "tanh"},),
    "layer_norm": ({"eps": 0.01},),
    "group_norm": ({"eps": 0.01},),
    "instance_norm": ({"eps": 0.01},),
    "batch_norm": ({"eps": 0.01},),
    "softmax": ({"dim": 0},),
    "log_softmax": ({"dim": 0},),
    "cumsum": ({"dim": 0},),
    "avg_pool2d": ({"count_include_pad": False},),
    "scaled_dot_product_attention": ({"is_causal": False}, {"is_causal": True}, {"scale": 0.3}),
    "leaky_relu": ({"negative_slope": 0.1},),
    "clamp": ({"min": -1.0}, {"max": 1.0}),
    "add": ({"alpha": 2},),
    "sub": ({"alpha": 2},),
    "add_": ({"alpha": 2},),
    "addcmul": ({"value": 0.5},),
    "pad": ({"value": -0.5},),
    "upsample_bilinear2d": ({"align_corners": True},),
    "var": ({"correction": 0},),
    "std": ({"correction": 0},),
    "tril": ({"diagonal": 1},),
    "roll": ({"shifts": [2]},),
    "hardtanh": ({"max_val": 1.0},),
}  # fmt: skip
#: Products of matrices: where hardware is tempted to lower the precision.
_PRODUCTS: Final = ("linear", "conv2d", "conv1d", "conv_transpose2d", "matmul", "mm", "bmm", "addmm", "einsum",
                    "scaled_dot_product_attention")  # fmt: skip


@dataclass(frozen=True, slots=True)
class FaultCase:
    """Faults to inject into one graph. `kind` names them in the report, `op` the operator that they change."""

    kind: str
    op: str
    faults: tuple[Mapping[str, Any], ...]
    expected: Expectation = "fault"

    def to_toml(self) -> str:
        """Formats the fault file for `faulty/eager`."""
        return "".join(_table(fault) for fault in self.faults)


def faults_for(graph: Graph, seed: int, limit: int) -> list[FaultCase]:
    """Returns up to `limit` faults that must be found if they count, spread evenly over kinds."""
    by_kind: dict[str, list[FaultCase]] = {}
    for node in _distinct(graph):
        for case in _cases(node):
            by_kind.setdefault(case.kind, []).append(case)
    draw = random.Random(seed)
    kinds = sorted(by_kind)
    draw.shuffle(kinds)
    for kind in kinds:
        draw.shuffle(by_kind[kind])
    rounds = max((len(found) for found in by_kind.values()), default=0)
    spread = [by_kind[kind][turn] for turn in range(rounds) for kind in kinds if turn < len(by_kind[kind])]
    return spread[:limit]


def benign_for(graph: Graph, rounding: Sequence[str], seed: int) -> list[FaultCase]:
    """Returns benign cases: no fault, all rounding operators off by one ulp or cut, one such alone, a refusal.

    `rounding`: the operators that have room for rounding in each of their elements. An error of one ulp elsewhere, in
    a result that is exactly zero for one, is none that a platform may make.
    """
    ops = sorted(set(rounding))
    draw = random.Random(seed)
    alone = draw.sample(ops, min(2, len(ops)))
    refused = draw.choice(graph.nodes).op
    return [
        FaultCase("no fault", "", (), "benign"),
        FaultCase("noise of 1 ulp, everywhere", "", tuple(_at(op, kind="noise", ulp=1) for op in ops), "benign"),
        FaultCase("toward zero, everywhere", "", tuple(_at(op, kind="toward_zero") for op in ops), "benign"),
        *(FaultCase("noise of 1 ulp", op, (_at(op, kind="noise", ulp=1),), "benign") for op in alone),
        FaultCase("refusal", refused, (_at(refused, kind="refusal"),), "refusal"),
    ]


def _at(op: str, **fault: Any) -> Mapping[str, Any]:
    return {**fault, "when": {"op": op}}


def _distinct(graph: Graph) -> Iterator[Node]:
    """Returns one node for each operator, dtype and shape: faults have the same effect on all others."""
    seen: set[tuple[str, TensorSpec]] = set()
    for node in graph.nodes:
        spec = node.outputs[0] if node.outputs else None
        if spec is not None and spec.numel and (node.op, spec) not in seen:
            seen.add((node.op, spec))
            yield node


def _cases(node: Node) -> Iterator[FaultCase]:
    spec = node.outputs[0]
    assert spec is not None
    when = {"op": node.op, "dtype": spec.dtype, "shape": list(spec.shape)}

    def case(name: str, **fault: Any) -> FaultCase:
        return FaultCase(name, node.op, ({**fault, "when": when},))

    packet = node.op.split(".")[1]
    yield case("wrong shape", kind="wrong_shape", how="flat" if len(spec.shape) > 1 else "extra")
    yield case("runtime error", kind="runtime_error")
    yield case("compile error", kind="compile_error")
    yield case("wrong dtype", kind="wrong_dtype", dtype="float64" if spec.dtype != "float64" else "float32")
    yield case("stale", kind="stale")
    if len(spec.shape) >= 2 and min(spec.shape[-2:]) > 1:
        yield case("transposed", kind="transposed")
    for values in _ATTRIBUTES.get(packet, ()):
        yield case("wrong attribute", kind="attribute", set=dict(values))
    if spec.dtype == "int64":
        yield case("wrong element", kind="wrong_element", index=7, add=1)
    if kind_of(spec.dtype) in ("float", "complex"):
        yield from _floating(case, packet, spec)


def _floating(case: Any, packet: str, spec: TensorSpec) -> Iterator[FaultCase]:
    mantissa = {"float64": 52, "complex128": 52, "float16": 10, "bfloat16": 7}.get(spec.dtype, 23)
    yield case("large noise", kind="noise", ulp=1 << (mantissa - 4))
    yield case("middling noise", kind="noise", ulp=1 << (mantissa // 2))
    yield case("large nondeterminism", kind="nondeterministic", ulp=1 << (mantissa - 4))
    yield case("wrong element", kind="wrong_element", index=5, scale=1.5, add=0.25)
    yield case("all scaled", kind="scaled", factor=1.01)
    yield case("NaN swallowed", kind="nan_to_zero")
    yield case("Inf for NaN", kind="nan_to_inf")
    yield case("NaN for Inf", kind="inf_to_nan")
    yield case("subnormals flushed", kind="flush_subnormals")
    if packet in _PRODUCTS and spec.dtype in ("float32", "float64"):
        yield case("low precision, bfloat16", kind="low_precision", format="bfloat16")
        yield case("low precision, tf32", kind="low_precision", format="tf32")


def _table(fault: Mapping[str, Any]) -> str:
    return "[[fault]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in fault.items()) + "\n"


def _value(value: Any) -> str:
    """Formats as JSON, which TOML shares for all values used here except tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"  # pyright: ignore[reportUnknownVariableType] # any TOML value
    return json.dumps(value)
