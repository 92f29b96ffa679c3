"""Simulates a campaign on a fleet of unlike nodes: how long it takes, what limits it, what becomes of the store.

    python benchmarks/fleet_simulation.py [--store DIR] [--cases 10000000] [--platforms 20] [--nodes 1000] [--json]

`--store`: a campaign's directory, from which seconds and bytes for each row are read (default: those of the campaign
that docs/fleet.md describes). The platforms take their costs in turn. An event is the end of a task:

    draw a block (a free node) -> the reference -> the platforms, side by side -> judge (a free node) -> commit (driver)

A node has one platform and runs one block at a time; the reference's nodes also draw and judge. The driver does one
thing at a time. A transfer takes its bytes over the bandwidth of the object store, which all nodes share.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mindgap.results.store import Store
from mindgap_campaign.campaign.plan import BLOCK


@dataclass(frozen=True)
class Costs:
    """Costs. Seconds are of one processor.

    `platforms`: seconds for each case, by platform. `reference`, `draw`: seconds for each case. `judge`: for each row,
    all platforms together. `row_bytes`: of a row in the store, compressed. `tables`: segments of a block. These are
    read from a campaign. `task`: the driver's seconds for each task of a block, and `travel_bytes`: bytes between nodes
    for each row, outcomes and judges' jobs; `benchmarks/ray_cost.py` measures both. `block`: the driver's seconds to
    select the cases of a block, here with a quota on each platform. `segment_cpu`: seconds to read and check a small
    segment (`benchmarks/store_segments.py`). Assumed: `bandwidth`, bytes per second of the object store, and `put`,
    seconds of one request.
    """

    platforms: dict[str, float] = field(
        default_factory=lambda: {"onnxruntime/cpu": 0.288, "cpu/eager@threads=1": 0.0074, "openvino/cpu": 0.614}
    )
    reference: float = 0.0062
    draw: float = 0.0069
    judge: float = 0.066
    row_bytes: float = 559.0
    tables: int = 11
    task: float = 0.0028
    travel_bytes: float = 10_800.0
    block: float = 0.083
    segment_cpu: float = 0.0012
    bandwidth: float = 5e9
    put: float = 0.05


@dataclass(frozen=True)
class Fleet:
    """What runs: `cases` on `platforms` platforms by `nodes` nodes of `cores` processors. `ahead`: open blocks."""

    cases: int = 10_000_000
    platforms: int = 20
    nodes: int = 1000
    cores: int = 8
    ahead: int = 0
    even: bool = False


@dataclass
class Resource:
    """Servers of one kind and the tasks that wait for one."""

    servers: int
    free: int
    busy: float = 0.0
    waiting: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque[tuple[float, Callable[[], None]]])


class Simulation:
    """Runs the events of one campaign."""

    def __init__(self, fleet: Fleet, costs: Costs) -> None:
        self.fleet, self.costs, self.now = fleet, costs, 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        #: Platforms by number, each with the costs of a measured one.
        self.seconds = list(itertools.islice(itertools.cycle(costs.platforms.values()), fleet.platforms))
        self.blocks = -(-fleet.cases // BLOCK)
        self._next = 0
        shares = self._nodes()
        self.resources = {
            "driver": Resource(1, 1),
            "object store": Resource(1, 1),
            "reference and judges": Resource(*[shares[0]] * 2),
        }
        for number, share in enumerate(shares[1:]):
            self.resources[f"platform {number}"] = Resource(share, share)

    def run(self) -> dict[str, Any]:
        """Returns hours, the share of the time that each resource is busy, and the store's size."""
        for _ in range(min(self.blocks, self.fleet.ahead or 4 * self.fleet.nodes)):
            self._begin()
        while self._events:
            self.now, _, done = heapq.heappop(self._events)
            done()
        busy = {name: each.busy / each.servers / self.now for name, each in self.resources.items()}
        rows = self.fleet.cases * (self.fleet.platforms + 1)
        platforms = {name: share for name, share in busy.items() if name.startswith("platform ")}
        slowest = max(platforms, key=platforms.__getitem__)
        shown = {name: busy[name] for name in ("driver", "object store", "reference and judges")}
        shown |= {"slowest platform": busy[slowest], "all platforms": sum(platforms.values()) / len(platforms)}
        segments = self.blocks * self.costs.tables
        return {
            "hours": self.now / 3600, "rows_per_second": rows / self.now, "busy": shown,
            "limit": max(busy, key=busy.__getitem__).replace(slowest, "slowest platform"),
            "segments": segments, "store_gib": rows * self.costs.row_bytes / 2**30,
            "open_hours": segments * self.costs.segment_cpu / 3600,
        }  # fmt: skip

    def _nodes(self) -> list[int]:
        """Divides the nodes: evenly, or by what each platform takes. The reference's nodes draw and judge as well."""
        work = [self.costs.reference + self.costs.draw + self.costs.judge * self.fleet.platforms, *self.seconds]
        weights = [1.0] * len(work) if self.fleet.even else work
        return [max(1, int(self.fleet.nodes * weight / sum(weights))) for weight in weights]

    def _begin(self) -> None:
        if self._next == self.blocks:
            return
        self._next += 1
        costs, cores = self.costs, self.fleet.cores
        tasks = self.fleet.platforms + 3
        left = Counter(platforms=self.fleet.platforms)

        def drawn() -> None:
            self._take("driver", costs.block + tasks * costs.task, chosen)

        def chosen() -> None:
            self._take("reference and judges", BLOCK * costs.reference / cores, ran)

        def ran() -> None:
            for number, seconds in enumerate(self.seconds):
                self._take(f"platform {number}", BLOCK * seconds / cores, arrived)

        def arrived() -> None:
            left["platforms"] -= 1
            if not left["platforms"]:
                outcomes = BLOCK * (self.fleet.platforms + 1) * costs.travel_bytes
                self._take("object store", outcomes / costs.bandwidth, judge)

        def judge() -> None:
            seconds = BLOCK * costs.judge * self.fleet.platforms / cores + costs.tables * costs.put
            self._take("reference and judges", seconds, committed)

        def committed() -> None:
            rows = BLOCK * (self.fleet.platforms + 1) * costs.row_bytes
            self._take("object store", rows / costs.bandwidth, self._begin)

        self._take("reference and judges", BLOCK * costs.draw / cores, drawn)

    def _take(self, name: str, seconds: float, done: Callable[[], None]) -> None:
        """Calls `done` when a server of the resource has worked so long, which begins when one is free."""
        resource = self.resources[name]
        if resource.free:
            self._start(resource, seconds, done)
        else:
            resource.waiting.append((seconds, done))

    def _start(self, resource: Resource, seconds: float, done: Callable[[], None]) -> None:
        resource.free -= 1
        resource.busy += seconds

        def end() -> None:
            resource.free += 1
            if resource.waiting:
                self._start(resource, *resource.waiting.popleft())
            done()

        heapq.heappush(self._events, (self.now + seconds, next(self._order), end))


def measured(path: str, costs: Costs) -> Costs:
    """Reads the costs of a campaign of one machine from its store."""
    store = Store(path, create=False)
    (latest,) = store.rows("SELECT run, reference FROM runs ORDER BY created DESC LIMIT 1")
    run = latest["run"]
    count = {row["platform"]: row["n"] for row in store.rows(
        "SELECT platform, count(*) AS n FROM outcomes WHERE run = ? GROUP BY platform", [run])}  # fmt: skip
    spent = {(row["purpose"], row["platform"]): row["s"] for row in store.rows(
        "SELECT purpose, platform, sum(seconds) AS s FROM expenses WHERE run = ? GROUP BY ALL", [run])}  # fmt: skip
    cases, each = count[latest["reference"]], {name: spent["running", name] / n for name, n in count.items()}
    judging = sum(seconds for (purpose, _), seconds in spent.items() if purpose == "judging")
    tables = [folder for folder in Path(path, "tables").iterdir() if folder.is_dir()]
    nbytes = sum(file.stat().st_size for folder in tables for file in folder.iterdir())
    return replace(
        costs,
        reference=each.pop(latest["reference"]),
        platforms=each,
        draw=spent["drawing variants", ""] / cases,
        judge=judging / sum(n for name, n in count.items() if name in each),
        row_bytes=nbytes / sum(count.values()),
        tables=len(tables),
    )


def _line(what: str, found: dict[str, Any]) -> str:
    busy = ", ".join(f"{name} {share:.0%}" for name, share in found["busy"].items())
    rate = f"{found['rows_per_second']:10,.0f} rows/s"
    return f"{what:<44}{found['hours']:9.1f} h {rate}  limit: {found['limit']:<21} busy: {busy}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="a campaign's directory")
    for name in ("cases", "platforms", "nodes", "cores"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Fleet, name))
    for name in ("task", "travel_bytes", "bandwidth", "block"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, help=f"(default: {getattr(Costs, name):g})")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    fleet = Fleet(asked.cases, asked.platforms, asked.nodes, asked.cores)
    costs = measured(asked.store, Costs()) if asked.store else Costs()
    given = {name: value for name in ("task", "travel_bytes", "bandwidth", "block") if (value := getattr(asked, name))}
    costs = replace(costs, **given)
    lines = {
        f"{fleet.nodes} nodes, shared by what platforms take": fleet,
        "the same number for each": replace(fleet, even=True),
    }
    lines |= {f"{fleet.nodes * times} nodes": replace(fleet, nodes=fleet.nodes * times) for times in (10, 100)}
    results = {what: Simulation(each, costs).run() for what, each in lines.items()}
    if asked.json:
        print(json.dumps({"costs": asdict(costs), "results": results}, indent=1))
        return
    print("costs: " + ", ".join(f"{name} {value}" for name, value in asdict(costs).items()))
    for what, found in results.items():
        print(_line(what, found))
    first = next(iter(results.values()))
    print(
        f"store: {first['store_gib']:,.0f} GiB in {first['segments']:,} segments; "
        f"{first['open_hours']:.1f} processor hours to open it before it is compacted"
    )


if __name__ == "__main__":
    main()
