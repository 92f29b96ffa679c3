"""Runs one subject on one platform, and looks at its inner values where that does not change its outputs.

A platform that runs node by node shows every value. Any other shows a value only once it is an output of the graph,
which may change how it fuses operators, and so its results. Such a value is taken only from a run in which the graph's
own outputs kept their bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from mindgap.aten.operators import is_inplace
from mindgap.graph import Array, TensorSpec, numpy_dtype
from mindgap.graph.compare.digest import digest_array
from mindgap.judge.trace.intermediate_values import by_size, with_outputs
from mindgap.judge.trace.subgraphs import Execute
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome
from mindgap_studies.machines.subjects.runnable import Runnable

_DEADLINE_S: Final = 300.0
#: Bytes of inner values that one run brings, and that are looked at in all.
_MOST_PER_RUN: Final = 256 << 20
_MOST: Final = 1 << 30
#: Characters of a platform's message that are kept.
_LONGEST: Final = 300


@dataclass(frozen=True)
class Seen:
    """A subject on a platform. `outcome`: of the graph as it is. `arrays`: by number, every output if it ran, and the
    inner values that the platform shows. `hidden`: why inner values are missing, empty if none is."""

    outcome: Outcome
    arrays: Mapping[int, Array]
    hidden: str = ""


def observe(each: Runnable, platform: PlatformName, execute: Execute, probes: int) -> Seen:
    """Runs a subject twice, and looks at its inner values.

    `probes`: how many graphs with further outputs may be compiled for that.
    """
    job = Job(platform, each.graph, want="outputs", deadline_s=_DEADLINE_S, inputs=each.inputs)
    inner = [v.number for v in each.subject.values if not v.output] if each.traced else []
    groups = list(by_size(each.graph, inner, _MOST_PER_RUN))
    small = sum(cast("TensorSpec", _spec(each, number)).nbytes for number in inner) <= _MOST
    if inner and small:
        job = replace(job, want="trace", values=(*each.graph.outputs, *groups[0]))
    outcome = execute(job)
    arrays = _outputs(each, outcome)
    if not inner or not arrays:
        return Seen(outcome, arrays)
    if not small:
        return Seen(outcome, arrays, f"outputs only: its inner values take more than {_MOST >> 30} GiB")
    if outcome.status == "nondeterministic":
        return Seen(outcome, arrays, "outputs only: repeated runs differ, so that inner values fit no output")
    if outcome.values is None:
        return Seen(outcome, *_probed(each, job, groups, arrays, execute, probes))
    return Seen(outcome, *_traced(each, job, outcome, groups, arrays, execute))


def structural_difference(each: Runnable, arrays: Mapping[int, Array]) -> str:
    """Returns how an output differs from the graph in shape or dtype; empty if none does."""
    for value in each.subject.values:
        spec = _spec(each, value.number)
        if value.output and not _fits(arrays[value.number], spec):
            given = arrays[value.number]
            return f"an output is {given.dtype.name}{list(given.shape)}, and {spec} in the graph"
    return ""


def one_line(message: str) -> str:
    return " ".join(message.split())[:_LONGEST]


def _traced(
    each: Runnable, job: Job, first: Outcome, groups: list[list[int]], outputs: Mapping[int, Array], execute: Execute
) -> tuple[Mapping[int, Array], str]:
    """Takes the values of a platform that shows every node. Its first run brought the outputs and the first group."""
    arrays = dict(outputs)
    for index, group in enumerate(groups):
        outcome = first if index == 0 else execute(replace(job, repeat=1, values=(*each.graph.outputs, *group)))
        if outcome.values is None:
            return outputs, f"outputs only: to show its values gives {outcome.status}: {one_line(outcome.message)}"
        made = enumerate(outcome.values, start=len(each.graph.inputs))
        shown = {number: array for number, array in made if array is not None}
        if any(digest_array(shown[n]) != digest_array(a) for n, a in outputs.items() if n in shown):
            return outputs, "outputs only: to show its values changes its outputs"
        arrays |= {number: array for number, array in shown.items() if number in group}
    return arrays, ""


def _probed(
    each: Runnable, job: Job, groups: list[list[int]], outputs: Mapping[int, Array], execute: Execute, probes: int
) -> tuple[Mapping[int, Array], str]:
    """Makes inner values outputs, all at first. A group that changes the graph's own outputs is halved."""
    graph = each.graph
    if any(is_inplace(node.op) for node in graph.nodes) or graph.grad:
        return outputs, "outputs only: the graph writes in place or has gradients, and the platform is no eager one"
    own = [digest_array(outputs[n]) if n in outputs else None for n in graph.outputs]
    arrays, failures = dict(outputs), dict[str, None]()
    waiting, changed, tried = list(groups), 0, 0
    while waiting and tried < probes:
        group = waiting.pop(waiting.index(max(waiting, key=len)))
        tried += 1
        wide = with_outputs(graph, group)
        outcome = execute(replace(job, graph=wide, want="outputs", repeat=1, values=None))
        given = outcome.arrays or ()
        if outcome.ran and _same(own, given):
            pairs = zip(group, given[len(own) :], strict=True)
            arrays |= {number: array for number, array in pairs if _fits(array, graph.values[number])}
            continue
        changed += outcome.ran
        if not outcome.ran:
            failures[f"with more outputs it gives {outcome.status}: {one_line(outcome.message)}"] = None
        middle = len(group) // 2
        waiting += [part for part in (group[:middle], group[middle:]) if len(group) > 1]
    return arrays, _reason(each, arrays, changed, list(failures), sum(map(len, waiting)))


def _same(own: list[str | None], given: tuple[Array, ...]) -> bool:
    pairs = zip(own, given, strict=False)
    return all(digest is None or digest == digest_array(array) for digest, array in pairs)


def _reason(each: Runnable, arrays: Mapping[int, Array], changed: int, failures: list[str], left: int) -> str:
    """Says which inner values are missing and why; empty if none is."""
    inner = [value.number for value in each.subject.values if not value.output]
    shown = sum(number in arrays for number in inner)
    if shown == len(inner):
        return ""
    reasons = ["to look at the others changes its outputs"] if changed else []
    reasons += failures[:1]
    if left:
        reasons.append(f"{left} were not tried one by one (--probes)")
    what = f"{shown} of {len(inner)} inner values" if shown else "outputs only"
    return f"{what}: {'; '.join(reasons) or 'the others have another shape or dtype there'}"


def _outputs(each: Runnable, outcome: Outcome) -> dict[int, Array]:
    if not outcome.ran:
        return {}
    numbers = [*each.graph.outputs, *(-1 - i for i in range(len(each.graph.grad)))]
    assert outcome.arrays is not None
    wanted = {value.number for value in each.subject.values}
    return {n: array for n, array in zip(numbers, outcome.arrays, strict=True) if n in wanted}


def _spec(each: Runnable, number: int) -> TensorSpec | None:
    graph = each.graph
    return graph.inputs[graph.grad[-1 - number]].spec if number < 0 else graph.values[number]


def _fits(array: Array, spec: TensorSpec | None) -> bool:
    return spec is not None and array.shape == spec.shape and array.dtype == numpy_dtype(spec.dtype)
