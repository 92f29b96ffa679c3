"""Assembles a recording into a graph: numbers the values, makes recipes for the inputs, adds labels."""

from __future__ import annotations

from typing import Final, Literal

from mindgap.aten.tensors import spec_of
from mindgap.graph import Decision, Graph, Input, Labels, refs
from mindgap.graph.operators import traits
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.random_operators import packet
from mindgap.graph_capture.recipes import recipe_for
from mindgap.graph_capture.recording import CallRecording, RecordedCall, RecordedInput

Weights = Literal["stored", "seeded"]


def assemble(
    recorded: CallRecording, returned: list[tuple[str, int]], store: TensorStore | None, weights: Weights, name: str
) -> tuple[Graph, list[RecordedInput]]:
    """Returns the graph with renumbered values, and its recorded inputs in order.

    Outputs are what the program returns, the inputs that it writes to, and the values by which it decided.
    """
    calls = _without_unread_memory(recorded, returned)
    used = {r for call in calls for arg in (*call.args, *[a for _, a in call.kwargs]) for r in refs(arg)}
    deciding = [each.number for each in recorded.decisions]
    used |= {*deciding, *(number for _, number in returned)}
    kept = [i for i, s in enumerate(recorded.inputs) if s.role == "input" or -(i + 1) in used]
    kept.sort(key=lambda i: _ORDER[recorded.inputs[i].role])
    renumber = {-(old + 1): new for new, old in enumerate(kept)}
    number = len(kept)
    for call in calls:
        renumber.update({call.first + slot: number + slot for slot in range(len(call.outputs))})
        number += len(call.outputs)
    written = sorted(renumber[-(i + 1)] for i in recorded.written)
    if not returned and not written:
        raise CaptureError("the program returns no tensor and changes none: there is nothing to compare")
    sources = [recorded.inputs[i] for i in kept]
    names = tuple(f"{name}.{s.name}" if name and s.role in ("parameter", "buffer") else s.name for s in sources)
    graph = Graph(
        inputs=tuple(
            Input(spec_of(s.fake), s.recipe or recipe_for(s, store, weights, i), s.role) for i, s in enumerate(sources)
        ),
        nodes=tuple(call.node(renumber) for call in calls),
        outputs=(*[renumber[number] for _, number in returned], *written, *[renumber[n] for n in deciding]),
        labels=Labels(
            names,
            tuple(c.origin for c in calls),
            (
                *[path or "output" for path, _ in returned],
                *[names[i] for i in written],
                *[f"decision.{n}" for n in range(len(deciding))],
            ),
            tuple(
                Decision(len(returned) + len(written) + n, each.kind, each.taken, each.line, each.text)
                for n, each in enumerate(recorded.decisions)
            ),
        ),
    )
    return graph, sources


def _without_unread_memory(recorded: CallRecording, returned: list[tuple[str, int]]) -> list[RecordedCall]:
    """Drops the calls that allocate memory which is never set or read: its content would differ by chance."""
    read = {r for call in recorded.calls for arg in (*call.args, *[a for _, a in call.kwargs]) for r in refs(arg)}
    read |= {number for _, number in returned} | {each.number for each in recorded.decisions}
    return [c for c in recorded.calls if not traits(packet(c.func)).returns_uninitialised or c.first in read]


_ORDER: Final = {"input": 0, "parameter": 1, "buffer": 2, "constant": 3, "random": 4}
