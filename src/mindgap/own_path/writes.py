"""Notes the lines that write to tensors in place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode, storage_id
from mindgap.graph_capture.origin import current_line


class Writes(TorchDispatchMode):
    """Notes the user's line of the first operator that writes to a buffer or parameter, or to a view of it. `lines`: by
    path. `before`: called with the paths before each write.

    The bodies of `torch.cond` and other operators of higher order run without it: PyTorch lets them write to nothing.
    """

    supports_higher_order_operators = True

    def __init__(
        self, held: Sequence[tuple[str, torch.Tensor]], before: Callable[[Collection[str]], None]
    ) -> None:  # fmt: skip
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.lines: dict[str, str] = {}
        self._before = before
        self._paths: dict[int, list[str]] = {}
        for path, tensor in held:
            if (memory := memory_of(tensor)) is not None:
                self._paths.setdefault(memory, []).append(path)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = getattr(func, "_schema", None)
        written = [
            path
            for formal, given in zip(schema.arguments if schema is not None else (), args, strict=False)
            if formal.alias_info is not None and formal.alias_info.is_write and isinstance(given, torch.Tensor)
            for path in self._paths.get(memory_of(given) or 0, ())
        ]
        if written:
            self._before(written)
        result = func(*args, **(kwargs or {}))
        for path in written:
            self.lines.setdefault(path, current_line())
        return result


def memory_of(tensor: torch.Tensor) -> int | None:
    """Returns what tensors of the same memory have in common; None for a layout without one."""
    try:
        return storage_id(tensor)
    except (RuntimeError, NotImplementedError, ValueError):  # ValueError: of a lazy module
        return None
