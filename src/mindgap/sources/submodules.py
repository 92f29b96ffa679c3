"""Opens a submodule of a source, with the arguments that the program gives it: `FILE.py:make?inside=layers.3.mlp`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.module_calls import call_inside, submodules
from mindgap.graph_capture.parts import CapturablePart, capturable_parts
from mindgap.graph_capture.training_pass import Optimizer
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, parse

#: The options that every source of programs takes: a submodule, and which of its calls (the first is 1).
INSIDE: Final = ("inside", "call")


@dataclass(frozen=True, slots=True)
class SubmoduleCall:
    """A submodule's path and the number of its call."""

    path: str
    call: int


def submodule_of(source: Source) -> tuple[SubmoduleCall | None, Source]:
    """Returns the submodule that a source's options name, and the source without these options. Raises
    `SourceError`."""
    path, call = source.options.get("inside", ""), source.number("call", 1)
    if path:
        return SubmoduleCall(path, call), source.without(*INSIDE)
    if not source.options.keys().isdisjoint(INSIDE):
        raise SourceError(f"{source.text}: name a submodule, as in inside=layers.3.mlp")
    return None, source


def inside(one: Program, asked: SubmoduleCall) -> Program:
    """Returns the program of a submodule. Building it raises `SourceError` where it does not exist or is not called."""
    number = f"#{asked.call}" if asked.call > 1 else ""

    def make() -> Built:
        try:
            alone = one.make_submodule and one.make_submodule(asked.path, asked.call)
        except CaptureError as error:
            raise _refused(one, asked, error) from error
        if alone:
            return alone
        built = one.make()
        try:
            module, args, kwargs = call_inside(built.program, built.args, built.kwargs, asked.path, asked.call)
        except CaptureError as error:
            raise _refused(one, asked, error) from error
        return replace(built, program=module, args=args, kwargs=kwargs, dynamic_shapes=None)

    path = f"/{asked.path}{number}"
    group = one.group and one.group + path
    return replace(one, name=one.name + path, make=make, group=group, remake=None, make_submodule=None)


def _refused(one: Program, asked: SubmoduleCall, error: CaptureError) -> SourceError:
    at = f" ({error.line})" if error.line else ""
    return SourceError(f"{one.source}: inside={asked.path}: {error.reason}{at}")


def capturable_submodules(
    program: Program, seconds: float, backward: bool = False, optimizer: Optimizer | None = None
) -> str:
    """Returns what to add to the reason why a program is refused: the submodules of it that can be captured.

    `seconds`: time for the search, after the program is built. "" if the program holds no submodule.
    """
    built = program.make()
    if not submodules(built.program):
        return ""
    parts = capturable_parts(
        built.program, built.args, built.kwargs, seconds, backward=backward, optimizer=optimizer
    )  # fmt: skip
    return described(program.source, parts)


def described(source: str, parts: Sequence[CapturablePart]) -> str:
    """Returns one line on the submodules that can be captured, with a command for the first."""
    if not parts:
        return "; no submodule that it calls can be captured either"
    submodule, plain = submodule_of(parse(source))
    outer = f"{submodule.path}." if submodule is not None and submodule.path != "." else ""
    listed = ", ".join(_described(outer, part) for part in parts)
    options = "&".join(f"{name}={value}" for name, value in plain.options.items())
    text = f"{source.partition('?')[0]}{'?' if options else ''}{options}" if submodule is not None else source
    command = f"mindgap capture {shlex.quote(text)} --inside {outer}{parts[0].path} -o FILE.mindgap"
    return f"; these submodules can be captured: {listed}; for example: {command}"


def _described(outer: str, part: CapturablePart) -> str:
    share = f", {part.share:.0%} of the parameters" if part.share else ""
    alike = f", {part.alike} more of its class and shapes" if part.alike else ""
    calls = f", called {part.calls} times: --set call=2 for the second" if part.calls > 1 else ""
    return f"{outer}{part.path} ({part.kind}, {part.nodes} node{'' if part.nodes == 1 else 's'}{share}{alike}{calls})"
