"""Says why a program's own export gives something else, where the program itself shows it, and names the line; makes
the rows that are judged on an export or a file alone, or not at all."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Final

from mindgap.graph import Array, Graph
from mindgap.graph.compare.culprit import OperatorCulprit, SubmoduleCulprit
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import Fault, Verdict, Weakness
from mindgap.graph.graph import operands
from mindgap.judge.pipeline.outcome_rows import is_error
from mindgap.own_path.runs import FileChanges, Located, OwnRun
from mindgap.results.reason_words import sentence, with_sentences
from mindgap.results.rows import SEVERITY, OwnPath, OwnPathStatus, Row

#: The user's line, and the operator of PyTorch that it calls, in a label of a node.
_PLACE: Final = re.compile(r"(?P<line>[^\s()]+:\d+)\)?(?: in aten\.(?P<operator>\w+))?")
#: What is to be done about a file that is older than its program.
_OLD_FILE: Final = "export the file again from this program, or compare it with the version that it was made of"
#: What is to be done about a custom operator that declares something wrongly.
_DECLARED: Final = "correct what the operator declares, register_fake or mutates_args: torch.library.opcheck checks it"
#: Lines that are named.
_MOST: Final = 3


def line_of(run: OwnRun, path: str, drawn: tuple[str, ...] = ()) -> str:
    """Returns the user's line to name: where it fails, where the program asks how it is run, where tracing warned, or
    where it draws random numbers (`drawn`). `path`: of the submodule at fault."""
    questions = asked_inside(run, path)
    if run.line or questions:
        return run.line or _line_in(questions[0][1])
    return run.warned[0][0] if run.warned else drawn[0].partition(" ")[0] if drawn else ""


def why(run: OwnRun, path: str, drawn: tuple[str, ...] = ()) -> tuple[Reason, ...]:
    """Returns what explains it, where the program itself shows that. `path`: of the submodule at fault."""
    if run.by_order:
        return (Reason("inputs_by_order", names=tuple(f"{name} takes {argument}" for name, argument in run.by_order)),)
    if run.operator:
        return (Reason("custom_operator", line=run.line, names=(run.operator,)),)
    if questions := asked_inside(run, path):
        return (Reason("environment_question", module=path, names=tuple(question_words(*each) for each in questions)),)
    if run.warned:
        warned = tuple(f"{text} ({line})" for line, text in run.warned[:_MOST])
        return (Reason("tracer_warning", line=run.warned[0][0], names=warned),)
    training = tuple(each for each in run.training if _is_inside(path, each))
    if training:
        return (Reason("training", names=training),)
    return (Reason("random", names=drawn[:_MOST]),) if drawn else ()


def asked_inside(run: OwnRun, path: str) -> list[tuple[str, str]]:
    """Returns what a submodule asks about export, tracing or compilation."""
    return [
        (function, place) for function, place in run.asked
        if _is_of_export(function) and _is_inside(path, place.partition(" (")[0] if " (" in place else "")
    ]  # fmt: skip


def question_words(function: str, place: str) -> str:
    """Formats a question: `torch.compiler.is_compiling() at blocks.1 (model.py:6)`."""
    call = function if function.endswith("]") else f"{function}()"
    return f"{call} at {place}" if place else call


def draws(graph: Graph) -> tuple[str, ...]:
    """Returns where a program draws random numbers: the user's lines, with the function that draws if PyTorch does it:
    `model.py:12 (dropout)`. Empty for a graph without random inputs."""
    random = {number for number, given in enumerate(graph.inputs) if given.role == "random"}
    users = (place for place, node in enumerate(graph.nodes) if random.intersection(operands(node)))
    labels = (graph.labels.nodes[place] for place in users) if graph.labels.nodes else ()
    places = (match for label in labels if (match := _PLACE.search(label)))
    drawn = (f"{each['line']} ({each['operator']})" if each["operator"] else each["line"] for each in places)
    return tuple(dict.fromkeys(drawn))


def _is_inside(path: str, module: str) -> bool:
    """Whether a module is a submodule, or inside it. `path`: empty for the whole program."""
    return not path or module == path or module.startswith(f"{path}.")


def _line_in(place: str) -> str:
    return place.partition(" (")[2].rstrip(")") if " (" in place else place


def _is_of_export(function: str) -> bool:
    """Whether the answer depends on export, tracing or compilation, and not on the machine."""
    return function.rpartition(".")[2].startswith("is_") and "available" not in function


def far_words(run: OwnRun, apart: float, other: str) -> str:
    """Returns by how much a program's own outputs are off `other`."""
    size = "NaN or infinity where the other is finite" if apart == math.inf else f"{apart:.2g} of the largest magnitude"
    return f"{run.words} gives other outputs than {other}: {size}, more than rounding explains"


def submodule_culprit(path: str, line: str) -> SubmoduleCulprit:
    """Returns the culprit of a submodule, with the user's line."""
    return SubmoduleCulprit(path, f"{path} ({line})" if path and line else path or line)


def where_words(located: Located, run: OwnRun) -> str:
    """Returns the detail of the submodule and the step at fault."""
    if located.changes is not None:
        return changes_words(located.changes)
    where = f"; submodule {located.path} ({located.kind}) does it by itself" if located.path else ""
    where += "" if located.complete else "; its submodules were not all tried"
    # A branch of the program's own explains more than the step of the export that takes it.
    return f"{where}; {located.step}" if located.step and not asked_inside(run, located.path) else where


def advice_of(located: Located, run: OwnRun) -> str:
    """Returns what to do about a file that is not of its program, and about a wrong declaration; else empty."""
    if located.changes is not None and changes_words(located.changes):
        return _OLD_FILE
    return _DECLARED if located.declared and not run.operator else ""


def weaknesses_of(located: Located) -> tuple[Weakness, ...]:
    """Returns what could not be examined of a program whose own export is at fault."""
    unchecked = Weakness(-1, "custom operators", "declarations", f"they could not be checked: {located.unchecked}")
    reason = located.changes.reason if located.changes is not None else ""
    unread = Weakness(-1, "the ready-made file", "old file", f"it was not compared with the program: {reason}")
    return (unchecked,) * bool(located.unchecked) + (unread,) * bool(reason)


def changes_words(changes: FileChanges) -> str:
    """Returns the detail of a file that differs from its program; empty where it does not."""
    parts: list[str] = []
    if changes.weights:
        name, most = max(changes.weights, key=lambda each: each[1])
        size = "another shape" if most == math.inf else f"the largest difference {most:.2g}"
        parts.append(f"{len(changes.weights)} of {changes.compared} weights differ, {size} in {name}")
    if changes.missing:
        parts.append(f"{len(changes.missing)} weights of the program are not in it: {_first_of(changes.missing)}")
    if changes.constants:
        parts.append(
            _first_of([f"{what} is {old} in it and {new} in the program" for what, old, new in changes.constants])
        )
    if changes.nodes:
        counts = [f"{count:+d} {op}" for op, count in changes.nodes]
        parts.append(f"its nodes are others ({_first_of(counts)})")
    at = f" ({changes.line})" if changes.line else ""
    begins = f"; it starts at {changes.start}{at}" if parts and changes.start else ""
    if parts and changes.off:
        begins = f"; values part at {changes.start}{at}, by {changes.off:.2g} of the largest magnitude"
    return (
        f". The file is not what torch.onnx.export of the program gives now: {'; '.join(parts)}{begins}"
        if parts
        else ""
    )


def _first_of(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:_MOST])}{' …' if len(texts) > _MOST else ''}"


def led_by(row: Row, faults: Sequence[Fault]) -> Row:
    """Returns the row with these faults alone. The first is the culprit's."""
    first = faults[0]
    return dataclasses.replace(
        row, verdict=first.verdict, blame=first.blame, culprit=first.culprit, detail=first.detail,
        example=first.example, script=first.script, faults=tuple(faults),
    )  # fmt: skip


def own_path_of(run: OwnRun, status: OwnPathStatus, text: str, reasons: tuple[Reason, ...] = ()) -> OwnPath:
    """Returns what a row shows of a program's own export."""
    questions = tuple(question_words(*each) for each in run.asked)
    if run.unwritten and run.outputs is not None and status not in ("differs", "failed"):
        reasons = (*reasons, Reason("unwritten_arguments", names=run.unwritten))
    detail = with_sentences(text, reasons)
    if run.grown:
        copies = f"a call changes {', '.join(run.grown)}, so that each run was given copies"
        detail = "; ".join(filter(None, (detail, copies)))
    return OwnPath(status, run.way, detail, questions, run.training, run.seconds, reasons)


def not_compared(why: Reason) -> OwnPath:
    """Returns what a row shows of a program's own way that was not gone."""
    return OwnPath("not_compared", detail=sentence(why), reasons=(why,))


def with_fault(
    row: Row, fault: Fault, about: OwnPath, sides: tuple[Sequence[Array], Sequence[Array]] | None = None
) -> Row:
    """Returns the row with one more fault. The worst comes first, and the metrics are of it.

    Operators that are confirmed wrong come before an export that is off where no part of the program shows it: they
    explain it, and what reads unwritten memory differs from run to run.

    `sides`: the outputs by the program's own way and the expected ones; None where there is no one pair of these.
    """
    from mindgap.judge.trace.metrics import fixed_tolerances, row_metrics

    faults = (*row.independent_faults, fault) if row.finding else (fault,)
    confirmed = [each for each in faults if isinstance(each.culprit, OperatorCulprit) and each.blame == "platform"]
    ranked = confirmed if confirmed and _is_unlocated(fault) else faults
    first = min(ranked, key=lambda each: SEVERITY.index(str(each.verdict)))
    ordered = (first, *(each for each in faults if each is not first))
    if first is fault:
        row = dataclasses.replace(
            row, verdicts=(), metrics=RowMetrics() if sides is None else row_metrics(*sides, None),
            profiles={} if sides is None else fixed_tolerances(*sides),
        )  # fmt: skip
    return dataclasses.replace(led_by(row, ordered), own_path=about)


def _is_unlocated(fault: Fault) -> bool:
    """Whether an export is off, and neither a submodule nor a line shows it."""
    culprit = fault.culprit
    return fault.verdict == "export" and isinstance(culprit, SubmoduleCulprit) and not (culprit.path or culprit.label)


def cleared(row: Row) -> Row:
    """Returns the row of a graph without what was found of it, for the faults of the file that take its place."""
    return dataclasses.replace(
        row, status="ok", verdict=None, blame=None, culprit=None, message="", faults=(), example=None, reasons=()
    )


def refused(row: Row, run: OwnRun, file_alone: bool) -> Row:
    """Returns the row where the runtime refuses the program. That is no failure of the platform's.

    `file_alone`: the program is a model file, and its translated graph has no finding there, or one that may be of the
    translation alone, which spells quantisation out in floats: the row is a refusal too.
    """
    about = OwnPath("not_compared", run.way, f"{run.words} is refused: {run.reason}", seconds=run.seconds)
    if file_alone:
        row = dataclasses.replace(
            cleared(row), status="unsupported", unjudged=False, detail="", message=about.detail, verdicts=()
        )
    return dataclasses.replace(row, own_path=about)


def judged_by_export(
    row: Row, run: OwnRun, status: OwnPathStatus, ours: Sequence[Array], expected: Sequence[Array]
) -> Row:
    """Returns the row of a platform that does not run the captured graph, and runs the program by its own export, or a
    model file, judged on that."""
    from mindgap.judge.trace.metrics import fixed_tolerances, row_metrics

    why = (row.message or row.detail).strip().partition("\n")[0]
    does = "fails" if row.verdict == "failed" else "is refused" if row.status != "ok" else "has findings of its own"
    verdicts: dict[OwnPathStatus, Verdict] = {"same": "identical", "rounding": "rounding"}
    return dataclasses.replace(
        row, status="ok", verdict=verdicts.get(status), unjudged=status not in verdicts, culprit=None, message="",
        detail=f"judged on the outputs of {run.words}: the captured graph {does} here ({why})",
        reasons=(Reason("by_export"), Reason("own_path")),
        metrics=row_metrics(ours, expected, None), profiles=fixed_tolerances(ours, expected),
    )  # fmt: skip


def unjudged_file(row: Row, detail: str, ours: Sequence[Array], expected: Sequence[Array]) -> Row:
    """Returns the row of a model file whose difference is not judged: its translated graph gives something else,
    or is refused."""
    from mindgap.judge.trace.metrics import row_metrics

    metrics = row_metrics(ours, expected, None)
    return dataclasses.replace(
        row, status="ok", verdict=None, unjudged=True, detail=detail, message="", metrics=metrics,
        reasons=(Reason("own_path"),),
    )  # fmt: skip


def without_file_run(row: Row, about: OwnPath) -> Row:
    """Returns the row of a model file that did not run, for lack of time for example. An error of its translated graph
    may be of the translation: the row is unjudged, with the reason."""
    if is_error(row):
        error = (row.message or row.detail).strip().partition("\n")[0]
        row = dataclasses.replace(
            cleared(row), unjudged=True, reasons=(Reason("own_path"), *about.reasons),
            detail=f"the file did not run ({about.detail}), and its translated graph fails ({error})",
        )  # fmt: skip
    return dataclasses.replace(row, own_path=about)
