"""Verdicts, blames, faults and weak evidence: the words for the comparison of two outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from mindgap.graph.compare.culprit import Culprit, Example
from mindgap.graph.compare.reason import Reason
from mindgap.graph.graph import DecisionKind

#: What is missing:
#: - `bound rule`: the error bound was measured on perturbed operands instead of derived.
#: - `float64 reference`: the expected value was computed in the operator's own dtype, perhaps by the kernel under
#:   judgement.
#: - `independent implementation`: blame was not checked against one.
#: - `replay`: replays with rounding noise do not cover a value.
#: - `independent fault`: whether the operator is a fault besides the others was not decided.
#: - `dtype policy`: whether a dtype policy of the platform explains every difference was not decided.
#: - `captured graph`: the program has none; its outputs were bounded by runs of the program.
#: - `declarations`: what custom operators declare was not checked.
#: - `old file`: a ready-made file was not compared with its program.
#: - `fallback check`: whether the operator ran on the platform's device or on the CPU was not to be seen.
Missing = Literal[
    "bound rule", "float64 reference", "independent implementation", "replay", "independent fault", "dtype policy",
    "captured graph", "declarations", "old file", "fallback check",
]  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Weakness:
    """One operator that was judged on weaker evidence.

    `node`: index of the node in the graph that was judged (the functional one, where the oracle reports it), -1 for an
    operator that a node called. `op`: its overload, such as `aten.add.Tensor`. `reason`: one sentence, without a
    newline.
    """

    node: int
    op: str
    missing: Missing
    reason: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An output that an exact operator makes from other outputs, and that does not fit those of the same run.

    `output`, `of`: positions among the outputs. `op`: the overload that makes it (the last, where several do). `count`
    of `elements` differ. `example`: the first of them, one sentence without a newline.
    """

    output: int
    of: tuple[int, ...]
    op: str
    count: int
    elements: int
    example: str


@dataclass(frozen=True, slots=True)
class OtherDecision:
    """A decision of the program (`Labels.decisions`) that a platform's values lead to otherwise, or that rounding may.

    output: position among the graph's outputs of the value that decides.
    kind, taken, line, text: as of `mindgap.graph.Decision`.
    came: what it comes to on the platform, in the form of `taken`, and equal to it where the platform decides alike.
    time: how often the program had come to this place, the first time is 1; 0 where it does only once.
    stable: rounding alone does not lead to the other decision.
    """

    output: int
    kind: DecisionKind
    taken: str
    came: str
    line: str
    text: str
    time: int = 0
    stable: bool = True


Name = TypeVar("Name", bound=str)


def equivalence_classes(outcomes: Mapping[Name, tuple[str, ...]]) -> list[set[Name]]:
    """Platforms, as classes of equal outputs: largest class first, equal sizes by their first platform's name.

    `outcomes`: platform -> the digests of its outputs, in order. Digests forgive NaN payloads and signs, so two
    platforms that both answer NaN are in one class. A platform that gave no outputs belongs in no class: leave it out.
    """
    classes: dict[tuple[str, ...], set[Name]] = {}
    for platform, digests in outcomes.items():
        classes.setdefault(digests, set()).add(platform)
    return sorted(classes.values(), key=lambda members: (-len(members), min(members)))


Verdict = Literal[
    "identical", "rounding", "ill_conditioned", "undefined", "internal", "discrepant", "exceptional",
    "reduced_precision", "structural", "export", "failed", "reference_failed",
]  # fmt: skip
Blame = Literal["platform", "reference", "undecided"]

#: Nothing for a person to look at.
CALM: Final[frozenset[str]] = frozenset({"identical", "rounding", "ill_conditioned", "undefined", "internal"})
#: Worth a person's time, worst first: the order in which a table sorts them.
FINDINGS: Final[tuple[Verdict, ...]] = (
    "failed",
    "export",
    "structural",
    "exceptional",
    "discrepant",
    "reduced_precision",
    "reference_failed",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """An operator that is wrong by itself: on operands that are right.

    `culprit`: None where no operator is named. `nodes`: of the captured graph, in order, all calls of the same operator
    that are wrong in the same way; of a set of operators, its nodes. `verdict`, `blame`, `detail`, `example`, `script`,
    `known`: as of a row in which it is the only fault. `advice`: what its reader can do, where that is known.
    `reasons`: of an export, why it is wrong or fails.
    """

    culprit: Culprit | None
    verdict: Verdict
    blame: Blame | None = None
    nodes: tuple[int, ...] = ()
    detail: str = ""
    example: Example | None = None
    script: str = ""
    known: bool = False
    advice: str = ""
    reasons: tuple[Reason, ...] = ()
