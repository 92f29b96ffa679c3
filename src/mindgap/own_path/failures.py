"""Says why an exporter or runtime gave nothing for a program: the step, the message, the user's line, the operator."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal

import torch

from mindgap.aten.torch_private.native_functions import registered_operators
from mindgap.graph.compare.reason import ReasonKind
from mindgap.graph_capture.origin import user_line_of, users_line_in
from mindgap.own_path.state import as_it_was
from mindgap.platforms.messages import missing_program
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.run.message_cleaning import shortened_paths
from mindgap.sources.source import one_line

if TYPE_CHECKING:
    from mindgap.own_path.program_run import FlatProgram

#: The file name of a runner's text in tracebacks.
RUNNER_FILE: Final = "<how users run the platform>"
#: The module whose function `once` makes the calls that export, for the runner's text.
_PROGRAM_RUN: Final = str(Path(__file__).with_name("program_run.py"))
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*(?=\()")
#: The calls that export or compile a program: one result serves all runs of it.
EXPORTS: Final = ("torch.onnx.export", "torch.export.export", "torch.jit.trace", "torch.compile")
#: Words of an exporter's report that stand before those about the program.
_REPORT: Final = re.compile(
    r"^(?:Failed to .*|<class .*|\(Refer .*|.*\[Strategy\].*|##.*|(?:\w+: )?Check '.*|Constraints violated.*"
    r"|Exception from .*|FrontEnd API .*|Model wasn't .*|(?:Loading|Converting) input model.*|.*:|)$"
)
#: An operator as exporters and front ends name it.
_OPERATOR: Final = re.compile(r"\b(\w+)(?:\.|::)(\w+)(?:\.(\w+)|'|\b)")
#: What OpenVINO and `torch.onnx.export` convert not, and how Python names a function or an operator there.
_UNCONVERTED: Final = re.compile(r"No (?:conversion rule found for operations: (.*)|ONNX function found for (.+?)\. )")
#: What PyTorch reports where a number is read from a tensor that an exporter traces: an error's class, or its words.
_TENSOR_VALUE: Final = re.compile(
    r"DataDependent|data-dependent|Converting a tensor to a|Iterating over a tensor|\.numpy\(\)"
    r"|\bNumPy (?:array|function)"
)
_FUNCTION: Final = re.compile(r"<(?:(?:built-in )?function |OpOverload\(op=')(\w[\w.]*)(?: at 0x[0-9a-f]+|', .*?\))?>")
#: Namespaces of PyTorch's own operators.
_OWN_OPERATORS: Final = (
    "aten", "prims", "prim", "torchvision", "quantized", "_quantized", "quantized_decomposed", "onnx", "onnx_symbolic",
    "inductor", "export", "mkldnn", "onednn", "sparse", "profiler", "c10d", "_c10d_functional",
)  # fmt: skip
#: Packages that exporters are made of, besides PyTorch.
_EXPORTERS: Final = ("onnxscript", "onnx_ir", "onnx")

#: Characters of a message.
_MOST_TEXT: Final = 400
#: The folders before the name of a file, and what `torch.export` adds to a guard on data.
_OMITTED: Final = re.compile(
    r"(?<![\w.~/:])/(?:[^\s'\"<>:,;()\[\]/]+/)+(?=[^\s'\"<>:,;()\[\]/])|\s*\(Size-like symbols: [^)]*\)"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a program gave no outputs.

    step: the call that failed, such as `torch.onnx.export`; empty where no single one did.
    line: of the user's code, `model.py:12`; empty if none is known.
    operator: the custom operator that the message names.
    ours: the runner cannot feed this program, which is no fault of the platform.
    refused: the runtime reports that it does not take the program (`ScriptRunner.refusal`).
    kind, names: the reason that its message gives (`graph.compare.reason`), and the operators that it names.
    """

    message: str
    step: str = ""
    line: str = ""
    operator: str = ""
    ours: bool = False
    refused: bool = False
    kind: ReasonKind | Literal[""] = ""
    names: tuple[str, ...] = ()


class InputsNotMatched(ValueError):
    """The inputs of a model file that a program's arguments do not fit."""


def failure_of(error: BaseException, runner: ScriptRunner, program: FlatProgram) -> Failure:
    """Returns the failure of a program, by the error that a runner raised."""
    text = "\n".join(str(each) for each in _causes(error))
    failure = _with_operator(_failure(error, runner), error, program)
    # A refusal of ours, of an exporter, and of a front end that takes what it exports, is not the runtime's.
    lines = [
        linecache.getline(RUNNER_FILE, at) for frame, at in traceback.walk_tb(error.__traceback__) if _is_runner(frame)
    ]
    exports = any("once(" in line for line in lines)
    of_the_runtime = bool(runner.refusal) and not failure.ours and not failure.operator and not exports
    return replace(failure, refused=of_the_runtime and re.search(runner.refusal, text) is not None)


def _failure(error: BaseException, runner: ScriptRunner) -> Failure:
    """Tells a failure of an exporter or runtime from one of the runner's own lines."""
    frames = [*traceback.walk_tb(error.__traceback__)]
    step = ""
    for frame, number in frames:
        if _is_runner(frame):
            line = linecache.getline(RUNNER_FILE, number)
            calls = [each for each in _CALL.findall(line) if "." in each]
            # What compiles at its first call stands for the call of its result, too.
            calls += [each for each in EXPORTS if f"once({each!r}" in line]
            step = calls[0] if calls else ""
        elif frame.f_code.co_name == "once" and frame.f_code.co_filename == _PROGRAM_RUN:
            step = frame.f_locals["name"]
    inside = bool(frames) and _is_runner(frames[-1][0])
    if program := missing_program(error):
        return Failure(f"not available: the program {program} is not on the PATH", ours=True)
    if isinstance(error, InputsNotMatched):
        return Failure(str(error), ours=True)
    if inside and isinstance(error, (TypeError, ValueError)):
        return Failure(f"the runner cannot feed this program: {one_line(error)}", ours=True)
    causes = _causes(error)
    packages = (*_EXPORTERS, *(line.split()[1].partition(".")[0] for line in runner.imports))
    line = next((found for each in reversed(causes) if (found := _line(each, packages))), "")
    return Failure(_message(causes), step, line)


def _is_runner(frame: FrameType) -> bool:
    return frame.f_code.co_filename == RUNNER_FILE


def _with_operator(failure: Failure, error: BaseException, program: FlatProgram) -> Failure:
    """The failure with the custom operator that the message names, and the line that calls it."""
    if failure.ours:
        return failure
    text = "\n".join(str(each) for each in _causes(error))
    named = [f"{match[1]}::{match[2]}" for match in _OPERATOR.finditer(text) if match[1] not in _OWN_OPERATORS]
    known = registered_operators()
    operator = next((name for name in named if name in known), "")
    unconverted = _UNCONVERTED.search(_FUNCTION.sub(r"\1", text))
    names = [operator] if operator else (unconverted[1] or unconverted[2]).split(", ") if unconverted else []
    classes = " ".join(type(each).__name__ for each in _causes(error))
    is_value = _TENSOR_VALUE.search(f"{classes} {text}") is not None
    kind = "" if operator else "no_conversion" if names else "tensor_value" if is_value else ""
    line = failure.line or (_line_calling(names, program) if names else "")
    return replace(failure, operator=operator, line=line, kind=kind, names=tuple(names))


def _line_calling(operators: Sequence[str], program: FlatProgram) -> str:
    """The user's line that calls one of these operators or functions, in the program as `torch.export` has it; empty if
    that fails."""
    try:
        with as_it_was(program.program), torch.no_grad():
            shapes = dict(program.dynamic_shapes) or None
            nodes = torch.export.export(program, program.fresh(), dynamic_shapes=shapes).graph.nodes
    except Exception:
        return ""
    names = tuple(operator.replace("::", ".") for operator in operators)
    called = (
        node for node in nodes
        if str(node.target).startswith(names) or getattr(node.target, "__name__", "") in names
    )  # fmt: skip
    return next((line for node in called if (line := users_line_in(str(node.meta.get("stack_trace", ""))))), "")


def _causes(error: BaseException) -> list[BaseException]:
    causes = [error]
    while (inner := causes[-1].__cause__ or causes[-1].__context__) is not None and inner not in causes:
        causes.append(inner)
    return causes


def _line(error: BaseException, packages: Sequence[str]) -> str:
    return user_line_of(error.__traceback__, packages) or users_line_in(str(error), packages)


def _sentences(text: str) -> str:
    """The first sentences of a text, up to `_MOST_TEXT` characters; of a longer one its first words."""
    if len(text) <= _MOST_TEXT:
        return text
    end = text.rfind(". ", 0, _MOST_TEXT)
    return text[: end + 1] if end > 0 else f"{text[:_MOST_TEXT].rpartition(' ')[0]} …"


def _message(causes: Sequence[BaseException]) -> str:
    """The first line of a message that is about the program, of the innermost cause that has one."""
    for error in reversed(causes):
        for line in str(error).splitlines():
            if not _REPORT.match(line.strip()):
                text = _FUNCTION.sub(r"\1", line.strip().removeprefix("-- "))
                return f"{type(error).__name__}: {_sentences(_OMITTED.sub('', shortened_paths(text))).rstrip('.:')}"
    return one_line(causes[0])
