"""Samples regions from all graphs of a catalogue in worker processes. A crash costs one graph."""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any, Final

import numpy as np

from mindgap.graph import MindgapError, TensorStore, decode, encode
from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.server import Answer, Channel, Service
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_campaign.catalogue import Catalogue
from mindgap_campaign.catalogue.integrity import GraphChecker
from mindgap_campaign.synth.regions.pool import RegionPool, join_regions, to_bytes
from mindgap_campaign.synth.regions.sampler import SamplerOptions, sample_regions

_START: Final = RequestLimits(120.0, 4 << 30)
#: For one base: a step that takes longer has met an operator that does not come back.
_BASE: Final = RequestLimits(300.0, 4 << 30, 60.0)

#: Reasons that a line names.
_NAMED: Final = 4

OnTick = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PoolYield:
    """Counts the graphs that a pool was made of, and those that gave no region, by reason."""

    bases: int
    barren: Mapping[str, int]

    def to_json(self) -> str:
        """Writes the counts as JSON, the most common reason first."""
        return json.dumps([self.bases, sorted(self.barren.items(), key=lambda each: (-each[1], each[0]))])

    @staticmethod
    def from_json(text: str) -> PoolYield:
        """The inverse of `to_json`."""
        bases, barren = json.loads(text)
        return PoolYield(bases, dict(barren))

    def line(self) -> str:
        """Formats the counts in words, with the most common reasons."""
        lost = sum(self.barren.values())
        if not lost:
            return f"{self.bases:,} graphs, each of which gave some"
        named = sorted(self.barren.items(), key=lambda each: (-each[1], each[0]))[:_NAMED]
        rest = lost - sum(count for _, count in named)
        reasons = [f"{count:,} {reason}" for reason, count in named] + ([f"{rest:,} for other reasons"] if rest else [])
        return f"{self.bases:,} graphs, of which {lost:,} GAVE NONE: {'; '.join(reasons)}"


@dataclass
class SamplingReport:
    """Counts proposed and kept regions. `reasons`: (kind, reason) -> count. `cpu_seconds`: of all workers.

    `barren`: why a base gave no region -> number of bases.
    """

    proposed: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    barren: Counter[str] = field(default_factory=Counter[str])
    cpu_seconds: float = 0.0

    def count(self, kind: str, reason: str) -> None:
        """Counts one proposal. `reason`: empty if it became a region."""
        for each in kind.split("+"):
            self.proposed[each] += 1
            if reason:
                self.reasons[each, reason] += 1
            else:
                self.kept[each] += 1


def bases_of(catalogue: Catalogue, most_nodes: int = 20_000) -> list[str]:
    """Returns the sorted digests of the catalogue's graphs. Raises `MindgapError` if it has none."""
    sql = "SELECT DISTINCT graph FROM captures WHERE status = 'captured' AND nodes BETWEEN 1 AND ? ORDER BY graph"
    graphs = [row["graph"] for row in catalogue.store.rows(sql, [most_nodes])]
    if not graphs:
        raise MindgapError(f"{catalogue.path} has no captured graph: mindgap corpus build {catalogue.path} makes some")
    return graphs


def sample_catalogue(
    catalogue: Catalogue, bases: Sequence[str], seed: int, options: SamplerOptions, *, jobs: int | None = None,
    on_tick: OnTick | None = None,
) -> tuple[RegionPool, SamplingReport]:  # fmt: skip
    """Samples a pool of regions from graphs of a catalogue. The result depends on the seed, not on `jobs`.

    Raises `MindgapError` if no graph gave a region.
    """
    session = _Sampling(catalogue, seed, options, bases, on_tick or (lambda done, total: None))
    pool = join_regions(session.run(jobs or os.cpu_count() or 1))
    if not len(pool):
        (reason, _), *_ = session.tried.reasons.most_common(1) or [(("", "nothing was proposed"), 0)]
        raise MindgapError(f"none of {len(bases)} graphs of {catalogue.path} gave a region, mostly: {reason[1]}")
    return pool, session.tried


class _Sampling:
    def __init__(
        self, catalogue: Catalogue, seed: int, options: SamplerOptions, bases: Sequence[str], on_tick: OnTick
    ) -> None:
        self._catalogue, self._seed, self._options = catalogue, seed, options
        self._bases, self._on_tick = bases, on_tick
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._found: list[bytes] = [b""] * len(bases)
        self._lock = threading.Lock()
        self._done = 0
        self._error: BaseException | None = None
        self.tried = SamplingReport()

    def run(self, jobs: int) -> list[bytes]:
        """Returns the regions of each base as bytes, in the order of the bases; bases without regions are omitted."""
        for number in range(len(self._bases)):
            self._left.put(number)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(jobs, len(self._bases)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return [part for part in self._found if part]

    def _work(self) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        start = WorkerStart("mindgap_campaign.campaign.cases.region_sampling:region_service", {**os.environ, **threads})
        worker = WorkerClient(start, {"tensors": str(self._catalogue.tensors)}, _START)
        checker = GraphChecker(self._catalogue)
        try:
            while self._error is None:
                try:
                    number = self._left.get_nowait()
                except queue.Empty:
                    return
                self._one(worker, checker, number)
        except BaseException as error:
            self._error = error
        finally:
            worker.close()

    def _one(self, worker: WorkerClient, checker: GraphChecker, number: int) -> None:
        base = self._bases[number]
        # A graph whose tensors are missing would give regions of other numbers than it was captured with.
        fault = checker.fault(base)
        lost: list[str] = [f"damaged: {_shortened(fault)}"] if fault else []
        frame = None if fault else self._sampled(worker, base, lost)
        header: Mapping[str, Any] = {"kind": "lost"} if frame is None else frame.header
        with self._lock:
            for reason in lost:
                self.tried.count("lost", reason)
            note = self._note(header, lost)
            if note:
                self.tried.barren[note] += 1
            elif frame is not None:
                self._found[number] = frame.arrays[0].tobytes()
            self._done += 1
            self._on_tick(self._done, len(self._bases))

    def _sampled(self, worker: WorkerClient, base: str, lost: list[str]) -> Frame | None:
        """Samples one base; again without mutations if the process ended, and None if it ended again."""
        request = {"kind": "sample_regions", "base": base, "seed": f"{self._seed}:{base}"}
        data = np.frombuffer(encode(self._catalogue.store.get_graph(base), labels=False), np.uint8)
        for mutated in (self._options.mutated, 0):
            try:
                return worker.ask({**request, "wanted": asdict(replace(self._options, mutated=mutated))}, [data], _BASE)
            except WorkerFailed as failed:
                lost.append(f"the process ended: {failed.message}")
        return None

    def _note(self, header: Mapping[str, Any], lost: Sequence[str]) -> str:
        """Counts the attempts on one base. Returns why it gave no region; empty if it gave some."""
        if header["kind"] == "lost":
            return lost[-1]
        self.tried.cpu_seconds += header["cpu_seconds"]
        if header["kind"] == "refused":
            self.tried.count("found", header["message"])
            return str(header["message"])
        for kind, reason in header["tried"]:
            self.tried.count(kind, reason)
        if any(not reason for _, reason in header["tried"]):
            return ""
        ((reason, _),) = Counter(reason for _, reason in header["tried"]).most_common(1) or [
            ("nothing was proposed", 0)
        ]
        return reason


def _shortened(fault: str) -> str:
    """Removes the names of files and tensors, so that equal reasons count together."""
    return re.sub(r"input \d+", "input N", re.sub(r"[0-9a-f]{64}", "…", fault))


def region_service(_: Channel, tensors: str) -> Service:
    """Samples regions of one base at a time. Mutated operators run for the first time here, and some of them end the
    process. `tensors`: where the bases' stored tensors are."""

    def answer(frame: Frame) -> Answer:
        request = frame.header
        graph = decode(frame.arrays[0].tobytes())
        options = SamplerOptions(**request["wanted"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = list(
                sample_regions(request["base"], graph, Random(request["seed"]), options, tensors=TensorStore(tensors))
            )
        data = to_bytes([one.region for one in tried if one.region is not None])
        header = {"kind": "regions", "tried": [[one.kind, one.reason] for one in tried]}
        return header, [np.frombuffer(data, np.uint8)] if data else []

    return Service({"sample_regions": answer})
