"""Opens variants of a catalogue as the case source of a campaign, and keeps their pool in its directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mindgap_campaign.campaign.cases.variants import (
    EXCEPTIONAL_POOL,
    POOL,
    VariantSource,
    load_pool,
    pool_of,
    pool_yield,
)
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.state.steps import StepTracker
from mindgap_campaign.synth.regions.pool import RegionPool
from mindgap_campaign.synth.regions.sampler import SamplerOptions


@dataclass(frozen=True)
class VariantSourceFactory:
    """Opens a pool of regions as a case source, and makes the pool if the catalogue has none.

    `jobs`: processes that make the pool. `steps`: receives their progress. `notify`: receives how many graphs gave no
    region, and why.
    """

    jobs: int | None = None
    steps: StepTracker = field(default_factory=StepTracker)
    notify: Callable[[str], None] = lambda line: None

    @property
    def files(self) -> Sequence[str]:
        return (POOL,)

    def __reduce__(self) -> tuple[type[VariantSourceFactory], tuple[()]]:
        """A copy in another process makes no reports."""
        return VariantSourceFactory, ()

    def begin(self, plan: Plan, directory: Path) -> VariantSource:
        """Raises `MindgapError` if the directory is no catalogue, or an empty one."""
        self.steps.step(f"cutting regions out of the graphs of {plan.catalogue}, a pool to draw variants from")
        exceptional = plan.variants.exceptional
        file = Path(plan.catalogue) / (EXCEPTIONAL_POOL if exceptional else POOL)
        wanted = SamplerOptions(exceptional=exceptional)
        pool = pool_of(plan.catalogue, wanted, file=file, jobs=self.jobs, on_tick=self.steps.tick)
        made = pool_yield(file)
        self.notify(f"{len(pool):,} regions" + (f" of {made.line()}" if made is not None else ""))
        self.steps.step("copying the pool into the campaign's directory")
        pool.save(directory / POOL)
        return self._source(pool, plan)

    def reopen(self, plan: Plan, directory: Path) -> VariantSource:
        self.steps.step("loading the pool of regions")
        return self._source(load_pool(directory / POOL), plan)

    def _source(self, pool: RegionPool, plan: Plan) -> VariantSource:
        self.steps.step(f"preparing {len(pool):,} regions")
        return VariantSource(pool, plan)
