"""Writes the page of a coverage matrix: operators × platforms, to filter, to sort, and to compare two platforms.

The table has a row for each overload. Its keys (dtypes and layouts) travel as JSON, and are drawn when a row is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from jinja2 import Template
from markupsafe import Markup

from mindgap.report.templates import source_text, styles, template_environment
from mindgap_surveys.support.matrix import CELL_WORDS, MEANINGS, CellWord, Matrix, findings_of, pass_of
from mindgap_surveys.support.operator_groups import GroupShare, group_of, measured_shares, untried_packets
from mindgap_surveys.support.static_support import Disagreement, StaticList

_HERE: Final = Path(__file__).parent

#: Rows that are drawn before the first press of "show more": as `table.js` draws.
_DRAWN: Final = 200


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
    matrix: Matrix, version: str, lists: Sequence[StaticList] = (), found: Sequence[Disagreement] = ()
) -> str:
    """Writes the page, one HTML document without external files. `lists`, `found`: what packages list, where that was
    requested, and where it is not what was measured."""
    lost = _lost(matrix)
    rows = [_row(matrix, op, lost) for op in matrix.operators]
    shares = {platform: measured_shares(matrix, platform) for platform in matrix.platforms}
    return _template().render(
        matrix=matrix, version=version, rows=rows, drawn=_DRAWN, meanings=MEANINGS, shares=shares,
        groups=[each.group for each in next(iter(shares.values()))],
        unknown={platform: untried_packets(matrix, platform) for platform in matrix.platforms},
        counts={platform: matrix.counts(platform) for platform in matrix.platforms},
        words=[word for word in CELL_WORDS if any(matrix.counts(p)[word] for p in matrix.platforms)],
        findings=findings_of(matrix), lists=lists, disagreements=found, ops=[*matrix.operators],
        pairs=Markup(_json(_pair_counts(lost))), data=Markup(_json(_cells(matrix))),
        css=styles("page.css", "coverage.css", folder=_HERE),
        js=Markup("".join(source_text(each, _HERE) for each in ("table.js", "coverage.js"))),
    )  # fmt: skip


@cache
def _template() -> Template:
    functions: dict[str, Any] = {
        "rank": CELL_WORDS.index,
        "name": _class_name,
        "share": _share,
        "dtypes": _dtypes,
        "breakable": _breakable,
    }
    return template_environment(functions, _HERE).get_template("coverage.html.j2")


def _lost(matrix: Matrix) -> dict[str, dict[str, int]]:
    """Returns for each pair `i>j` how many keys of each overload are lost from the one to the other."""
    lost: dict[str, dict[str, int]] = {}
    for (i, source), (j, target) in permutations(enumerate(matrix.platforms), 2):
        by_op: dict[str, int] = {}
        for key in matrix.lost(source, target):
            by_op[key.op] = by_op.get(key.op, 0) + 1
        lost[f"{i}>{j}"] = by_op
    return lost


def _pair_counts(lost: Mapping[str, Mapping[str, int]]) -> dict[str, list[int]]:
    """Returns for each pair the number of overloads and of keys that are lost."""
    return {pair: [len(by_op), sum(by_op.values())] for pair, by_op in lost.items()}


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
    return word.replace(" ", "-")


def _share(share: GroupShare) -> str:
    return f"{share.has}/{share.total}"


def _breakable(platform: str) -> Markup:
    """The name of a platform, which may be broken after its punctuation."""
    return Markup("<wbr>").join(re.split(r"(?<=[/@,=])", platform))


def _dtypes(keys: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(key.dtype for key in keys))
