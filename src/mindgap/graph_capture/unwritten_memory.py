"""Finds programs whose outputs depend on memory that nothing wrote: `torch.empty` that is read before it is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.operators import overload_name
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.process_state import torch_seed
from mindgap.graph import Graph, MindgapError
from mindgap.graph.operators import traits
from mindgap.graph_capture.errors import ProgramError, UnprovenCapture
from mindgap.graph_capture.kept_fakes import forget_fakes
from mindgap.graph_capture.origin import current_line
from mindgap.graph_capture.program import copy_program, leaves
from mindgap.graph_capture.replay_check import same_bits
from mindgap.graph_capture.users_code import fresh
from mindgap.run.message_cleaning import one_line

#: The bytes that fill such memory: elements are 0, or 0.747 and large integers.
_FILLS: Final = (0x00, 0x3F)
#: Calls that are tried one by one.
_MOST_CALLS: Final = 16


class ReadsUnwrittenMemory(ProgramError):
    """The outputs of a program depend on what memory held before."""

    def __init__(self, line: str) -> None:
        MindgapError.__init__(
            self,
            f"the program reads memory that it has not written{f' ({line})' if line else ''}: torch.empty returns "
            "what the memory held before, so its outputs change from run to run; fill it first (torch.zeros)",
        )
        self.line = line


class _Filled(TorchDispatchMode):
    """Fills uninitialised tensors with a byte, that of one call with another. `lines`: of the calls, in order."""

    def __init__(self, other: int | None = None, *, all_other: bool = False) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._other, self._all_other = other, all_other
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and traits(overload_name(func)).returns_uninitialised:
            byte = _FILLS[self._all_other or len(self.lines) == self._other]
            memory: Any = result.untyped_storage()
            memory.fill_(min(byte, 1) if result.dtype == torch.bool else byte)
            self.lines.append(current_line())
        return result


def refuse_unwritten_reads(
    graph: Graph, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raises `ReadsUnwrittenMemory` if the outputs of a program change with what uninitialised memory holds. Warns
    `UnprovenCapture` where the program does not run with such memory filled."""
    if not any(traits(node.op).returns_uninitialised for node in graph.nodes):
        return
    forget_fakes()  # in tables that the program's code keeps of its trace: the runs below are real
    refusals: list[str] = []

    def outputs(mode: _Filled) -> list[torch.Tensor] | None:
        copied = copy_program(program, args, kwargs, fresh)
        try:
            with torch.compiler.set_stance("force_eager"), torch_seed(0), mode:
                result = copied.program(*copied.args, **copied.kwargs)
        except Exception as error:  # of any type: values that the program refuses, which it has read
            refusals.append(one_line(error))
            return None
        return [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]

    plain = _Filled()
    expected = outputs(plain)
    if expected is None:
        why = f"reads of memory that is not written were not looked for: with zeros there it raised {refusals[0]}"
        warnings.warn(why, UnprovenCapture, stacklevel=2)
        return
    if _alike(outputs(_Filled(all_other=True)), expected):
        return
    lines = enumerate(plain.lines[:_MOST_CALLS])
    raise ReadsUnwrittenMemory(next((line for n, line in lines if not _alike(outputs(_Filled(n)), expected)), ""))


def _alike(outputs: Sequence[torch.Tensor] | None, expected: Sequence[torch.Tensor]) -> bool:
    return outputs is not None and len(outputs) == len(expected) and all(map(same_bits, outputs, expected))
