"""Captures the sources of a catalogue on the nodes of a Ray cluster: the driver of `mindgap corpus build --ray`.

Nodes capture, in tasks of a few sources. The driver alone writes the catalogue, in the order of the sources, so that it
equals one that a single worker of this machine builds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from mindgap.graph import TensorStore
from mindgap_campaign.catalogue.answers import Answer, RecordedAnswers
from mindgap_campaign.catalogue.builder import BuildSession
from mindgap_campaign.cluster import RETRIES
from mindgap_campaign.cluster.capture_task import (
    CaptureSetup,
    NodeSoftware,
    capture_once,
    capture_sources,
    check_software,
    files_of,
)
from mindgap_campaign.cluster.connection import ClusterNode, connected, living_nodes, lost_task, unusable_node
from mindgap_campaign.cluster.messages import ClusterProblem, checked, pack, unpack

#: Sources of a task at most: its worker imports PyTorch once for all of them.
_BATCH: Final = 8
#: Tasks for each processor, under way or waiting.
_AHEAD: Final = 2
_POLL_S: Final = 1.0
#: Seconds without a node that has a processor, or without an answer of a node, after which the build ends.
_WAIT_S: Final = 120.0


@contextmanager
def captures_on_ray(address: str) -> Generator[RayCaptures]:
    """Connects to a cluster, and yields what captures sources on its nodes.

    `address`: as `connected` takes it. Raises `ClusterProblem` if no cluster answers, no node has a processor, or one
    has another mindgap or other libraries than this machine.
    """
    with connected(address) as ray:
        place = RayCaptures(ray, address, NodeSoftware.here())
        place.check_nodes()
        yield place


class RayCaptures:
    """The nodes of a Ray cluster, as the place where a build captures. `ray`: the module, connected."""

    def __init__(self, ray: Any, address: str, software: NodeSoftware) -> None:
        self.ray, self._address, self._software = ray, address, software
        self._seen = time.monotonic()

    def check_nodes(self) -> None:
        """Compares the software of each node with this machine's. Raises `ClusterProblem`."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in living_nodes(self.ray) if node.computes]
        if not nodes:
            raise ClusterProblem(f"no node of {self._address} has a CPU for capturing: ray start --num-cpus=N there")
        packed = pack(self._software)
        task = self.ray.remote(num_cpus=0, max_retries=RETRIES)(check_software)
        references = [
            (node, task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(packed))
            for node in nodes
        ]
        for node, reference in references:
            self._check_node(node, reference)

    def _check_node(self, node: ClusterNode, reference: Any) -> None:
        try:
            checked(unpack(self.ray.get(reference, timeout=_WAIT_S)))
        except self.ray.exceptions.GetTimeoutError:
            raise ClusterProblem(f"node {node.address} does not answer within {_WAIT_S:g} s") from None
        except self.ray.exceptions.RayError as error:
            raise unusable_node(node, lost_task(self.ray, error), "it lost the task") from None

    def capture(self, session: BuildSession, sources: Sequence[str]) -> None:
        """Captures the sources, and records them in their order. Raises `ClusterProblem` for a cluster that is lost."""
        running = set[Any]()
        try:
            self._capture(session, sources, running)
        except self.ray.exceptions.RayError as error:
            raise lost_task(self.ray, error) from None
        finally:
            for reference in running:
                self.ray.cancel(reference, force=False)

    def _capture(self, session: BuildSession, sources: Sequence[str], running: set[Any]) -> None:
        setup = CaptureSetup(self._software, session.passes, session.limits)
        task = self._task(capture_sources)
        todo, waiting = deque(sources), deque[tuple[list[str], Any]]()
        known, sent = self.ray.put(pack(session.known)), len(session.known)
        tensors = TensorStore(session.catalogue.tensors)

        def again(source: str, index: int, program: str, name: str) -> Answer:
            step = pack((setup, source, index, program, name, files_of(source)))
            return self._answer(self._task(capture_once).remote(step, pack(session.known)))

        while todo or waiting:
            cpus = self._cpus()
            if len(session.known) > sent + sent // 8:
                known, sent = self.ray.put(pack(session.known)), len(session.known)
            # The last tasks are small, so that all processors end together.
            size = min(_BATCH, max(1, len(todo) // (_AHEAD * max(1, cpus))))
            while todo and len(running) < _AHEAD * cpus:
                batch = [todo.popleft() for _ in range(min(size, len(todo)))]
                reference = task.remote(
                    pack((setup, batch, [file for source in batch for file in files_of(source)])), known
                )
                running.add(reference)
                waiting.append((batch, reference))
            if running:
                running -= {*self.ray.wait(list(running), timeout=_POLL_S)[0]}
            else:
                time.sleep(_POLL_S)
            while waiting and waiting[0][1] not in running:
                batch, reference = waiting.popleft()
                for source, answers in zip(batch, self._answer(reference), strict=True):
                    session.record(RecordedAnswers(answers, tensors, again), source)

    def _task(self, function: Any) -> Any:
        return self.ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(function)

    def _answer(self, reference: Any) -> Any:
        return checked(unpack(self.ray.get(reference)))

    def _cpus(self) -> int:
        """Counts the processors of the nodes that are alive. Raises `ClusterProblem` if there have been none for too
        long."""
        count = sum(int(node.resources.get("CPU", 0)) for node in living_nodes(self.ray))
        if count:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _WAIT_S:
            raise ClusterProblem(
                f"{self._address}: no node has had a CPU for {_WAIT_S:g} s: start one again, and build again: "
                "what was captured is kept"
            )
        return count
