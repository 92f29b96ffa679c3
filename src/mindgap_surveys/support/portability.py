"""Says which of the functions that a package uses each platform runs, and runs right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mindgap.graph import Graph, TensorStore
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Report, Row
from mindgap_surveys.support.code_scan import Place
from mindgap_surveys.support.probes import form_of
from mindgap_surveys.support.single_calls import each_call

#: From the best to the worst:
#: - `runs`: every sample gives what the reference gives, rounding aside.
#: - `in part`: some samples do, and the others are refused or fail.
#: - `differs`: a sample runs, and its result is a finding.
#: - `lacks`: no sample runs; every one is refused, or fails.
#: - `not known`: no sample was compared.
Word = Literal["runs", "in part", "differs", "lacks", "not known"]
WORDS: Final[tuple[Word, ...]] = ("runs", "in part", "differs", "lacks", "not known")
#: The line of the user's code in a node's label.
_LINE: Final = re.compile(r"(?:^|\()(?P<file>[^\s():]+):(?P<line>\d+)\)?$")
#: What stops a function from being ported.
STOPS: Final = frozenset({"in part", "differs", "lacks"})


@dataclass(frozen=True, slots=True)
class Ported:
    """A function on a platform. `ran`: samples of `compared` that run and agree. `reason`: of the most frequent other
    answer, in the platform's or the judge's words. `sample`: the source that shows it."""

    word: Word
    ran: int
    compared: int
    reason: str = ""
    sample: str = ""


@dataclass(frozen=True)
class FunctionUse:
    """A function that a package uses, where, and what each platform makes of it."""

    function: str
    places: tuple[Place, ...]
    platforms: Mapping[PlatformName, Ported]

    @property
    def stops(self) -> bool:
        """Whether some platform does not run it as the reference does."""
        return any(each.word in STOPS for each in self.platforms.values())


def ported_functions(
    places: Mapping[str, tuple[Place, ...]], functions: Mapping[str, Sequence[str]], report: Report,
    platforms: Sequence[PlatformName],
) -> list[FunctionUse]:  # fmt: skip
    """Groups the rows of a report by function. `functions`: those that each model is a sample of."""
    rows: dict[tuple[str, PlatformName], list[Row]] = {}
    for row in report.rows:
        for function in functions[row.model]:
            rows.setdefault((function, row.platform), []).append(row)
    sources = {model.name: model.source for model in report.models}
    return [
        FunctionUse(function, places[function], {p: _ported(rows.get((function, p), ()), sources) for p in platforms})
        for function in dict.fromkeys(function for each in functions.values() for function in each)
    ]


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """A call that a program makes when it runs. op: its overload. graph: the call with its operands. places: the lines
    of the program's code that make it, or one of the same dtypes, shapes and options."""

    op: str
    graph: Graph
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Calls of one operator that a program makes and that are tried on no platform. calls: how many. reason: of the
    first of them. places: the lines that make them."""

    op: str
    calls: int
    reason: str
    places: tuple[Place, ...]


def captured_calls(
    graph: Graph, root: Path, tensors: TensorStore | None = None
) -> tuple[list[CapturedCall], list[LeftOut]]:
    """Returns the distinct calls of a captured program, in the order in which they run, and those that are left out.

    `root`: the folder or file that was scanned; files of the graph's labels are looked for there. Calls whose tensors
    are large are left out (`single_calls.MOST_BYTES`). Raises what the graph's run on the CPU does.
    """
    files: dict[str, list[str]] = {}
    for file in (root,) if root.is_file() else sorted(root.rglob("*.py")):
        files.setdefault(file.name, []).append(file.name if root.is_file() else str(file.relative_to(root)))
    calls: dict[tuple[str, str], tuple[Graph, dict[Place, None]]] = {}
    left: dict[str, tuple[list[str], dict[Place, None]]] = {}

    def place(number: int) -> dict[Place, None]:
        line = _LINE.search(graph.labels.nodes[number]) if graph.labels.nodes else None
        if line is None:
            return {}
        # A label has the name of the file and not its folder.
        known = files.get(line["file"], [])
        return {Place(known[0] if len(known) == 1 else line["file"], int(line["line"])): None}

    def kept(number: int, call: Graph) -> None:
        _, places = calls.setdefault((call.nodes[0].op, form_of(call)), (call, {}))
        places.update(place(number))

    def leave(number: int, reason: str) -> None:
        reasons, places = left.setdefault(graph.nodes[number].op, ([], {}))
        reasons.append(reason)
        places.update(place(number))

    each_call(graph, kept, tensors, leave=leave)
    return (
        [CapturedCall(op, call, tuple(places)) for (op, _), (call, places) in calls.items()],
        [LeftOut(op, len(reasons), reasons[0], tuple(places)) for op, (reasons, places) in left.items()],
    )


def without_answer(
    left_out: Mapping[str, Sequence[LeftOut]], found: Iterable[FunctionUse], platforms: Sequence[PlatformName]
) -> list[FunctionUse]:
    """Returns the operators of which a program makes calls and none was tried: `not known` on each platform.

    `left_out`: by program. `found`: what was tried.
    """
    tried = {each.function for each in found}
    uses: dict[str, FunctionUse] = {}
    for program, calls in left_out.items():
        for each in calls:
            if each.op not in tried:
                before = uses[each.op].places if each.op in uses else ()
                places = tuple(dict.fromkeys((*before, *each.places)))
                ported = Ported("not known", 0, 0, each.reason, program)
                uses[each.op] = FunctionUse(each.op, places, dict.fromkeys(platforms, ported))
    return list(uses.values())


def _ported(rows: Iterable[Row], sources: Mapping[str, str]) -> Ported:
    known = [row for row in rows if row.status != "not_run" and row.word not in ("not_judged", "no_reference")]
    # An export that fails is none of the captured graph, which runs.
    failing = [row for row in known if row.status != "ok" or row.verdict == "failed"]
    wrong = [row for row in known if row.finding and row not in failing]
    others = [row for row in failing if not _exported(row)]
    ran, bad = len(known) - len(wrong) - len(others), wrong or others
    word: Word = "differs" if wrong else "runs" if not others else "in part" if ran else "lacks"
    if not bad:
        return Ported(word if known else "not known", ran, len(known))
    reasons = Counter(_reason(row) for row in bad)
    reason = max(reasons, key=reasons.__getitem__)
    shown = next(row for row in bad if _reason(row) == reason)
    return Ported(word, ran, len(known), reason, sources.get(shown.model) or shown.model)


def _exported(row: Row) -> bool:
    """Whether the platform refuses the captured graph and runs the sample by its users' export: that of a function that
    draws random numbers, whose replacement in the graph holds other operators."""
    own = row.own_path
    return row.status == "unsupported" and own is not None and bool(own.way) and own.status != "failed"


def _reason(row: Row) -> str:
    """Why a sample does not count as run, on one line."""
    text = row.detail if row.status == "ok" else row.message
    return " ".join(f"{row.word.replace('_', ' ')}: {text}".split())
