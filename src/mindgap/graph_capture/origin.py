"""Finds the module and the line of the user's program that a call comes from."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Final

import torch

from mindgap.aten.torch_private.modules import MODULE_CALL
from mindgap.run.source_files import is_installed, is_mindgaps, is_of_package, is_pythons

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_TORCH: Final = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
#: Beginnings of the file names of PyTorch's code, and of code that was generated.
_NOBODYS: Final = (_TORCH, "<frozen", "<__array_function__", "<eval_with_key>", "<how users", "<string>")
#: A statement that decides.
_STATEMENT: Final = re.compile(r"(?:el)?(?:if|while) (.*?):(?: |$)")
#: A line of a traceback that a message holds.
_NAMED: Final = re.compile(r'File "([^"]+)", line (\d+)')
#: The function that starts the program: beyond it are the callers of capture.
_START: Final = (os.path.join(_HERE, "tracing.py"), "run_traced")


def _is_users(code: CodeType) -> bool:
    return _is_users_file(code.co_filename)


def _is_users_file(name: str) -> bool:
    compiled = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    written = compiled is not None and name.startswith(compiled + os.sep)  # by PyTorch's compiler
    return not (written or name.startswith(_NOBODYS) or is_mindgaps(name) or is_pythons(name))


def is_torchs(code: CodeType) -> bool:
    """Whether a function is PyTorch's own."""
    return code.co_filename.startswith((_TORCH, "<frozen"))


def _is_start(frame: FrameType) -> bool:
    return (frame.f_code.co_filename, frame.f_code.co_name) == _START


def _shown(frame: FrameType, line: int) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{line}"


def current_origin(modules: dict[int, str]) -> str:
    """Returns the innermost module's path and the user's line of the running call: `layer1.0 (model.py:42)`.

    `modules`: the path of every module of the program, by id. A module's `source_line` stands for the line. If a root
    module has neither path nor line, returns its class.
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
            line = line or getattr(module, "source_line", "")
        if line and path:
            break
        frame = frame.f_back
    return f"{path} ({line})" if path and line else path or line or kind


def user_line_of(traceback: TracebackType | None, packages: Sequence[str] = ()) -> str:
    """Returns the innermost line of the user's code in a traceback, or "" (see `_lines_shown`).

    `packages`: installed ones, whose lines are no user's model.
    """
    frames: list[tuple[FrameType, int]] = []
    while traceback is not None:
        if not _in_packages(traceback.tb_frame.f_code.co_filename, packages):
            frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _lines_shown(reversed(frames))


def module_that_raised(error: BaseException, modules: Mapping[int, str]) -> str:
    """Returns the path of the innermost module in whose call an exception was raised, or "". `modules`: as for
    `current_origin`."""
    path, traceback = "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is MODULE_CALL:
            path = modules.get(id(traceback.tb_frame.f_locals["self"]), "") or path
        traceback = traceback.tb_next
    return path


def was_users(error: BaseException) -> bool:
    """Whether the user's code raised an exception, or called what raised it, rather than mindgap's."""
    users, traceback = False, error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        users = not is_mindgaps(file) and (users or _is_users_file(file))
        traceback = traceback.tb_next
    return users


def current_line() -> str:
    """Returns the innermost line of the user's code that is running now, or "" (see `_lines_shown`)."""
    return _lines_shown(_running())


def current_expression() -> str:
    """Returns the expression of the user's code that is being evaluated now, on one line: `x.sum() > 0`; or ""."""
    for frame, line in _running():
        if _is_users(frame.f_code) and not is_installed(frame.f_code.co_filename):
            return _expression(frame, line)
    return ""


def _expression(frame: FrameType, line: int) -> str:
    """The source of the running instruction, which Python knows by its columns; else the line."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, start, end = positions
    if None in positions or first is None or last is None:
        return linecache.getline(frame.f_code.co_filename, line).strip()
    lines = [linecache.getline(frame.f_code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    whole = " ".join(b" ".join(lines).decode(errors="replace").split())
    # The instruction may be that of the whole statement, as in `if x:`.
    statement = _STATEMENT.match(whole)
    return statement[1] if statement else whole


def _running() -> Iterator[tuple[FrameType, int]]:
    """Yields the frames of the program and their lines, innermost first."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] # the only way to the caller
    while frame is not None and not _is_start(frame):
        yield frame, frame.f_lineno
        frame = frame.f_back


def _lines_shown(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Returns the first line that is not PyTorch's: `model.py:42`. If that is a library's, the first line outside of
    installed packages comes before it: `model.py:42, in utils.py:2897`."""
    library = ""
    for frame, line in frames:
        if _is_users(frame.f_code):
            shown = _shown(frame, line)
            if not is_installed(frame.f_code.co_filename):
                return f"{shown}, in {library}" if library else shown
            library = library or shown
    return library


def _in_packages(file: str, packages: Sequence[str]) -> bool:
    return any(is_of_package(file, package) for package in packages)


def users_line_in(text: str, packages: Sequence[str] = ()) -> str:
    """Returns the last line of the user's code that a text names in the form of a traceback, or "". `packages`: as for
    `user_line_of`."""
    lines = [(each[1], int(each[2])) for each in _NAMED.finditer(text) if not _in_packages(each[1], packages)]
    return next((f"{os.path.basename(file)}:{line}" for file, line in reversed(lines) if _is_users_file(file)), "")
