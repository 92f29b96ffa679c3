"""Makes all tables of one's own machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindgap.graph import MindgapError
from mindgap_studies.deviations.own import activations, causes, classes, convolutions, layers
from mindgap_studies.machines.merging import MergedMachines
from mindgap_studies.table import StudyTable


@dataclass(frozen=True, slots=True)
class OwnStudy:
    """All tables, in the order in which a reader wants them."""

    tables: tuple[StudyTable, ...]

    def table(self, name: str) -> StudyTable:
        """Returns the table of that name. Raises `MindgapError` if there is none."""
        for each in self.tables:
            if each.name == name:
                return each
        raise MindgapError(f"no table {name!r}: there are {', '.join(each.name for each in self.tables)}")


def own_study(merged: MergedMachines) -> OwnStudy:
    """Makes all tables. Raises `MindgapError` if no subject ran on two platforms: there is nothing to compare."""
    if not any(len(column.platforms) > 1 for column in merged.columns.values()):
        raise MindgapError("nothing to compare: no subject ran on more than one platform")
    threads = causes.figure_2(merged)
    return OwnStudy(
        (
            classes.machines(merged),
            classes.settings(merged),
            classes.summary(merged),
            classes.classes(merged),
            causes.option_effects(merged),
            causes.table_1(merged),
            threads,
            causes.thread_effects(threads),
            convolutions.figure_4(merged),
            layers.figure_5(merged),
            layers.hidden(merged),
            classes.figure_6(merged),
            activations.table_sup8(merged),
            activations.table_sup9(merged),
            convolutions.distributions(merged),
            classes.failures(merged),
        )
    )


def to_json(study: OwnStudy) -> dict[str, Any]:
    """Returns the tables by name, each with title, note, columns and rows."""
    return {
        "tables": {
            each.name: {"title": each.title, "note": each.note, "columns": each.columns, "rows": each.rows}
            for each in study.tables
        }
    }
