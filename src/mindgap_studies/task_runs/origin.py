"""Finds where a flip begins: the operator at which two platforms part, or the module at which two forms do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindgap.graph import Array, Graph, MindgapError
from mindgap.graph.compare.digest import widened
from mindgap.judge.trace.probing import ProbeLimits
from mindgap.judge.trace.side_values import reason_of
from mindgap.judge.trace.subgraphs import Execute
from mindgap.judge.trace.value_trace import trace_values
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome
from mindgap_studies.task_runs.columns import ModelForm

#: A node that PyTorch's exporter to ONNX wrote, or that dequantises its value.
_EXPORTED: Final = re.compile(r"(?:node_(?P<node>\w+)|(?P<value>\w+)_DequantizeLinear) \(\w+\)")
#: Elements from which an affine fit leaves something to measure.
_LEAST: Final = 8


def operator_origin(
    form: ModelForm, inputs: Sequence[Array], platform: PlatformName, reference: PlatformName, execute: Execute,
    deadline_s: float,
) -> tuple[str, str]:  # fmt: skip
    """Returns the operator at which two platforms part on a batch, and a sentence on how the difference grows.

    Raises `MindgapError` where a platform shows nothing.
    """
    traced = trace_values(form.graph, platform, reference, _fed(form, inputs, execute), ProbeLimits(12, deadline_s))
    if traced.first is None:
        where = "no value inside differs" if traced.diverged else "the traced run gives equal bits"
        return "", where
    ops = sorted({form.graph.nodes[node].op for node in traced.culprit}) or [traced.values[traced.first].op]
    place = traced.values[traced.first].label
    growing = [value for value in traced.values if value.rate is not None and value.mad]
    note = ""
    if growing:
        most = max(growing, key=lambda value: value.rate or 0.0)
        note = f"grows most at {most.op} ({most.label})" if most.label != place else ""
    return f"{' + '.join(ops)}{f' ({place})' if place else ''}", note


def _fed(form: ModelForm, inputs: Sequence[Array], execute: Execute) -> Callable[[Job], Outcome]:
    """Runs jobs with a batch as inputs. Graphs that are probed begin with the same inputs."""
    given = form.given(inputs)

    def run(job: Job) -> Outcome:
        fits = {n: a for n, a in given.items() if n < len(job.graph.inputs) and job.graph.inputs[n].role == "input"}
        return execute(replace(job, inputs={**fits, **job.inputs}))

    return run


def form_origin(
    base: ModelForm,
    form: ModelForm,
    inputs: Sequence[Array],
    reference: PlatformName,
    execute: Execute,
    deadline_s: float,
) -> tuple[str, str]:
    """Returns the module of the model at which another form parts most from it, both run by the reference.

    Each module's last value is compared with that of the other form by what remains after the best affine fit, as a
    share of its spread: quantised values have a scale and a zero point. Forms without modules in common, such as an
    ONNX file, are compared operator by operator, by the exporter's names. Raises `MindgapError` where a graph does
    not run, or the forms share neither.
    """
    traced = {each.name: _traced(each, inputs, reference, execute, deadline_s) for each in (form, base)}
    for named in (_by_module, _by_call):
        ours, theirs = named(form, traced[form.name]), named(base, traced[base.name])
        shared = [
            name
            for name, (_, value) in theirs.items()
            if name in ours and ours[name][1].shape == value.shape and value.size >= _LEAST
        ]
        if shared:
            break
    else:
        raise MindgapError("the two forms have no module in common, and no operator by the exporter's names")
    place, before, after, last = "", 0.0, 0.0, 0.0
    for name in shared:
        rest = _residual(theirs[name][1], ours[name][1])
        if rest - last > after - before:
            place, before, after = theirs[name][0], last, rest
        last = rest
    note = f"difference after an affine fit: {before:.2g} before, {after:.2g} there, {last:.2g} at the last value"
    return place, note if place else "no module's values differ"


#: Values of a form by what both forms call them, each with the place that a reader is told.
_Named = dict[str, tuple[str, Array]]


def _residual(theirs: Array, ours: Array) -> float:
    a, b = theirs.reshape(-1) - theirs.mean(), ours.reshape(-1) - ours.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float(np.sqrt(max(0.0, 1 - (float((a * b).sum()) / size) ** 2))) if size > 0 else 0.0


def _traced(
    form: ModelForm, inputs: Sequence[Array], platform: PlatformName, execute: Execute, deadline_s: float
) -> list[tuple[int, Array]]:
    """Nodes and their values, as float64, in the order of the run."""
    outcome = _fed(form, inputs, execute)(Job(platform, form.graph, want="trace", repeat=1, deadline_s=deadline_s))
    if not outcome.ran or outcome.values is None:
        raise MindgapError(f"{form.name or 'the model'} on {platform}: {reason_of(outcome)}")
    return [
        (number, (widened(value) if value.dtype.kind not in "iub" else value).astype(np.float64))
        for number, value in _values(form.graph, outcome.values)
    ]


def _label(form: ModelForm, node: int) -> str:
    return form.graph.labels.nodes[node] if form.graph.labels.nodes else ""


def _by_module(form: ModelForm, traced: Sequence[tuple[int, Array]]) -> _Named:
    """The last value that each module makes, by its path."""
    named_values: _Named = {}
    for node, value in traced:
        path = _label(form, node).partition(" (")[0]
        if path and ".py:" not in path:
            named_values.pop(path, None)
            named_values[path] = path, value
    return named_values


def _by_call(form: ModelForm, traced: Sequence[tuple[int, Array]]) -> _Named:
    """Values by the names that PyTorch's exporter to ONNX gives: `conv2d`, `conv2d_1` for the second.

    A file's nodes have these names (`node_conv2d`), and so has what a quantiser puts behind a value
    (`conv2d_DequantizeLinear`), which then stands for it. Of a model, calls of an operator are counted.
    """
    named_values: _Named = {}
    calls: Counter[str] = Counter()
    for node, value in traced:
        label, op = _label(form, node), form.graph.nodes[node].op
        if named := _EXPORTED.fullmatch(label):
            named_values[named["node"] or named["value"]] = label, value
            continue
        function = op.split(".")[1] if op.count(".") else op
        count = calls[function]
        calls[function] += 1
        named_values[f"{function}_{count}" if count else function] = f"{op} ({label})" if label else op, value
    return named_values


def _values(graph: Graph, values: Sequence[Array | None]) -> list[tuple[int, Array]]:
    """Nodes and their first values that are arrays. `values`: by output slot of nodes, in order."""
    pairs: list[tuple[int, Array]] = []
    slot = 0
    for number, node in enumerate(graph.nodes):
        value = values[slot] if slot < len(values) else None
        if value is not None and value.size:
            pairs.append((number, value))
        slot += len(node.outputs)
    return pairs
