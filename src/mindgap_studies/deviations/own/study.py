"""Makes all tables of one's own machines."""

from __future__ import annotations

from mindgap.graph import MindgapError
from mindgap_studies.deviations.own import activations, causes, classes, convolutions, layers
from mindgap_studies.machines.merging import MergedMachines
from mindgap_surveys.table import StudyTables


def own_study(merged: MergedMachines) -> StudyTables:
    """Makes all tables. Raises `MindgapError` if no subject ran on two platforms: there is nothing to compare."""
    if not any(len(column.platforms) > 1 for column in merged.columns.values()):
        raise MindgapError("nothing to compare: no subject ran on more than one platform")
    threads = causes.figure_2(merged)
    return StudyTables(
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
