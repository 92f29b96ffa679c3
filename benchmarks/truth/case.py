"""Defines a case: one program with the verdict that a person decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch


@dataclass(frozen=True)
class Case:
    """`expected`: does a person want to hear of it. `verdicts`: the words that would be right.

    `why`: what the platform and eager PyTorch answer, and who is right by which standard. `blame`: who is wrong, where
    that is settled; None leaves it open. `needs`: one of these instructions of the processor (`/proc/cpuinfo`), without
    which the platform is right.
    """

    name: str
    program: Callable[..., Any]
    args: tuple[torch.Tensor, ...]
    platform: str
    expected: Literal["finding", "calm"]
    verdicts: tuple[str, ...]
    why: str
    blame: Literal["platform", "reference", "undecided"] | None = None
    needs: frozenset[str] = frozenset()
