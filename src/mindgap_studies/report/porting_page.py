"""Lays out a study of ported functions: tables of the paper's form, distributions of slow-downs, and each function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mindgap_studies.porting import tables
from mindgap_studies.porting.slowdown import RATIOS, steady
from mindgap_studies.report.drawing import GRID, WIDTH, alt, chart, stacked_bars
from mindgap_studies.results.ported_functions import CLASSES, Estimator, FunctionCell, PortingStudy
from mindgap_surveys.report.study_page import Block, Cell, Chart, Section, StudyPage, Text, times
from mindgap_surveys.table import StudyTable, records

#: Characters of a message in the list of losses.
_MESSAGE: Final = 140
#: Estimators whose ratios are drawn, with their colours.
_DRAWN: Final[dict[Estimator, str]] = {"steady": "#5b9bd5", "paper's": "#c9480b"}
#: Ratios at the ends of the axis.
_ENDS: Final = (1e-3, 1e5)
#: CSS class of each class of functions, and its colour in a chart.
_STYLES: Final = dict(zip(CLASSES, ("c-ok", "c-part", "c-lost", "c-none", "c-none"), strict=True))
_CLASSES: Final = dict(zip(CLASSES, ("#7fbf8e", "#e5b04d", "#c9480b", "#b9bec8", "#d9dce2"), strict=True))
#: Of the reasons, in the order of `REASONS`.
_REASONS: Final = ("#c9480b", "#d9930d", "#8a2f74", "#5b9bd5", "#3f9186", "#5d6470", "#b9bec8")
_ABOUT: Final = (
    "The paper took functions of three frameworks' public APIs, ran their own tests on a GPU and on a TPU, and counted "
    "how many still work and how much slower they are. This page does the same with the targets that one processor "
    "has: compilers, graph modes and runtimes of other makers. A source is the mode that a program is written in "
    "(eager), a target what it is moved to. A GPU and a TPU are not here; their rows say so."
)
_SAMPLES: Final = (
    "PyTorch's functions run the samples of its own test suite; each result is judged against float64. Calls of JAX "
    "and TensorFlow are generated from signatures, and kept if they run on the source; results may differ by the "
    "tolerance of the frameworks' tests, by 16 times what the source moves by where its arguments move by eight units "
    "in the last place, or where they are at most 4 times as far from float64 as the source."
)
_TIME: Final = (
    "Time: {processes} processes, each in a pass of its own over all functions, in each the first call on both sides "
    "and then {rounds} calls on either side in turn. A process is held on one processor, and its seconds are processor "
    "time, on devices those of the clock. The ratio is the geometric mean of the processes' medians of paired ratios. "
    "Its interval is the wider of Student's t over processes (logarithms) and the order statistics of all pairs. The "
    "paper's estimator is the mean of first calls over the mean of first calls."
)
_EACH: Final = (
    "A number is the time of later calls over the source's, of the first sample that is ported; its interval of 95 % "
    "is the hint of the cell. Elsewhere the reason of the loss."
)


def porting_page(study: PortingStudy) -> StudyPage:
    from mindgap import __version__

    by_name = {table.name: table for table in tables.study_tables(study)}
    classes, reasons = by_name["classes"], by_name["reasons"]
    method = (
        by_name["draws"], Text(_SAMPLES),
        Text(_TIME.format(processes=study.settings["processes"], rounds=study.settings["rounds"])),
    )  # fmt: skip
    functions: list[Block] = [Text(_EACH), *(_functions(study, name) for name in study.draws)]
    return StudyPage(
        "What functions of PyTorch, JAX and TensorFlow lose on another target",
        (
            Text(f"After The Grand Illusion (Mince et al., NeurIPS 2023, arXiv 2309.07181) · {study.machine} · mindgap "
                 f"{__version__}"),
        ),
        (
            Section("about", "The question", (Text(_ABOUT),), "page"),
            _section(by_name["claims"]),
            _section(classes, _bars(classes, (n.replace(" ", "_") for n in _CLASSES), _CLASSES.values(), "functions")),
            _section(reasons, _bars(reasons, reasons.columns[3:], _REASONS, "functions that are lost")),
            _section(by_name["slowdowns"], _ratios(study)),
            Section("functions", "Each function", tuple(functions), "page"),
            Section("losses", "Losses in the targets' words", (_losses(study),), "page"),
            Section("method", "Method", method, "page"),
            Section("draws", by_name["draws"].title, (by_name["draws"],), "text"),
            _section(by_name["not_tried"]),
        ),
    )  # fmt: skip


def _section(table: StudyTable, drawn: Chart | None = None) -> Section:
    return Section(table.name, table.title, (table,) if drawn is None else (drawn, table))


def _named(table: StudyTable) -> list[dict[str, Any]]:
    return [{**row, "name": f"{row['framework']}, {row['target']}"} for row in records(table)]


def _bars(table: StudyTable, columns: Iterable[str], colours: Iterable[str], what: str) -> Chart | None:
    return stacked_bars(_named(table), dict(zip(columns, colours, strict=True)), what, share=True, name="name")


def _ratios(study: PortingStudy) -> Chart | None:
    """Draws the ratio of each function, and the median of each target, by calls after the first and by the paper's
    estimator. Lines: as fast as the source, and 10 times slower, which the paper calls intolerable."""
    points = [
        {"target": f"{name}, {target}", "estimator": estimator, "ratio": RATIOS[estimator](latency)}
        for name, target, _ in tables.pairs(study)
        for estimator in _DRAWN
        for latency in study.latencies(name, target)
    ]
    if not points:
        return None
    scale = alt.Scale(domain=list(_DRAWN), range=list(_DRAWN.values()))
    base = alt.Chart(alt.Data(values=points)).encode(
        y=alt.Y("target:N", sort=list(dict.fromkeys(point["target"] for point in points)), title=None),
        yOffset=alt.YOffset("estimator:N", sort=list(_DRAWN)),
        color=alt.Color("estimator:N", sort=list(_DRAWN), title=None, scale=scale),
    )
    across = alt.Scale(type="log", domain=_ENDS, clamp=True)
    title = "time on the target over time on the source; tick: the median"
    dots = base.mark_circle(size=28, opacity=0.5).encode(x=alt.X("ratio:Q", title=title, scale=across))
    medians = base.mark_tick(thickness=2, size=12).encode(x=alt.X("median(ratio):Q", scale=across))
    lines = alt.Chart(alt.Data(values=[{"x": 1}, {"x": 10}])).mark_rule(color=GRID).encode(x="x:Q")
    return chart((lines + dots + medians).properties(width=WIDTH, height=alt.Step(16)))


def _functions(study: PortingStudy, framework: str) -> StudyTable:
    """One row for each function, with a cell for each target."""
    draw = study.draws[framework]
    rows = tuple(
        (
            each.name,
            each.uses,
            each.stratum,
            *(_cell(study.cells.get((framework, each.name, t))) for t in draw.available),
        )
        for each in draw.drawn
    )
    return StudyTable("", framework, ("function", "calls", "drawn from", *draw.available), rows)


def _cell(cell: FunctionCell | None) -> Cell:
    return Cell(cell_text(cell), _STYLES[cell.word], _hint(cell)) if cell else Cell("–", "c-none")


def cell_text(cell: FunctionCell) -> str:
    """Returns what a cell shows: the ratio of later calls where it was measured, else the reason of its loss."""
    lost = sum(each.lost for each in cell.samples)
    part = f" ({lost} of {len(cell.samples)} lost)" if cell.word == "partial failure" else ""
    if cell.latency is not None:
        return f"{times(steady(cell.latency).value)}{part}"
    loss = cell.main_loss
    if loss is not None:
        return f"{loss.reason}{part}"
    ported = "simulated" if cell.untimed.startswith("simulated") else "ported"
    return cell.word if cell.word != "success" else ported


def _hint(cell: FunctionCell) -> str:
    """Returns the interval of a cell's ratio, or why it was not measured."""
    if cell.latency is None:
        return cell.untimed
    ratio, paper = steady(cell.latency), RATIOS["paper's"](cell.latency)
    return f"{times(ratio.low)} to {times(ratio.high)}; first call, paper's: {times(paper)}"


def _losses(study: PortingStudy) -> StudyTable:
    """One row for each function that is lost, with the targets that lose it for the same reason in the same words."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for name, target, cells in tables.pairs(study):
        for each in cells:
            if loss := each.main_loss:
                grouped.setdefault((name, each.function, loss.reason, loss.message[:_MESSAGE]), []).append(target)
    order = {name: number for number, name in enumerate(study.draws)}
    rows = tuple(
        (*key[:2], ", ".join(grouped[key]), *key[2:])
        for key in sorted(grouped, key=lambda each: (order[each[0]], *each))
    )
    return StudyTable("", "", ("framework", "function", "targets", "reason", "message"), rows)
