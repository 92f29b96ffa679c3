"""Makes the tables of a porting study.

Names of tables and columns do not change: CSV files and JSON keys use them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple
from statistics import median, quantiles
from typing import Any, Final

from mindgap_studies.porting.claims import check_claims, lost_share
from mindgap_studies.porting.slowdown import INTOLERABLE, RATIOS, Slowdown, first_call, paper_estimate, steady
from mindgap_studies.results.ported_functions import CLASSES, REASONS, FunctionCell, Latency, PortingStudy
from mindgap_surveys.table import StudyTable, made, tables_object

#: Estimators that have an interval for each function.
_INTERVALS: Final[Mapping[str, Callable[[Latency], Slowdown]]] = {"steady": steady, "first call": first_call}


def study_tables(study: PortingStudy) -> list[StudyTable]:
    return [make(study) for make in (draws, classes, reasons, slowdowns, claims, functions, not_tried)]


def pairs(study: PortingStudy) -> list[tuple[str, str, list[FunctionCell]]]:
    """Returns framework, target and cells of each target that is available."""
    return [(n, target, study.of(n, target)) for n, draw in study.draws.items() for target in draw.available]


def draws(study: PortingStudy) -> StudyTable:
    rows = [
        (
            name, ", ".join(f"{package} {version}" for package, version in draw.versions.items()), draw.source,
            draw.files, draw.calls, draw.public, draw.used, len(draw.drawn), len(draw.not_tried),
        )
        for name, draw in study.draws.items()
    ]  # fmt: skip
    return made(
        "draws", "Functions that were drawn",
        "framework versions source files calls public used drawn not_tried", rows,
        "Functions of the public API, ranked by the calls of them in Python files of installed packages; the most used "
        "ones, and some at random of each decile of usage. A function that has no sample was replaced.",
    )  # fmt: skip


def classes(study: PortingStudy) -> StudyTable:
    """One row for each target: how many functions are ported. `lost`: partial and complete failures together."""
    rows: list[tuple[Any, ...]] = []
    for name, draw in study.draws.items():
        for target, why in draw.targets.items():
            if why:
                rows.append((name, target, *[None] * 9, why))
                continue
            cells = study.of(name, target)
            counts, share = Counter(cell.word for cell in cells), lost_share(cells)
            figures = (share.value, share.low, share.high) if share is not None else (None,) * 3
            judged = share.of if share is not None else 0
            rows.append((name, target, judged, *(counts[word] for word in CLASSES), *figures, ""))
    return made(
        "classes", "Functions that are lost on each target",
        "framework target functions success partial_failure complete_failure form_only not_compared lost_share "
        "lost_low_share lost_high_share not_available", rows,
        "Success: all samples give what the source gives, rounding aside. Partial failure: some do. Complete failure: "
        "none does. Form only: dtype and shape are right, and values were not compared. Lost: partial and complete "
        "failures, of the first three classes, with Wilson's 95 % interval. A target that is not here has the reason.",
    )  # fmt: skip


def reasons(study: PortingStudy) -> StudyTable:
    """One row for each target: of the functions that are lost, the share of each reason."""
    rows: list[tuple[Any, ...]] = []
    for name, target, cells in pairs(study):
        counts = Counter(loss.reason for cell in cells if (loss := cell.main_loss) is not None)
        lost = counts.total()
        rows.append((name, target, lost, *(counts[reason] / lost if lost else None for reason in REASONS)))
    columns = tuple(f"{reason.replace(' ', '_').replace('-', '_')}_share" for reason in REASONS)
    return made(
        "reasons", "Why functions are lost", ("framework", "target", "lost", *columns), rows,
        "Of the functions that are lost on a target, by the most frequent reason among their samples. Crash and error "
        "are not in the paper's list.",
    )  # fmt: skip


def slowdowns(study: PortingStudy) -> StudyTable:
    """One row for each target and estimator: the distribution of ratios over functions."""
    rows: list[tuple[Any, ...]] = []
    for name, target, cells in pairs(study):
        for estimator, ratio_of in RATIOS.items():
            latencies = study.latencies(name, target)
            interval_of = _INTERVALS.get(estimator)
            wide = None if interval_of is None else sum(interval_of(latency).wide for latency in latencies)
            spread = distribution(list(map(ratio_of, latencies)))
            rows.append((name, target, estimator, len(latencies), *spread, wide, untimed_text(cells)))
    return made(
        "slowdowns", "Time on the target over time on the source",
        "framework target estimator functions p10_slowdown median_slowdown p90_slowdown slower_share "
        "over_ten_times_share wide_intervals left_out", rows,
        "Steady: calls after the first. First call: with what a side compiles for it. Paper's: mean of the first calls "
        "of whole runs on the target, over that on the source. Medians: of these first calls. Below 1 the target is "
        "faster. Wide intervals: functions whose interval spans more than three times, so that it determines little. "
        "Left out: how many functions that are ported could not be measured, and why most could not.",
    )  # fmt: skip


def untimed_text(cells: Sequence[FunctionCell]) -> str:
    """Returns how many functions have no seconds, with the most frequent reason; empty where all that are ported have
    them."""
    reasons = Counter(cell.untimed for cell in cells if cell.untimed and cell.latency is None)
    return f"{reasons.total()}: {reasons.most_common(1)[0][0]}" if reasons else ""


def distribution(ratios: Sequence[float]) -> tuple[float | None, ...]:
    """Returns the 10th, 50th and 90th percentile, and the shares above 1 and above 10. None without ratios."""
    if not ratios:
        return (None,) * 5
    cuts = quantiles(ratios, n=10, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 9
    over = [sum(ratio > limit for ratio in ratios) / len(ratios) for limit in (1.0, INTOLERABLE)]
    return cuts[0], median(ratios), cuts[8], *over


def functions(study: PortingStudy) -> StudyTable:
    """One row for each function and target."""
    rows: list[tuple[Any, ...]] = []
    for name, target, cells in pairs(study):
        uses = {each.name: (each.uses, each.stratum) for each in study.draws[name].drawn}
        for cell in cells:
            loss, latency = cell.main_loss, cell.latency
            lost = sum(each.lost for each in cell.samples)
            figures: tuple[float | None, ...] = (None,) * 7
            if latency is not None:
                plain, first = steady(latency), first_call(latency)
                figures = (
                    plain.value, plain.low, plain.high, first.value, _finite(first.low), _finite(first.high),
                    paper_estimate(latency),
                )  # fmt: skip
            why = loss or next((each for each in cell.samples if each.reason), None)
            rows.append((
                name, cell.function, target, *uses[cell.function], cell.word, lost, len(cell.samples),
                why.reason if why else "", why.message if why else "", *figures, cell.untimed,
            ))  # fmt: skip
    return made(
        "functions", "Each function on each target",
        "framework function target uses stratum class lost samples reason message steady_slowdown steady_low_slowdown "
        "steady_high_slowdown first_slowdown first_low_slowdown first_high_slowdown paper_slowdown not_measured", rows,
        "Intervals are of 95 %. One sample of a function is measured: the first that is ported.",
    )  # fmt: skip


def not_tried(study: PortingStudy) -> StudyTable:
    rows = [(name, function, why) for name, draw in study.draws.items() for function, why in draw.not_tried.items()]
    return made(
        "not_tried", "Functions that could not be tried", "framework function reason", rows,
        "They were drawn and replaced: PyTorch's test suite has no sample, or no generated call runs on the source.",
    )  # fmt: skip


def claims(study: PortingStudy) -> StudyTable:
    return made(
        "claims", "The paper's statements", "statement in_the_paper here holds", map(astuple, check_claims(study)),
        "Each is computed from the tables. A target's share is above or below the paper's figure where its 95 % "
        "interval (Wilson) is; else it is the same within the interval. Yes: it is not below on any target. No: below "
        "on all. The first statement holds where some share is above. The paper's targets are GPUs and TPUs; these are "
        "runtimes on one processor.",
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0 else None


def study_object(study: PortingStudy) -> dict[str, Any]:
    """Returns what JSON has: settings, machine, draws, and tables by name."""
    return {
        "settings": study.settings,
        "machine": study.machine,
        "draws": {name: asdict(draw) for name, draw in study.draws.items()},
        "tables": tables_object(study_tables(study)),
    }
