"""Chooses the values of a trace that a person should see first."""

from __future__ import annotations

from typing import Final

from mindgap.judge.trace.value_trace import TracedValue, ValueTrace

#: How many values at most are chosen for the rate of change of their distance: of growth, and of loss.
GROWING: Final = 8
LOSING: Final = 4


def turning_points(trace: ValueTrace) -> list[TracedValue]:
    """The first value that differs, the values it comes from, and those where the distance begins, jumps or ends.

    In the order of the data flow. The values that the graph's outputs are made of are among them.
    """
    chosen = {value.number for value in trace.values if value.node in trace.culprit and value.state != "equal"}
    if trace.first is not None:
        chosen.add(trace.values[trace.first].number)
    turning = [v for v in trace.values if v.role not in (None, "propagates") and v.view_of is None]
    growing = sorted((v for v in turning if v.role != "masks"), key=lambda v: -(v.rate or 0.0))
    losing = sorted((v for v in turning if v.role == "masks"), key=lambda v: v.rate or 0.0)
    chosen |= {v.number for v in (*growing[:GROWING], *losing[:LOSING])}
    chosen |= {v.number for v in trace.values if v.is_output}
    return [value for value in trace.values if value.number in chosen]
