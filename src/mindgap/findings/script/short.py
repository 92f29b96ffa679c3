"""Writes a short script for a small graph: one page for a vendor, with the runtime's own API only.

It prints how far the platform's result is from the float64 result, or the exception, and exits with status 1 while the
fault is there. A script for two versions of one platform holds what each of them gave, and runs where either is
installed. `mindgap.findings.script.form` has the frame of a script.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.findings.script.form import Kind, ScriptForm, Wrong, script_source
from mindgap.findings.script.frame import Compare
from mindgap.findings.script.literals import Files, expression
from mindgap.findings.script.module_source import argument, call_target
from mindgap.findings.script.public_calls import public_call
from mindgap.findings.script.target import Target, TwoResults, runner_of
from mindgap.graph import (
    Arg,
    Constant,
    DType,
    Graph,
    Input,
    TensorSpec,
    contiguous_stride,
    dtype_name,
    materialise_all,
    refs,
)

Array = np.ndarray[Any, np.dtype[Any]]

#: Functions of the long script's parts: an input that needs one is not plain enough for a short script.
_HELPERS: Final = (
    "strided(", "unpacked(", "loaded(", "from_bits(", "uniform(", "normal(", "integers(", "permutation(", "exceptional("
)  # fmt: skip
_MOST_NODES: Final = 12
_MOST_ELEMENTS: Final = 256


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A graph with which a script shows a fault. `name`: of the case. `inputs`: the graph's inputs as arrays; None for
    those of its recipes."""

    name: str
    graph: Graph
    inputs: Sequence[Array] | None = None


def short_form(
    cases: Sequence[ShownCase], platform: Target, title: str, *, kind: Kind = "wrong", wrong: Wrong = "platform",
    public: bool = True, two: TwoResults | None = None, compare: Compare = "largest", held: bool = False,
) -> ScriptForm | None:  # fmt: skip
    """Returns the form of a script that shows the fault with each case; None if it has no short form.

    `public`: call public functions where one runs the operator. `two`: the script runs the platform only, and compares
    with what two versions of it gave. `compare`: what an error is relative to; `equal`: for operators that do not
    round, unless the reference is wrong. `held`: of a failure: parameters, buffers and constants are buffers of the
    model, which the platform may fold, and no operands; None where there are none, and for a device of PyTorch.
    The caller has to run the script: nothing here knows that it shows the fault.
    """
    runner = runner_of(platform)
    if runner is None:
        return None
    given = [replace(case, inputs=case.inputs or materialise_all(case.graph)) for case in cases]
    graphs = [_with_rounded_scalars(case.graph, case.inputs or ()) for case in given]
    exact = all(map(_can_widen, graphs)) and compare != "equal"
    if wrong == "reference" and not exact and kind == "wrong" and two is None:
        return None
    in_torch = platform.device_mode.startswith("cpu/") or bool(platform.torch_device)
    bounded = not in_torch and any(map(_needs_boundary, graphs))
    results = "" if two is None else _results(two)
    if (bounded and (two is not None or held)) or (held and (kind == "wrong" or platform.torch_device)):
        return None
    source = _cases(given, graphs, public=public, held=held)
    if source is None or results is None:
        return None
    form = ScriptForm(title, platform, source, kind, wrong=wrong, compare=compare, exact=exact, bounded=bounded)
    if two is None:
        return form
    seen = f"{two.faulty_by}, and not with {two.expected_by}. It runs in the environment of either"
    return replace(form, results=results, seen=seen)


def short_script(
    graph: Graph, platform: Target, title: str, *, wrong: Wrong = "platform", inputs: Sequence[Array] | None = None
) -> str | None:
    """Returns the script of a wrong result, which was not run; None if it has no short form."""
    form = short_form([ShownCase("smallest", graph, inputs)], platform, title, wrong=wrong)
    return None if form is None else script_source(form)


def _cases(cases: Sequence[ShownCase], graphs: Sequence[Graph], *, public: bool, held: bool) -> str | None:
    """The module classes and the dictionary `CASES`; None if a graph has no short form."""
    classes: dict[str, str] = {}
    entries: list[str] = []
    for case, graph in zip(cases, graphs, strict=True):
        arrays = list(case.inputs or ())
        if graph.grad or len(graph.nodes) > _MOST_NODES:
            return None
        every = [f"x{number}" for number in range(len(graph.inputs))]
        tensors = [_tensor(*each) for each in zip(every, graph.inputs, arrays, strict=True)]
        if None in tensors:
            return None
        texts = dict(zip(every, map(str, tensors), strict=True))
        buffers = {name: texts[name] for name, each in zip(every, graph.inputs, strict=True)
                   if held and each.role not in ("input", "random")}  # fmt: skip
        if held and not buffers:
            return None
        body = "\n".join(_model(graph, every, arrays, public, buffers))
        name = classes.setdefault(body, "Model" if not classes else f"Model{len(classes) + 1}")
        operands = [f"        {texts[each]}," for each in every if each not in buffers]
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


def _tensor(name: str, given: Input, array: Array) -> str | None:
    """Returns the expression of an input; None if it needs more than a line of plain PyTorch."""
    spec = given.spec
    if spec.numel > _MOST_ELEMENTS:
        return None
    if spec.stride == contiguous_stride(spec.shape) or spec.numel <= 1:
        text = expression(name, given, array, Files())
        return None if any(helper in text for helper in _HELPERS) else text
    if spec.overlaps or 0 in spec.stride:
        return None
    plain = Input(type(spec).contiguous(spec.dtype, spec.shape), given.recipe)
    text = expression(name, plain, array, Files())
    if any(helper in text for helper in _HELPERS):
        return None
    return f"torch.empty_strided({spec.shape}, {spec.stride}, dtype=torch.{spec.dtype}).copy_({text})"


def _results(two: TwoResults) -> str | None:
    """The source of the outputs of both versions; None if one of them needs more than plain PyTorch."""
    lines: list[str] = []
    for name, by, arrays in (("EXPECTED", two.expected_by, two.expected), ("FAULTY", two.faulty_by, two.faulty)):
        specs = [TensorSpec.contiguous(dtype_name(array.dtype), array.shape) for array in arrays]
        given = [_tensor(name, Input(spec, Constant(0.0)), a) for spec, a in zip(specs, arrays, strict=True)]
        if None in given:
            return None
        if given:
            lines += [f"# What {by} gives.", f"{name} = [", *(f"    {text}," for text in given), "]"]
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
        public = public_call(graph, index, arrays, whole=True) if with_public else None
        first = graph.first_value[index]
        if public is not None:
            call = public.source(lambda arg: argument(arg, values), functional=True)
            target = public.target([values[first + slot] for slot in range(len(node.outputs))])
        else:
            given = [argument(arg, values) for arg in node.args]
            given += [f"{name}={argument(arg, values)}" for name, arg in node.kwargs]
            call, target = f"torch.ops.{node.op}({', '.join(given)})", call_target(node, values, first)
        text = f"        {target} = {call}" if target else f"        {call}"
        lines += (
            [text] if len(text) <= 118 else textwrap.wrap(text, 118, subsequent_indent=" " * 12, break_long_words=False)
        )
    returned = ", ".join(values[number] for number in graph.outputs)
    return [*lines, f"        return ({returned},)" if len(graph.outputs) == 1 else f"        return {returned}"]


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
