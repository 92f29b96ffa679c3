"""Makes faults of the nodes of a model file that a platform computes otherwise by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindgap.graph.compare.culprit import Example, OperatorCulprit
from mindgap.graph.compare.verdict import Blame, Fault, Verdict
from mindgap.own_path.runs import FileNode, FileNodes
from mindgap.results.rows import Row


def is_named(row: Row, found: FileNodes) -> bool:
    """Returns whether the row of the translated graph names these nodes already."""
    named = {fault.culprit.label for fault in row.independent_faults if fault.culprit is not None}
    return bool(found.nodes) and all(_culprit(node).label in named for node in found.nodes)


def faults_of_nodes(found: FileNodes, other: Blame | None = None) -> list[Fault]:
    """Returns one fault for each operator, of its first node.

    The platform is at fault where the evaluator in float64 agrees with the evaluator. `other`: whom another comparison
    blames, where it does not.
    """
    by_op: dict[str, list[FileNode]] = {}
    for node in found.nodes:
        by_op.setdefault(node.op, []).append(node)
    return [_fault(nodes, other) for nodes in by_op.values()]


def _fault(nodes: Sequence[FileNode], other: Blame | None) -> Fault:
    first = nodes[0]
    parts = f"{first.nodes} nodes that end at {first.name}" if first.nodes > 1 else f"node {first.name} ({first.op})"
    more = f", and so do {len(nodes) - 1} more nodes of it" if len(nodes) > 1 else ""
    if first.apart is None:
        text = f"{parts} alone fails: {first.message}{more}"
        return Fault(_culprit(first), "failed", "platform", detail=text)
    operands = "on the operands that ONNX's reference evaluator gives"
    if first.message:
        text = f"{parts} alone, {operands}, gives {first.message}{more}"
        return Fault(_culprit(first), "structural", "platform", detail=text)
    far = math.isinf(first.apart)
    size = (
        "has NaN or infinity at other elements than it"
        if far
        else (f"is {first.apart:.2g} of the largest magnitude off it")
    )
    lacks = " (or mindgap's translation, where it lacks the operator)"
    agrees = "; the node in float64 agrees with the evaluator" if first.exact else lacks
    text = f"{parts} alone, {operands}, {size}{agrees}{more}"
    verdict: Verdict = "exceptional" if math.isinf(first.apart) else "discrepant"
    example = Example(*first.example) if first.example else None
    blame = "platform" if first.exact else other or "undecided"
    return Fault(_culprit(first), verdict, blame, detail=text, example=example)


def _culprit(node: FileNode) -> OperatorCulprit:
    return OperatorCulprit(tuple(node.op.split("+")), label=f"{node.name} ({node.op})")
