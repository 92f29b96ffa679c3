"""Writes the sentence that explains a judgement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mindgap.graph import Graph
from mindgap.graph.compare.culprit import Example
from mindgap.graph.compare.verdict import Verdict
from mindgap.judge.oracle import Examined, Oracle
from mindgap.judge.trace.example import extent
from mindgap.judge.trace.output_verdicts import note_on_ill_conditioned, overall_verdict
from mindgap.judge.trace.single_operators import Confirmed
from mindgap.judge.trace.smallest_part import SmallestPart
from mindgap.judge.trace.structure import note_of_silence
from mindgap.platforms.name import PlatformName


def detail_of_finding(oracle: Oracle, confirmed: Confirmed, side: PlatformName, ops: str, shown: Example | None) -> str:
    """What is wrong with which operator on which side; one concrete element first, where there is one."""
    amount = extent(oracle, confirmed)
    phrase = {
        "discrepant": f"wrong on equal operands in {amount}",
        "exceptional": f"another class (finite, NaN, ±Inf) on equal operands: {amount}",
        "reduced_precision": f"computed in fewer bits than declared: {amount}",
        "structural": "another shape or dtype than declared",
    }[confirmed.kind]
    if confirmed.loss:
        phrase = f"{confirmed.loss}: {amount}"
    return f"{shown.sentence} ({phrase}, on {side}: {ops})" if shown else f"{phrase} on {side}: {ops}"


def words_of_part(part: SmallestPart, verb: str) -> str:
    """`fails by itself`, `fails only together: nodes 3, 7`."""
    if part.twice:
        return f"{verb} only while a value is returned twice"
    if len(part.nodes) == 1:
        return f"{verb} by itself"
    return f"{verb} only together: nodes {', '.join(map(str, part.nodes))}"


def detail_of_calm(
    oracle: Oracle, words: Sequence[Verdict], mine: Sequence[Examined], reference: Sequence[Examined]
) -> str:
    """Why no difference between the outputs is a finding."""
    graph, word = oracle.graph, overall_verdict(words)
    silent = [a if a.silent else b for a, b in zip(mine, reference, strict=True)]
    note = note_on_ill_conditioned(words) + note_of_silence(graph, silent, words)
    outputs = list(zip(graph.outputs, words, strict=True))
    if word == "ill_conditioned":
        unknown = all(e.silent for e, w in zip(silent, words, strict=True) if w == "ill_conditioned")
        why = "nothing is known of what differs" if unknown else "16 σ cover the outputs' own size"
        return f"{why}, and no operator errs by itself{note_of_silence(graph, silent, words)}"
    if word == "undefined":
        numbers = [*oracle.step.undefined] or [n for n, w in outputs if w == "undefined"]
        return f"only elements differ that no standard defines: {_ops(graph, numbers)}{note}"
    if word == "internal":
        internal = _ops(graph, [n for n, w in outputs if w == "internal"])
        return f"beyond rounding only in results that no public function returns: {internal}{note}"
    if any(e.kind != "calm" for e, w in zip((*mine, *reference), (*words, *words), strict=True) if w != "internal"):
        return f"an output is past 16 σ, but no operator, no cut and not the whole is beyond its hard bound{note}"
    worst = max((e.worst for e, w in zip(mine, words, strict=True) if w != "ill_conditioned"), default=0.0)
    return f"no error above {worst:.3g} σ from the nearer shadow{note}"


def detail_of_decisions(
    places: Sequence[tuple[str, str]], why: str = "rounding decides between near-equal operands"
) -> str:
    """What may come out otherwise: operators with the lines that they come from, the first three. Empty without any."""
    names = [f"{op} ({label})" if label else op for op, label in dict.fromkeys(places)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{why} at {', '.join(names[:3])}{more}; " if names else ""


def _ops(graph: Graph, numbers: Iterable[int]) -> str:
    """The operators that make these values, once each."""
    producers = [graph.producer[n] for n in numbers]
    return ", ".join(dict.fromkeys(graph.nodes[p].op for p in producers if p >= 0))
