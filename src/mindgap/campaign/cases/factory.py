"""Opens variants of a catalogue as the case source of a campaign, and keeps their pool in its directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mindgap.campaign.cases.variants import POOL, VariantSource, pool_in, pool_of, yield_of
from mindgap.campaign.plan import Plan
from mindgap.campaign.state.steps import StepTracker
from mindgap.synth.regions.pool import RegionPool


@dataclass(frozen=True)
class VariantSourceFactory:
    """`jobs` processes make the pool where the catalogue has none yet. `steps`: told how far they are; `say`: how
    many graphs gave no region, and why."""

    jobs: int | None = None
    steps: StepTracker = field(default_factory=StepTracker)
    say: Callable[[str], None] = lambda line: None

    def begin(self, plan: Plan, folder: Path) -> VariantSource:
        """Raises `MindgapError` for a catalogue that is none, or has no graph."""
        self.steps.step(f"cutting regions out of the graphs of {plan.catalogue}, a pool to draw variants from")
        pool = pool_of(plan.catalogue, jobs=self.jobs, on_tick=self.steps.tick)
        made = yield_of(Path(plan.catalogue) / POOL)
        self.say(f"{len(pool):,} regions" + (f" of {made.line()}" if made is not None else ""))
        self.steps.step("copying the pool into the campaign's directory")
        pool.save(folder / POOL)
        return self._supply(pool, plan)

    def again(self, plan: Plan, folder: Path) -> VariantSource:
        self.steps.step("loading the pool of regions")
        return self._supply(pool_in(folder / POOL), plan)

    def _supply(self, pool: RegionPool, plan: Plan) -> VariantSource:
        self.steps.step(f"preparing {len(pool):,} regions")
        return VariantSource(pool, plan)
