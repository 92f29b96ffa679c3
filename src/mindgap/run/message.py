"""Encodes jobs and outcomes as frames, and decodes them.

parent → worker   job        the graph by digest, the arrays that replace inputs; then, if they are requested or
                             known to be missing, the graph's bytes
                  prepare    graphs that jobs will name, with the arrays that replace inputs, to be loaded together
                  tensor     to a host: the file of one tensor, by its key
worker → parent   ready      the platform's description and fingerprint; first frame of a worker that lives
                  failed     why the platform could not be opened; last frame of one that does not
                  stage      the next stage of a graph that the worker had not loaded
                  need       the worker lacks the graph, or, on a host, `tensors`: the job is to be sent again with it,
                             or after them
                  clock      on a host: `start`, the request is there; `stop`, the answer is being sent, with `cpu`,
                             the worker's processor seconds so far
                  unable     a host cannot keep a tensor: it is no fact of the platform
                  refused    bad input: the job could not be begun
                  outcome
                  prepared   how many of the graphs it has an answer for now
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np

from mindgap.graph import DTYPES, Graph
from mindgap.graph.compare.digest import Digested, Sketch
from mindgap.graph.compare.reason import Reason
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Array, Frame
from mindgap.run.outcome import Job, Outcome, Status

#: The exit status of a worker that saw itself past its memory limit.
OOM_EXIT: Final = 86

Fault = Literal["crash", "timeout", "oom"]


class WorkerFailed(Exception):
    """The worker ended, or was ended. `fault` and the message give the reason; `tail` is its last output.

    `outside`: it was killed by a signal that a program rarely raises itself (SIGKILL, SIGTERM). `lost`: it is not known
    how the worker ended, since the connection to its host was lost or cannot be had. `stage`: what it was doing."""

    def __init__(
        self, fault: Fault, message: str, tail: str = "", *, outside: bool = False, lost: bool = False, stage: str = ""
    ) -> None:
        super().__init__(message)
        self.fault: Fault = fault
        self.message = message
        self.tail = tail
        self.outside = outside
        self.lost = lost
        self.stage = stage


def job_frame(job: Job, digest: str, graph: bytes | None) -> tuple[dict[str, Any], list[Array]]:
    """Encodes a job as header and arrays: replaced inputs, then the graph's bytes."""
    header: dict[str, Any] = {
        "kind": "job",
        "graph": digest,
        "want": job.want,
        "repeat": job.repeat,
        "inputs": list(job.inputs),
    }
    if job.values is not None:
        header["values"] = list(job.values)
    if not job.confirmed:
        header["confirmed"] = False
    if job.attach_up_to:
        header["attach_up_to"] = job.attach_up_to
    arrays = list(job.inputs.values())
    if graph is not None:
        header["bytes"] = True
        arrays.append(np.frombuffer(graph, np.uint8))
    return header, arrays


def prepare_frame(
    digests: Sequence[str], data: Sequence[bytes], inputs: Sequence[Mapping[int, Array]]
) -> tuple[dict[str, Any], list[Array]]:
    """Encodes graphs to be loaded together as header and arrays: of each its digest, bytes and replaced inputs."""
    arrays = [np.frombuffer(each, np.uint8) for each in data]
    header = {"kind": "prepare", "graphs": list(digests), "inputs": [list(each) for each in inputs]}
    return header, arrays + [array for each in inputs for array in each.values()]


def sent_graphs(frame: Frame) -> list[tuple[str, bytes, dict[int, Array]]]:
    """Decodes the graphs of a `prepare` frame: digest, bytes and replaced inputs."""
    digests: Sequence[str] = frame.header["graphs"]
    numbers: Sequence[Sequence[int]] = frame.header["inputs"]
    rest = iter(frame.arrays[len(digests) :])
    return [
        (digest, array.tobytes(), {number: next(rest) for number in each})
        for digest, array, each in zip(digests, frame.arrays, numbers, strict=False)
    ]


def graph_bytes(frame: Frame) -> bytes | None:
    """Returns the graph's bytes if the job frame has them."""
    if not frame.header.get("bytes"):
        return None
    return frame.arrays[len(frame.header["inputs"])].tobytes()


def read_job(frame: Frame, platform: PlatformName, graph: Graph) -> Job:
    """Decodes the job of a frame, for a graph that the worker has."""
    header = frame.header
    numbers: Sequence[int] = header["inputs"]
    inputs = dict(zip(numbers, frame.arrays[: len(numbers)], strict=True))
    wanted: Sequence[int] | None = header.get("values")
    values = None if wanted is None else tuple(wanted)
    return Job(
        platform, graph, want=header["want"], repeat=header["repeat"], inputs=inputs, values=values,
        confirmed=header.get("confirmed", True), attach_up_to=header.get("attach_up_to", 0),
    )  # fmt: skip


def outcome_frame(outcome: Outcome, rss: int) -> tuple[dict[str, Any], list[Array]]:
    """Encodes an outcome as header and arrays. `rss`: the worker's resident bytes after the job.

    The first run's outputs travel once: the first repetition is `arrays`.
    """
    header: dict[str, Any] = {
        "kind": "outcome",
        "rss": rss,
        "status": outcome.status,
        "outputs": [_digested_row(d) for d in outcome.outputs],
        "timings": dict(outcome.timings),
    }
    if outcome.message or outcome.op is not None:
        header.update(message=outcome.message, signature=outcome.signature, op=outcome.op)
    if outcome.facts:
        header["facts"] = dict(outcome.facts)
    if outcome.reason is not None:
        header["reason"] = {"kind": outcome.reason.kind, "stage": outcome.reason.stage}
    for name in _PLAIN:
        if getattr(outcome, name) is not None:
            header[name] = getattr(outcome, name)
    arrays: list[Array] = []
    if outcome.arrays is not None:
        header["whole"] = len(outcome.arrays)
        arrays.extend(outcome.arrays)
    if outcome.repeats:
        header["repeats"] = len(outcome.repeats)
        arrays.extend(a for run in outcome.repeats[1:] for a in run)
    if outcome.values is not None:
        header["values"] = [v is not None for v in outcome.values]
        arrays.extend(v for v in outcome.values if v is not None)
    return header, arrays


def read_outcome(frame: Frame, platform: PlatformName, digest: str, fingerprint: str) -> Outcome:
    """Decodes an outcome. Raises KeyError, TypeError, ValueError, AttributeError or RuntimeError for a frame that is
    none."""
    header = frame.header
    rest = iter(frame.arrays)
    whole: int | None = header.get("whole")
    arrays = None if whole is None else tuple(next(rest) for _ in range(whole))
    repeats: list[tuple[Array, ...]] = []
    if count := header.get("repeats", 0):
        first = arrays or ()
        repeats = [first] + [tuple(next(rest) for _ in first) for _ in range(count - 1)]
    _check_types(header)
    present: Sequence[bool] | None = header.get("values")
    values = None if present is None else tuple(next(rest) if there else None for there in present)
    return Outcome(
        platform,
        digest,
        header["status"],
        outputs=tuple(_read_digested(row) for row in header["outputs"]),
        arrays=arrays,
        repeats=tuple(repeats),
        values=values,
        value_digests=_tuple_or_none(header.get("value_digests")),
        observed=_tuple_or_none(header.get("observed")),
        counts=header.get("counts"),
        message=header.get("message", ""),
        signature=header.get("signature", ""),
        op=header.get("op"),
        timings=header["timings"],
        fingerprint=fingerprint,
        facts=header.get("facts", {}),
        reason=Reason(**header["reason"]) if header.get("reason") else None,
    )


def _check_types(header: Mapping[str, Any]) -> None:
    """Raises ValueError or AttributeError for a field of another type than an outcome's: another machine sent it."""
    texts = (header.get("message", ""), header.get("signature", ""), header.get("op") or "")
    none = dict[str, Any]()
    tables: tuple[Any, ...] = (header["timings"], header.get("counts") or none, header.get("facts", none))
    numbers = [number for table in tables[:2] for number in table.values()]
    if not (
        header["status"] in get_args(Status)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(number, (int, float)) for number in numbers)
    ):
        raise ValueError("a field of another type")


def _tuple_or_none(found: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if found is None else tuple(found)


#: Fields of an outcome that travel as they are, where there are any.
_PLAIN: Final = ("value_digests", "observed", "counts")
_SKETCH_FIELDS: Final = tuple(Sketch.__dataclass_fields__)


def _digested_row(found: Digested) -> list[Any]:
    sketch = found.sketch
    return [found.dtype, found.shape, found.digest, [getattr(sketch, name) for name in _SKETCH_FIELDS]]


def _read_digested(row: Sequence[Any]) -> Digested:
    dtype, shape, digest, fields = row
    if dtype not in DTYPES or not isinstance(digest, str) or not all(isinstance(size, int) for size in shape):
        raise ValueError(f"a digest of {dtype}{shape}"[:200])
    values: dict[str, Any] = dict(zip(_SKETCH_FIELDS, fields, strict=True))
    values["sample"] = tuple(values["sample"])
    return Digested(dtype, tuple(shape), digest, Sketch(**values))
