"""How one session runs and judges its graphs."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.platforms.name import CPU_EAGER, PlatformName


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`reference`: the platform that the others are compared with. `trace`: search for culprits. `repeat`: runs of each
    graph on each platform. `deadline_s`: seconds for one job, loading and compiling included. `internal`: judge also
    results that no public function returns. `budget_s`: seconds for everything together; None for no limit. `judge`:
    decide whether differences are more than rounding; without it a comparison ends with outputs and digests."""

    reference: PlatformName = CPU_EAGER
    trace: bool = True
    repeat: int = 2
    deadline_s: float = 300.0
    internal: bool = False
    budget_s: float | None = None
    judge: bool = True
