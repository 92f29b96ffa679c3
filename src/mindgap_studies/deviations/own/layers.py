"""Layer by layer: classes and remaining precision of every value (Figures 5, SUP-4 to SUP-7)."""

from __future__ import annotations

from typing import Any, Final

from mindgap.graph.operators import is_activation
from mindgap_studies.deviations.own.columns import MODEL_COLUMNS, classes_and_precision, model_facts
from mindgap_studies.equivalence.prefix_digests import digest_count, has_precision
from mindgap_studies.machines.merging import MergedMachines
from mindgap_surveys.table import StudyTable, made

#: Part of an operator's name -> the kind of layer. The first that is found counts.
_KINDS: Final = (
    ("conv", "convolution"), ("batch_norm", "normalisation"), ("layer_norm", "normalisation"),
    ("group_norm", "normalisation"), ("rms_norm", "normalisation"), ("pool", "pooling"), ("linear", "dense"),
    ("attention", "attention"), ("addmm", "dense"), ("matmul", "dense"), (".mm.", "dense"), (".bmm.", "dense"),
    ("softmax", "softmax"), ("add", "addition"),
)  # fmt: skip


def kind_of_layer(op: str) -> str:
    """Returns the kind of layer that an operator is; `other` for reshaping and the like."""
    if is_activation(op):
        return "activation"
    return next((kind for part, kind in _KINDS if part in op), "other")


def figure_5(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for column in merged.of("models"):
        if column.subject.facts.get("sample"):
            continue
        # The platforms that show every value.
        inside = [i for i, where in enumerate(column.platforms) if where not in column.hidden]
        for index, value in enumerate(column.subject.values, 1):
            if not has_precision(value.dtype):
                continue
            shown = [each for each in column.prefixes[value.number] if each is not None]
            common = [each for i in inside if (each := column.prefixes[value.number][i]) is not None]
            found = classes_and_precision(common) if common else (None, None)
            every = (len(shown), *classes_and_precision(shown)) if shown else (0, None, None)
            shape = "×".join(map(str, value.shape))
            about = (index, kind_of_layer(value.op), value.op, value.where, shape, digest_count(value.dtype))
            rows.append((*model_facts(column), *about, len(inside), *found, *every))
    columns = (
        *MODEL_COLUMNS, "layer", "kind", "operator", "module", "shape", "mantissa", "platforms", "classes",
        "remaining_precision", "platforms_that_show_it", "their_classes", "their_remaining_precision",
    )  # fmt: skip
    note = (
        "One row per operator in the order of execution. Figures SUP-4 to SUP-7 are the rows of the variants. "
        "remaining_precision: leading mantissa bits that all platforms share; 23 where there is one class, of float32. "
        "platforms: those that show every value, so that rows can be compared. A platform that compiles a graph may "
        "show outputs only, or some values (table own_hidden): their_… count all platforms that show the value."
    )
    return made("own_figure_5", "Figures 5, SUP-4 to SUP-7: deviations layer by layer", columns, rows, note)


def hidden(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for column in merged.of("models"):
        for where, reason in column.hidden.items():
            place = column.platforms.index(where)
            shown = sum(each[place] is not None for each in column.prefixes.values())
            counts = shown, len(column.subject.values)
            rows.append((column.subject.name, where.machine, where.platform, *counts, reason))
    note = "shown: of the values of the model, the outputs among them. The reason is that of the missing ones."
    columns = "subject machine platform shown values reason"
    return made("own_hidden", "Platforms that do not show every value", columns, rows, note)
