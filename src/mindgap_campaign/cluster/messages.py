"""Packs messages between the driver and the nodes of a cluster, and defines their errors."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, TypeVar

import zstandard

from mindgap.graph import MindgapError
from mindgap.platforms.environments import HostProblem

_T = TypeVar("_T")


class ClusterProblem(HostProblem):
    """Raised for a cluster that is not reached, lacks what the plan needs, or loses it. It is no evidence about a
    platform."""


def pack(thing: Any) -> bytes:
    """Pickles and compresses a message. Features and outcomes are repetitive."""
    return zstandard.ZstdCompressor(level=1).compress(pickle.dumps(thing))


def unpack(data: bytes) -> Any:
    """The inverse of `pack`."""
    return pickle.loads(zstandard.ZstdDecompressor().decompress(data))


@dataclass(frozen=True)
class Failure:
    """An error that a node hands back as data, since Ray would repeat or wrap it. `lost`: of the cluster, not of the
    input."""

    message: str
    lost: bool = False

    def error(self) -> MindgapError:
        """Returns the exception to raise."""
        return ClusterProblem(self.message) if self.lost else MindgapError(self.message)


def checked(answer: _T | Failure) -> _T:
    """Returns an answer of a node. Raises its error if it is one."""
    if isinstance(answer, Failure):
        raise answer.error()
    return answer
