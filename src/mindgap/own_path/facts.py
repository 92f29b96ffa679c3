"""Notes what a program asks about export, compilation and the machine, and which of its modules train."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

import torch

from mindgap.graph_capture.origin import current_origin, is_torchs
from mindgap.graph_capture.program import module_paths, named_modules
from mindgap.own_path.program_run import FlatProgram, run_eagerly
from mindgap.run.source_files import is_pythons

#: What an answer of these depends on: how the program is run, or on which machine.
_QUESTIONS: Final = (
    "torch.onnx.is_in_onnx_export",
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch.compiler.is_exporting",
    "torch.jit.is_tracing",
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.cuda.get_device_capability",
    "torch.backends.mps.is_available",
    "torch.xpu.is_available",
)
#: Modules that compute something else while they train, without those that hold statistics (`_BatchNorm` and others).
_DROPOUT: Final = "torch.nn.modules.dropout"
_BATCH_NORM: Final = ("torch.nn.modules.batchnorm", "torch.nn.modules.instancenorm")


@dataclass(frozen=True, slots=True)
class Question:
    """A call of a function whose answer depends on how the program is run.

    place: the module's path and the user's line: `layer1.0 (model.py:42)`.
    """

    function: str
    place: str

    @property
    def line(self) -> str:
        """The user's line alone: `model.py:42`."""
        return self.place.rpartition("(")[2].rstrip(")")


def questions(program: FlatProgram, run: Callable[[], object] | None = None) -> tuple[Question, ...]:
    """Runs the program eagerly, or by `run`, and returns what it asks, each line once, in order."""
    codes = {code: name for name in _QUESTIONS if (code := _code(name)) is not None}
    reads: Any = type(os.environ).__getitem__
    environment: CodeType = reads.__code__
    paths = module_paths(program.program)
    by_key = dict[tuple[str, str], Question]()

    def noted(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code is environment:
            name = f"os.environ[{frame.f_locals.get('key')!r}]"
        elif code in codes:
            name = codes[code]
        else:
            return
        if not _asked_by_torch(frame):
            question = Question(name, current_origin(paths))
            by_key.setdefault((name, question.line), question)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        # Eager `torch.cond` and `while_loop` compile themselves, and the compiler would trace their own code while it
        # is profiled.
        with torch.compiler.set_stance("force_eager"):
            run_eagerly(program) if run is None else run()
    finally:
        sys.setprofile(before)
    return tuple(by_key.values())


def training_modules(program: Any) -> tuple[str, ...]:
    """Returns the paths of the modules in training mode that compute something else than in evaluation mode."""
    modules: list[str] = []
    for path, module in named_modules(program):
        home = type(module).__module__
        drops = home == _DROPOUT and getattr(module, "p", 0) > 0
        if module.training and (drops or (home in _BATCH_NORM and bool(getattr(module, "track_running_stats", 1)))):
            modules.append(path or type(module).__name__)
    return tuple(modules)


def _code(name: str) -> CodeType | None:
    value: Any = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    value = getattr(value, "__wrapped__", value)
    return getattr(value, "__code__", None)


def _asked_by_torch(frame: FrameType) -> bool:
    """Whether the nearest caller outside the standard library is PyTorch itself."""
    caller = frame.f_back
    while caller is not None and is_pythons(caller.f_code.co_filename):
        caller = caller.f_back
    return caller is None or is_torchs(caller.f_code)
