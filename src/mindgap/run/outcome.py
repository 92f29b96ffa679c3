"""Jobs and outcomes: the request to run a graph on a platform, and its result."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mindgap.graph import Array, Graph, MindgapError, numpy_dtype
from mindgap.graph.compare.digest import Digested
from mindgap.graph.compare.reason import Reason
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ValueDigest

#: `not_run`: of a row for which no time or memory was left. No outcome has it.
Status = Literal[
    "ok", "unsupported", "compile_error", "runtime_error", "crash", "timeout", "oom", "nondeterministic", "not_run"
]
Want = Literal["digests", "outputs", "trace", "value_digests", "counts"]
#: What a worker process spends processor time on: importing and opening a platform (or a judge), answering which
#: operators it runs, running jobs for rows, judging (a judge's own time, and jobs that judges ask for).
Purpose = Literal["starting", "asking", "running", "judging"]


@dataclass(frozen=True)
class Job:
    """A request to run one graph on one platform.

    `inputs` replaces materialised inputs by number. `want`: `outputs` also brings whole outputs (of
    every repetition when they differ), `trace` these and nodes' values (`values`: which, by number; None for all),
    `value_digests` the digest of every node's values, `counts` how often each result occurred among the repetitions.
    `purpose`: the account of its processor time; it changes no result. `until`: a moment of `time.monotonic` at which
    it must be over, for any `deadline_s`; past it, the outcome is `timeout` and nothing runs. `confirmed`:
    where it ends a worker that had run other jobs, it runs once more on a fresh one, whose outcome counts.
    `attach_up_to`: with want="digests", whole outputs come along all the same where they take at most so many bytes.
    """

    platform: PlatformName
    graph: Graph
    want: Want = "digests"
    repeat: int = 2
    deadline_s: float = 120.0
    inputs: Mapping[int, Array] = field(default_factory=dict[int, Array])
    purpose: Purpose = "running"
    values: tuple[int, ...] | None = None
    until: float | None = None
    confirmed: bool = True
    attach_up_to: int = 0

    def seconds_left(self) -> float:
        """Returns the seconds that the job may take from now: `deadline_s`, or fewer up to `until`."""
        return self.deadline_s if self.until is None else min(self.deadline_s, self.until - time.monotonic())


def check_job(job: Job) -> None:
    """Raises `MindgapError` for an invalid job: arrays that do not fit their inputs, or no repetition."""
    if job.repeat < 1 or not 0 < job.deadline_s < math.inf:
        raise MindgapError(
            f"a job runs at least once and has time for it, not repeat={job.repeat}, deadline_s={job.deadline_s:g}"
        )
    for number, array in job.inputs.items():
        if not 0 <= number < len(job.graph.inputs):
            raise MindgapError(f"a job replaces input {number} of a graph with {len(job.graph.inputs)} inputs")
        spec = job.graph.inputs[number].spec
        if array.shape != spec.shape or array.dtype != numpy_dtype(spec.dtype):
            given = f"{array.dtype}[{','.join(map(str, array.shape))}]"
            raise MindgapError(f"a job replaces input {number}, which is {spec}, by {given}")


@dataclass(frozen=True)
class Outcome:
    """The result of a job. `outputs`: digest and sketch of each output (first run). `arrays`: outputs if wanted, or
    small enough to be attached.

    `values`: with want="trace", the value of every node output slot, None for those not wanted. With
    want="value_digests", `value_digests` has an entry for every such slot, and `observed` the digests of the outputs of
    the run in which they were taken, None where that run does not give them. `counts`: the number of repetitions by
    result, which is the digests of all outputs joined by spaces. None where the executable does not know, or none was
    requested. `message` is the platform's own; `signature` is that message with addresses, numbers and paths taken out,
    so that alike failures are equal.
    `timings`: seconds by stage (`load`, `run`, `second_run`, `median_run` of several later ones, `total`). `facts`:
    what the translation changed in a graph that ran, as the executable reports it (JSON). `reason`: of a refusal that
    shows nothing of the delegate or device, and of a process that ended.
    """

    platform: PlatformName
    graph: str
    status: Status
    outputs: tuple[Digested, ...] = ()
    arrays: tuple[Array, ...] | None = None
    repeats: tuple[tuple[Array, ...], ...] = ()
    values: tuple[Array | None, ...] | None = None
    value_digests: tuple[ValueDigest, ...] | None = None
    observed: tuple[str, ...] | None = None
    counts: Mapping[str, int] | None = None
    message: str = ""
    signature: str = ""
    op: str | None = None
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    fingerprint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reason: Reason | None = None

    @property
    def ran(self) -> bool:
        """Whether the graph ran and gave outputs."""
        return self.status in ("ok", "nondeterministic")


@dataclass(frozen=True)
class Prepared:
    """The result of loading several graphs at once. `held`: how many of them are loaded or refused now.

    Any status but `ok`: the worker ended or could not be started, and holds no graph.
    """

    status: Status
    held: int = 0
    message: str = ""
