"""Runs a program under recording modes: makes fakes of its tensors, and explains its errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

import torch

from mindgap.aten.torch_private.fake_tensors import FakeTensorMode
from mindgap.aten.torch_private.process_state import left_behind
from mindgap.graph import MindgapError
from mindgap.graph_capture.deep_copies import is_strided
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import user_line_of
from mindgap.graph_capture.program import HeldTensor, ProgramCopy, copy_program
from mindgap.run.message_cleaning import message_of, one_line


def run_traced(call: Callable[[], Any], *modes: AbstractContextManager[Any]) -> Any:
    """Runs `call()` under `modes`. Raises `CaptureError` with the user's line for any exception, `SystemExit` too."""
    try:
        with ExitStack() as entered:
            for mode in (*modes, left_behind()):
                entered.enter_context(mode)
            return call()
    except CaptureError as error:
        if _in_nested_tensors(error):
            raise CaptureError(reason_of(error), error.line) from error
        raise
    except MindgapError as error:
        raise CaptureError(str(error), user_line_of(error.__traceback__)) from error
    except (Exception, SystemExit) as error:
        raise CaptureError(reason_of(error), user_line_of(error.__traceback__)) from error


def reason_of(error: BaseException) -> str:
    """Returns one line on why a program that raised `error` under fake tensors cannot be captured."""
    if _in_nested_tensors(error):
        return f"the program makes {_NESTED}"
    message = (message_of(error).strip().splitlines() or [""])[0]
    for words, meaning in _MEANINGS.items():
        if words in message:
            return meaning
    return f"the program raised {one_line(error)}"


def faked(tensor: torch.Tensor, fake_mode: FakeTensorMode) -> torch.Tensor:
    """Returns a fake of a tensor, on the CPU and without memory. A parameter stays a parameter, without gradient."""
    if tensor.is_nested:
        raise CaptureError(_NESTED)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise CaptureError(
            f"a tensor of type {type(tensor).__name__}; capture takes plain tensors, as a model has them before its "
            "weights are quantised or distributed"
        )
    if not is_strided(tensor):
        raise CaptureError(f"a tensor of layout {tensor.layout} and dtype {tensor.dtype}; graphs hold strided ones")
    if tensor.device.type == "meta":
        with fake_mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    elif tensor.device.type != "cpu":
        raise CaptureError(f"a tensor on {tensor.device}; move the program and its arguments to the CPU")
    else:
        fake = fake_mode.from_tensor(tensor.detach(), static_shapes=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=False)
    return fake


def fake_program(
    program: Any, args: Sequence[Any], kwargs: Mapping[str, Any], fake_mode: FakeTensorMode
) -> tuple[ProgramCopy, list[tuple[HeldTensor, torch.Tensor]]]:
    """Returns a copy of the program with fakes in place of its tensors, and each tensor with its fake."""
    fakes: list[tuple[HeldTensor, torch.Tensor]] = []

    def fake_of(held: HeldTensor) -> torch.Tensor:
        if held.role == "buffer" and not is_strided(held.tensor):
            return held.tensor  # one that the program does not read stays out of the graph; `ValueTable` refuses it
        try:
            fakes.append((held, faked(held.tensor, fake_mode)))
        except CaptureError as error:
            raise CaptureError(f"{held.name}: {error.reason}") from error
        return fakes[-1][1]

    return copy_program(program, args, kwargs, fake_of), fakes


def _in_nested_tensors(error: BaseException) -> bool:
    """Whether PyTorch's code of nested tensors raised an error, or called what raised it."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(_NESTED_PACKAGE):
            return True
        traceback = traceback.tb_next
    return False


_NESTED: Final = (
    "a nested tensor, which graphs do not hold; pad it (torch.nested.to_padded_tensor) and pass lengths or a mask"
)
_NESTED_PACKAGE: Final = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "nested", "")

#: Messages of PyTorch about tensors without values, and what they mean for the author of the program.
_MEANINGS = {
    "not registered": "the program uses a higher-order operator (cond, while_loop, ...), which no graph of calls holds",
    ".numpy() is not supported": "the program turns a tensor into a numpy array, whose values a graph would freeze",
    "Cannot access storage of": "the program makes a tensor without strided storage (a sparse one, say)",
    "tolist() is not supported": "the program turns a tensor into a list, whose values a graph would freeze",
    "aten._nested_tensor": f"the program makes {_NESTED}",
    "does not require grad and does not have a grad_fn": "the program runs a backward pass of its own; "
    "capture its forward part, or use torch.func.grad",
}
