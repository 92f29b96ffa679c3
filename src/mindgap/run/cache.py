"""A least-recently-used cache, bounded by count and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Not thread-safe. An entry larger than the whole bound is not kept."""

    def __init__(self, count: int, nbytes: int) -> None:
        self._count = count
        self._limit = nbytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None where it is not (any more)."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Keeps the value, and forgets the oldest until both bounds hold."""
        self.drop(key)
        if nbytes > self._limit:
            return
        self._entries[key] = (value, nbytes)
        self.nbytes += nbytes
        while len(self._entries) > self._count or self.nbytes > self._limit:
            _, (_, size) = self._entries.popitem(last=False)
            self.nbytes -= size

    def drop(self, key: K) -> None:
        """Forgets one entry, if it is there."""
        found = self._entries.pop(key, None)
        if found is not None:
            self.nbytes -= found[1]

    def clear(self) -> None:
        self._entries.clear()
        self.nbytes = 0
