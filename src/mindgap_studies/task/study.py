"""Makes the tables of a task study: one row for each column, with error, flips and calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from mindgap.results.answer_rows import AnswerRow
from mindgap_studies.results.predictions import NOT_FINITE, ComparedForm, Prediction, TaskResult, Truth
from mindgap_studies.task.detection import coco_precision, detection_precisions, localised
from mindgap_studies.task.statistics import calibration_error, mcnemar, perplexity
from mindgap_surveys.shares import wilson
from mindgap_surveys.table import StudyTable, made

#: By task: what the columns of its table mean.
NOTES: Final = {
    "classification": (
        "Error: share of samples whose label is not the best (top-1), or not among the five best (top-5), with "
        "Wilson's 95 % interval. Flips: samples whose best label is not the reference's; lost: the reference alone is "
        "right; gained: the platform alone is. p: McNemar's exact test of lost against gained. ECE: expected "
        "calibration error over 15 bins."
    ),
    "localisation": (
        "Localisation error: no guess among the five best has the right label and a box that overlaps a true one by "
        "0.5 (ILSVRC). The rest as for classification."
    ),
    "detection": (
        "AP: average precision, mean over classes, as ILSVRC's detection task defines it. COCO: mean over overlaps of "
        "0.5 to 0.95, and at 0.5, by pycocotools (– where that is not installed). Flips: images in which the objects "
        "that score 0.5 or more are others."
    ),
    "language": (
        "Perplexity: exp of the mean negative log-likelihood of a token. Error: share of tokens that are not the best. "
        "Flips: positions whose best token is not the reference's."
    ),
}


def task_tables(result: TaskResult) -> list[StudyTable]:
    """Returns the tables: `columns`, `danger`, `flips`."""
    return [_columns(result), _danger(result), _flips(result)]


def column_facts(result: TaskResult, column: ComparedForm) -> dict[str, Any]:
    """Returns the figures of one column; None where it did not run."""
    mine = result.predictions.get(column, {})
    facts: dict[str, Any] = {"column": column.name, "way": column.way, "samples": len(mine)}
    facts["precision"] = result.precision.get(column, "")
    if column in result.failures or not mine:
        return {**facts, "failure": result.failures.get(column, "it has no sample")}
    truths = {sample: result.truths[sample] for sample in mine}
    theirs = result.predictions[result.reference]
    if result.task == "detection":
        precisions = detection_precisions(mine, truths)
        coco = coco_precision(mine, truths)
        facts |= {"ap": fmean(precisions.values()) if precisions else None}
        facts |= {"coco_ap": coco and coco[0], "coco_ap_50": coco and coco[1]}
    elif result.task == "language":
        facts |= _language(mine, theirs, truths)
    else:
        facts |= _labels(mine, theirs, truths)
        if result.task == "localisation":
            missed = sum(not localised(mine[sample], truth) for sample, truth in truths.items())
            facts |= _interval("localisation_error", missed, len(truths))
    mine_flips = [flip for flip in result.flips if flip.column == column.name]
    total = sum(len(t.labels) for t in truths.values()) if result.task == "language" else len(truths)
    facts |= {"flips": len(mine_flips), "churn_share": len(mine_flips) / total}
    for verdict in ("rounding", "reduced precision", "beyond", "other form", "unjudged"):
        facts[verdict.replace(" ", "_")] = sum(flip.verdict == verdict for flip in mine_flips)
    return {**facts, "largest_deviation": max(one.deviation for one in mine.values())}


def _labels(
    mine: Mapping[int, Prediction], theirs: Mapping[int, Prediction], truths: Mapping[int, Truth]
) -> dict[str, Any]:
    right = {sample: one.labels[0] == truths[sample].labels[0] for sample, one in mine.items()}
    wrong_five = sum(truths[sample].labels[0] not in one.labels for sample, one in mine.items())
    pairs = [(theirs[sample].labels[0] == truth.labels[0], right[sample]) for sample, truth in truths.items()]
    return {
        **_interval("top1_error", len(right) - sum(right.values()), len(right)),
        **_interval("top5_error", wrong_five, len(right)), **_changes(pairs),
        "ece": calibration_error([one.confidence for one in mine.values()], [*right.values()]),
    }  # fmt: skip


def _language(
    mine: Mapping[int, Prediction], theirs: Mapping[int, Prediction], truths: Mapping[int, Truth]
) -> dict[str, Any]:
    pairs = [
        (before == token, after == token)
        for sample, truth in truths.items()
        for token, before, after in zip(truth.labels, theirs[sample].labels, mine[sample].labels, strict=True)
    ]
    return {
        "perplexity": perplexity([mine[s].loss for s in truths], [len(truth.labels) for truth in truths.values()]),
        **_interval("token_error", sum(not after for _, after in pairs), len(pairs)), **_changes(pairs),
    }  # fmt: skip


def _changes(pairs: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """Counts what the reference alone has right, and what the column alone has."""
    lost, gained = (sum(pair == each for pair in pairs) for each in ((True, False), (False, True)))
    return {"lost": lost, "gained": gained, "p": mcnemar(lost, gained)}


def _interval(name: str, count: int, of: int) -> dict[str, float]:
    share = wilson(count, of)
    return {f"{name}_share": share.value, f"{name}_low_share": share.low, f"{name}_high_share": share.high}


def _columns(result: TaskResult) -> StudyTable:
    rows = [column_facts(result, column) for column in result.columns]
    names = list(dict.fromkeys(name for row in rows for name in row))
    title = f"{result.task.capitalize()} on each platform"
    return made("columns", title, names, (tuple(map(row.get, names)) for row in rows), NOTES[result.task])


def danger_facts(result: TaskResult) -> list[dict[str, Any]]:
    """Returns for each form how many samples rounding alone can flip, among those of smallest margin."""
    facts: list[dict[str, Any]] = []
    for form in dict.fromkeys(tie.form for tie in result.near_ties):
        ties = [tie for tie in result.near_ties if tie.form == form]
        nearest = min(ties, key=lambda tie: tie.margin / tie.limit if tie.limit else math.inf)
        facts.append({
            "form": form or "the model", "examined": len(ties), "in_danger": sum(tie.in_danger for tie in ties),
            "sample": nearest.sample, "margin": nearest.margin, "limit": nearest.limit,
        })  # fmt: skip
    return facts


def _danger(result: TaskResult) -> StudyTable:
    rows = (tuple(facts.values()) for facts in danger_facts(result))
    note = (
        "Samples of smallest margin, examined by the oracle. In danger: the exact outputs of two labels are nearer to "
        "each other (margin) than the limit up to which mindgap takes a difference of them for rounding of this form's "
        "own graph (16 σ). A correct platform may give either label; most will not. Rounding to int8 moves outputs by "
        "whole steps. Sample: the nearest tie."
    )
    return made("danger", "Samples in danger", "form examined in_danger sample margin limit", rows, note)


def _flips(result: TaskResult) -> StudyTable:
    names = "column sample position truth before after verdict margin limit shows origin note"
    rows = (tuple(_plain(asdict(flip)[name]) for name in names.split()) for flip in result.flips)
    note = (
        "Before: the reference's label; after: the column's; -1: NaN or infinities. `rounding`: rounding of the graph "
        "can swap the two. `reduced precision`: that of the dtype in which the platform computes can. `beyond`: "
        "it cannot. `other form`: the form computes something else than the model, on "
        "the reference too. Origin: the operator or module at which the two sides part, for a column's first flips."
    )
    return made("flips", "Samples that flipped", names, rows, note)


def answer_rows(result: TaskResult, max_flips: int | None) -> list[AnswerRow]:
    """Returns a row for each column and for the samples, in what a test report has: what is a finding by the exit
    status of `mindgap study task`, and what did not run or was left out.

    max_flips: flips of a column from which on they are a finding, whatever explains them; None for no limit.
    """
    rows = [_answer(result, column, max_flips) for column in result.columns]
    wanting = dataset_problem(result)
    if wanting or result.problems:
        first = next(iter(result.problems.items()), None)
        why = f"{len(result.problems)} samples are left out, the first is {first[0]}: {first[1]}" if first else ""
        detail = "; ".join(filter(None, (wanting, why)))
        rows.append(AnswerRow(result.model, result.dataset, "samples", result.task, "left out", "unknown", detail))
    return rows


def _answer(result: TaskResult, column: ComparedForm, max_flips: int | None) -> AnswerRow:
    facts = column_facts(result, column)
    if "failure" in facts:
        return AnswerRow(result.model, column.name, "task", result.task, "not run", "unknown", facts["failure"])
    numbers = {
        name: float(facts[name])
        for name in (*(name for name in facts if name.endswith("_share")), "perplexity", "ap", "ece", "flips", "lost")
        if facts.get(name) is not None
    }
    over = max_flips is not None and facts["flips"] > max_flips
    reasons = [
        f"{facts['beyond']} flips are beyond rounding" if facts["beyond"] else "",
        f"outputs of {count} samples have NaN or infinities" if (count := result.not_finite(column)) else "",
        f"{facts['flips']} flips, and {max_flips} are allowed" if over else "",
    ]
    verdict = "flips" if facts["flips"] else "no flips"
    detail = "; ".join(filter(None, reasons))
    return AnswerRow(
        result.model, column.name, "task", result.task, verdict, "found" if detail else "passed", detail, numbers
    )


def dataset_problem(result: TaskResult) -> str:
    """Returns why the samples say little, or nothing, of the task; empty where they do."""
    labels = {truth.labels[0] for truth in result.truths.values() if truth.labels}
    if result.task in ("classification", "localisation") and len(labels) < 2:
        return f"all samples are of one class ({labels.pop()}): their error says nothing of the others"
    if result.task == "detection" and not labels:
        return "no sample has a true box: average precision is not defined"
    return ""


def unnamed_classes(result: TaskResult) -> int:
    """Counts the samples whose best label on the reference is none of the dataset's classes: its labels are probably
    not the model's."""
    mine = result.predictions.get(result.reference, {}).values()
    return sum(one.labels[0] >= len(result.classes) for one in mine if one.labels) if result.classes else 0


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def label_name(classes: Sequence[str], label: int) -> str:
    """Returns a label's name, or its number where it has none."""
    if label == NOT_FINITE:
        return "NaN or infinities"
    return classes[label] if 0 <= label < len(classes) else str(label)


def task_object(result: TaskResult) -> dict[str, Any]:
    """Returns everything that was found, without pictures and single predictions. What is not finite is null."""
    return {
        "model": result.model, "dataset": result.dataset, "task": result.task, "reference": result.reference.name,
        "classes": list(result.classes), "samples": len(result.truths), "taken_over": result.taken_over,
        "seconds": result.seconds,
        "columns": [{k: _plain(v) for k, v in column_facts(result, c).items()} for c in result.columns],
        "danger": [{k: _plain(v) for k, v in facts.items()} for facts in danger_facts(result)],
        "near_ties": [
            {k: _plain(v) for k, v in asdict(tie).items()} | {"in_danger": tie.in_danger} for tie in result.near_ties
        ],
        "flips": [{k: _plain(v) for k, v in asdict(flip).items()} for flip in result.flips],
        "problems": [{"sample": n, "reason": why} for n, why in result.problems.items()], "notes": result.notes,
    }  # fmt: skip
