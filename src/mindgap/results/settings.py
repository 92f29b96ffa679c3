"""How one session runs and judges its graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mindgap.platforms.name import CPU_EAGER, PlatformName

#: Defaults of the command line, the Python API and the fixture of pytest: seconds for one job; runs of each graph;
#: whether differences are followed to the node; whether a program is also taken the way of each platform's users.
DEADLINE_S: Final = 300.0
REPEAT: Final = 2
TRACE: Final = True
OWN_PATH: Final = True


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`reference`: the platform that the others are compared with. `trace`: search for culprits. `repeat`: runs of each
    graph on each platform. `deadline_s`: seconds for one job, loading and compiling included. `internal`: judge also
    results that no public function returns. `budget_s`: seconds for everything together; None for no limit. `judge`:
    decide whether differences are more than rounding; without it a comparison ends with outputs and digests."""

    reference: PlatformName = CPU_EAGER
    trace: bool = TRACE
    repeat: int = REPEAT
    deadline_s: float = DEADLINE_S
    internal: bool = False
    budget_s: float | None = None
    judge: bool = True
