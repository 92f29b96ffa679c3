"""Finds the innermost submodule that gives something else than eager mode when it is exported by itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch

from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance
from mindgap.graph_capture.deep_copies import fresh_copy
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.module_calls import WHOLE, call_inside, module_calls
from mindgap.graph_capture.origin import current_origin
from mindgap.graph_capture.program import module_paths, modules_of
from mindgap.own_path.dynamic import told_of_dimensions
from mindgap.own_path.failures import Failure
from mindgap.own_path.program_run import FlatProgram, run_by, run_eagerly
from mindgap.own_path.runs import Located
from mindgap.own_path.stages import step_at_fault
from mindgap.own_path.state import as_it_was
from mindgap.platforms.script_runner import ScriptRunner

#: The user's line in an origin.
LINE: Final = re.compile(r"[^\s()]+:\d+")
#: Positional and keyword arguments.
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]

#: A part shows a difference by itself where it is at least this share of the program's.
_SHARE: Final = 1e-2
#: The least difference, of the largest magnitude, by floating-point width in bytes: beyond rounding of a submodule.
_LEAST: Final = {8: 1e-9, 4: 1e-3, 2: 5e-2}


def first_part(
    program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], runner: ScriptRunner, seconds: float,
    apart: float | None, later: Arguments | None = None,
) -> Located:  # fmt: skip
    """Returns the innermost submodule, the first in order of calls, that is wrong or fails by itself.

    A submodule is run on the arguments that the program gives it. `apart`: how far the program itself is off, as
    `distance` measures it; None where it fails. `later`: arguments of the program that are fed to what was exported
    with the given ones. Where their sizes are others, a dimension of another size is dynamic in the export, and a
    failure counts as a difference.
    """
    until = time.monotonic() + seconds
    located = Located("", type(program).__name__)
    shown = FlatProgram(program, args, kwargs), None if later is None else FlatProgram(program, *later)
    given, named = fresh_copy((tuple(args), dict(kwargs)))
    with as_it_was(program):
        calls = [call.path for call in module_calls(program, given, named, seconds / 4) if call.path != WHOLE]
    # A parametrisation makes a weight, and is no part of the program's own.
    paths = [path for path in calls if "parametrizations" not in path.split(".")]
    left = _children("", paths)
    while left:
        path = left.pop(0)
        if time.monotonic() > until:
            located = replace(located, complete=False)
            break
        try:
            with as_it_was(program):
                module, given, named = call_inside(program, args, kwargs, path)
            with as_it_was(program):
                fed = None if later is None else FlatProgram(*call_inside(program, *later, path))
        except CaptureError:
            continue
        tried = FlatProgram(module, given, named), fed
        if _shows(*tried, runner, apart):
            shown, located, left = tried, Located(path, type(module).__name__), _children(path, paths)
    if located.path:
        located = replace(located, line=_calling_line(program, args, kwargs, located.path))
    if apart is None:
        return located
    if shown[1] is not None:
        _make_dynamic(shown[0], shown[1])
    return replace(located, step=step_at_fault(*shown, runner, partial(_limit, apart)))


def _calling_line(program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], path: str) -> str:
    """The user's line that calls a submodule first; empty if it is not called from the user's code."""
    paths = module_paths(program)
    modules = (module for _, root in modules_of(program) for module in root.modules())
    called = next((module for module in modules if paths.get(id(module)) == path), None)
    if called is None:
        return ""
    lines: list[str] = []

    def noted(*_: object) -> None:
        lines.append(current_origin(paths).rpartition("(")[2].rstrip(")"))

    hook = called.register_forward_pre_hook(noted)
    try:
        run_eagerly(FlatProgram(program, args, kwargs))
    finally:
        hook.remove()
    return lines[0] if lines and LINE.fullmatch(lines[0]) else ""


def _shows(module: FlatProgram, fed: FlatProgram | None, runner: ScriptRunner, apart: float | None) -> bool:
    """Whether a submodule shows the difference (or the failure: `apart` is None) by itself."""
    resized = fed is not None and _make_dynamic(module, fed)
    if resized:
        runner = told_of_dimensions(runner) or runner
    # The expected outputs first: a runner may change what the module holds.
    expected = run_eagerly(fed or module)
    outcome = run_by(module, runner, None if fed is None else fed.tensors, {})
    if isinstance(outcome, Failure):
        return (apart is None or resized) and not outcome.ours
    if apart is None and not resized:
        return False
    return distance(outcome, expected) >= _limit(apart, expected)


def _limit(apart: float | None, expected: Sequence[Array]) -> float:
    """From which distance on outputs count as wrong."""
    return max((1.0 if apart is None else min(apart, 1.0)) * _SHARE, least(expected))


def _make_dynamic(module: FlatProgram, fed: FlatProgram) -> bool:
    """Has an export keep the dimensions open whose sizes differ. Returns whether there are any."""
    if [each.dim() for each in module.tensors] != [each.dim() for each in fed.tensors]:
        return False
    specifications = tuple(
        {axis: torch.export.Dim.AUTO for axis in range(old.dim()) if old.shape[axis] != new.shape[axis]}
        for old, new in zip(module.tensors, fed.tensors, strict=True)
    )
    module.dynamic_shapes = {"tensors": specifications}
    return any(specifications)


def least(arrays: Sequence[Array]) -> float:
    """Returns a distance that rounding of one submodule does not reach."""
    return max((_LEAST.get(array.dtype.itemsize, 1e-3) for array in arrays if _real(array)), default=0.0)


def _real(array: Array) -> bool:
    return array.dtype.kind in "fcV" or "float" in array.dtype.name


def _children(path: str, paths: Sequence[str]) -> list[str]:
    """The paths below one that have no other of the paths between."""
    below = [each for each in paths if each != path and (not path or each.startswith(f"{path}."))]
    return [each for each in below if not any(each.startswith(f"{other}.") for other in below if other != each)]
