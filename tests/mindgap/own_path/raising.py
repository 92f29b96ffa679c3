"""Programs that raise at every stage, and leave PyTorch or the process in another state. `plain` is right."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Leaving(Plain):
    def __init__(self, leave: Callable[[Any], object]) -> None:
        super().__init__()
        self.leave = leave

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.leave(self)
        raise ValueError("left")


class Vmapped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(torch.func.grad(lambda v: (v**3).sum()))(x)


class Traced(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            torch.set_default_dtype(torch.float64)
            raise ValueError("traced")
        return super().forward(x)


#: Modes that were entered: one that is destroyed later would change the state of the tests behind it.
_ENTERED: list[Any] = []


def _enters(mode: Callable[[], Any]) -> Callable[[Any], object]:
    def entered(_: Any) -> None:
        _ENTERED.append(mode())
        _ENTERED[-1].__enter__()

    return entered


def _changes_the_process(_: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "7"
    os.chdir("/")
    sys.setrecursionlimit(2000)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    torch.distributions.Distribution.set_default_validate_args(False)  # as torch.compile does


LEAVES: dict[str, Callable[[Any], object]] = {
    "level": lambda _: torch._C._functorch._vmap_increment_nesting(3, "error"),
    "dtype": lambda _: torch.set_default_dtype(torch.float64),
    "device": lambda _: torch.set_default_device("meta"),
    "gradients": lambda _: torch.set_grad_enabled(True),
    "autocast": _enters(lambda: torch.autocast("cpu", torch.bfloat16)),
    "inference": _enters(torch.inference_mode),
    "function_mode": _enters(lambda: torch.device("meta")),
    "process": _changes_the_process,
    "exits": lambda _: sys.exit(4),
}


def plain() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return Plain().eval(), (torch.randn(6, 4),)


def vmapped() -> tuple[Any, ...]:
    return Vmapped(), (torch.randn(6, 4),)


def traced() -> tuple[Any, ...]:
    return Traced().eval(), (torch.randn(6, 4),)


def made() -> tuple[Any, ...]:
    torch.set_default_dtype(torch.float64)
    torch.inference_mode().__enter__()
    raise ValueError("made")


def _leaving(name: str) -> Callable[[], tuple[Any, ...]]:
    return lambda: (Leaving(LEAVES[name]).eval(), (torch.randn(6, 4),))


for _name in LEAVES:
    globals()[_name] = _leaving(_name)


class FreesWrongly(Plain):
    """Frees what it has not allocated when it is traced, so that the C library ends the process."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            held = ctypes.create_string_buffer(256)
            ctypes.CDLL(None).free(ctypes.c_void_p(ctypes.addressof(held) + 64))
        return super().forward(x)


def frees_wrongly() -> tuple[Any, ...]:
    return FreesWrongly().eval(), (torch.randn(6, 4),)
