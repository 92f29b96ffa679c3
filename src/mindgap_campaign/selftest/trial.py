"""Tries all faults of one subject in one process: ground truth, then the verdict of the pipeline."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from mindgap.graph import Graph, MindgapError, materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import Platform, Unsupported
from mindgap.platforms.registry import find
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.channel import Frame
from mindgap.run.local import Caches, run_job
from mindgap.run.outcome import Job, Outcome
from mindgap.run.server import Answer, Channel, Service
from mindgap_campaign.faulty.schema import read_faults
from mindgap_campaign.selftest.fault_cases import FaultCase, benign_for, faults_for
from mindgap_campaign.selftest.ground_truth import Effect, GroundTruth
from mindgap_campaign.selftest.report import CaseRow, Trials
from mindgap_campaign.selftest.subjects import graph_of


class InProcessExecutor:
    """Runs jobs on platforms opened in this process. Only for faults that leave the process alive."""

    def __init__(self, tensors: TensorStore) -> None:
        self._tensors = tensors
        self._open: dict[PlatformName, tuple[Platform, Caches]] = {}

    def __call__(self, job: Job) -> Outcome:
        if job.platform not in self._open:
            backend, options = find(job.platform)
            self._open[job.platform] = (backend.open(options), Caches())
        platform, caches = self._open[job.platform]
        return run_job(platform, job, tensors=self._tensors, caches=caches)

    def close(self, platform: PlatformName) -> None:
        """Drops a platform and its loaded graphs."""
        self._open.pop(platform, None)


def try_subject(name: str, seed: int, limit: int) -> Trials:
    """Tries up to `limit` faults and the benign cases in one subject. Runs in a separate process, on one thread."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="mindgap-selftest-") as folder:
        tensors = TensorStore(Path(folder) / "tensors")
        try:
            graph = graph_of(name, seed, tensors)
        except MindgapError as error:
            return Trials((), str(error))
        return Trials(tuple(_FaultComparison(name, graph, tensors, Path(folder)).rows(seed, limit)))


def trial_service(_: Channel) -> Service:
    """Tries the faults of one subject at a time."""

    def answer(frame: Frame) -> Answer:
        header = frame.header
        trials = try_subject(header["subject"], header["seed"], header["limit"])
        return {"kind": "tried", **asdict(trials)}, ()

    return Service({"try": answer})


class _FaultComparison:
    """Compares faulty platforms on one graph, and holds its ground truth."""

    def __init__(self, name: str, graph: Graph, tensors: TensorStore, directory: Path) -> None:
        self._name, self._directory = name, directory
        self._execute = InProcessExecutor(tensors)
        self._comparison = GraphComparison(RunContext(self._execute, RunSettings(), tensors), name, graph)
        self._ground = GroundTruth(graph, materialise_all(graph, tensors))

    def rows(self, seed: int, limit: int) -> list[CaseRow]:
        graph = self._ground.graph
        faults = faults_for(graph, seed, limit)
        benign = benign_for(graph, self._ground.rounding_operators(), seed)
        cases = [self._case(number, case) for number, case in enumerate([*benign, *faults])]
        return [row for row in cases if row is not None]

    def _case(self, number: int, case: FaultCase) -> CaseRow | None:
        """Tries one case. Returns None if the fault changes nothing."""
        started = time.perf_counter()
        file = self._directory / f"{number}.toml"
        file.write_text(case.to_toml())
        effect = self._effect(file)
        if case.expected == "fault" and effect.at_output == effect.typical == 0:
            return None
        platform = PlatformName("faulty/eager", {"faults": str(file)})
        row = self._comparison.row(platform)
        self._execute.close(platform)
        return replace(case_row(self._name, case, effect, row), seconds=time.perf_counter() - started)

    def _effect(self, file: Path) -> Effect:
        faults, _ = read_faults(str(file))
        try:
            return self._ground.effect(faults)
        except Unsupported:
            return Effect({}, 0.0)


def case_row(graph: str, case: FaultCase, effect: Effect, row: Row) -> CaseRow:
    """Makes the row of one case: verdict and ground truth."""
    culprit = row.culprit
    return CaseRow(
        graph=graph,
        fault=case.kind,
        op=case.op,
        expected=case.expected,
        at_node=effect.hard,
        at_node_typical=effect.typical,
        at_output=effect.at_output,
        faulty_nodes=effect.faulty_nodes,
        verdict=row.verdict,
        status=row.status,
        culprit_node=None if culprit is None else culprit.node,
        culprit_op="" if culprit is None else culprit.op,
        found=row.finding,
        right=culprit is not None and culprit.node in effect.faulty_nodes,
        detail=row.detail or row.message,
    )
