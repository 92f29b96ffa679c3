"""Variants of a catalogue as the source of a campaign; the pool that they are made of goes into its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mindgap.campaign.cases.variants import POOL, Synthesis, pool_in, pool_of, yield_of
from mindgap.campaign.plan import Plan
from mindgap.campaign.state.steps import Progress
from mindgap.synth.regions.pool import Pool


@dataclass(frozen=True)
class FromCatalogue:
    """`jobs` processes make the pool where the catalogue has none yet. `progress`: told how far they are; `say`: how
    many graphs gave no region, and why."""

    jobs: int | None = None
    progress: Progress = field(default_factory=Progress)
    say: Callable[[str], None] = lambda line: None

    def begin(self, plan: Plan, folder: Path) -> Synthesis:
        """Raises `MindgapError` for a catalogue that is none, or has no graph."""
        self.progress.step(f"cutting regions out of the graphs of {plan.catalogue}, a pool to draw variants from")
        pool = pool_of(plan.catalogue, jobs=self.jobs, on_tick=self.progress.tick)
        made = yield_of(Path(plan.catalogue) / POOL)
        self.say(f"{len(pool):,} regions" + (f" of {made.line()}" if made is not None else ""))
        self.progress.step("copying the pool into the campaign's directory")
        pool.save(folder / POOL)
        return self._supply(pool, plan)

    def again(self, plan: Plan, folder: Path) -> Synthesis:
        self.progress.step("loading the pool of regions")
        return self._supply(pool_in(folder / POOL), plan)

    def _supply(self, pool: Pool, plan: Plan) -> Synthesis:
        self.progress.step(f"preparing {len(pool):,} regions")
        return Synthesis(pool, plan)
