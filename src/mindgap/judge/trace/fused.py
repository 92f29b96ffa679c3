"""Finds windows of several operators that a platform gets wrong although each is right alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, Labels
from mindgap.judge.oracle import FEW, MANY, Examined, Oracle, OracleError, decision_slots, local_expectation
from mindgap.judge.oracle.examination import SIGMAS
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.judge.trace.range_loss import UnlimitedRange
from mindgap.judge.trace.reassociation import REASSOCIATED, is_reassociated
from mindgap.judge.trace.single_operators import Confirmed, Kind, SingleOperators, judge_single, kind_of_error
from mindgap.judge.trace.subgraphs import Array, SubgraphResult, window
from mindgap.platforms.name import PlatformName

SIZES: Final = (2, 3, 5, 8)
#: How often decisions are looked at anew after earlier ones were imposed.
MAX_ROUNDS: Final = 6


def confirmed_windows(
    oracle: Oracle, singles: SingleOperators, platform: PlatformName, anchors: Sequence[int]
) -> Confirmed | None:
    """The smallest window that ends at one of the anchors and that the platform gets wrong, also in a separate job;
    earliest anchor first. Where one operator of it is wrong by itself there, that operator alone."""
    for size in SIZES:
        windows: list[tuple[int, ...]] = list(
            dict.fromkeys(w for a in anchors if len(w := window(oracle.graph, a, size)) > 1)
        )
        cuts = [c for w in windows if (c := singles.cut(w)).outputs]
        for result in singles.run(cuts, platform):
            confirmed = judge_cut(oracle, result, singles)
            if confirmed is not None and judge_cut(oracle, next(singles.run([result.cut], platform)), singles):
                return wrong_inside(singles, confirmed, platform) or confirmed
    return None


def wrong_inside(singles: SingleOperators, window: Confirmed, platform: PlatformName) -> Confirmed | None:
    """The first inner operator of a confirmed window that is wrong on the operands that the platform itself gave it
    there, with the operators of the window that it depends on.

    A runtime may hand an operator the memory of another one of the same shape. Each of them is then right in a job of
    its own, and the window's last operator only reads the result. None where the inner operators are right, and where
    the window gives other bits once its inner values are shown.
    """
    shown = singles.cut(window.nodes, show_all=True)
    result = next(singles.run([shown], platform), None)
    if result is None or result.arrays is None:
        return None
    values = dict(zip(shown.outputs, result.arrays, strict=True))
    if not all(same_bits(values[number], array) for number, array in window.arrays.items()):
        return None
    for node in window.nodes[:-1]:
        confirmed = _fault_at(singles, node, values)
        if confirmed is not None:
            return replace(confirmed, nodes=singles.leading_to(node, window.nodes))
    return None


def _fault_at(singles: SingleOperators, node: int, values: Mapping[int, Array]) -> Confirmed | None:
    """One operator, judged on the operands that a platform showed, or S's where it showed none."""
    single = singles.single(node)
    operands = [values[b] if b in values else singles.value(b) for b in single.borders]
    try:
        expected = local_expectation(Oracle(single.graph, operands), len(single.graph.nodes) - 1)
    except OracleError:
        return None
    result = SubgraphResult(
        replace(single, outputs=single.graph.outputs), tuple(values[n] for n in single.outputs), None
    )
    confirmed = judge_single(result, expected)
    return None if confirmed is None else replace(confirmed, arrays={n: values[n] for n in single.outputs})


def judge_cut(oracle: Oracle, result: SubgraphResult, singles: SingleOperators) -> Confirmed | None:
    """Judges a window's results against its shadows, with the platform's decisions imposed on them.

    Beyond 16 hard σ, or in another class than any replay, and well conditioned; else None. None also where they are
    right, and the window as declared is not, because a value inside leaves the range of its dtype.
    """
    if result.arrays is None or _plainly_calm(oracle, result):
        return None
    inputs = [singles.value(b) for b in result.cut.borders]
    chosen = dict(zip(result.cut.graph.outputs, result.arrays, strict=True))
    verdicts = _verdicts(result.cut.graph, inputs, result.arrays, chosen)
    worst = _worst_error(verdicts)
    if worst is None:
        return None
    unlimited = UnlimitedRange(Oracle(result.cut.graph, inputs), inputs)
    lost = unlimited.loss(result.arrays, [singles.value(number) for number in result.cut.outputs])
    if lost is not None and _worst_error(lost.spared(verdicts)) is None:
        return None
    arrays = dict(zip(result.cut.outputs, result.arrays, strict=True))
    confirmed = Confirmed(result.cut.nodes, worst[0], worst[1], arrays, worst[2])
    return _with_reason(confirmed, result.cut.graph, inputs, result.arrays)


def _with_reason(found: Confirmed, graph: Graph, inputs: Sequence[Array], arrays: Sequence[Array]) -> Confirmed:
    """A finding whose detail names another order of operations, where that explains the wrong values of a graph."""
    wrong_values = found.kind in ("discrepant", "reduced_precision")
    if not wrong_values or not is_reassociated(graph, inputs, arrays):
        return found
    return replace(found, kind="discrepant", loss=REASSOCIATED)


def _plainly_calm(oracle: Oracle, result: SubgraphResult) -> bool:
    """Every result is where the last operator alone could have put it: within a quarter of its limit around S.

    The errors of the cut's other operators only widen what is allowed, so that no replay of the cut need be made.
    """
    assert result.arrays is not None
    graph = oracle.graph
    for number, array in zip(result.cut.outputs, result.arrays, strict=True):
        expected = local_expectation(oracle, graph.producer[number])
        verdict = expected.examine(number - expected.first, array)
        if verdict.kind != "calm" or verdict.worst > SIGMAS / 4:
            return False
    return True


def confirmed_whole(
    graph: Graph, inputs: Sequence[Array], arrays: Sequence[Array], chosen: Mapping[int, Array], suspect: int
) -> Confirmed | None:
    """Judges the whole graph's outputs against hard bounds everywhere.

    `chosen`: the platform's own intermediate values, where it shows them; its plausible decisions are taken over.
    `suspect`: the node to name, the first whose shown value is off.
    """
    worst = _worst_error(_verdicts(graph, inputs, arrays, chosen))
    if worst is None:
        return None
    confirmed = Confirmed((suspect,), worst[0], worst[1], {}, worst[2], whole=True)
    return _with_reason(confirmed, graph, inputs, arrays)


def _verdicts(
    graph: Graph, inputs: Sequence[Array], arrays: Sequence[Array], chosen: Mapping[int, Array]
) -> list[Examined]:
    """What hard bounds allow of each output; nothing where no shadow can be computed."""
    try:
        oracle = with_decisions(graph, inputs, chosen)
        verdicts = oracle.examine(arrays, FEW)
        if any(v.kind != "calm" for v in verdicts):
            verdicts = oracle.examine(arrays, MANY)
    except OracleError:
        return []
    return verdicts


def _worst_error(verdicts: Sequence[Examined]) -> tuple[Kind, float, int] | None:
    worst: tuple[Kind, float, int] | None = None
    for verdict in verdicts:
        kind = kind_of_error(verdict)
        if kind is not None and not verdict.ill and (worst is None or verdict.worst > worst[1]):
            worst = (kind, verdict.worst, verdict.count)
    return worst


def with_decisions(graph: Graph, inputs: Sequence[Array], chosen: Mapping[int, Array]) -> Oracle:
    """Makes the graph's oracle with hard bounds and every plausible decision among `chosen` imposed.

    A later decision may be plausible only once an earlier one is imposed, hence the rounds.
    """
    slots = [n for n in decision_slots(graph) if n in chosen]
    oracle = Oracle(graph, inputs, hard=True)
    watching = replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, *slots))), labels=Labels())
    decisions: dict[int, torch.Tensor] = {}
    for _ in range(MAX_ROUNDS if slots else 0):
        judge = Oracle(watching, inputs, hard=True, decisions=decisions)
        plausible = [n for n in slots if n in decisions or judge.examine_value(n, chosen[n]).kind == "calm"]
        if set(plausible) == set(decisions):
            break
        decisions = {n: to_torch(chosen[n]) for n in plausible}
        oracle = Oracle(graph, inputs, hard=True, decisions=decisions)
    return oracle
