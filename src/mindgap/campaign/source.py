"""Variants of a catalogue as the source of a campaign; the pool that they are made of goes into its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mindgap.campaign.plan import Plan
from mindgap.campaign.quarry import OnTick
from mindgap.campaign.synthesis import POOL, Synthesis, pool_in, pool_of


@dataclass(frozen=True)
class FromCatalogue:
    """`jobs` processes make the pool where the catalogue has none yet; `on_tick` is told how far they are."""

    jobs: int | None = None
    on_tick: OnTick | None = None

    def begin(self, plan: Plan, folder: Path) -> Synthesis:
        """Raises `MindgapError` for a catalogue that is none, or has no graph."""
        pool = pool_of(plan.catalogue, jobs=self.jobs, on_tick=self.on_tick)
        pool.save(folder / POOL)
        return Synthesis(pool, plan)

    def again(self, plan: Plan, folder: Path) -> Synthesis:
        return Synthesis(pool_in(folder / POOL), plan)
