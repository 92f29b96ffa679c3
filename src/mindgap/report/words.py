"""Explains verdicts and rows in words for people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mindgap.graph.compare.reason import has
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import Contradiction, Fault
from mindgap.graph.decisions import other_decision
from mindgap.platforms.delegation import Delegation, total
from mindgap.results.rows import NonFinite, OwnPath
from mindgap.workflows.diff import Report, Row

#: What a table calls a row -> (short form for narrow cells, what it means).
MEANINGS: Final[Mapping[str, tuple[str, str]]] = {
    "failed": ("failed", "did not compile, crashed, hung or raised where the reference ran"),
    "export": (
        "export",
        "the program as the platform's users export or compile it gives other outputs than the captured graph",
    ),
    "structural": ("structural", "an output has another shape or dtype"),
    "exceptional": ("exceptional", "NaN or infinity where no rounding leads to one, or the reverse"),
    "discrepant": ("discrepant", "wrong at some element, beyond what rounding explains, confirmed at one operator"),
    "reduced_precision": ("reduced", "wrong in bulk, as by silent computing in bfloat16"),
    "reference_failed": ("ref. failed", "the reference raised, and this platform ran"),
    "undefined": ("undefined", "differs only where no standard defines a result"),
    "internal": (
        "internal",
        "beyond rounding only in results that no public function returns (--internal judges them)",
    ),
    "ill_conditioned": ("ill-cond.", "the graph turns rounding into large changes; each operator was checked alone"),
    "rounding": ("rounding", "differs, and rounding explains all of it"),
    "identical": ("identical", "bit for bit the same as the reference"),
    "not_judged": ("not judged", "mindgap itself failed on this row: please report it"),
    "unjudged": ("unjudged", "differs, and was not judged, for lack of time or on request: it may be rounding or not"),
    "not_run": ("not run", "no time or memory was left for it: nothing is known of it"),
    "unsupported": ("unsupported", "the platform says that it does not implement an operator or a dtype"),
    "no_reference": ("no reference", "the reference gave nothing to compare with"),
}

#: A term of a page -> its meaning, in the words of docs/glossary.md.
TERMS: Final[Mapping[str, str]] = {
    "reference": "the platform that others are compared with",
    "platform": "a device, a runtime and options: DEVICE/MODE[@option=value]",
    "verdict": "the result of comparing two outcomes",
    "finding": "a verdict worth a person's time; all others are calm",
    "culprit": "the operator, or set of operators, that shows the difference by itself",
    "blame": "which side is wrong: platform, reference, undecided",
    "delegation": "which operators a delegate of the platform really ran, and which it gave back",
    "variant": "a graph merged from regions, with its description",
    "reproducer": "a script that shows a finding without mindgap, verified when it did so twice; where there is none, "
    "a model file that mindgap runs",
}

#: Of the metrics below, distances over the elements that are finite on both sides.
_DISTANCES: Final = frozenset({"relative_error", "max_abs", "max_rel", "max_ulp"})
#: The metrics that tables show, and their headings.
METRICS: Final[Mapping[str, str]] = {
    "relative_error": "rel. error",
    "max_abs": "max abs",
    "max_rel": "max rel",
    "max_ulp": "max ulp",
    "remaining_precision": "bits left",
    "cosine": "cosine",
}
#: What the page shows of a row that was opened, besides `METRICS`.
MORE_METRICS: Final[Mapping[str, str]] = {
    "error_ratio": "error ratio",
    "n_differing": "elements that differ",
    "top1_flips": "top-1 labels that change",
    "top5_flips": "top-5 sets that change",
}


#: Characters of a reason.
MOST_TEXT: Final = 400
#: Lines of a runtime's message that name the reason, and lines that only say that there is one.
_NAMES_THE_REASON: Final = re.compile(
    r"no conversion rule|not (?:yet )?(?:supported|implemented)|unsupported|no \S+ translation|failed to|cannot ", re.I
)
_EMPTY: Final = re.compile(r":$|^(?:\S+: )?Check '.*' failed at |^Traceback |^File \"|^\W*$")
#: What a terminal would obey, and what XML cannot hold.
_UNPRINTABLE: Final = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
#: Nodes of a fault that are listed.
_NODES: Final = 8


def short(word: str) -> str:
    """Returns the short form of a verdict for narrow cells."""
    return MEANINGS[word][0]


def meaning(word: str) -> str:
    """Returns what a verdict means, in one sentence."""
    return MEANINGS[word][1]


def word_text(word: str) -> str:
    """Returns a verdict as text: `reduced precision`."""
    return word.replace("_", " ")


def clean(text: str) -> str:
    """The text without escape sequences and control characters."""
    return _UNPRINTABLE.sub("", text).strip()


def reason(row: Row) -> str:
    """Why a row failed or has no verdict: the most specific line of the platform's message, or the judge's detail."""
    if row.broken:
        return f"mindgap failed: {row.broken.strip().splitlines()[-1]}"[:MOST_TEXT]
    # The word of the row shows that it was not run or judged.
    text = clean(row.message) or clean(row.detail)
    lines = [line.strip().removeprefix("-- ") for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    filled = [line for line in lines if not _EMPTY.search(line)]
    line_found = next((line for line in filled if _NAMES_THE_REASON.search(line)), (filled or lines)[0])
    op = row.culprit.op if row.culprit is not None and row.verdict is None else ""
    return (line_found if not op or op in line_found else f"{op}: {line_found}")[:MOST_TEXT]


def explain(row: Row) -> str:
    """Explains a row in one line: verdict, culprit, blame, sizes, the platform's message."""
    parts = [word_text(row.word)]
    if row.culprit:
        where = f" at {row.culprit.label}" if row.culprit.label else ""
        node = f" (node {row.culprit.node})" if row.culprit.node >= 0 else ""
        parts.append(f"culprit {row.culprit.op}{node}{where}")
    if row.blame:
        parts.append(f"blame {row.blame}")
    if others := row.faults[1:]:
        parts.append(f"{len(others)} more fault{'s'[: len(others) > 1]}: {', '.join(map(fault_name, others))}")
    parts += [f"{name} {metric(row, name)}" for name in ("max_abs", "max_rel") if name in row.metrics]
    if (shown := reason(row)) and (row.verdict is None or not row.metrics):
        parts.append(shown)
    elif row.finding and row.detail:
        parts.append(detail_line(row))
    parts += map(_not_finite, row.non_finite)
    parts += map(contradiction, row.contradictions)
    parts += map(other_decision, row.decisions[:1])
    if row.advice:
        parts.append(f"what to do: {row.advice}")
    if row.weaknesses:
        parts.append(weaker_evidence([row]))
    return "; ".join(parts)


def fault_name(fault: Fault) -> str:
    """Formats the operator of a fault and the nodes at which it is wrong: `aten.exp.default (nodes 3, 7)`."""
    name = fault.culprit.op if fault.culprit else "no operator is named"
    if not fault.nodes:
        return name
    more = " …" if len(fault.nodes) > _NODES else ""
    numbers = ", ".join(map(str, fault.nodes[:_NODES]))
    return f"{name} ({'node' if len(fault.nodes) == 1 else 'nodes'} {numbers}{more})"


def weaker_evidence(rows: Iterable[Row]) -> str:
    """Lists weak evidence: `judged on weaker evidence: aten.gelu.default (bound rule: …)`, each reason once."""
    reasons = dict.fromkeys(f"{w.op} ({w.missing}: {w.reason})" for row in rows for w in row.weaknesses)
    return f"judged on weaker evidence: {'; '.join(reasons)}" if reasons else ""


def weak_operators(rows: Iterable[Row]) -> list[str]:
    """The operators that were judged on weaker evidence, each once."""
    return list(dict.fromkeys(weak.op for row in rows for weak in row.weaknesses))


def not_finite(report: Report) -> list[str]:
    """One line for each output with NaN or infinities, on the reference or on a platform."""
    rows = [(model.name, report.reference, model.non_finite) for model in report.models]
    rows += [(row.model, row.platform, row.non_finite) for row in report.rows]
    return [f"{model} on {platform}: {_not_finite(each)}" for model, platform, outputs in rows for each in outputs]


def _not_finite(each: NonFinite) -> str:
    return f"output {each.output} is NaN or infinite in {each.count} of {each.elements} elements"


def non_finite_notes(report: Report) -> list[str]:
    """One line for each output that is not finite anywhere, on the reference and on every platform that ran."""
    notes: list[str] = []
    for model in report.models:
        rows = [row for row in report.rows if row.model == model.name and row.digests]
        for each in model.non_finite:
            if each.count == each.elements and all(each in row.non_finite for row in rows):
                where = f"on {report.reference} and on every platform"
                nothing = "comparing it says nothing (--inputs FILE.npz gives others)"
                notes.append(f"{model.name}: {_not_finite(each)} {where}: {nothing}")
    return notes


def quantisation_costs(report: Report) -> list[str]:
    """One line for each model that was compared with the float model that it was quantised from."""
    several = len(report.models) > 1
    return [
        f"{model.name}: {model.quantisation_cost.words}" if several else model.quantisation_cost.words
        for model in report.models
        if model.quantisation_cost is not None
    ]


def contradiction_notes(rows: Iterable[Row]) -> list[str]:
    """One line for each output that does not fit other outputs of the same run."""
    return [f"{row.model} on {row.platform}: {contradiction(each)}" for row in rows for each in row.contradictions]


def contradiction(each: Contradiction) -> str:
    """Explains in one line how an output does not fit others: operator, outputs, elements, the first of them."""
    of = " and ".join(f"output {number}" for number in each.of) or "the arguments"
    return (
        f"output {each.output} contradicts {of}: {each.op} of it gives something else in {each.count} of "
        f"{each.elements} elements; {each.example}"
    )


def other_decision_notes(rows: Iterable[Row]) -> list[str]:
    """One line for each row with decisions that come out otherwise, or may: the first of them, and how many more."""
    notes: list[str] = []
    for row in rows:
        if row.decisions:
            more = len(row.decisions) - 1
            rest = f" (and {more} more decision{'s'[: more > 1]})" if more else ""
            notes.append(f"{row.model} on {row.platform}: {other_decision(row.decisions[0])}{rest}")
    return notes


def given_back(rows: Iterable[Row]) -> list[str]:
    """One line for each platform whose delegate gave operators back: what it ran in all of its rows."""
    delegations: dict[str, list[Delegation]] = {}
    for row in rows:
        if row.delegation is not None:
            delegations.setdefault(row.platform, []).append(row.delegation)
    totals = {platform: total(each) for platform, each in delegations.items()}
    return [f"{platform}: {each.summary}" for platform, each in totals.items() if each.gave_back]


#: A status of `OwnPath` -> its text, behind the way's name.
_OWN_PATHS: Final[Mapping[str, str]] = {
    "same": "the same bits as the reference",
    "rounding": "rounding explains all of the difference to the reference",
    "as_graph": "off like the captured graph",
    "differs": "differs",
    "failed": "failed",
    "unjudged": "not judged",
    "not_compared": "not compared",
    "kernels_left_out": "the quantised kernels did not run",
}


#: What shows nothing of the program's own export.
_LEFT_OPEN = ("not_compared", "unjudged", "kernels_left_out")


def own_path_words(own: OwnPath) -> str:
    """Says in one line what the program gave by the platform's own export."""
    text = own.detail or _OWN_PATHS[own.status]
    word = f"{_OWN_PATHS[own.status]}: " if own.detail and own.status in _LEFT_OPEN else ""
    return f"{own.way}: {word}{text}" if own.way and not text.startswith(own.way) else f"{word}{text}"


def own_path_notes(rows: Iterable[Row]) -> list[str]:
    """One line for each reason why a program's own export was not compared or not judged, with the rows it is about."""
    notes: dict[str, dict[str, None]] = {}
    for row in rows:
        own = row.own_path
        # The row itself may give it.
        if own is None or has(row.reasons, "own_path") or set(own.reasons) & set(row.reasons):
            continue
        if own.status in _LEFT_OPEN or has(own.reasons, "unwritten_arguments"):
            notes.setdefault(own_path_words(own), {})[f"{row.model} on {row.platform}"] = None
    return [f"own export of {', '.join(names)}: {words}" for words, names in notes.items()]


def detail_line(row: Row) -> str:
    """Returns the judge's detail, or the first line of the platform's message."""
    text = row.detail or row.message
    return text.strip().splitlines()[0][:400] if text.strip() else ""


def classes(metrics: RowMetrics) -> str:
    """Counts elements where one side alone has NaN or another infinity: `NaN in 2 of 40 elements`; else empty."""
    counts = {"NaN": metrics.get("nan_mismatch") or 0, "infinity": metrics.get("inf_mismatch") or 0}
    parts = [f"{name} in {count} of {metrics.get('n', '?')} elements" for name, count in counts.items() if count]
    return ", ".join(parts)


def metric(row: Row, name: str) -> str:
    """Formats a row's metric: see `figure`."""
    return figure(row.metrics, name)


def figure(metrics: RowMetrics, name: str) -> str:
    """Formats a metric; a cosine keeps the digits in which it differs from 1.

    Distances skip NaN and infinities that one side alone has: the largest is how many there are instead, and none of
    the others is shown as zero.
    """
    value = metrics.get(name)
    if name in _DISTANCES and (there := classes(metrics)):
        if name == "max_abs":
            return f"{number(value)}; {there}" if value else there
        return number(value) if value else "–"
    return f"{value:.6f}" if name == "cosine" and isinstance(value, float) else number(value)


def number(value: Any) -> str:
    """Formats a metric: three significant digits, integers whole up to 99999, a dash if missing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return f"{value:.3g}"
    if isinstance(value, int) and abs(value) >= 100_000:
        return f"{value:.2e}"
    return str(value)
