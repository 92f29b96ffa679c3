"""Divides a platform's processor time over the blocks of a campaign."""

from __future__ import annotations


class CpuBudget:
    """Spreads processor seconds evenly over the blocks of a campaign. Later blocks get what earlier ones left."""

    def __init__(self, seconds: float, blocks: int, spent: float = 0.0) -> None:
        self._seconds, self._blocks, self.spent = seconds, max(blocks, 1), spent

    def left(self, position: int) -> float:
        """Returns the seconds that the block at `position` (from 0) may still take."""
        return self._seconds * min(position + 1, self._blocks) / self._blocks - self.spent
