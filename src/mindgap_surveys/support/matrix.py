"""Makes the matrix of what a survey measured: one cell for each platform, operator overload, dtype and layout.

No cell is without a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Literal

from mindgap.aten.operators import is_gradient_operator
from mindgap.graph.compare.culprit import policy_of
from mindgap.platforms.name import PlatformName
from mindgap.results.support_answers import REFUSING, SupportAnswer
from mindgap.results.support_key import Key
from mindgap_surveys.support.agreement import BESIDE_OTHERS, NO_REFERENCE, NOT_JUDGED, RANDOM, UNINITIALISED, Agreement
from mindgap_surveys.support.coverage import UNTRIED
from mindgap_surveys.support.survey import SurveyResult
from mindgap_surveys.table import StudyTable

CellWord = Literal[
    "agrees", "decomposed", "random", "uninitialised", "not compared", "not judged",
    "differs beside others", "differs", "wrong shape", "falls back", "refuses", "fails", "hangs", "crashes", "untried",
]  # fmt: skip
#: What each word means, from the best to the worst.
MEANINGS: Final[Mapping[CellWord, str]] = {
    "agrees": "it runs, and its results are the reference's, rounding aside",
    "decomposed": "it agrees, and the platform runs it as other operators",
    "random": "it draws random numbers: two platforms need not agree",
    "uninitialised": "nobody writes its results: they are what the memory held",
    "not compared": "it runs, and nothing compared its results, or they have no element",
    "not judged": "it runs, its bits differ, and whether that is rounding was not judged",
    "differs beside others": "a finding where it runs beside other calls in one graph; alone it agrees",
    "differs": "it runs, and its results are a finding",
    "wrong shape": "it runs, and a result has another shape or dtype",
    "falls back": "the platform's package runs it on the processor, or by other kernels than the delegate's",
    "refuses": "the platform says that it does not implement it",
    "fails": "an error",
    "hangs": "no answer in time",
    "crashes": "the end of the worker process",
    "untried": "it was not asked",
}
CELL_WORDS: Final = tuple(MEANINGS)
#: What runs and is not known to be wrong.
USABLE: Final[frozenset[CellWord]] = frozenset(
    {"agrees", "decomposed", "random", "uninitialised", "not compared", "not judged"}
)
#: What runs.
RUNS: Final[frozenset[CellWord]] = USABLE | frozenset[CellWord]({"differs beside others", "differs", "wrong shape"})
_FINDINGS: Final = RUNS - USABLE
Pass = Literal["forward", "backward"]

_BY_STATUS: Final[Mapping[str, CellWord]] = {"crash": "crashes", "timeout": "hangs"}
_BY_WORD: Final[Mapping[str, CellWord]] = {
    RANDOM: "random", UNINITIALISED: "uninitialised", NOT_JUDGED: "not judged", NO_REFERENCE: "not compared",
    BESIDE_OTHERS: "differs beside others", "reference_failed": "not compared", "structural": "wrong shape",
    "failed": "fails",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """What a platform makes of one operator, dtype and layout.

    reason: why it is this word, in the platform's or the judge's words; never empty.
    verdict: of what was compared. culprit: of a finding. became: the operators that it was decomposed into.
    """

    word: CellWord
    reason: str
    verdict: str = ""
    culprit: str = ""
    became: str = ""

    @property
    def policy(self) -> str:
        """The dtype policy of the platform that explains the difference: `float32 computed in bfloat16`."""
        policy_name = policy_of(self.culprit)
        return policy_name.words if policy_name is not None else ""


@dataclass(frozen=True)
class Matrix:
    """All cells. `keys`: the rows, sorted. `cells`: one for each key, by platform. `absent`: platforms that are not
    available, and why. `cpu_seconds`: of the survey that filled it, by platform. `left_out`: keys that were not to be
    tried."""

    keys: tuple[Key, ...]
    cells: Mapping[PlatformName, Mapping[Key, Cell]]
    absent: Mapping[str, str]
    cpu_seconds: Mapping[str, float]
    left_out: frozenset[Key] = frozenset()

    @property
    def platforms(self) -> tuple[PlatformName, ...]:
        """The platforms that answered, in the order in which they were named."""
        return tuple(self.cells)

    @cached_property
    def operators(self) -> Mapping[str, tuple[Key, ...]]:
        """The keys of each overload, in the order of names."""
        by_packet: dict[str, list[Key]] = {}
        for key in self.keys:
            by_packet.setdefault(key.op, []).append(key)
        return {op: tuple(keys) for op, keys in by_packet.items()}

    def counts(self, platform: PlatformName) -> Mapping[CellWord, int]:
        by_word = Counter(cell.word for cell in self.cells[platform].values())
        return {word: by_word[word] for word in CELL_WORDS}

    def measured(self, platform: PlatformName) -> int:
        return len(self.keys) - self.counts(platform)["untried"]

    def usable(self, platform: PlatformName, op: str) -> frozenset[Key]:
        """Returns the keys of an overload that run, and are not known to be wrong."""
        return frozenset(key for key in self.operators[op] if self.cells[platform][key].word in USABLE)

    def overall(self, platform: PlatformName, op: str) -> CellWord:
        """Returns one word for an overload: the worst of what runs, if anything does; else the most frequent reason.

        A finding in one dtype makes the overload `differs`, for any result of its other dtypes.
        """
        return overall_word([self.cells[platform][key].word for key in self.operators[op]])

    def lost(self, source: PlatformName, target: PlatformName) -> list[Key]:
        """Returns what `source` computes usably and `target` does not."""
        here, there = self.cells[source], self.cells[target]
        return [key for key in self.keys if here[key].word in USABLE and there[key].word not in (*USABLE, UNTRIED)]


def overall_word(words: Sequence[CellWord]) -> CellWord:
    """Returns the worst of the words that mean that it runs, or, where none does, the most frequent other word.

    `untried` only where nothing else is known.
    """
    running = RUNS.intersection(words)
    if running:
        return next(word for word in reversed(CELL_WORDS) if word in running)
    counts = Counter(words)
    return max(counts, key=lambda word: (word != "untried", counts[word]))


def pass_of(op: str) -> Pass:
    """Returns the pass in which PyTorch calls an overload: `backward` where no forward function does."""
    return "backward" if is_gradient_operator(op) else "forward"


#: Why a key has no answer: it was not wanted, or the budget was spent.
_LEFT_OUT: Final = "this form is not asked by default (--all-forms)"
_BEYOND_BUDGET: Final = "no processor time was left to ask it (--budget)"


def matrix_of(asked: SurveyResult, why_untried: str = _BEYOND_BUDGET) -> Matrix:
    """Makes the matrix of a survey. `why_untried`: the reason of keys without an answer that were wanted."""
    cells: dict[PlatformName, Mapping[Key, Cell]] = {}
    for platform, fingerprint in asked.support.platforms.items():
        answers, agreements = asked.support.answers(fingerprint), asked.agreements.get(fingerprint, {})
        cells[platform] = {
            key: cell_of(
                answers.get(key),
                agreements.get(key),
                _why_untried(key, answers, _LEFT_OUT if key in asked.left_out else why_untried),
            )
            for key in asked.keys
        }
    return Matrix(asked.keys, cells, asked.absent, asked.cpu_seconds, asked.left_out)


def _why_untried(key: Key, answers: Mapping[Key, SupportAnswer], why: str) -> str:
    """Adds to the reason of a key without an answer that its operator is refused where it is plainest."""
    plain = answers.get(Key(key.op, "float32", "contiguous"))
    if plain is None or plain.answer not in REFUSING:
        return why
    return f"{why}; contiguous float32 is refused: {plain.reason}"


def cell_of(answer: SupportAnswer | None, agreement: Agreement | None, why_untried: str) -> Cell:
    """Makes the cell of one key from the platform's answer and, where it runs, the comparison with the reference."""
    if answer is None:
        return Cell("untried", why_untried)
    if answer.answer in REFUSING:
        return Cell("refuses" if answer.answer == "refuses" else "falls back", answer.reason or "no reason given")
    if answer.answer == "fails":
        reason = f"{answer.status}: {answer.reason}" if answer.reason else f"{answer.status}, without a message"
        return Cell(_BY_STATUS.get(answer.status, "fails"), reason)
    became = answer.reason if answer.answer == "decomposed" else ""
    if agreement is None:
        return Cell("not compared", "it runs; its results were not compared with the reference", became=became)
    word = _BY_WORD.get(agreement.word) or ("agrees" if agreement.calm else "differs")
    if word == "agrees" and became:
        word = "decomposed"
    verdict = "" if agreement.word in (RANDOM, UNINITIALISED, NOT_JUDGED, NO_REFERENCE) else agreement.word
    return Cell(word, _reason(agreement, became), verdict, agreement.culprit, became)


def _reason(agreement: Agreement, became: str) -> str:
    """`the same bits`, or the judge's text; what it was decomposed into comes first."""
    words = {"identical": "the same bits", "rounding": "rounding explains the difference"}.get(agreement.word, "")
    text = agreement.detail or words or agreement.word.replace("_", " ")
    if agreement.culprit and policy_of(agreement.culprit):
        text = f"{agreement.culprit}; {text}"
    return f"as {became}: {text}" if became else text


@dataclass(frozen=True, slots=True)
class Finding:
    """Cells of one platform and culprit that are findings. `keys`: where it shows. `reason`: of the first."""

    platform: PlatformName
    culprit: str
    verdict: str
    policy: str
    keys: tuple[Key, ...]
    reason: str


def findings_of(matrix: Matrix) -> list[Finding]:
    """Groups the cells that differ by platform and culprit, those of one dtype policy together; the largest first."""
    groups: dict[tuple[PlatformName, str, str], list[Key]] = {}
    for platform, cells in matrix.cells.items():
        for key in matrix.keys:
            cell = cells[key]
            if cell.word in _FINDINGS:
                groups.setdefault((platform, cell.culprit or key.op, cell.verdict), []).append(key)
    findings = [
        Finding(p, culprit, verdict, matrix.cells[p][keys[0]].policy, tuple(keys), matrix.cells[p][keys[0]].reason)
        for (p, culprit, verdict), keys in groups.items()
    ]
    return sorted(findings, key=lambda each: (matrix.platforms.index(each.platform), -len(each.keys), each.culprit))


def cell_table(matrix: Matrix) -> StudyTable:
    rows: list[tuple[str, ...]] = []
    for key in matrix.keys:
        for platform in matrix.platforms:
            cell = matrix.cells[platform][key]
            rows.append((*key, pass_of(key.op), platform, cell.word, cell.verdict, cell.culprit, cell.reason))
    columns = ("operator", "dtype", "layout", "pass", "platform", "word", "verdict", "culprit", "reason")
    return StudyTable("cells", "Cells", columns, tuple(rows))


def matrix_object(matrix: Matrix, platform: str) -> dict[str, Any]:
    """Returns the cells of a platform as JSON; nothing of a platform that is not there."""
    name = next((each for each in matrix.platforms if each == platform), None)
    if name is None:
        return {}
    cells = matrix.cells[name]
    rows = [{**key._asdict(), "pass": pass_of(key.op), **asdict(cells[key])} for key in matrix.keys]
    return {"words": dict(matrix.counts(name)), "cells": rows}
