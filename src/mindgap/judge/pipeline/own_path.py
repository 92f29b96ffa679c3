"""Decides what the program's own way through a platform says, beside the row of its captured graph."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mindgap.graph import Array, materialise_all
from mindgap.graph.compare.metrics import distance
from mindgap.graph.compare.verdict import CALM, Fault, Verdict, Weakness
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.file_faults import faults_of_nodes, is_named
from mindgap.judge.pipeline.model_files import (
    BY_STEPS,
    decided_by_reference,
    has_quantised_values,
    is_declared,
    is_narrow,
    is_of_translation,
    is_order_of_dequantisation,
    is_quantised,
    is_referee,
    is_steps_off,
    of_the_file,
    policy_of_operands,
    reach_of_steps,
)  # fmt: skip
from mindgap.judge.pipeline.outcome_rows import is_error
from mindgap.judge.pipeline.own_path_reasons import (
    advice_of,
    cleared,
    draws,
    draws_words,
    far_words,
    forms,
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
)  # fmt: skip
from mindgap.judge.pipeline.time_budget import OutOfTime
from mindgap.models.own_path.runs import FileNodes, Located, OwnRun, ShownDifference
from mindgap.platforms.delegation import took_none
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import (
    FIXED,
    NOT_KEPT,
    UNWRITTEN,
    OwnPathStatus,
    Row,
)

if TYPE_CHECKING:
    from mindgap.judge.pipeline.quantised_files import Probe, QuantisedFile

#: Outputs that are no further from the reference than this many times the captured graph's on the same platform differ
#: for the graph's reason.
_AS_GRAPH: Final = 4.0
#: A platform's choice of precision does not lead further, of the largest magnitude.
_PRECISION: Final = 0.05
#: With other arguments nothing is judged that is nearer than this, of the largest magnitude.
OTHER: Final = 1e-3
#: What a row says of a quantised program whose own way could not be gone.
QUANTISED_LEFT_OUT: Final = (
    "the quantised kernels did not run: the captured graph spells quantisation out, and the program itself was not run"
)
_FAR: Final = 0.5
#: Runs the program by the way of a platform's users.
RunProgram = Callable[[PlatformName], OwnRun | None]
#: Finds the nodes of a model file that the platform computes otherwise: how far the file is off, and its arguments.
FindNodes = Callable[[float | None, Sequence[Array]], FileNodes]
#: What the outputs of the program's own way are compared with: the reference's; those of eager mode, where that takes
#: another way than capture; those of a second call, before which the program changed what it keeps; those on other
#: arguments of the same kind.
Against = Literal["reference", "eager", "second", "others"]
#: Finds the submodule at fault.
Locate = Callable[[ShownDifference], Located | None]


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a comparison found. `apart`: how far the outputs are off; None where that is not known."""

    status: OwnPathStatus
    text: str = ""
    apart: float | None = None
    against: Against = "reference"


def with_own_path(
    comparison: GraphComparison,
    row: Row,
    run: OwnRun,
    locate: Locate,
    eager_again: Callable[[], Sequence[Array]],
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
        floats = is_quantised(comparison.graph) and is_of_translation(row)
        return refused(row, run, run.source_file and (row.verdict in CALM or floats or is_error(row)))
    compared = _compared(comparison, row, run, eager_again)
    status, detail = compared.status, compared.text
    if referee is not None and not run.fed:
        return without_file_run(row, own_path_of(run, status, detail))
    # The user gave the file, and it runs: that its translation is an error there, or is given other dtypes, is no
    # finding. A crash is one.
    row, translation_failed = (row, False) if referee is None else of_the_file(row, run, _other_forms(comparison, run))
    graphs_row = row
    if translation_failed and status == "differs":
        row = cleared(row)
    decides, blame = is_referee(row.platform), None
    # Nothing decides about itself; of a quantised LiteRT file other kernels do.
    if referee is not None and (not decides or Path(run.way).suffix == ".tflite"):
        open_ = status in ("differs", "as_graph") or (status == "unjudged" and comparison.context.settings.judge)
        if open_ and not decides and (policy := policy_of_operands(comparison, run, referee)) is not None:
            about = own_path_of(run, "differs", policy.detail)
            row = cleared(row) if status == "as_graph" else row
            return with_fault(row, policy, about, _sides(comparison, run, compared.against))
        ours = _sides(comparison, run, "reference")[0]
        if status == "differs" and is_order_of_dequantisation(comparison.graph, ours, compared.apart or 1.0):
            status, detail = "rounding", ""
        narrow = probe is not None and row.finding and is_narrow(comparison, row.platform)
        # Rounding that decides a position allows any integer, so that the outputs alone do not tell.
        steps_off = status == "rounding" and is_steps_off(*_sides(comparison, run, "reference"))
        doubted = status in ("differs", "unjudged") or narrow or steps_off
        asked = probe if compared.against == "reference" and doubted else None
        quantised: QuantisedFile | None = None
        if asked is not None:
            from mindgap.judge.pipeline.quantised_files import quantised_file  # imports PyTorch

            quantised = quantised_file(comparison, run, asked)
        if quantised is not None and quantised.decided:
            status = status if status == "same" else "rounding"
            if quantised.faults or (narrow and is_of_translation(row)):
                return _with_quantised(comparison, row, run, quantised, status)
        if quantised is not None:
            detail = quantised.detail if quantised.decided else ". ".join(filter(None, (detail, quantised.detail)))
            status = "unjudged" if steps_off and not quantised.decided else status
        if status == "differs" and compared.against == "reference" and not _other_forms(comparison, run):
            if quantised is not None:
                # Further off than steps lead, the outputs alone tell.
                far = (compared.apart or 0.0) > reach_of_steps(comparison.graph)
                status = "differs" if far and not decides else "unjudged"
            elif Path(run.way).suffix == ".tflite" and is_quantised(comparison.graph):
                status, detail = "unjudged", f"{detail}. {BY_STEPS}"
        if status == "differs" and not decides:
            status, decided, blame = decided_by_reference(run, referee)
            if quantised is not None and blame is None:
                status = "unjudged"  # integers that no other implementation gives, nor the graph proves
            detail = f"{detail}. {decided}"
    about = own_path_of(run, status, detail)
    # What the runtime computes of the translation is no finding of a user whose file it computes right.
    file_is_right = referee is not None and row.finding and row.status == "ok" and status in ("same", "rounding")
    if file_is_right or (translation_failed and status in ("same", "rounding", "unjudged")):
        judged = judged_by_export(graphs_row, run, status, *_sides(comparison, run, "reference"))
        return dataclasses.replace(judged, own_path=about, faults=(), blame=None, example=None, script="", verdicts=())
    # A custom operator is in the program and not in the captured graph: a refusal of that graph is another matter.
    if status not in ("differs", "failed") or (status == "failed" and row.status != "ok" and not run.operator):
        if row.status == "unsupported" and status in ("same", "rounding") and not took_none(row.message):
            row = judged_by_export(row, run, status, *_sides(comparison, run, "reference"))
        if run.unwritten and run.outputs is not None:
            about = dataclasses.replace(about, detail=joined(detail, f"{UNWRITTEN} {', '.join(run.unwritten)}"))
        if status == "kernels_left_out" and row.verdict in CALM:
            row = dataclasses.replace(row, verdict=None, unjudged=True, detail=f"{QUANTISED_LEFT_OUT}: {detail}")
        left = row.status == "unsupported" and not took_none(row.message)
        if probe is not None and status == "unjudged" and (row.verdict in CALM or left):
            row = unjudged_file(row, detail, *_sides(comparison, run, compared.against))
        return dataclasses.replace(row, own_path=about, faults=row.independent_faults)
    sides = _sides(comparison, run, compared.against) if status == "differs" else None
    if row.status == "unsupported":
        row = dataclasses.replace(row, status="compile_error" if status == "failed" else "ok", message="")
    faults: list[Fault] = []
    if nodes is not None and not decides:
        arguments = run.other_arguments if compared.against == "others" else ()
        found = nodes(None if status == "failed" else compared.apart, arguments)
        if is_named(row, found):
            return dataclasses.replace(row, own_path=about, faults=row.independent_faults)
        faults = faults_of_nodes(found, blame)
    if not faults:
        detail = joined(detail, _masked(comparison, run, compared.against, sides))
        drawn = draws(comparison.graph)
        fault, weak = fault_of(run, status, detail, compared.apart, compared.against, locate, drawn)
        row = dataclasses.replace(row, weaknesses=(*row.weaknesses, *weak))
        faults = [dataclasses.replace(fault, blame=blame)]
    for fault in faults:
        row = with_fault(row, fault, about, sides)
    return row


def _masked(
    comparison: GraphComparison, run: OwnRun, against: Against, sides: tuple[Sequence[Array], Sequence[Array]] | None
) -> str:
    """Where the difference lies, if a mask among the arguments explains that; or ""."""
    from mindgap.judge.trace.masked_places import masked_places  # imports PyTorch

    if sides is None or len(sides[0]) != len(sides[1]):
        return ""
    graph, others = comparison.graph, run.other_arguments if against == "others" else None
    given = (
        materialise_all(graph, comparison.context.tensors) if others is None else _with_arguments(comparison, others)
    )
    return "" if given is None else masked_places(graph, given, *sides)


def _other_forms(comparison: GraphComparison, run: OwnRun) -> bool:
    """Whether the outputs have other shapes or dtypes than the reference's."""
    ours, expected = _sides(comparison, run, "reference")
    return forms(ours) != forms(expected)


def _with_quantised(
    comparison: GraphComparison, row: Row, run: OwnRun, quantised: QuantisedFile, status: OwnPathStatus
) -> Row:
    """The row of a quantised file, whose integers decide. That its translated graph is refused, fails or is computed
    in fewer bits is no finding."""
    if not quantised.faults:
        about = own_path_of(run, status, quantised.detail)
        judged = judged_by_export(row, run, status, *_sides(comparison, run, "reference"))
        return dataclasses.replace(judged, own_path=about, faults=(), blame=None, example=None)
    if is_of_translation(row) and (row.status != "ok" or is_narrow(comparison, row.platform)):
        row = cleared(row)
    about = own_path_of(run, "differs", quantised.detail)
    for fault in quantised.faults:
        row = with_fault(row, fault, about, _sides(comparison, run, "reference"))
    return row


def fault_of(
    run: OwnRun, status: OwnPathStatus, detail: str, apart: float | None, against: Against, locate: Locate,
    drawn: tuple[str, ...] = (),
) -> tuple[Fault, tuple[Weakness, ...]]:  # fmt: skip
    """Returns the fault of a program whose own export `differs` or has `failed`, with the submodule and the line, and
    what could not be examined.

    `apart`: how far it is off. `drawn`: where the program draws random numbers.
    """
    if stateful := against == "second":
        found = Located(run.changes[0][0].rpartition(".")[0], "") if run.changes else Located("", "")
    elif drawn or run.draws:
        # Each run of a submodule that draws random numbers gives others.
        found = Located("", "")
    else:
        found = locate(ShownDifference(apart, run.first, against == "others")) or Located("", "")
    line = (run.changes[0][1] if stateful and run.changes else line_of(run, found.path, drawn)) or found.line
    line = line or (found.changes.line if found.changes else "")
    verdict: Verdict = "failed" if status == "failed" else "export"
    # How far memory is off that is read in another form has no meaning.
    detail = f"{run.words} gives other outputs than the program" if found.declared and status == "differs" else detail
    text = f"{detail}{'' if stateful else where_words(found, run)}{why(run, found.path, drawn)}"
    if found.declared:
        text = f"{text}{': ' if status == 'differs' else '. Wrong declaration: '}{found.declared}"
    fault = Fault(submodule_culprit(found.path, line), verdict, advice=advice_of(found, run), detail=text)
    return fault, weaknesses_of(found)


def _sides(comparison: GraphComparison, run: OwnRun, against: Against) -> tuple[Sequence[Array], Sequence[Array]]:
    """The outputs of the program's own way, and those that they are compared with."""
    ours = run.outputs or ()
    if against == "others":
        return run.other_outputs, run.other_eager
    if against == "second":
        return run.second_outputs, run.second_eager
    if against == "eager":
        return ours, run.eager[: len(ours)]
    return ours, (comparison.whole_reference().arrays or ())[: len(ours)]


def joined(first: str, second: str) -> str:
    """Returns two details as one."""
    return "; ".join(filter(None, (first, second)))


def _compared(
    comparison: GraphComparison, row: Row, run: OwnRun, eager_again: Callable[[], Sequence[Array]]
) -> _Compared:
    """The status, a sentence, and how far the outputs are off where that is known."""
    graph = comparison.graph
    if not run.fed:
        return _Compared(
            "kernels_left_out" if run.absent and has_quantised_values(graph) else "not_compared", run.reason
        )
    if run.outputs is None:
        at = f" ({run.line})" if run.line else ""
        step = run.words if run.file else f"{run.step or run.way} of the program"
        return _Compared("failed", f"{step} failed{at}: {run.reason}")
    if any(given.role == "random" for given in graph.inputs):
        drawn = _drawn_again(run) if run.repeats else _Compared("not_compared", draws_words(draws(graph)))
        return _structure_compared(comparison, row, run) or drawn
    if run.way == "torch.jit.trace" and len(graph.outputs) - len(graph.labels.decisions) > len(run.outputs):
        return _Compared("not_compared", "the program changes what it holds, and this way runs it several times")
    reference = comparison.whole_reference()
    if not reference.ran or reference.arrays is None:
        return _Compared("not_compared", "the reference gave nothing to compare with")
    expected = reference.arrays[: len(run.outputs)]
    if (otherwise := distance(run.eager, expected)) > OTHER:
        again = distance(run.eager, eager_again())
        if again < min(OTHER, otherwise / 10):
            return _eager_compared(comparison, row, run, otherwise)
        if otherwise > _FAR:
            return _Compared("not_compared", "the program gives other outputs in eager mode when it is built again")
    return _outputs_compared(comparison, row, run, reference.arrays)


def _drawn_again(run: OwnRun) -> _Compared:
    """Compares with eager mode, in which a program seeds its own generator in each call."""
    outputs = run.outputs or ()
    apart = distance(outputs, run.eager[: len(outputs)])
    if apart <= OTHER:
        return _Compared("unjudged" if apart else "same", "", apart)
    said = "the program draws the same random numbers in each call in eager mode"
    return _Compared("differs", f"{far_words(run, apart, 'eager mode in the same process')}; {said}", apart, "eager")


def _eager_compared(comparison: GraphComparison, row: Row, run: OwnRun, otherwise: float) -> _Compared:
    """Compares with eager mode, in which the program computes something else than when it is captured: PyTorch's
    modules take another way for tensors that are traced."""
    outputs = run.outputs or ()
    apart = distance(outputs, run.eager[: len(outputs)])
    whole = comparison.whole_reference().arrays or ()
    graphs = _graphs_own(comparison, row.platform) or whole
    captured = f"the captured graph is {otherwise:.2g} off eager mode, in which the program takes another way"
    if apart <= max(OTHER, _AS_GRAPH * distance(graphs, whole)):
        return _Compared("unjudged", f"{run.words} is {apart:.2g} off eager mode, and {captured}", apart)
    return _Compared(
        "differs", f"{far_words(run, apart, 'eager mode in the same process')}; {captured}", apart, "eager"
    )


def _outputs_compared(comparison: GraphComparison, row: Row, run: OwnRun, reference: Sequence[Array]) -> _Compared:
    assert run.outputs is not None, "it ran"
    ours = run.outputs
    apart = distance(ours, reference[: len(ours)])
    if apart == 0.0:
        status: OwnPathStatus = "same"
    elif not comparison.context.settings.judge:
        return _Compared("unjudged", "the judge was left out", apart)
    elif structure := _structure_compared(comparison, row, run):
        return structure
    else:
        try:
            beyond = comparison.beyond_rounding(row.platform, (*ours, *reference[len(ours) :]))
        except OutOfTime:
            raise
        except Exception as error:  # no oracle: what is not known is not said
            return _Compared("unjudged", f"it was not judged: {error}", apart)
        status = "rounding"
        if any(beyond):
            graphs = _graphs_own(comparison, row.platform)
            if graphs is not None and forms(graphs[: len(ours)]) != forms(ours):
                graphs = None  # nothing is near to what has another dtype or shape
            if (
                graphs is None
                and apart < _PRECISION
                and not (run.source_file and is_declared(comparison, row.platform))
            ):
                why = "no captured graph here tells the export from the platform's precision"
                return _Compared("unjudged", f"{far_words(run, apart, 'the reference')}; {why}", apart)
            if graphs is None:
                return _Compared("differs", far_words(run, apart, "the reference"), apart)
            if apart <= _AS_GRAPH * distance(graphs[: len(ours)], reference[: len(ours)]):
                return _Compared("as_graph", f"{run.words} is off like the captured graph ({apart:.2g})", apart)
            return _Compared("differs", far_words(run, apart, "the captured graph on this platform"), apart)
    return second_compared(run) or _others_compared(comparison, run) or _Compared(status, "", apart)


def _structure_compared(comparison: GraphComparison, row: Row, run: OwnRun) -> _Compared | None:
    """Compares shapes and dtypes of the outputs alone. None where they are the reference's."""
    ours, reference = run.outputs or (), comparison.whole_reference().arrays
    if reference is None or forms(ours) == forms(reference[: len(ours)]):
        return None
    graphs = _graphs_own(comparison, row.platform)
    if graphs is not None and forms(graphs[: len(ours)]) == forms(ours):
        return _Compared("as_graph", f"{run.words} gives the forms that the captured graph gives", math.inf)
    both = f"{', '.join(forms(ours))} where the program returns {', '.join(forms(reference[: len(ours)]))}"
    return _Compared("differs", f"{run.words} gives {both}", math.inf)


def second_compared(run: OwnRun) -> _Compared | None:
    """Compares a second call. In eager mode it gives other outputs than the first, where what was exported gives those
    of the first again. None where that is not so."""
    if not run.second_outputs:
        return None
    apart, again = distance(run.second_eager, run.eager), distance(run.second_outputs, run.outputs or ())
    if apart < OTHER or again > apart / 10:
        return None
    names = ", ".join(name for name, _ in run.changes[:4]) or "what it holds"
    text = (
        f"{run.words} gives the outputs of the first call again at the second, which is {apart:.2g} of the largest "
        f"magnitude off. {NOT_KEPT}: each call changes {names}"
    )
    return _Compared("differs", text, apart, "second")


def _others_compared(comparison: GraphComparison, run: OwnRun) -> _Compared | None:
    """What was exported with the given arguments is fed others. None where it is right on them, or they are unknown."""
    apart = distance(run.other_outputs, run.other_eager)
    if not run.other_outputs or apart < OTHER:
        return None
    inputs = _with_arguments(comparison, run.other_arguments)
    if inputs is None:
        return None
    context = comparison.context
    reference = context.run(context.settings.reference, comparison.graph, "outputs", dict(enumerate(inputs)))
    outputs = reference.arrays if reference.ran else None
    if outputs is None or distance(run.other_eager, outputs[: len(run.other_eager)]) > _FAR:
        return None
    try:
        others = (*run.other_outputs, *outputs[len(run.other_outputs) :])
        if not any(comparison.beyond_rounding(run.platform, others, inputs)):
            return None
    except OutOfTime:
        raise
    except Exception:  # no oracle for these arguments: nothing is said
        return None
    text = (
        "what was exported is wrong on other arguments of the same kind: "
        f"{run.way} of the program with the given arguments is off by {apart:.2g} of the largest magnitude. {FIXED}"
    )
    return _Compared("differs", text, apart, "others")


def _with_arguments(comparison: GraphComparison, arguments: Sequence[Array]) -> list[Array] | None:
    """The graph's inputs with other arguments. None where the program's arguments are not the graph's."""
    inputs = materialise_all(comparison.graph, comparison.context.tensors)
    places = [place for place, given in enumerate(comparison.graph.inputs) if given.role == "input"]
    if forms([inputs[place] for place in places]) != forms(arguments):
        return None
    for place, array in zip(places, arguments, strict=True):
        inputs[place] = array
    return inputs


def _graphs_own(comparison: GraphComparison, platform: PlatformName) -> Sequence[Array] | None:
    """The outputs of the captured graph on the platform, None where it did not run."""
    outcome = comparison.context.run(platform, comparison.graph, "outputs")
    return outcome.arrays if outcome.ran else None
