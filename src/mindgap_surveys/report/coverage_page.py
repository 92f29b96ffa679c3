"""Lays out what a survey measured: how many operators run, findings, lists of packages, and a table to filter, sort and
compare two platforms."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from mindgap.platforms.name import PlatformName
from mindgap.report.templates import source_text, template_environment
from mindgap.results.support_answers import WORDS
from mindgap_surveys.report.study_page import Cell, Markings, Section, StudyPage, Text
from mindgap_surveys.support.coverage import OperatorCoverage, OperatorGap
from mindgap_surveys.support.matrix import CELL_WORDS, MEANINGS, CellWord, Matrix, findings_of, pass_of
from mindgap_surveys.support.operator_groups import group_of, listed_shares, measured_shares, untried_packets
from mindgap_surveys.support.static_support import MeasuredLists, StaticList, onnxruntime_kernels
from mindgap_surveys.table import StudyTable, made

_HERE: Final = Path(__file__).parent

#: Rows that are drawn before the first press of "show more": as `table.js` draws.
_DRAWN: Final = 200
_OPERATORS: Final = (
    "One word for each operator and platform: the worst of what runs, or why nothing does; below it, how many of its "
    "dtypes and layouts are usable. Press a name for all of them, with the reasons."
)
_PACKETS: Final = (
    "Packets (`aten.add`) of which at least one overload runs in one dtype, of those that `cpu/eager` runs, by what "
    'they are for. "Not known": nothing ran, and something was not asked.'
)
_FINDINGS: Final = (
    "Combinations that run and give other results, by platform and culprit; what one dtype policy explains is one line."
)
_SAMPLE: Final = (
    "A cell is about one sample of PyTorch's own tests, run by itself; a sample of another shape may behave otherwise."
)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One overload on one platform: a word, and how many of its keys are usable."""

    word: CellWord
    usable: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One overload. `words`: of all its cells. `lost`: pairs of platforms `i>j` where `i` computes some key usably and
    `j` does not."""

    op: str
    group: str
    direction: str
    keys: int
    cells: tuple[_Cell, ...]
    words: str
    lost: str


def coverage_page(
    matrix: Matrix, version: str, lists: MeasuredLists | None = None, survey: Sequence[Section] = ()
) -> StudyPage:
    """Lays out the page. `lists`: what packages list, where that was requested. `survey`: sections for a terminal that
    come first."""
    lead = (
        f"{len(matrix.operators)} operators, {len(matrix.keys):,} combinations of operator, dtype and layout, on "
        f"{len(matrix.platforms)} platforms against `cpu/eager` · mindgap {version}"
    )
    absent = (Text(f"{platform} is not here: {reason}") for platform, reason in matrix.absent.items())
    share = (_packets(matrix), _counts(matrix), *absent)
    meanings = (Text(f"`{word}`: {meaning}") for word, meaning in MEANINGS.items())
    sections = [
        *survey,
        Section("share", "How many run", share),
        Section("matrix", "Operators", (Text(_OPERATORS), _operators(matrix)), "page"),
    ]
    if findings := _findings(matrix):
        sections.append(Section("findings", "Findings", (findings,)))
    if lists is not None:
        sections.append(Section("lists", "What packages list", (*list_blocks(lists, [*matrix.operators]),)))
        sections.append(Section("disagreements", "Where lists and measurements disagree", (_disagreements(lists),)))
    sections.append(Section("reading", "How to read it", (*meanings, Text(_SAMPLE)), "page"))
    return StudyPage(
        "Which operators a platform runs, and runs right",
        (Text(lead),),
        tuple(sections),
        meanings={str(word): meaning for word, meaning in MEANINGS.items()},
        more_styles=Markup(source_text("coverage.css", _HERE)),
        script="".join(source_text(each, _HERE) for each in ("table.js", "coverage.js")),
    )


def survey_section(covered: Mapping[PlatformName, OperatorCoverage]) -> Section:
    """Makes the section of the survey's answers: a row per platform and measure, and the overloads by dtype."""
    words = ("of", *WORDS, "untried")
    rows = [
        (platform, what, sum(counts.values()), *(counts[word] for word in words[1:]))
        for platform, here in covered.items()
        for what, counts in (("packets", here.packets), ("overloads", here.overloads), ("calls", here.calls))
    ]
    names = list(next(iter(covered.values())).dtypes)
    dtypes = [(p, *(f"{runs}/{count}" for runs, count in here.dtypes.values())) for p, here in covered.items()]
    tables = (
        StudyTable("", "", ("platform", "count of", *words), tuple(rows)),
        StudyTable("", "overloads that run, of those asked, by dtype", ("platform", *names), tuple(dtypes)),
    )
    return Section("survey", "Operators, of those that cpu/eager runs", tables, "text")


def gap_section(title: str, gaps: Sequence[OperatorGap], none: str) -> Section:
    """Makes the section of gaps: of those that are gained, the answer and the reason are the older version's."""
    rows = tuple(
        (
            gap.op, gap.word,
            "every call asked" if gap.whole else f"{', '.join(gap.dtypes)} ({', '.join(gap.layouts)})", gap.reason,
        )
        for gap in gaps
    )  # fmt: skip
    return Section(
        title, title, (StudyTable("", "", ("operator", "answer", "in", "reason"), rows, empty=none),), "text"
    )


def _packets(matrix: Matrix) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for platform in matrix.platforms:
        shares, unknown = measured_shares(matrix, platform), untried_packets(matrix, platform)
        lost = (shares[0].total - shares[0].has - unknown) / max(shares[0].total, 1)
        cells = (Cell(f"{each.has}/{each.total}", "n", " ".join(each.lacks[:60])) for each in shares)
        rows.append((platform, *cells, f"{100 * lost:.1f} %", unknown))
    groups = [each.group for each in measured_shares(matrix, matrix.platforms[0])] if rows else []
    return StudyTable("", "", ("platform", *groups, "lost share", "not known"), tuple(rows), _PACKETS)


def _counts(matrix: Matrix) -> StudyTable:
    counts = {platform: matrix.counts(platform) for platform in matrix.platforms}
    words = [word for word in CELL_WORDS if any(each[word] for each in counts.values())]
    rows: list[tuple[Any, ...]] = []
    for platform, of in counts.items():
        shown = ((word, n) for word, n in of.items() if word in words)
        cells = (Cell(str(n), f"n {_class_name(word)}") if n else Cell("–", "n") for word, n in shown)
        rows.append((platform, f"{matrix.measured(platform)} of {len(matrix.keys)}", *cells))
    title = "Combinations of operator, dtype and layout, compared with cpu/eager"
    return StudyTable("", title, ("platform", "measured", *words), tuple(rows))


def _findings(matrix: Matrix) -> StudyTable | None:
    rows = tuple(
        (
            each.platform, each.culprit, each.verdict, len(each.keys),
            ", ".join(dict.fromkeys(key.dtype for key in each.keys)), each.reason.removeprefix(f"{each.culprit}; "),
        )
        for each in findings_of(matrix)
    )  # fmt: skip
    columns = ("platform", "culprit", "verdict", "cells", "dtypes", "the first")
    return StudyTable("", "", columns, rows, _FINDINGS) if rows else None


def list_blocks(lists: MeasuredLists, ops: Sequence[str]) -> Iterator[StudyTable | Text]:
    """Yields how many of the overloads each list names, by group, and ONNX Runtime's kernels."""
    counts = tuple((each.name, *each.counts(ops).values(), each.package) for each in lists.lists)
    title = f"Of {len(ops)} overloads; nothing was run"
    yield StudyTable("", title, ("list", "kernel", "composite", "none", "unknown", "from"), counts)
    yield _listed_packets(lists.lists, ops)
    for each in lists.lists:
        if each.unknown_otherwise:
            yield Text(f"{each.name}: what has no kernel here is unknown: {each.unknown_otherwise}")
    for name, reason in lists.absent.items():
        yield Text(f"{name}: no list: {reason}")
    try:
        registries = onnxruntime_kernels()
    except ImportError:
        return
    for each in registries:
        yield Text(
            f"ONNX Runtime, {each.provider}: kernels for {len(each.kernels)} ONNX operators, {len(each.functions)} "
            f"more are made of others; it lacks {len(each.lacks)}: {', '.join(each.lacks) or 'none'}"
        )


def _listed_packets(lists: Sequence[StaticList], ops: Sequence[str]) -> StudyTable:
    shares = {each.name: listed_shares(each, ops) for each in lists}
    groups = [each.group for each in next(iter(shares.values()))]
    rows = ((name, *(Cell(f"{each.has}/{each.total}", "n") for each in of)) for name, of in shares.items())
    return made("", "Of the packets of these overloads, by group", ("list", *groups), rows)


def _disagreements(lists: MeasuredLists) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for each in lists.disagreements:
        counts = (Cell(str(len(ops)), "n", " ".join(ops)) for ops in (each.listed, each.unlisted))
        rows.append((each.platform, each.name, *counts, ", ".join(each.listed[:3] or each.unlisted[:3])))
    return made("", "", ("platform", "list", "listed, and nothing runs", "not listed, and it runs", "examples"), rows)


def _operators(matrix: Matrix) -> Markings:
    """Draws the table that a reader filters, sorts and opens."""
    lost = _lost(matrix)
    # Of overloads, and of keys.
    pairs = {pair: [len(by_op), sum(by_op.values())] for pair, by_op in lost.items()}
    functions: dict[str, Any] = {"rank": CELL_WORDS.index, "name": _class_name, "breakable": _breakable}
    groups = list(dict.fromkeys(map(group_of, matrix.operators)))
    words = [word for word in CELL_WORDS if any(matrix.counts(p)[word] for p in matrix.platforms)]
    return Markings(template_environment(functions, _HERE).get_template("coverage_operators.html.j2").render(
        platforms=matrix.platforms, rows=[_row(matrix, op, lost) for op in matrix.operators], drawn=_DRAWN,
        groups=groups, words=words, pairs=Markup(_json(pairs)), data=Markup(_json(_cells(matrix))),
    ))  # fmt: skip


def _lost(matrix: Matrix) -> dict[str, dict[str, int]]:
    """Returns for each pair `i>j` how many keys of each overload are lost from the one to the other."""
    return {
        f"{i}>{j}": Counter(key.op for key in matrix.lost(source, target))
        for (i, source), (j, target) in permutations(enumerate(matrix.platforms), 2)
    }


def _row(matrix: Matrix, op: str, lost: Mapping[str, Mapping[str, int]]) -> _Row:
    cells = tuple(
        _Cell(matrix.overall(platform, op), len(matrix.usable(platform, op))) for platform in matrix.platforms
    )
    pairs = "\n".join(pair for pair, by_op in lost.items() if op in by_op)
    keys = matrix.operators[op]
    words = {matrix.cells[platform][key].word for platform in matrix.platforms for key in keys}
    return _Row(op, group_of(op), pass_of(op), len(keys), cells, "\n".join(sorted(words)), pairs)


def _cells(matrix: Matrix) -> dict[str, Any]:
    """All cells: by overload, for each key its dtype, its layout, and word and reason of each platform, as numbers."""
    reasons: dict[str, int] = {}
    rows: dict[str, list[list[Any]]] = {}
    for key in matrix.keys:
        numbers: list[Any] = [key.dtype, key.layout]
        for platform in matrix.platforms:
            cell = matrix.cells[platform][key]
            numbers += [CELL_WORDS.index(cell.word), reasons.setdefault(cell.reason, len(reasons))]
        rows.setdefault(key.op, []).append(numbers)
    return {"platforms": [*matrix.platforms], "words": [*CELL_WORDS], "reasons": [*reasons], "rows": rows}


def _json(data: Any) -> str:
    """JSON that may stand inside a `script` element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _class_name(word: str) -> str:
    return f"m-{word.replace(' ', '-')}"


def _breakable(platform: str) -> Markup:
    """The name of a platform, which may be broken after its punctuation."""
    return Markup("<wbr>").join(re.split(r"(?<=[/@,=])", platform))
