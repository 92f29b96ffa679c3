"""Writes the cases of a short script: a small graph and its operands as module classes and expressions.

Such a script prints how far the platform's result is from the float64 result, or the exception, and exits with status 1
while the fault is there. A script for two versions of one platform holds what each of them gave, and runs where either
is installed. `mindgap.findings.script.form` has the frame of a script.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from mindgap.aten.operators import overload
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.findings.script.form import (
    Kind,
    NoShortScript,
    ScriptForm,
    Wrong,
    environment_words,
    script_runner,
    script_source,
)
from mindgap.findings.script.literals import argument, cells_of, expression
from mindgap.findings.script.public_calls import public_call
from mindgap.findings.script.script_platform import ScriptPlatform, TwoResults
from mindgap.graph import (
    Arg,
    Array,
    DType,
    Graph,
    Node,
    TensorSpec,
    dtype_name,
    materialise_all,
    refs,
)

_MOST_NODES: Final = 12
_MOST_ELEMENTS: Final = 256


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A graph with which a script shows a fault. `name`: of the case. `inputs`: the graph's inputs as arrays; None for
    those of its recipes."""

    name: str
    graph: Graph
    inputs: Sequence[Array] | None = None


def with_cases(
    form: ScriptForm, cases: Sequence[ShownCase], *, public: bool = True, held: bool = False,
    two: TwoResults | None = None,
) -> ScriptForm:  # fmt: skip
    """Returns the form with the source of its cases, each of which is to show the fault.

    `public`: call public functions where one runs the operator. `held`: of a failure: parameters, buffers and constants
    are buffers of the model, which the platform may fold, and no operands. `two`: the script runs the platform only,
    and compares with what two versions of it gave.
    The caller has to run the script: nothing here knows that it shows the fault. Raises `NoShortScript`.
    """
    runner = script_runner(form.platform)
    given = [replace(case, inputs=case.inputs or materialise_all(case.graph)) for case in cases]
    graphs = [_with_rounded_scalars(case.graph, case.inputs or ()) for case in given]
    exact = all(map(_can_widen, graphs)) and form.compare != "equal"
    if form.wrong == "reference" and not exact and form.kind == "wrong" and two is None:
        raise NoShortScript("eager PyTorch is wrong, and the operators have no float64 result that shows it")
    bounded = not runner.in_torch and any(map(_needs_boundary, graphs))
    if bounded and (two is not None or held):
        raise NoShortScript("the operands cross into the runtime as other dtypes, which such a script does not do")
    if held and form.kind in ("wrong", "shape"):
        raise NoShortScript("constants are operands here")
    source = _cases(given, graphs, public=public, held=held)
    form = replace(form, cases=source, exact=exact, bounded=bounded)
    if two is None:
        return form
    seen = f"{two.faulty_by}, and not with {two.expected_by}. It runs in the environment of either"
    facts = form.facts if two.right is None else (*form.facts, environment_words(two.right).strip())
    return replace(form, results=_results(two), seen=seen, facts=facts)


def short_script(
    graph: Graph,
    platform: ScriptPlatform,
    title: str,
    *,
    wrong: Wrong = "platform",
    kind: Kind = "wrong",
    inputs: Sequence[Array] | None = None,
) -> str:
    """Returns the script of wrong values or another shape, which was not run. Raises `NoShortScript`."""
    form = ScriptForm(title, platform, kind=kind, wrong=wrong)
    return script_source(with_cases(form, [ShownCase("smallest", graph, inputs)]))


def _cases(cases: Sequence[ShownCase], graphs: Sequence[Graph], *, public: bool, held: bool) -> str:
    """The module classes and the dictionary `CASES`. Raises `NoShortScript`."""
    classes: dict[str, str] = {}
    entries: list[str] = []
    for case, graph in zip(cases, graphs, strict=True):
        arrays = list(case.inputs or ())
        if graph.grad:
            raise NoShortScript("it asks for gradients")
        if len(graph.nodes) > _MOST_NODES:
            raise NoShortScript(f"the graph has {len(graph.nodes)} operators, more than {_MOST_NODES}")
        texts = {f"x{n}": _tensor(given.spec, arrays[n]) for n, given in enumerate(graph.inputs)}
        buffers = {name: text for (name, text), each in zip(texts.items(), graph.inputs, strict=True)
                   if held and each.role not in ("input", "random")}  # fmt: skip
        if held and not buffers:
            raise NoShortScript("the graph has no constants")
        body = "\n".join(_model(graph, list(texts), arrays, public, buffers))
        name = classes.setdefault(body, "Model" if not classes else f"Model{len(classes) + 1}")
        operands = [f"        {text}," for each, text in texts.items() if each not in buffers]
        entries += [f'    "{case.name}": ({name}, lambda: (', *operands, "    )),"]
    sources = [f"class {name}(torch.nn.Module):\n{body}" for body, name in classes.items()]
    return "\n\n\n".join([*sources, "\n".join(["CASES = {", *entries, "}"])])


def _with_rounded_scalars(graph: Graph, arrays: Sequence[Array]) -> Graph:
    """Rounds scalar arguments to float32, as kernels of float32 do, so that the float64 run reads the same numbers.

    The graph is unchanged if eager PyTorch gives other bits then.
    """
    nodes = tuple(
        replace(node, args=tuple(map(_rounded, node.args)), kwargs=tuple((k, _rounded(a)) for k, a in node.kwargs))
        for node in graph.nodes
    )
    rounded = replace(graph, nodes=nodes)
    try:
        return rounded if rounded == graph or _bytes(rounded, arrays) == _bytes(graph, arrays) else graph
    except (RuntimeError, ValueError, TypeError, IndexError):  # the reference fails: there is nothing to compare
        return graph


def _bytes(graph: Graph, arrays: Sequence[Array]) -> list[bytes]:
    """The outputs' bytes, by eager PyTorch."""
    with torch.no_grad():
        tensors = input_tensors(graph, arrays)
        return [to_numpy(output).tobytes() for output in Tape(graph).run(tensors)]


def _rounded(arg: Arg) -> Arg:
    if isinstance(arg, tuple):
        return tuple(map(_rounded, arg))
    return float(np.float32(arg)) if isinstance(arg, float) and abs(arg) < 3e38 else arg


def _tensor(spec: TensorSpec, array: Array) -> str:
    """Returns the expression of a tensor. Raises `NoShortScript` for a large one."""
    most = max(spec.numel, cells_of(spec))
    if most > _MOST_ELEMENTS:
        raise NoShortScript(f"a tensor of {spec} takes {most:,} numbers, more than {_MOST_ELEMENTS}")
    return expression(spec, array)


def _results(two: TwoResults) -> str:
    """The source of the outputs of both versions. Raises `NoShortScript`."""
    lines: list[str] = []
    for name, by, arrays in (("EXPECTED", two.expected_by, two.expected), ("FAULTY", two.faulty_by, two.faulty)):
        texts = [_tensor(TensorSpec.contiguous(dtype_name(array.dtype), array.shape), array) for array in arrays]
        if texts:
            lines += [f"# What {by} gives.", f"{name} = [", *(f"    {text}," for text in texts), "]"]
    return "\n".join(lines)


def _model(
    graph: Graph, names: Sequence[str], arrays: Sequence[Array], with_public: bool, buffers: Mapping[str, str]
) -> list[str]:
    """The body of the module class. `buffers`: the expressions of inputs that the module holds, by name."""
    values = {number: f"self.{name}" if name in buffers else name for number, name in enumerate(names)}
    values |= {number: f"v{number}" for number in range(len(names), len(graph.values))}
    lines: list[str] = []
    if buffers:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f'        self.register_buffer("{name}", {text})' for name, text in buffers.items()]
        lines += [""]
    lines += [f"    def forward({', '.join(['self', *(name for name in names if name not in buffers)])}):"]
    for index, node in enumerate(graph.nodes):
        public = public_call(graph, index, arrays) if with_public else None
        first = graph.first_value[index]
        if public is not None:
            call = public.source(lambda arg: argument(arg, values), functional=True)
            target = public.target([values[first + slot] for slot in range(len(node.outputs))])
        else:
            given = [argument(arg, values) for arg in node.args]
            given += [f"{name}={argument(arg, values)}" for name, arg in node.kwargs]
            call, target = f"torch.ops.{node.op}({', '.join(given)})", _call_target(node, values, first)
        text = f"        {target} = {call}" if target else f"        {call}"
        lines += (
            [text] if len(text) <= 118 else textwrap.wrap(text, 118, subsequent_indent=" " * 12, break_long_words=False)
        )
    returned = ", ".join(values[number] for number in graph.outputs)
    return [*lines, f"        return ({returned},)" if len(graph.outputs) == 1 else f"        return {returned}"]


def _call_target(node: Node, values: Mapping[int, str], first: int) -> str:
    """Returns the left side of the assignment: a name, or names for the members of tuples and lists."""
    slots = [values[first + i] if spec is not None else "_" for i, spec in enumerate(node.outputs)]
    kinds = [str(returned.type) for returned in overload(node.op)._schema.returns]
    if not slots:
        return ""
    if len(kinds) == 1:
        return _members(slots) if "List" in kinds[0] else slots[0]
    lists = sum("List" in kind for kind in kinds)
    each = (len(slots) - (len(kinds) - lists)) // lists if lists else 0
    parts: list[str] = []
    for kind in kinds:
        take = each if "List" in kind else 1
        parts.append(f"({_members(slots[:take])})" if "List" in kind else slots[0])
        slots = slots[take:]
    return _members(parts)


def _members(slots: Sequence[str]) -> str:
    return ", ".join(slots) + ("," if len(slots) == 1 else "")


def _can_widen(graph: Graph) -> bool:
    """Whether the program computes in float64 when its float operands are float64: no argument names a dtype."""
    named = any(isinstance(arg, DType) for node in graph.nodes for arg in (*node.args, *(a for _, a in node.kwargs)))
    floats = any(given.spec.kind in ("float", "complex") for given in graph.inputs)
    read = {value for node in graph.nodes for arg in node.args for value in refs(arg)}
    return not named and floats and bool(read)


def _needs_boundary(graph: Graph) -> bool:
    """Whether an input or an output of the graph is bfloat16, float8 or complex, which numpy or an export lacks."""
    specs = [given.spec for given in graph.inputs] + [graph.values[number] for number in graph.outputs]
    return any(spec is not None and spec.dtype.startswith(("bfloat16", "float8", "complex")) for spec in specs)
