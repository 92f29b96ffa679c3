"""Finds what stands between a program and its operators: compiled and parallel modules."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from mindgap.aten.torch_private.modules import unwrap_compiled
from mindgap.graph_capture.errors import CompiledPart
from mindgap.graph_capture.program import as_written, named_modules


def unwrapped(program: Any) -> Any:
    """Returns the program inside `torch.compile` and inside `DistributedDataParallel`, which compute the same."""
    program = unwrap_compiled(program)
    distributed = getattr(torch.nn.parallel, "DistributedDataParallel", None)
    return unwrapped(program.module) if distributed and isinstance(program, distributed) else program


def tell_compiled(program: Any) -> None:
    """Warns `CompiledPart` of the submodules that are compiled: they are captured as they were written."""
    parts = [as_written(path) for path, module in named_modules(program) if unwrap_compiled(module) is not module]
    if parts:
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        text = f"{', '.join(parts[:3])}{more}: torch.compile is not applied; it is captured as it was written"
        warnings.warn(text, CompiledPart, stacklevel=3)
