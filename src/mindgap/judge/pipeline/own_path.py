"""Decides what the program's own way through a platform adds to the row of its captured graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mindgap.graph import Array
from mindgap.graph.compare.reason import Reason, has
from mindgap.graph.compare.verdict import CALM, Blame, Fault, Verdict, Weakness
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.file_decision import FileDecision, RunProgram, decided_file
from mindgap.judge.pipeline.file_faults import faults_of_nodes, is_named
from mindgap.judge.pipeline.model_files import (
    has_faults_of_translation,
    is_narrow,
    is_quantised,
    is_referee,
    without_translation_faults,
)
from mindgap.judge.pipeline.outcome_rows import is_error
from mindgap.judge.pipeline.own_path_comparison import (
    Compared,
    EagerAgain,
    compared_with_reference,
    has_other_forms,
    masked_words,
    sides,
)
from mindgap.judge.pipeline.own_path_reasons import (
    advice_of,
    cleared,
    draws,
    judged_by_export,
    line_of,
    own_path_of,
    refused,
    submodule_culprit,
    unjudged_file,
    weaknesses_of,
    where_words,
    why,
    with_fault,
    without_file_run,
)
from mindgap.own_path.runs import FileNodes, Located, OwnRun, ShownDifference
from mindgap.results.reason_words import joined, with_sentences
from mindgap.results.rows import OwnPath, OwnPathStatus, Row

if TYPE_CHECKING:
    from mindgap.judge.pipeline.quantised_files import Probe

#: Follows the places where a difference lies, if a mask among the arguments explains them.
_UNREAD: Final = "--output-mask leaves such places out"
#: The text of a row of a quantised program whose own path could not run.
QUANTISED_LEFT_OUT: Final = (
    "the quantised kernels did not run: the captured graph spells quantisation out, and the program itself was not run"
)
#: Finds the nodes of a model file that the platform computes otherwise: how far the file is off, and its arguments.
FindNodes = Callable[[float | None, Sequence[Array]], FileNodes]
#: Finds the submodule at fault.
Locate = Callable[[ShownDifference], Located | None]


@dataclass(frozen=True, slots=True)
class _Case:
    """A row, and what the program's own way gave. `row`: of the captured graph; of a file, without what is not about
    the file. `graphs_row`: before that. `translation_failed`: nothing else was left of a file's translated graph."""

    comparison: GraphComparison
    graphs_row: Row
    row: Row
    run: OwnRun
    compared: Compared
    locate: Locate
    about: OwnPath
    blame: Blame | None = None
    is_file: bool = False
    translation_failed: bool = False
    is_probed: bool = False
    nodes: FindNodes | None = None

    @property
    def sides(self) -> tuple[Sequence[Array], Sequence[Array]]:
        """The outputs and those that they are compared with."""
        return sides(self.comparison, self.run, self.compared.against)

    @property
    def is_refused(self) -> bool:
        """Whether the platform refuses the captured graph by itself, and no delegate left it to others. What a delegate
        leaves of a file on a processor runs there too."""
        of_file = self.run.source_file and self.row.platform.mode == "cpu"
        return self.row.status == "unsupported" and (of_file or not has(self.row.reasons, "took_none"))

    def by_export(self, row: Row) -> Row:
        """The row judged on the program's own way."""
        return judged_by_export(row, self.run, self.compared.status, *sides(self.comparison, self.run, "reference"))


def with_own_path(
    comparison: GraphComparison,
    row: Row,
    run: OwnRun,
    locate: Locate,
    eager_again: EagerAgain,
    referee: RunProgram | None = None,
    probe: Probe | None = None,
    nodes: FindNodes | None = None,
) -> Row:
    """Returns the row with what the program's own way gave. A difference or failure that the row lacks is a fault.

    `eager_again`: builds the program again and returns its outputs in eager mode; none where that fails. `referee`:
    for a program that is a model file, so that the reference of its format decides which side is wrong. `probe`: for
    such a program, so that the integers of a quantised one decide. `nodes`: for such a program, finds the nodes that
    the platform computes otherwise.
    """
    if run.refused:
        floats = is_quantised(comparison.graph) and has_faults_of_translation(row)
        return refused(row, run, run.source_file and (row.verdict in CALM or floats or is_error(row)))
    compared = compared_with_reference(comparison, row, run, eager_again)
    if referee is None:
        about = own_path_of(run, compared.status, compared.text, compared.reasons)
        return _ROWS[compared.status](_Case(comparison, row, row, run, compared, locate, about))
    if not run.fed:
        return without_file_run(row, own_path_of(run, compared.status, compared.text))
    # The user gave the file, and it runs: that its translation is an error there, or is given other dtypes, is no
    # finding. A crash is one.
    kept, translation_failed = without_translation_faults(row, run, has_other_forms(comparison, run))
    if translation_failed and compared.status == "differs":
        kept = cleared(kept)
    decision = decided_file(comparison, kept, run, compared, referee, probe)
    compared = decision.compared
    about = own_path_of(run, compared.status, compared.text, compared.reasons)
    case = _Case(
        comparison, row, kept, run, compared, locate, about,
        decision.blame, True, translation_failed, probe is not None, nodes,
    )  # fmt: skip
    if decision.faults or decision.quantised:
        return _decided_row(case, decision)
    return _FILE_ROWS.get(compared.status, _ROWS[compared.status])(case)


def _agreeing(case: _Case) -> Row:
    """The row of a program whose own way is right. A platform that refuses the captured graph runs the program."""
    row = case.by_export(case.row) if case.is_refused else case.row
    return dataclasses.replace(row, own_path=case.about, faults=row.independent_faults)


def _agreeing_file(case: _Case) -> Row:
    """The row of a file that the runtime computes right: findings of its translated graph are none of the user's."""
    if case.translation_failed or (case.row.finding and case.row.ran):
        return _judged_as_file(case)
    return _agreeing(case)


def _judged_as_file(case: _Case) -> Row:
    """The row of a file without its translated graph."""
    judged = case.by_export(case.graphs_row)
    return dataclasses.replace(judged, own_path=case.about, faults=(), blame=None, example=None, script="", verdicts=())


def _as_it_was(case: _Case) -> Row:
    """The row of the captured graph, to which the program's own way adds no fault."""
    return dataclasses.replace(case.row, own_path=case.about, faults=case.row.independent_faults)


def _left_out(case: _Case) -> Row:
    """The row of a quantised program whose quantised kernels did not run: a calm graph shows nothing of them."""
    row = case.row
    if row.verdict in CALM:
        detail = f"{QUANTISED_LEFT_OUT}: {case.compared.text}"
        row = dataclasses.replace(
            row, verdict=None, unjudged=True, detail=detail, reasons=(*row.reasons, Reason("own_path"))
        )
    return dataclasses.replace(row, own_path=case.about, faults=row.independent_faults)


def _unjudged_as_file(case: _Case) -> Row:
    """The row of a file whose difference is not judged."""
    if case.translation_failed:
        return _judged_as_file(case)
    row = case.row
    if case.is_probed and (row.verdict in CALM or case.is_refused):
        row = unjudged_file(row, case.compared.text, *case.sides)
    return dataclasses.replace(row, own_path=case.about, faults=row.independent_faults)


def _failing(case: _Case) -> Row:
    """The row of a program that cannot be exported, or whose export does not run.

    Where the platform fails on the captured graph too, that is the finding, unless a custom operator is at fault: it is
    in the program, and not in the captured graph.
    """
    return _faulty(case) if case.row.ran or case.run.operator else _as_it_was(case)


def _faulty(case: _Case) -> Row:
    """The row with the faults of the program's own way: nodes of a file, else a submodule."""
    row, run, compared = case.row, case.run, case.compared
    failed = compared.status == "failed"
    if row.status == "unsupported":
        row = dataclasses.replace(row, status="compile_error" if failed else "ok", message="", reasons=())
    faults: list[Fault] = []
    if case.nodes is not None and not is_referee(row.platform):
        arguments = run.other_arguments if compared.against == "others" else ()
        nodes = case.nodes(None if failed else compared.apart, arguments)
        if is_named(row, nodes):
            return dataclasses.replace(row, own_path=case.about, faults=row.independent_faults)
        faults = faults_of_nodes(nodes, case.blame)
        if failed:  # a node of another form is why a later one cannot run
            faults = [dataclasses.replace(each, verdict="failed") for each in faults]
    if not faults:
        where = "" if failed else masked_words(case.comparison, run, compared.against, case.sides)
        masked = dataclasses.replace(compared, text=joined(compared.text, where and f"{where} ({_UNREAD})"))
        fault, weak = fault_of(run, masked, case.locate, draws(case.comparison.graph))
        row = dataclasses.replace(row, weaknesses=(*row.weaknesses, *weak))
        faults = [dataclasses.replace(fault, blame=case.blame)]
    for fault in faults:
        row = with_fault(row, fault, case.about, None if failed else case.sides)
    return row


def _decided_row(case: _Case, decision: FileDecision) -> Row:
    """The row of a file that others decided: a policy, or the integers of a quantised file, with which an error or
    fewer bits in its translated graph are no finding."""
    row = case.row
    if not decision.faults:
        return dataclasses.replace(case.by_export(row), own_path=case.about, faults=(), blame=None, example=None)
    if decision.explains_graph:
        row = cleared(row)
    of_translation = decision.quantised and has_faults_of_translation(row)
    if of_translation and (not row.ran or is_narrow(case.comparison, row.platform)):
        row = cleared(row)
    for fault in decision.faults:
        row = with_fault(row, fault, case.about, case.sides)
    return row


#: How the row is made, by what the comparison of the program's own way gave.
_ROWS: Final[Mapping[OwnPathStatus, Callable[[_Case], Row]]] = {
    "same": _agreeing,
    "rounding": _agreeing,
    "as_graph": _as_it_was,
    "not_compared": _as_it_was,
    "unjudged": _as_it_was,
    "kernels_left_out": _left_out,
    "differs": _faulty,
    "failed": _failing,
}
#: Of a model file, where that is not the same.
_FILE_ROWS: Final[Mapping[OwnPathStatus, Callable[[_Case], Row]]] = {
    "same": _agreeing_file,
    "rounding": _agreeing_file,
    "unjudged": _unjudged_as_file,
}


def fault_of(
    run: OwnRun, compared: Compared, locate: Locate, drawn: tuple[str, ...] = ()
) -> tuple[Fault, tuple[Weakness, ...]]:
    """Returns the fault of a program whose own export `differs` or has `failed`, with the submodule and the line, and
    what could not be examined.

    `drawn`: where the program draws random numbers.
    """
    if stateful := compared.against == "second":
        located = Located(run.changes[0][0].rpartition(".")[0], "") if run.changes else Located("", "")
    elif drawn or run.draws:
        # Each run of a submodule that draws random numbers gives others.
        located = Located("", "")
    else:
        shown = ShownDifference(compared.apart, run.first, compared.against == "others")
        located = locate(shown) or Located("", "")
    line = (run.changes[0][1] if stateful and run.changes else line_of(run, located.path, drawn)) or located.line
    line = line or (located.changes.line if located.changes else "")
    verdict: Verdict = "failed" if compared.status == "failed" else "export"
    reasons = (*compared.reasons, *why(run, located.path, drawn))
    # How far memory is off that is read in another form has no meaning.
    is_declared = located.declared and compared.status == "differs"
    text = f"{run.words} gives other outputs than the program" if is_declared else compared.text
    text = with_sentences(f"{text}{'' if stateful else where_words(located, run)}", reasons)
    if located.declared:
        text = f"{text}{': ' if compared.status == 'differs' else '. Wrong declaration: '}{located.declared}"
    culprit = submodule_culprit(located.path, line)
    fault = Fault(culprit, verdict, advice=advice_of(located, run), detail=text, reasons=reasons)
    return fault, weaknesses_of(located)
