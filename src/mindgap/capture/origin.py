"""Finds the module and the line of the user's program that a call comes from."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, TracebackType
from typing import Final

import torch

from mindgap.torch_private.modules import MODULE_CALL

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_OURS: Final = os.path.dirname(_HERE) + os.sep
_TORCH: Final = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB: Final = os.path.dirname(os.path.abspath(os.__file__))
#: The function that starts the program: beyond it are the callers of capture.
_START: Final = (os.path.join(_HERE, "tracing.py"), "run_traced")


def _is_users(code: CodeType) -> bool:
    name = code.co_filename
    if name.startswith((_OURS, _TORCH, "<frozen", "<__array_function__", "<eval_with_key>")):
        return False
    return not (name.startswith(_STDLIB) and "site-packages" not in name)


def _is_start(frame: FrameType) -> bool:
    return (frame.f_code.co_filename, frame.f_code.co_name) == _START


def _shown(frame: FrameType, line: int) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{line}"


def current_origin(modules: dict[int, str]) -> str:
    """Returns the innermost module's path and the user's line of the running call: `layer1.0 (model.py:42)`.

    `modules`: the path of every module of the program, by id. If a root module has neither path nor line, returns its
    class.
    """
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] # the only way to the caller
    line, path, kind = "", "", ""
    while frame is not None and not _is_start(frame):
        code = frame.f_code
        if not line and _is_users(code):
            line = _shown(frame, frame.f_lineno)
        if not path and code is MODULE_CALL:
            module = frame.f_locals["self"]
            path, kind = modules.get(id(module), ""), kind or type(module).__name__
        if line and path:
            break
        frame = frame.f_back
    return f"{path} ({line})" if path and line else path or line or kind


def user_line_of(traceback: TracebackType | None) -> str:
    """Returns the innermost line of the user's code in a traceback, or ""."""
    found = ""
    while traceback is not None:
        frame = traceback.tb_frame
        if _is_users(frame.f_code):
            found = _shown(frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def current_line() -> str:
    """Returns the innermost line of the user's code that is running now, or ""."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] # the only way to the caller
    while frame is not None and not _is_start(frame):
        if _is_users(frame.f_code):
            return _shown(frame, frame.f_lineno)
        frame = frame.f_back
    return ""
