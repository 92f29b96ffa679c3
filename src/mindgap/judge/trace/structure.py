"""Compares shapes and dtypes of outputs between the two sides and with the graph's declaration."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import Graph, TensorSpec, dtype_name
from mindgap.graph.compare.verdict import Blame
from mindgap.judge.oracle import Examined
from mindgap.judge.oracle.examination import SILENT
from mindgap.judge.trace.subgraphs import Array


def differ(ours: Array, theirs: Array) -> bool:
    """Whether shape or dtype differ."""
    return ours.dtype != theirs.dtype or ours.shape != theirs.shape


def sides_first(
    mine: Sequence[Examined], reference: Sequence[Examined], ours: Sequence[Array], theirs: Sequence[Array]
) -> tuple[list[Examined], list[Examined]]:
    """What was examined, where an output that both sides give in one shape and dtype is no structural finding: neither
    gives what the graph declares, and the shadow can say nothing of the values."""
    pairs = list(zip(mine, reference, ours, theirs, strict=True))
    alike = [not differ(x, y) and "structural" in (a.kind, b.kind) for a, b, x, y in pairs]
    return (
        [SILENT if same else a for same, a in zip(alike, mine, strict=True)],
        [SILENT if same else b for same, b in zip(alike, reference, strict=True)],
    )


def first_difference(ours: Sequence[Array], theirs: Sequence[Array], internal: Sequence[bool]) -> int | None:
    """The first public output whose shape or dtype differs between the sides."""
    pairs = enumerate(zip(ours, theirs, internal, strict=True))
    return next((index for index, (a, b, hidden) in pairs if not hidden and differ(a, b)), None)


def side_to_blame(declared: TensorSpec | None, ours: Array, theirs: Array) -> Blame:
    """The side that does not give what the graph declares."""
    if declared is None:
        return "undecided"
    right = [(dtype_name(each.dtype), each.shape) == (declared.dtype, declared.shape) for each in (ours, theirs)]
    return "undecided" if right[0] == right[1] else "reference" if right[0] else "platform"


def structural_detail(graph: Graph, index: int, ours: Array, theirs: Array) -> str:
    """One sentence: what each side gave for an output, and what the graph declares."""
    declared = graph.values[graph.outputs[index]]
    given = f"output {index} is {_spelled(ours)} on the platform and {_spelled(theirs)} on the reference"
    return f"{given}; the graph declares {declared}" if declared is not None else given


def note_of_silence(graph: Graph, examined: Sequence[Examined], words: Sequence[str]) -> str:
    """Which outputs differ in values of which the float64 shadow can say nothing."""
    silent = [
        f"{index} ({graph.nodes[producer].op})" if (producer := graph.producer[number]) >= 0 else str(index)
        for index, (number, one, word) in enumerate(zip(graph.outputs, examined, words, strict=True))
        if one.silent and word != "identical"
    ]
    if not silent:
        return ""
    return (
        f"; the float64 shadow has another shape than the graph declares and says nothing of output {', '.join(silent)}"
    )


def _spelled(array: Array) -> str:
    return f"{dtype_name(array.dtype)}[{','.join(map(str, array.shape))}]"
