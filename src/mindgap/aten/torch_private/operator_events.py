"""Operator calls of a block as PyTorch's profiler records them: a tree, with the calls that kernels make themselves."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from typing import Any, Final, cast

import torch
from torch._C._profiler import _EventType, _TensorMetadata

_C: Final[Any] = torch._C


class OperatorEvents:
    """The recorded calls. `roots`: those that no other call made, once the block has ended.

    An event has the attributes `name` (`aten::add`), `overload_name` (`out`, empty for the default) and `children`.
    """

    def __init__(self) -> None:
        self.roots: list[Any] = []


@contextlib.contextmanager
def operator_events() -> Generator[OperatorEvents]:
    """Records every operator call of the block, on this thread and on autograd's. Not to be nested."""
    # Kineto reads this when it starts, and otherwise prints a line at each start and end.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    experimental: Any = _C._profiler._ExperimentalConfig(capture_overload_names=True)
    events = OperatorEvents()
    profile: Any = torch.autograd.profiler.profile(record_shapes=True, experimental_config=experimental)
    with profile:
        yield events
    events.roots = profile.kineto_results.experimental_event_tree()


def is_operator(event: Any) -> bool:
    """Returns whether the event is a call of an operator, not of a node of autograd's graph."""
    return event.tag == _EventType.TorchOp and "::" in event.name and "autograd::" not in event.name


def operands(event: Any) -> list[tuple[str, int] | None]:
    """Returns device and number of dimensions of each operand that is a tensor, None for any other.

    Tensors in a list follow one another; an optional tensor that is absent is None.
    """
    places: list[tuple[str, int] | None] = []
    inputs: list[Any] = event.extra_fields.inputs
    for given in inputs:
        for one in cast("list[Any]", given) if isinstance(given, list) else [given]:
            places.append((one.device.type, len(one.sizes)) if isinstance(one, _TensorMetadata) else None)
    return places


def private_device() -> str:
    """Returns the name of the device on PyTorch's key for devices of others (PrivateUse1)."""
    return str(_C._get_privateuse1_backend_name())


def has_boxed_fallback() -> bool:
    """Returns whether a package registered one kernel for all operators without a kernel on that key."""
    return bool(_C._dispatch_has_backend_fallback(_C.DispatchKey.PrivateUse1))


def goes_to_boxed_fallback(name: str) -> bool:
    """Returns whether a call of the operator (`aten::exp.out`) on that key ends in the boxed fallback."""
    lines = str(_C._dispatch_dump_table(name)).splitlines()
    return any(line.startswith("PrivateUse1: ") and line.endswith("[backend fallback]") for line in lines)
