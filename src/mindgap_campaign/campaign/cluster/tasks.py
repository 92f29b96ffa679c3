"""Places the tasks of a campaign: which resources they hold, how often Ray repeats them, what their errors mean.

Ray repeats a task whose node or process was lost. What a platform does wrong is in the outcomes, and what a user did
wrong is a `Failure`: Ray repeats neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mindgap.graph import decode
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Frame
from mindgap.run.cpu import CpuAccount
from mindgap.run.identity import bytes_of, digest_of, remember
from mindgap.run.message import graph_bytes, job_frame, read_job
from mindgap.run.outcome import Job, Outcome
from mindgap_campaign.campaign.cluster.node_call import NoActor, on_node
from mindgap_campaign.cluster import RETRIES
from mindgap_campaign.cluster.connection import BLOCK_SHARE, JOB_SHARE, lost_task, ray_module, resource_of
from mindgap_campaign.cluster.messages import ClusterProblem, checked, pack, unpack


@lru_cache(maxsize=16)
def remote_task(results: int = 1) -> Any:
    """Returns `on_node` as a Ray task with so many results. An actor that died is a lost process: it is repeated."""
    ray = ray_module()
    options = ray.remote(num_returns=results, max_retries=RETRIES, retry_exceptions=[ray.exceptions.RayActorError])
    return options(on_node)


def block_task(results: int, platform: PlatformName) -> Any:
    """Returns the task that runs a platform's part of a block, where the platform is."""
    return remote_task(results).options(num_cpus=0, resources={resource_of(platform): BLOCK_SHARE})


def cpu_task() -> Any:
    """Returns the task for what any node with a processor does. Spread, since a task that waits holds no processor."""
    return remote_task().options(num_cpus=1, scheduling_strategy="SPREAD")


def task_error(ray: Any, error: BaseException) -> BaseException:
    """Returns the error to raise for one of `ray.get`: one line for what was lost, else the cause."""
    if isinstance(getattr(error, "cause", None), NoActor):
        return ClusterProblem(str(getattr(error, "cause", "")))
    return lost_task(ray, error)


class ClusterPool:
    """Runs single jobs as tasks, where their platforms are: those of judges, and of a support survey. Thread-safe."""

    def __init__(self, session: str, descriptions: Mapping[PlatformName, Mapping[str, Any]]) -> None:
        self._session, self._descriptions = session, descriptions
        #: Processor time of these jobs.
        self.cpu = CpuAccount()

    def run(self, job: Job) -> Outcome:
        """Runs one job and waits for it. Raises `ClusterProblem` if it is lost, and `MindgapError` for bad input."""
        ray = ray_module()
        header, arrays = job_frame(job, digest_of(job.graph), bytes_of(job.graph))
        more = {"platform": job.platform, "deadline_s": job.deadline_s, "purpose": job.purpose}
        task = remote_task().options(num_cpus=0, resources={resource_of(job.platform): JOB_SHARE})
        try:
            answer: bytes = ray.get(task.remote(self._session, "job", pack(({**header, **more}, arrays))))
        except ray.exceptions.RayError as error:
            raise task_error(ray, error) from None
        outcome: Outcome = checked(unpack(answer))
        self.cpu.add(job.purpose, job.platform, outcome.timings.get("cpu", 0.0))
        return outcome

    def run_together(self, jobs: Sequence[Job], deadline_s: float) -> list[Outcome]:
        """Runs jobs one after the other: each has a deadline."""
        return [self.run(job) for job in jobs]

    def describe(self, platform: PlatformName) -> Mapping[str, Any]:
        """Returns what the platform reported of itself, equally on all nodes that have it."""
        return self._descriptions[platform]


def sent_job(header: Mapping[str, Any], arrays: Sequence[Any]) -> Job:
    """Decodes a job that `ClusterPool` sent."""
    frame = Frame(dict(header), tuple(np.asarray(each) for each in arrays))
    data = graph_bytes(frame)
    assert data is not None, "a job is sent with its graph"
    graph = decode(data)
    remember(graph, header["graph"], data)
    job = read_job(frame, header["platform"], graph)
    return dataclasses.replace(job, deadline_s=header["deadline_s"], purpose=header["purpose"])
