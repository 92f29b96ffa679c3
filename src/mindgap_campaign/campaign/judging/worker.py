"""Judges rows in a worker process: a service of `mindgap.run.server`.

Judging runs operators of unusual graphs many times, in float64. In a separate process it may hang or crash, which
costs one row. Jobs on platforms are sent to the parent.

parent → judge    judge     a graph, the outcomes of the reference and of a platform with the outputs that came with
                            them, the settings, and what both platforms declare about dtypes and decompositions
judge → parent    job       a job to run; answered by `outcome`, by `refused` if it is invalid, or by `stop`
                  row       the answer; or `broken`, with the traceback; or `stopped`, after `stop`
"""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph, MindgapError, TensorStore, decode
from mindgap.graph.cache import Cache
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.report_json import row_json
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.channel import Array, ChannelClosed, Frame
from mindgap.run.identity import bytes_of, digest_of, remember
from mindgap.run.message import job_frame, outcome_frame, read_outcome
from mindgap.run.outcome import Job, Outcome
from mindgap.run.server import Answer, Channel, Service
from mindgap.run.system import own_bytes
from mindgap_campaign.campaign.cases.case import Case

#: Graphs whose shadows and replays are kept, for the next platform that differs on them: a slow platform may be as many
#: cases behind as the drive has rows under way. They are fewer where their values are large.
_KEPT: Final = 256
_KEPT_BYTES: Final = 512 << 20
#: What is kept of a graph, as a multiple of all its values: those of both shadows, their bounds, whole outputs.
_TIMES: Final = 6
#: However large they are, so many are kept, unless the memory of the process does not suffice.
_FEWEST: Final = 12
#: Of the memory that the process may take, what may stay taken between rows.
_HOLD: Final = 0.5


class Stopped(BaseException):
    """Raised when the parent stops the row. Not an `Exception`: no code in between may record it as a failure."""


def judge_service(channel: Channel, tensors: str, memory_bytes: int) -> Service:
    """Judges one row at a time. `tensors`: the directory of stored tensors. `memory_bytes`: what it may take."""
    _import_what_judging_needs()
    return Service({"judge": _RowJudge(channel, TensorStore(tensors), memory_bytes).answer})


def _import_what_judging_needs() -> None:
    """Imports the judge before the first row, so that imports do not count against its limit."""
    import mindgap.judge.trace.judge as _  # noqa: F401
    from mindgap.aten.torch_private.fake_tensors import FakeTensorMode

    # The first one imports the compiler that it is made for.
    FakeTensorMode(allow_non_fake_inputs=True)


class _RowJudge:
    def __init__(self, channel: Channel, tensors: TensorStore, memory: int) -> None:
        self._channel, self._tensors, self._memory = channel, tensors, memory
        self._comparisons: Cache[str, GraphComparison] = Cache(_KEPT, _KEPT_BYTES)
        self._descriptions: dict[str, Mapping[str, Any]] = {}

    def answer(self, frame: Frame) -> Answer:
        """Judges one row."""
        try:
            return {"kind": "row", "row": encode_row(self._row(frame))}, ()
        except Stopped:
            return {"kind": "stopped"}, ()
        except ChannelClosed:
            raise
        except Exception:
            return {"kind": "broken", "traceback": traceback.format_exc()}, ()
        finally:
            if own_bytes("self") > _HOLD * self._memory:
                self._comparisons.clear()

    def _row(self, frame: Frame) -> Row:
        header = frame.header
        digest: str = header["graph"]
        self._descriptions.update(header["described"])
        reference, outcome = _outcomes(frame)
        comparison = self._comparisons.get(digest)
        if comparison is None:
            graph = decode(frame.arrays[0].tobytes())
            remember(graph, digest)
            settings = RunSettings(**header["settings"])
            settings = dataclasses.replace(settings, reference=recorded(settings.reference))
            context = RunContext(self._execute, settings, self._tensors, self._descriptions.__getitem__)
            comparison = GraphComparison(context, header["name"], graph, reference)
            self._comparisons.put(digest, comparison, _bytes_kept(graph))
        # Another case may have the same graph, and then what is known of it.
        return dataclasses.replace(comparison.decide(outcome), model=header["name"])

    def _execute(self, job: Job) -> Outcome:
        """Has the parent run a job. Raises `Stopped`, and `MindgapError` for an invalid job."""
        digest = digest_of(job.graph)
        header, arrays = job_frame(job, digest, bytes_of(job.graph))
        self._channel.send({**header, "platform": job.platform, "deadline_s": job.deadline_s}, arrays)
        answer = self._channel.receive()
        kind = answer.header["kind"]
        if kind == "stop":
            raise Stopped
        if kind == "refused":
            raise MindgapError(answer.header["message"])
        return read_outcome(answer, job.platform, digest, answer.header["fingerprint"])


def _bytes_kept(graph: Graph) -> int:
    """Estimates the bytes that a judge keeps for a graph, capped so that `_FEWEST` graphs fit."""
    held = _TIMES * sum(spec.nbytes for spec in graph.values if spec is not None)
    return min(held, _KEPT_BYTES // _FEWEST)


def judge_frame(
    case: Case, outcome: Outcome, reference: Outcome, settings: RunSettings, described: Mapping[PlatformName, Any]
) -> tuple[dict[str, Any], list[Array]]:
    """Encodes a request to judge as header and arrays: the graph's bytes, then the reference's outputs and the
    platform's, where they came with the outcomes. `described`: what is known of both platforms."""
    header: dict[str, Any] = {
        "kind": "judge",
        "name": case.name,
        "graph": case.digest,
        "settings": dataclasses.asdict(settings),
        "described": described,
    }
    arrays = [np.frombuffer(case.data, np.uint8)]
    for side, each in (("reference", reference), ("outcome", outcome)):
        about, outputs = outcome_frame(each, 0)
        header[side] = {**about, "platform": each.platform, "fingerprint": each.fingerprint, "arrays": len(outputs)}
        arrays += outputs
    return header, arrays


def encode_row(row: Row) -> str:
    """Encodes a row as JSON, with `NaN` and `Infinity` as Python writes them, and NumPy scalars as numbers."""
    return json.dumps(row_json(row), default=lambda value: value.item())


def _outcomes(frame: Frame) -> tuple[Outcome, Outcome]:
    """Decodes the reference's outcome and the platform's of a request to judge."""
    rest = frame.arrays[1:]
    count: int = frame.header["reference"]["arrays"]
    reference, outcome = (
        read_outcome(Frame(about, arrays), recorded(about["platform"]), frame.header["graph"], about["fingerprint"])
        for about, arrays in ((frame.header["reference"], rest[:count]), (frame.header["outcome"], rest[count:]))
    )
    return reference, outcome
