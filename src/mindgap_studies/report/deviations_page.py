"""Lays out a deviations study, of published data or of one's own machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mindgap_studies.deviations.overview import Overview
from mindgap_studies.deviations.published import PublishedStudy
from mindgap_studies.report.deviation_charts import ablation_chart, cumulative_chart, layer_chart, tree_chart
from mindgap_surveys.report.study_page import Block, Chart, Folded, Section, StudyPage, Text
from mindgap_surveys.table import StudyTable, StudyTables

#: Tables of one's own machines that are printed, and experiments of the printed summary: others have dozens of rows.
_PRINTED: Final = ("own_machines", "own_summary", "own_options", "own_table_sup9")
_EXPERIMENTS: Final = ("models", "reduced", "casts", "operators")
_TITLE: Final = "How many answers does one model give?"
_QUESTION: Final = (
    "A trained model is a fixed calculation. One expects the same output for the same input on each machine. Here each "
    "platform, a processor or GPU with its software and settings, ran the same models with the same inputs. Rounding "
    "is not the same on all of them, because libraries add numbers in another order on another processor. How many "
    "different outputs are there, and how far are they apart?"
)
_TERMS: Final = (
    "Class: platforms that give one output, the same in all bits. Remaining precision: leading bits of the mantissa "
    "that two outputs share in their worst element. 23 of 23 bits: the same float32 numbers. 10 bits: about 3 decimal "
    "digits. 0 bits: a sign or a power of two differs."
)
_MARKS: Final = (
    "Each colour is a class of its column; the number is the class as well. *: repeated runs on that platform differ. "
    "≠: the output is of another input. –: not run."
)
_DISTANCES: Final = (
    "The axis is the remaining precision in bits: two classes are joined at the number of leading mantissa bits that "
    "their outputs share. Lines that meet at the far left differ most. Each leaf is a class, with the platforms in it."
)
_LAYERS: Final = (
    "Each node of the model in the order of execution, as in Figure 5 of the paper. Above: mantissa bits that all "
    "platforms share. Below: the number of different results. Differences enter where many numbers are added, as in a "
    "convolution. An activation may remove some of them, since it sets values to a constant."
)
_HIDDEN: Final = (
    "A compiled platform shows an inner value only as a further output. It counts only where that leaves the model's "
    "own outputs as they were. The line and the bars are of the platforms that show every node. A ring is of all "
    "platforms that show that node. The table own_figure_5 names each node."
)
_SIZES: Final = (
    "Multiplications stand for the size of the work: libraries choose another algorithm, or divide the work otherwise, "
    "as it grows."
)
_FORMATS: Final = (
    "The models computed in other formats. float16 has 10 bits of mantissa, bfloat16 7, float32 23 and float64 52. The "
    "bits of each axis are those of its format. Each dendrogram counts its classes anew."
)
_GROWTH: Final = (
    "The number of different outputs of each platform and those left of it. The lines are of sample 1 of each model, "
    "under the paper's definitions, which count outputs of another input as well."
)


def deviations_page(page: Overview, version: str) -> StudyPage:
    lead = (f"{page.source} · mindgap {version}", _QUESTION, _TERMS, *page.remarks)
    return StudyPage(_TITLE, tuple(map(Text, lead)), tuple(_sections(page)), page.answers)


def _sections(page: Overview) -> Iterator[Section]:
    def section(name: str, title: str, *blocks: Block) -> Section:
        return Section(name, title, blocks, "page")

    missing = (("Not available on its machine", page.unavailable), ("Refused or failed", page.failed))
    not_run = (StudyTable("", title, ("platform", "reason"), rows) for title, rows in missing if rows)
    yield section("classes", "Who agrees with whom", page.grid, Text(_MARKS), *not_run)
    trees = [(each.title, (tree_chart(each),)) for each in page.trees]
    yield section("distances", "How far the classes are apart", Text(_DISTANCES), *_first_open(trees))
    if page.flags:
        yield section("flags", "What the classes go with", *page.flags)
    if page.layers:
        layers = [
            (each.title, (layer_chart(each), *(Text(f"{name}: {reason}") for name, reason in each.hidden)))
            for each in page.layers
        ]
        hidden = (Text(_HIDDEN),) if any(each.hidden for each in page.layers) else ()
        yield section("layers", "Where in the network it happens", Text(_LAYERS), *hidden, *_first_open(layers))
    if page.activations:
        yield section("activations", "What activations do", *page.activations)
    if page.by_setting:
        title = "Cores change classes" if page.cumulative else "Threads change classes"
        yield section("settings", f"{title} (Figure 2)", page.by_setting)
    if page.ablation.rows:
        about = Text(f"{page.ablation.note} {_SIZES}")
        yield section("sizes", "The size of a convolution (Figure 4)", about, ablation_chart(page.ablation))
    if page.casts:
        yield section("formats", "Other number formats (Figure 6)", Text(_FORMATS), *map(tree_chart, page.casts))
    if page.cumulative:
        title = "Each new platform may bring a new result (Figure 1)"
        yield section("growth", title, Text(_GROWTH), cumulative_chart(page.cumulative))
    for claims in (table for table in page.tables if table.name == "claims"):
        yield section("paper", "What the paper states, and what its data show", claims)
    tables = [Folded(f"{t.title} · {len(t.rows):,} rows", (t,), name=t.name) for t in page.tables]
    yield section("tables", "All tables", Text("`--out DIR` writes them as CSV files."), *tables)


def own_text(study: StudyTables) -> StudyPage:
    """Lays out what a terminal shows of one's own machines."""
    found = [study.table(name) for name in _PRINTED]
    summary = found[1]
    kept = tuple(row for row in summary.rows if row[summary.columns.index("experiment")] in _EXPERIMENTS)
    found[1] = StudyTable(summary.name, summary.title, summary.columns, kept)
    return _text("Deviations of these machines", (), [table for table in found if table.rows], study)


def published_text(study: PublishedStudy) -> StudyPage:
    """Lays out what a terminal shows of published data."""
    differ = study.table("disagreements")
    apart = f"{len(study.table('other_inputs').rows)} of {len(study.table('classes').rows)}"
    lead = (
        Text(f"cells of the printed tables in which the data differ: {len(differ.rows)}. {differ.note}"),
        Text(f"cells whose platform evidently saw another input: {apart}"),
    )
    return _text("Deviations of the published platforms", lead, [study.table("claims"), differ], study)


def _text(title: str, lead: tuple[Text, ...], tables: Iterable[StudyTable], study: StudyTables) -> StudyPage:
    sections = tuple(Section(table.name, table.title, (table,), "text") for table in tables)
    return StudyPage(title, (*lead, Text(f"{len(study.tables)} tables, and figures: --out DIR")), sections)


def _first_open(parts: Sequence[tuple[str, tuple[Text | Chart, ...]]]) -> Iterator[Block]:
    """Yields the blocks of the first part, and the others folded."""
    for number, (title, blocks) in enumerate(parts):
        yield from blocks if number == 0 else (Folded(title, blocks),)
