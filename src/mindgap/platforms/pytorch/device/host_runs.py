"""Detects operators that a device from outside PyTorch ran on the CPU, without help of its maker's package.

A package that brings a device on PyTorch's PrivateUse1 key usually sends what it has no kernel for to
`at::native::cpu_fallback`, which is no evidence. An operator may get to the CPU by the boxed fallback, by a
separate registration, or from inside a kernel that lacks a dtype. In all these cases the copies show: within one
operator, PyTorch's profiler records a copy from the device to the host and one back. Copies that a package makes
without PyTorch's operators do not show. `boxed_fallback` measures whether they do. If they do, each operator that the
dispatcher's table sends to the boxed fallback ran on the host as well: one that returns no tensor copies nothing
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import torch

from mindgap.aten.torch_private.operator_events import (
    goes_to_boxed_fallback,
    has_boxed_fallback,
    is_operator,
    operands,
    operator_events,
    private_device,
)

#: Operators that move or copy a tensor for the operator that calls them.
_TRANSFERS: Final = frozenset(
    f"aten::{name}"
    for name in ("to", "_to_copy", "_to_cpu", "copy_", "_copy_from", "_copy_from_and_resize", "clone", "contiguous")
)
#: Copying operators -> positions of the source and of the target among their operands.
_COPIES: Final = {"aten::copy_": (1, 0), "aten::_copy_from": (0, 1), "aten::_copy_from_and_resize": (0, 1)}
#: Operators that bring one number to the host on every device. What they copy is no operand of a computation.
_READ_A_NUMBER: Final = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
#: Operators of one operand that few devices have kernels for: one that goes to the boxed fallback shows what that does.
_RARE: Final = (
    "special_airy_ai", "special_bessel_y1", "special_modified_bessel_k1", "special_spherical_bessel_j0",
    "special_ndtri", "special_erfcx", "special_log_ndtr", "special_i1e", "digamma", "lgamma", "erfinv",
)  # fmt: skip
#: What a package's boxed fallback does: there is none; its copies to the host are seen; it refuses; it runs, and no
#: copies are seen; no operator was found that ends there.
BoxedFallback = Literal["none", "seen", "refuses", "not seen", "not tried"]


@dataclass(frozen=True, slots=True)
class HostRun:
    """An operator that ran on the host. `operator`: `aten::_softmax.out`. `called`: the overload that the program
    called, as graphs name it: `aten.softmax.int`."""

    operator: str
    called: str


@dataclass(slots=True)
class _Copies:
    """Copies within one operator. `factory`: the last one brought more than a number to the device."""

    down: bool = False
    up: bool = False
    factory: bool = False


def from_outside(device: str) -> bool:
    """Returns whether the device (as in `torch.device`) is on PyTorch's key for devices of others."""
    return device == private_device()


def host_runs(events: Iterable[Any], device: str, *, boxed: bool) -> list[HostRun]:
    """Returns the operators that ran on the host, in order, each once. `events`: roots of `operator_events`.

    `boxed`: the package's boxed fallback is known to run on the host.
    """
    runs: dict[HostRun, None] = {}
    for event in events:
        _copies(event, device, boxed, "", runs)
    return list(runs)


def _copies(event: Any, device: str, boxed: bool, called: str, found: dict[HostRun, None]) -> _Copies:
    """Returns the copies that the caller of this event must answer for; adds to `found`."""
    own, name = _Copies(), str(event.name)
    if name in _READ_A_NUMBER:
        return own
    operator = is_operator(event)
    called = called or (_overload(event) if operator else "")
    for child in event.children:
        below = _copies(child, device, boxed, called, found)
        own.down, own.up, own.factory = own.down or below.down, own.up or below.up, own.factory or below.factory
    if name in _TRANSFERS:
        _add_own_copy(own, name, operands(event), device)
        return own
    if operator and (
        (own.down and own.up)
        or (own.factory and not any(operands(event)))
        or (boxed and _is_on(device, event) and _ends_in_fallback(_qualified(event)))
    ):
        found.setdefault(HostRun(_qualified(event), called))
    return _Copies()


_ends_in_fallback = cache(goes_to_boxed_fallback)


def _is_on(device: str, event: Any) -> bool:
    return any(one is not None and one[0] == device for one in operands(event))


def _qualified(event: Any) -> str:
    return f"{event.name}.{event.overload_name}".rstrip(".")


def _add_own_copy(own: _Copies, name: str, given: Sequence[tuple[str, int] | None], device: str) -> None:
    if name == "aten::_to_cpu":
        own.down |= any(one is not None and one[0] == device for one in given)
    elif name in _COPIES and len(given) >= 2:
        source, target = (given[position] for position in _COPIES[name])
        if source is None or target is None:
            return
        own.down |= (source[0], target[0]) == (device, "cpu")
        up = (source[0], target[0]) == ("cpu", device)
        own.up |= up
        own.factory |= up and source[1] > 0


def _overload(event: Any) -> str:
    """Returns the operator as graphs name it: `aten.add.Tensor`."""
    return f"{event.name.replace('::', '.', 1)}.{event.overload_name or 'default'}"


@cache
def boxed_fallback(device: str) -> BoxedFallback:
    """Measures, once in a process, what the package's boxed fallback does, with one operator that ends there."""
    if not has_boxed_fallback():
        return "none"
    rare = next((name for name in _RARE if goes_to_boxed_fallback(f"aten::{name}.out")), None)
    if rare is None:
        return "not tried"
    try:
        operand = torch.full((2,), 0.5).to(device)
        with operator_events() as recorded, torch.no_grad():
            getattr(torch.ops.aten, rare)(operand)
    except (RuntimeError, NotImplementedError):
        return "refuses"
    return "seen" if host_runs(recorded.roots, device, boxed=False) else "not seen"


def through_boxed_fallback(events: Iterable[Any], device: str) -> list[str]:
    """Returns the operators on operands of the device that ended in the package's boxed fallback, sorted."""
    names: set[str] = set()
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if is_operator(event) and _is_on(device, event):
            names.add(_qualified(event))
    return sorted(filter(_ends_in_fallback, names))
