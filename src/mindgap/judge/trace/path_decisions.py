"""Compares what a platform's values decide with the path that a graph was captured along (`Labels.decisions`).

A graph holds one path. A condition that comes out otherwise on a platform changes nothing there, and the program would
go another way. A size or a token that comes out otherwise does: what follows from it is another computation, and is not
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors
from mindgap.graph import Decision, Graph, Labels
from mindgap.graph.compare.verdict import FINDINGS, OtherDecision, Verdict
from mindgap.graph.decisions import other_decision, outcome_of
from mindgap.judge.oracle import Examined, Oracle, OracleError, decision_slots
from mindgap.judge.oracle.evaluation.formats import is_real
from mindgap.judge.oracle.examination import SILENT
from mindgap.judge.trace.judgement import Judgement
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.judge.trace.subgraphs import Array, leading_to, values_after


def sizing_values(graph: Graph, decisions: Sequence[Decision], inputs: Sequence[Array]) -> dict[int, torch.Tensor]:
    """Returns the masks, counts and positions that decide sizes, by value number, as they were when `graph` was
    captured. Shadows and replays take them over, so that all values have the graph's shapes."""
    sizing = [each.output for each in decisions if each.kind in ("count", "size")]
    if not sizing:
        return {}
    outputs = Tape(graph).run(input_tensors(graph, inputs))
    return {graph.outputs[n]: outputs[n] for n in sizing if not is_real(str(outputs[n].dtype).removeprefix("torch."))}


def without_other_sizes(
    oracle: Oracle, decisions: Sequence[Decision], examined: Sequence[Examined], ours: Sequence[Array],
    theirs: Sequence[Array],
) -> tuple[list[Examined], set[int]]:  # fmt: skip
    """Returns what was examined, where outputs that follow from another size count as silent, and their positions.

    An output that decides a size by its shape is silent only where something rounds before it.
    """
    graph, examinations, silent = oracle.graph, list(examined), set[int]()
    for each in decisions:
        number = graph.outputs[each.output]
        if each.kind in ("count", "token") and not same_bits(ours[each.output], theirs[each.output]):
            after = values_after(graph, {number})
        elif each.kind == "size" and ours[each.output].shape != theirs[each.output].shape:
            after = values_after(graph, {number}) | (set[int]() if oracle.is_exact(number) else {number})
        else:
            continue
        silent |= {position for position, value in enumerate(graph.outputs) if value in after}
    for position in silent:
        examinations[position] = SILENT
    return examinations, silent


def unstable_decisions(oracle: Oracle, inputs: Sequence[Array], numbers: Sequence[int]) -> list[int]:
    """Returns the nodes that lead to these values and decide something that rounding may decide otherwise, such as the
    order of two elements. None where no shadow can be computed. `inputs`: of the oracle's graph."""
    graph = oracle.graph
    slots = tuple(decision_slots(graph, leading_to(graph, numbers)))
    if not slots:
        return []
    watching = replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, *slots))), labels=Labels())
    try:
        watched = Oracle(watching, inputs, decisions=oracle.imposed)
        return list(dict.fromkeys(graph.producer[slot] for slot in slots if watched.may_flip(slot)))
    except (OracleError, RuntimeError):
        return []


def other_decisions(
    oracle: Oracle, decisions: Sequence[Decision], examined: Sequence[Examined], ours: Sequence[Array]
) -> tuple[OtherDecision, ...]:
    """Returns the decisions that `ours` leads to otherwise, then those that rounding may.

    A float that Python code read is no decision by itself: it counts only where it is beyond rounding.
    `examined`: the oracle's examination of `ours`.
    """
    graph = oracle.graph
    often = Counter((each.line, each.text) for each in decisions)
    time = Counter[tuple[str, str]]()
    others: list[OtherDecision] = []
    for each in decisions:
        place = each.line, each.text
        time[place] += 1
        calm = examined[each.output].kind == "calm"
        spec = graph.values[graph.outputs[each.output]]
        if calm and each.kind == "number" and spec is not None and is_real(spec.dtype):
            continue
        came = outcome_of(each.kind, ours[each.output])
        other = came != each.taken
        unstable = calm and (
            other or (each.kind in ("branch", "number", "token") and oracle.unsettled(graph.outputs[each.output]))
        )
        if other or unstable:
            others.append(
                OtherDecision(
                    each.output, each.kind, each.taken, came, each.line, each.text,
                    time[place] if often[place] > 1 else 0, not unstable,
                )
            )  # fmt: skip
    return tuple(sorted(others, key=lambda each: each.came == each.taken))


def with_path(
    judgement: Judgement, oracle: Oracle, labels: Labels, examined: Sequence[Examined], ours: Sequence[Array],
    words: Sequence[Verdict],
) -> Judgement:  # fmt: skip
    """Returns the judgement with what `ours` decides otherwise, and with the verdict of each step of a loop.

    `labels`: of the captured graph; `examined`: the oracle's examination of `ours`; `words`: the verdict of each
    output.
    """
    others = other_decisions(oracle, labels.decisions, examined, ours) if labels.decisions else ()
    return with_steps(with_decisions(judgement, others), labels.outputs, words)


def with_decisions(judgement: Judgement, others: tuple[OtherDecision, ...]) -> Judgement:
    """Returns the judgement with these decisions. One that rounding does not make stands in front of the text on
    the first fault."""
    firm = next((each for each in others if each.stable and each.came != each.taken), None)
    if firm is None or not judgement.faults:
        return replace(judgement, decisions=others)
    first, *more = judgement.faults
    detail = f"{other_decision(firm)}: {first.fault.detail}"
    first = replace(first, fault=replace(first.fault, detail=detail))
    return replace(judgement, decisions=others, detail=detail, faults=(first, *more))


def with_steps(judgement: Judgement, names: Sequence[str], words: Sequence[Verdict]) -> Judgement:
    """Returns the judgement with the verdict of each step of a loop at the end of its detail.

    `names`, `words`: of the outputs, `steps.0.logits`. The judgement itself where they are of no loop.
    """
    steps: dict[int, list[Verdict]] = {}
    for name, word in zip(names, words, strict=False):
        if (parts := name.split("."))[0] == "steps" and len(parts) == 3:
            steps.setdefault(int(parts[1]) + 1, []).append(word)
    if not steps:
        return judgement
    worst = [(step, min(each, key=_SEVERITY.index)) for step, each in steps.items()]
    notes: list[str] = []
    for word, group in groupby(worst, key=lambda each: each[1]):
        numbers = [step for step, _ in group]
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        notes.append(f"{span} {word.replace('_', ' ')}")
    return replace(judgement, detail=f"{judgement.detail}; by step: {', '.join(notes)}")


_SEVERITY: Final = (*FINDINGS, "undefined", "internal", "ill_conditioned", "rounding", "identical")
