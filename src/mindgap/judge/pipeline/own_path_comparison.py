"""Compares what a program gave on the way of a platform's users with the reference, or with eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindgap.graph import Array, materialise_all
from mindgap.graph.compare.metrics import distance, not_finite
from mindgap.graph.compare.reason import Reason
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.judge.pipeline.model_files import has_quantised_values, is_declared
from mindgap.judge.pipeline.own_path_reasons import draws, far_words
from mindgap.judge.pipeline.time_budget import OutOfTime
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import PlatformName
from mindgap.results.quantisation_cost import forms
from mindgap.results.reason_words import random_words
from mindgap.results.rows import OwnPathStatus, Row

#: Outputs that are no further from the reference than this many times the captured graph's on the same platform differ
#: for the graph's reason.
_AS_GRAPH: Final = 4.0
#: Of the largest magnitude: an element that is further off is wrong, however the outputs were rounded.
_WRONG: Final = 1e-2
#: A platform's choice of precision does not lead further, of the largest magnitude.
_PRECISION: Final = 0.05
#: With other arguments nothing is judged that is nearer than this, of the largest magnitude.
OTHER: Final = 1e-3
#: Of the largest magnitude: the program built again, or the reference on other arguments, computes something else.
_FAR: Final = 0.5
#: What the outputs of the program's own way are compared with: the reference's; those of eager mode, where that takes
#: another way than capture; those of a second call, before which the program changed what it keeps; those on other
#: arguments of the same kind.
Against = Literal["reference", "eager", "second", "others"]
#: Builds the program again and returns its outputs in eager mode; none where that fails.
EagerAgain = Callable[[], Sequence[Array]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison. `apart`: how far the outputs are off, of the largest magnitude; None where that is
    not known. `text`: what differs. `reasons`: why, where the comparison shows it."""

    status: OwnPathStatus
    text: str = ""
    apart: float | None = None
    against: Against = "reference"
    reasons: tuple[Reason, ...] = ()


def compared_with_reference(comparison: GraphComparison, row: Row, run: OwnRun, eager_again: EagerAgain) -> Compared:
    """Compares the outputs of a program's own way. `row`: of the captured graph on the platform."""
    graph = comparison.graph
    if not run.fed:
        left_out = run.absent and has_quantised_values(graph)
        return Compared("kernels_left_out" if left_out else "not_compared", run.reason)
    if run.outputs is None:
        return Compared("failed", failure_words(run), reasons=run.failure_reasons)
    if any(given.role == "random" for given in graph.inputs):
        return _structure(comparison, row, run) or _random(comparison, run)
    if run.way == "torch.jit.trace" and len(graph.outputs) - len(graph.labels.decisions) > len(run.outputs):
        return Compared("not_compared", "the program changes what it holds, and this way runs it several times")
    reference = comparison.whole_reference()
    if not reference.ran or reference.arrays is None:
        return Compared("not_compared", "the reference gave nothing to compare with")
    expected = reference.arrays[: len(run.outputs)]
    if (otherwise := distance(run.eager, expected)) > OTHER:
        again = distance(run.eager, eager_again())
        if again < min(OTHER, otherwise / 10):
            return _eager(comparison, row, run, otherwise)
        if otherwise > _FAR:
            return Compared("not_compared", "the program gives other outputs in eager mode when it is built again")
    return _outputs(comparison, row, run, reference.arrays)


def failure_words(run: OwnRun) -> str:
    """Returns which step of a program's own way failed, where, and the message."""
    at = f" ({run.line})" if run.line else ""
    return f"{run.words if run.file else f'{run.step or run.way} of the program'} failed{at}: {run.reason}"


def sides(comparison: GraphComparison, run: OwnRun, against: Against) -> tuple[Sequence[Array], Sequence[Array]]:
    """Returns the outputs of the program's own way, and those that they are compared with."""
    if against != "reference":
        return eager_sides(run, against)
    ours = run.outputs or ()
    return ours, (comparison.whole_reference().arrays or ())[: len(ours)]


def eager_sides(run: OwnRun, against: Against) -> tuple[Sequence[Array], Sequence[Array]]:
    """Returns the same where eager mode gives what is expected, which needs no graph."""
    if against == "others":
        return run.other_outputs, run.other_eager
    if against == "second":
        return run.second_outputs, run.second_eager
    ours = run.outputs or ()
    return ours, run.eager[: len(ours)]


def masked_words(
    comparison: GraphComparison, run: OwnRun, against: Against, both: tuple[Sequence[Array], Sequence[Array]]
) -> str:
    """Returns where a difference lies, if a mask among the arguments explains that; else empty. `both`: the sides."""
    from mindgap.judge.trace.masked_places import masked_places  # imports PyTorch

    graph = comparison.graph
    if len(both[0]) != len(both[1]) or sum(each.role == "input" for each in graph.inputs) < 2:
        return ""  # a mask is an argument next to what it masks
    tensors = comparison.context.tensors
    others = against == "others"
    given = _with_arguments(comparison, run.other_arguments) if others else materialise_all(graph, tensors)
    return "" if given is None else masked_places(graph, given, *both)


def has_other_forms(comparison: GraphComparison, run: OwnRun) -> bool:
    """Returns whether the outputs have other shapes or dtypes than the reference's."""
    ours, expected = sides(comparison, run, "reference")
    return forms(ours) != forms(expected)


def second_compared(run: OwnRun) -> Compared | None:
    """Compares a second call. In eager mode it gives other outputs than the first, where what was exported gives those
    of the first again. None where that is not so."""
    if not run.second_outputs:
        return None
    apart, again = distance(run.second_eager, run.eager), distance(run.second_outputs, run.outputs or ())
    if apart < OTHER or again > apart / 10:
        return None
    names = tuple(name for name, _ in run.changes) or ("what it holds",)
    text = (
        f"{run.words} gives the outputs of the first call again at the second, which is {apart:.2g} of the largest "
        "magnitude off"
    )
    return Compared("differs", text, apart, "second", (Reason("state_not_kept", names=names),))


def others_words(run: OwnRun, apart: float) -> str:
    """Returns how far what was exported with the given arguments is off on others."""
    return (
        "what was exported is wrong on other arguments of the same kind: "
        f"{run.way} of the program with the given arguments is off by {apart:.2g} of the largest magnitude"
    )


def _random(comparison: GraphComparison, run: OwnRun) -> Compared:
    """Compares with eager mode where a program seeds its generator in each call."""
    if not run.repeats:
        return Compared("not_compared", random_words(draws(comparison.graph)))
    outputs = run.outputs or ()
    apart = distance(outputs, run.eager[: len(outputs)])
    if apart <= OTHER:
        return Compared("unjudged" if apart else "same", "", apart)
    same = "the program draws the same random numbers in each call in eager mode"
    return Compared("differs", f"{far_words(run, apart, 'eager mode in the same process')}; {same}", apart, "eager")


def _eager(comparison: GraphComparison, row: Row, run: OwnRun, otherwise: float) -> Compared:
    """Compares with eager mode, in which the program computes something else than when it is captured: PyTorch's
    modules take another way for tensors that are traced."""
    outputs = run.outputs or ()
    apart = distance(outputs, run.eager[: len(outputs)])
    whole = comparison.whole_reference().arrays or ()
    graphs = _graph_outputs(comparison, row.platform) or whole
    captured = f"the captured graph is {otherwise:.2g} off eager mode, in which the program takes another way"
    if apart <= max(OTHER, _AS_GRAPH * distance(graphs, whole)):
        return Compared("unjudged", f"{run.words} is {apart:.2g} off eager mode, and {captured}", apart)
    return Compared("differs", f"{far_words(run, apart, 'eager mode in the same process')}; {captured}", apart, "eager")


def _outputs(comparison: GraphComparison, row: Row, run: OwnRun, reference: Sequence[Array]) -> Compared:
    assert run.outputs is not None, "it ran"
    ours = run.outputs
    apart = distance(ours, reference[: len(ours)])
    status: OwnPathStatus = "same" if apart == 0.0 else "rounding"
    if apart:
        if not comparison.context.settings.judge:
            return Compared("unjudged", "the judge was left out", apart)
        if structure := _structure(comparison, row, run):
            return structure
        beyond = _is_beyond(comparison, row.platform, (*ours, *reference[len(ours) :]))
        if isinstance(beyond, str):
            return Compared("unjudged", f"it was not judged: {beyond}", apart)
        if beyond:
            return _beyond(comparison, row, run, reference, apart)
    return second_compared(run) or _others(comparison, run) or Compared(status, "", apart)


def _beyond(
    comparison: GraphComparison, row: Row, run: OwnRun, reference: Sequence[Array], apart: float
) -> Compared:  # fmt: skip
    """Decides whether the captured graph is off alike on the platform."""
    ours = run.outputs or ()
    graphs = _graph_outputs(comparison, row.platform)
    if graphs is not None and forms(graphs[: len(ours)]) == forms(ours):
        alike = apart <= _AS_GRAPH * distance(graphs[: len(ours)], reference[: len(ours)])
        if alike and not _is_wrong_elsewhere(row, ours, graphs, reference):
            return Compared("as_graph", f"{run.words} is off like the captured graph ({apart:.2g})", apart)
        return Compared("differs", far_words(run, apart, "the captured graph on this platform"), apart)
    far = far_words(run, apart, "the reference")
    if apart < _PRECISION and not (run.source_file and is_declared(comparison, row.platform)):
        why = "no captured graph here tells the export from the platform's precision"
        return Compared("unjudged", f"{far}; {why}", apart)
    return Compared("differs", far, apart)


def _is_wrong_elsewhere(
    row: Row, ours: Sequence[Array], graphs: Sequence[Array], reference: Sequence[Array]
) -> bool:  # fmt: skip
    """Whether a program's own outputs are off in elements that the captured graph has right on the same platform: its
    fault is not all of theirs. Not decided where a platform computes with fewer bits, which moves every element."""
    if "reduced_precision" in (row.verdict, *(fault.verdict for fault in row.faults)):
        return False
    for own, graph, expected in zip(ours, graphs, reference, strict=False):
        wide = np.complex128 if np.iscomplexobj(expected) else np.float64
        ours_wide, graph_wide, right = (each.astype(wide) for each in (own, graph, expected))
        finite = (not_finite(ours_wide) == 0) & (not_finite(right) == 0)
        right = right[finite]
        off, graph_off = np.abs(ours_wide[finite] - right), np.abs(graph_wide[finite] - right)
        # Where the graph is NaN it is not right.
        wrong = (off > _WRONG * np.abs(right).max(initial=0.0)) & (graph_off <= off / 100)
        if wrong.sum() > wrong.size / 100:
            return True
    return False


def _structure(comparison: GraphComparison, row: Row, run: OwnRun) -> Compared | None:
    """Compares shapes and dtypes of the outputs alone. None where they are the reference's."""
    ours, reference = run.outputs or (), comparison.whole_reference().arrays
    if reference is None or forms(ours) == forms(reference[: len(ours)]):
        return None
    graphs = _graph_outputs(comparison, row.platform)
    if graphs is not None and forms(graphs[: len(ours)]) == forms(ours):
        return Compared("as_graph", f"{run.words} gives the forms that the captured graph gives", math.inf)
    both = f"{', '.join(forms(ours))} where the program returns {', '.join(forms(reference[: len(ours)]))}"
    return Compared("differs", f"{run.words}, run on {run.platform}, gives {both}", math.inf)


def _others(comparison: GraphComparison, run: OwnRun) -> Compared | None:
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
    beyond = _is_beyond(comparison, run.platform, (*run.other_outputs, *outputs[len(run.other_outputs) :]), inputs)
    if not beyond:
        return None
    text, reasons = others_words(run, apart), (Reason("fixed_value", size=apart),)
    if isinstance(beyond, str):
        text = f"{text}; whether that is more than rounding was not judged: {beyond}"
        return Compared("unjudged", text, apart, "others", reasons)
    return Compared("differs", text, apart, "others", reasons)


def _is_beyond(
    comparison: GraphComparison, platform: PlatformName, outputs: Sequence[Array], inputs: Sequence[Array] | None = None
) -> bool | str:
    """Whether an output is further off than rounding leads; why that is not known, where no oracle decides."""
    try:
        return any(comparison.beyond_rounding(platform, outputs, inputs))
    except (OutOfTime, HostProblem):
        raise
    except Exception as error:  # any error of the oracle on these values is in the row
        return f"{type(error).__name__}: {error}"


def _with_arguments(comparison: GraphComparison, arguments: Sequence[Array]) -> list[Array] | None:
    """The graph's inputs with other arguments. None where the program's arguments are not the graph's."""
    inputs = materialise_all(comparison.graph, comparison.context.tensors)
    places = [place for place, given in enumerate(comparison.graph.inputs) if given.role == "input"]
    if forms([inputs[place] for place in places]) != forms(arguments):
        return None
    for place, array in zip(places, arguments, strict=True):
        inputs[place] = array
    return inputs


def _graph_outputs(comparison: GraphComparison, platform: PlatformName) -> Sequence[Array] | None:
    """The outputs of the captured graph on the platform, None where it did not run."""
    outcome = comparison.context.run(platform, comparison.graph, "outputs")
    return outcome.arrays if outcome.ran else None
