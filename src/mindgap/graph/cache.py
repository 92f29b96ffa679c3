"""A least-recently-used cache, bounded by count and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps the most recently used entries. An entry larger than the byte limit is not kept. Not thread-safe."""

    def __init__(self, count: int, nbytes: int) -> None:
        self._count = count
        self._limit = nbytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Returns the value and marks it as most recently used; None if it is not in the cache."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Adds the value, and drops the least recently used entries until both limits hold."""
        self.drop(key)
        if nbytes > self._limit:
            return
        self._entries[key] = (value, nbytes)
        self.nbytes += nbytes
        while len(self._entries) > self._count or self.nbytes > self._limit:
            _, (_, size) = self._entries.popitem(last=False)
            self.nbytes -= size

    def drop(self, key: K) -> None:
        """Drops one entry, if it is in the cache."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.nbytes -= entry[1]

    def clear(self) -> None:
        self._entries.clear()
        self.nbytes = 0
