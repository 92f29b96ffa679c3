"""Defines what a task study keeps of each sample: the truth, and what a platform predicts. Outputs are not kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

#: What a model is asked for: a label, a label with a box, any number of boxes with labels, the next token of a text.
Task = Literal["classification", "localisation", "detection", "language"]
#: Whether rounding of the graph can swap two labels: `rounding`, `beyond` it, or it is not known. `reduced precision`:
#: rounding of the dtype can in which the platform computes, with fewer bits than declared.
FlipVerdict = Literal["rounding", "reduced precision", "beyond", "other form", "unjudged"]
#: The label of a sample, or of a position of a text, whose outputs have NaN or infinities. It is never right.
NOT_FINITE: Final = -1


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right for one sample.

    labels: one label; of a detection one for each box; of a text the next token at each position.
    boxes: left, top, right, bottom in pixels or any other unit, one after the other; empty without boxes.
    """

    sample: int
    labels: tuple[int, ...]
    boxes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one column (a form of the model on a platform) predicts for one sample.

    labels: the five best, best first; of a detection the label of each box; of a text the best token at each position.
        `NOT_FINITE` alone, or at a position of a text, where outputs are not finite.
    boxes: of the labels, as in `Truth`; empty without boxes. scores: of a detection's boxes.
    margin: the best output less the second; of a text the smallest over its positions; NaN of a detection.
    confidence: the softmax of the best output. loss: -log of the softmax of the right label, in nats, mean over a
        text's positions. Both NaN of a detection.
    deviation: the largest absolute difference of an output from the reference's for this sample; 0 of the reference.
    """

    sample: int
    labels: tuple[int, ...]
    margin: float = float("nan")
    confidence: float = float("nan")
    loss: float = float("nan")
    deviation: float = 0.0
    boxes: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def finite(self) -> bool:
        """Whether the outputs have no NaN and no infinity."""
        return NOT_FINITE not in self.labels


@dataclass(frozen=True, slots=True)
class NearTie:
    """How near rounding of a form's own graph comes to swapping the best label of a sample with another.

    rival: the label that rounding swaps first. margin: how far the exact outputs of both are apart. limit: how far
    rounding can move them towards each other; at or above the margin, the sample is in danger. what: of a detection,
    the two numbers: a score and the threshold, or the operands of a choice within the graph, which has no label (-1).
    """

    form: str
    sample: int
    best: int
    rival: int
    margin: float
    limit: float
    what: str = ""

    @property
    def in_danger(self) -> bool:
        """Whether rounding alone can change the label."""
        return self.margin <= self.limit


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample whose label is not the reference's.

    position: of a text, the first position that flips; else 0.
    truth, before, after: the right label, the reference's, the column's.
    margin, limit: as in `NearTie`, of the two labels, where the verdict is known; of a detection, of the nearest tie or
        of the box or score that is furthest off.
    shows: of a detection, the labels that either side shows.
    origin: the operator or module that began it, where it was looked for. note: how the difference grows, or why
        nothing was found.
    """

    column: str
    sample: int
    position: int
    truth: int
    before: int
    after: int
    verdict: FlipVerdict
    margin: float = float("nan")
    limit: float = float("nan")
    shows: str = ""
    origin: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ComparedForm:
    """A form of the model on a platform. form: empty for the model itself. way: `graph`, or the file that ran."""

    form: str
    platform: str
    way: str = "graph"

    @property
    def name(self) -> str:
        """`cpu/eager`, or `int8 on cpu/eager`."""
        return f"{self.form} on {self.platform}" if self.form else self.platform


@dataclass
class TaskResult:
    """What was found. columns: the reference first. classes: names of labels, empty without.

    predictions: by column and sample. failures: why a column does not run. problems: why samples are left out.
    precision: the dtype in which a column is known to compute, where that is narrower than declared.
    notes: what a reader has to know. pictures: of samples that flip, as `data:` addresses.
    """

    model: str
    dataset: str
    task: Task
    classes: tuple[str, ...]
    columns: tuple[ComparedForm, ...]
    truths: dict[int, Truth] = field(default_factory=dict[int, Truth])
    predictions: dict[ComparedForm, dict[int, Prediction]] = field(
        default_factory=dict[ComparedForm, dict[int, Prediction]]
    )
    problems: dict[int, str] = field(default_factory=dict[int, str])
    failures: dict[ComparedForm, str] = field(default_factory=dict[ComparedForm, str])
    flips: list[Flip] = field(default_factory=list[Flip])
    near_ties: list[NearTie] = field(default_factory=list[NearTie])
    precision: dict[ComparedForm, str] = field(default_factory=dict[ComparedForm, str])
    notes: list[str] = field(default_factory=list[str])
    pictures: dict[int, str] = field(default_factory=dict[int, str])
    taken_over: int = 0
    seconds: float = 0.0

    @property
    def reference(self) -> ComparedForm:
        return self.columns[0]

    def on_reference(self, form: str) -> ComparedForm:
        """Returns the column of a form on the reference's platform, whether its graph runs there or its file."""
        return next(c for c in self.columns if c.form == form and c.platform == self.reference.platform)

    def not_finite(self, column: ComparedForm) -> int:
        """Returns for how many samples a column gives NaN or infinities."""
        return sum(not one.finite for one in self.predictions.get(column, {}).values())

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
