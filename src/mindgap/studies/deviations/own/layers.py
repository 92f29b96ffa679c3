"""Layer by layer: classes and remaining precision of every value (Figures 5, SUP-4 to SUP-7)."""

from __future__ import annotations

from typing import Any, Final

from mindgap.machines.merging import Merged
from mindgap.studies.deviations.own.columns import MODEL_COLUMNS, classes_and_precision, made, model_facts
from mindgap.studies.table import StudyTable

#: Part of an operator's name -> the kind of layer. The first that is found counts.
_KINDS: Final = (
    ("conv", "convolution"), ("batch_norm", "normalisation"), ("relu", "activation"), ("sigmoid", "activation"),
    ("pool", "pooling"), ("linear", "dense"), ("softmax", "softmax"), ("add", "addition"),
)  # fmt: skip


def kind_of_layer(op: str) -> str:
    """Returns the kind of layer that an operator is; `other` for reshaping and the like."""
    return next((kind for part, kind in _KINDS if part in op), "other")


def figure_5(merged: Merged) -> StudyTable:
    """Makes Figure 5: classes and remaining precision over the layers of each model, first sample."""
    rows: list[tuple[Any, ...]] = []
    for column in merged.of("models"):
        if column.subject.facts.get("sample"):
            continue
        for index, value in enumerate(column.subject.values, 1):
            found = classes_and_precision(column.prefixes[value.number])
            shape = "×".join(map(str, value.shape))
            kind = kind_of_layer(value.op)
            rows.append(
                (*model_facts(column), index, kind, value.op, value.where, shape, len(column.platforms), *found)
            )
    columns = (
        *(*MODEL_COLUMNS, "layer", "kind", "operator", "module", "shape"),
        *("platforms", "classes", "remaining_precision"),
    )  # fmt: skip
    note = (
        "One row per operator in the order of execution. Figures SUP-4 to SUP-7 are the rows of the variants. "
        "remaining_precision: leading mantissa bits that all platforms share; 23 where there is one class."
    )
    return made("own_figure_5", "Figures 5, SUP-4 to SUP-7: deviations layer by layer", columns, rows, note)
