"""Finds the largest submodules of a program that can be captured by themselves."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.module_calls import WHOLE, ModuleCall, module_calls, submodules
from mindgap.graph_capture.program import leaves
from mindgap.graph_capture.program_capture import capture
from mindgap.graph_capture.training_pass import Optimizer


@dataclass(frozen=True, slots=True)
class CapturablePart:
    """A submodule that can be captured. `kind`: its class; `share`: of the parameters of all modules, 0 to 1; `calls`:
    how often the program calls it; `alike`: how many more submodules have the same class and shapes."""

    path: str
    kind: str
    nodes: int
    share: float
    calls: int
    alike: int


def capturable_parts(
    program: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    seconds: float,
    most: int = 3,
    backward: bool = False,
    optimizer: Optimizer | None = None,
) -> list[CapturablePart]:
    """Returns up to `most` submodules that can be captured and are not inside one another, largest first.

    Runs the program once, for half of `seconds` at most. Then tries its submodules from the outside in, until the time
    is up. Each was replayed against its submodule. The program may be changed.
    """
    stop = time.monotonic() + seconds
    paths = submodules(program)
    calls = {call.path: call for call in module_calls(program, args, kwargs, seconds / 2)}
    total = max(1, _parameters(torch.nn.ModuleList(paths.values())))
    order, children = {path: number for number, path in enumerate(paths)}, _children(paths)
    waiting: list[tuple[int, int, str]] = []
    forms: dict[object, int | None] = {}
    parts: dict[object, tuple[ModuleCall, int, int]] = {}

    def push(inside: str) -> None:
        for path in children.get(inside, ()):
            heapq.heappush(waiting, (-_parameters(paths[path]), order[path], path))

    push("")
    while waiting and time.monotonic() < stop:
        _, _, path = heapq.heappop(waiting)
        call = calls.get(path)
        form = call and _form(call)
        if call is not None and form not in forms:
            if len(parts) == most:
                break
            forms[form] = _nodes(call, backward, optimizer)
            if forms[form]:
                parts[form] = call, forms[form] or 0, 0
                continue
        if form in parts:
            parts[form] = *parts[form][:2], parts[form][2] + 1
            continue
        push(path)
    return [
        CapturablePart(
            call.path, type(call.module).__name__, nodes, _parameters(call.module) / total, call.calls, alike
        )
        for call, nodes, alike in parts.values()
    ]


def _children(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the submodules directly inside each one; the outermost are under ""."""
    known, children = set(paths), dict[str, list[str]]()
    for path in paths:
        holder = path.rpartition(".")[0]
        while holder and holder not in known:
            holder = holder.rpartition(".")[0]
        children.setdefault(holder or (WHOLE if WHOLE in known and path != WHOLE else ""), []).append(path)
    return children


def _parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _form(call: ModuleCall) -> object:
    """Returns what two submodules have in common that are captured alike: class, shapes of weights and arguments."""
    weights = tuple((name, tuple(p.shape), p.dtype) for name, p in call.module.named_parameters())
    given = tuple((path, _leaf_form(leaf)) for path, leaf in leaves((call.args, call.kwargs)))
    return type(call.module), weights, given


def _leaf_form(leaf: object) -> object:
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else type(leaf)


def _nodes(call: ModuleCall, backward: bool, optimizer: Optimizer | None) -> int | None:
    """Returns the number of nodes of the submodule's graph, or None if it cannot be captured."""
    try:
        graph = capture(call.module, call.args, call.kwargs, weights="seeded", backward=backward, optimizer=optimizer)
    except CaptureError:
        return None
    return len(graph.nodes) or None
