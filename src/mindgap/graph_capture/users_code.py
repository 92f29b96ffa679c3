"""Tells what the user's code raises from what mindgap does wrong: calls of a user's program go through here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import torch

from mindgap.aten.torch_private.process_state import left_behind
from mindgap.graph import MindgapError
from mindgap.graph_capture.errors import CaptureError, ProgramError
from mindgap.graph_capture.neutral_settings import neutral_settings
from mindgap.graph_capture.origin import module_that_raised, user_line_of
from mindgap.graph_capture.program import HeldTensor, copy_program, module_paths
from mindgap.run.message_cleaning import one_line


@contextlib.contextmanager
def users_code() -> Generator[None]:
    """Raises what the code within raises as `ProgramError`, with the user's line and the exception's words."""
    try:
        with left_behind():
            yield
    except MindgapError:
        raise
    except (Exception, SystemExit) as error:
        raise ProgramError(one_line(error), user_line_of(error.__traceback__)) from error


@contextlib.contextmanager
def blamed(program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Generator[None]:
    """Where a program is refused for what it raised, runs it eagerly, with and without gradients. Raises `ProgramError`
    if that fails too: PyTorch's words for real tensors tell why, and the refusal is a consequence.

    A program that is refused for what it does, such as a loop by a value, may not end when it runs."""
    try:
        yield
    except ProgramError:
        raise
    except CaptureError as refused:
        failed = None
        if refused.__cause__ is not None and not isinstance(refused.__cause__, CaptureError):
            failed = _failure(program, args, kwargs, gradients=False)
        if failed is None or _failure(program, args, kwargs, gradients=True) is None:
            raise
        error, place = failed
        raise ProgramError(one_line(error), place) from error


def _failure(
    program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, gradients: bool
) -> tuple[BaseException, str] | None:
    """Runs a copy of the program. Returns what it raises, and the user's line or the submodule; None if it raises
    nothing, or cannot be copied."""
    try:
        copied = copy_program(program, args, kwargs, fresh)
    except CaptureError:
        return None
    try:
        with neutral_settings(), torch.set_grad_enabled(gradients):
            copied.program(*copied.args, **copied.kwargs)
    except MindgapError:
        return None
    except (Exception, SystemExit) as error:
        path = module_that_raised(error, module_paths(copied.program))
        return error, user_line_of(error.__traceback__) or (f"submodule {path}" if path else "")
    return None


def fresh(held: HeldTensor) -> torch.Tensor:
    """Returns a copy of a tensor of a program. A parameter stays one, with or without gradient."""
    tensor = held.tensor.detach().clone()
    return torch.nn.Parameter(tensor, held.tensor.requires_grad) if held.role == "parameter" else tensor
