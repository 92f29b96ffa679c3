"""Shows by runs which step of an export makes a program give something else: tracing, a decomposition, or the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from mindgap.aten.torch_private import inductor
from mindgap.aten.torch_private.fake_tensors import fixed_sizes
from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance
from mindgap.graph_capture.origin import current_line, users_line_in
from mindgap.own_path.program_run import FlatProgram, arrays_of, run_eagerly
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.message_cleaning import one_line

_log = logging.getLogger(__name__)

Limit = Callable[[Sequence[Array]], float]

#: The calls of a runner that begin with `torch.export`.
EXPORTS: Final = ("torch.onnx.export(", "torch.export.export(")
#: Graph breaks that are named.
_MOST_BREAKS: Final = 2


def step_at_fault(module: FlatProgram, fed: FlatProgram | None, runner: ScriptRunner, limit: Limit) -> str:
    """Returns in a sentence what runs show of the steps of an export, or why they show nothing; empty where none does.

    module: a program whose export is wrong; `fed`: the same with the arguments on which it is. `limit`: the distance
    from which on outputs are wrong, of the right ones.
    """
    try:
        if "torch.compile(" in runner.run:
            return _graph_breaks(module)
        if any(each in runner.run for each in EXPORTS):
            with torch.no_grad():
                return _export_step(module, fed or module, limit)
    except Exception as error:  # of any type, by program: a step that fails by itself shows nothing of the difference
        return f"which step of the export does that is not known, since one fails by itself: {one_line(error)}"
    return ""


def line_that_fixes_a_size(module: FlatProgram) -> str:
    """Returns the user's line at which `torch.export` makes a number of a dynamic dimension of the arguments; empty if
    it does not, or that is not known."""
    lines: list[str] = []
    try:
        with torch.no_grad(), fixed_sizes(lambda _: lines.append(current_line())):
            torch.export.export(module, module.fresh(), dynamic_shapes=dict(module.dynamic_shapes) or None)
    except Exception as error:  # of any type, by program: the line is what this is for, and the failure is known
        _log.info("the export stopped with %s", one_line(error))
    return next(filter(None, lines), "")


def _graph_breaks(module: FlatProgram) -> str:
    breaks = inductor.graph_breaks(module, module.fresh())
    named = [f"{reason} ({users_line_in(stack)})" for reason, stack in breaks[:_MOST_BREAKS] if users_line_in(stack)]
    return f"torch.compile breaks the graph in it: {'; '.join(named)}" if named else ""


def _export_step(module: FlatProgram, fed: FlatProgram, limit: Limit) -> str:
    expected = run_eagerly(fed)

    def wrong(exported: Any) -> bool:
        return distance(_outputs(exported, fed.tensors), expected) >= limit(expected)

    shapes = dict(module.dynamic_shapes) or None
    exported: Any = torch.export.export(module, module.fresh(), dynamic_shapes=shapes)
    if wrong(exported):
        return f"torch.export alone gives it{_promotion(_outputs(exported, fed.tensors), expected)}"
    if wrong(exported.run_decompositions()):
        operator = _decomposition_at_fault(exported, wrong)
        named = f" of {operator}" if operator else "s of its operators together"
        return f"torch.export is right, and PyTorch's decomposition{named} is not"
    return "torch.export and PyTorch's decompositions are right by themselves: what follows them is not"


def _promotion(ours: Sequence[Array], expected: Sequence[Array]) -> str:
    """The dtypes of outputs that the export promotes."""
    pairs = {(str(a.dtype), str(b.dtype)) for a, b in zip(ours, expected, strict=False) if a.dtype != b.dtype}
    return "".join(f", with a dtype promotion: {a} in place of {b}" for a, b in sorted(pairs))


def _decomposition_at_fault(exported: Any, wrong: Callable[[Any], bool]) -> str:
    """The operator whose decomposition alone changes the outputs; empty if none alone does."""
    table: Any = torch.export.default_decompositions()
    operators = dict.fromkeys(node.target for node in exported.graph.nodes if node.op == "call_function")
    for operator in operators:
        if operator in table and wrong(exported.run_decompositions({operator: table[operator]})):
            return str(operator)
    return ""


def _outputs(exported: Any, tensors: Sequence[torch.Tensor]) -> list[Array]:
    return arrays_of(exported.module()(*[tensor.clone() for tensor in tensors]))
