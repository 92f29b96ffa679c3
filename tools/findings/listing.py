"""Reads the listed causes with what was established, printed and counted of each, in the order in which they are shown.

The order is by severity, then by how natural the condition of the fault is, then by how many models and programs meet
it. `counts.json` of the directory holds the counts (`publish.py` writes it).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from established import COUNTS, read_established
from facts import Facts, read_facts

from mindgap.findings.causes import Cause
from mindgap.findings.causes.cause import SEVERITIES

#: A condition that so many of the 2,252 zoo models meet is natural: one in 200.
COMMON: Final = 12
#: How natural a condition is, the most natural first.
NATURES: Final = {
    "silent, natural": "everyday programs or one in 200 zoo models meet it, and no message tells",
    "failing, natural": "everyday programs or one in 200 zoo models meet it, and it fails",
    "rare": "some zoo models meet it, or their values decide, or it cannot be counted",
    "corner": "neither a zoo model nor an everyday program meets it",
}
_FAILING: Final = ("failure", "crash", "hang")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many models and programs meet a condition.

    `zoo`: of `zoo_models`, graphs of forwards. `everyday`: of `everyday_programs`. `zoo_calls`, `everyday_calls`: those
    that call the functions at all. `bound`: the condition is on values too, so that the numbers are upper bounds.
    `where`: the predicate on a call. All None where no call shows the condition.
    """

    zoo: int | None = None
    everyday: int | None = None
    zoo_calls: int | None = None
    everyday_calls: int | None = None
    bound: bool = False
    where: str = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """How many were counted: zoo models and everyday programs."""

    zoo: int
    everyday: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A listed cause. `runs`: of `runs.json`. `upstream`: the state of what upstream knows."""

    cause: Cause
    facts: Facts
    runs: Mapping[str, Any]
    counts: Counts
    upstream: str

    @property
    def script(self) -> str:
        return self.cause.findings[0].script

    @property
    def folder(self) -> str:
        return self.script.partition("/")[0]

    @property
    def page(self) -> str:
        """The page, relative to the directory of findings."""
        return str(Path(self.script).with_suffix(".md"))

    @property
    def title(self) -> str:
        return self.cause.title.partition(": ")[2]

    @property
    def runtime(self) -> str:
        """What runs the program, with its ONNX front end where that is at fault: `openvino/cpu`."""
        return self.cause.title.partition(": ")[0] + (" (ONNX front end)" if "onnx-frontend" in self.folder else "")

    @property
    def nature(self) -> str:
        """A key of `NATURES`."""
        zoo, everyday = self.counts.zoo, self.counts.everyday
        if zoo is None or everyday is None:
            return "rare"
        if not zoo and not everyday:
            return "corner"
        common = zoo >= COMMON or everyday > 0
        if not common or (self.counts.bound and not self.facts.ordinary_values):
            return "rare"
        return "failing, natural" if self.cause.damage in _FAILING else "silent, natural"

    @property
    def order(self) -> tuple[object, ...]:
        met = ((self.counts.everyday or 0), (self.counts.zoo or 0))
        place = SEVERITIES.index(self.cause.severity), [*NATURES].index(self.nature)
        return (*place, -met[0], -met[1], self.cause.title)


def read_listing(directory: Path) -> tuple[list[Listed], Totals]:
    """The listed causes in order, and how much was counted."""
    facts = read_facts(directory)
    runs = json.loads((directory / "runs.json").read_text(encoding="utf-8"))
    counts = json.loads((directory / COUNTS).read_text(encoding="utf-8"))
    states: Mapping[str, str] = tomllib.loads((directory / "upstream_states.toml").read_text(encoding="utf-8"))
    listed = [
        Listed(cause, facts[script], runs.get(script, {}), Counts(**counts["causes"][script]), state_of(cause, states))
        for cause in read_established(directory)
        if (script := cause.findings[0].script) in facts
    ]
    return sorted(listed, key=lambda each: each.order), Totals(**counts["totals"])


def state_of(cause: Cause, states: Mapping[str, str]) -> str:
    """What upstream knows: a state of `upstream_states.toml`, `not found` or `not looked up`."""
    if cause.upstream is None:
        return "not looked up"
    return states.get(cause.upstream.link, "related") if cause.upstream.link else "not found"
