"""Times the nodes of a program inside its run, by the profilers of the runtimes.

The program goes the way of the platform's users, in a separate process. A node's time there holds what the runtime
gained by fusing it with others; a call of the same operator by itself (`operator_times`) does not.

Messages:

parent → worker   profile   a program's source, a platform of `PROFILED`, how many runs
worker → parent   profiled  kinds of nodes with their number and seconds in a run
                  failed    as of `source_worker.worker`
"""

from __future__ import annotations

import importlib
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.server import Answer, Channel, Service
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap.source_worker.worker import answering

if TYPE_CHECKING:
    from mindgap.own_path.program_run import FlatProgram

_SERVICE: Final = "mindgap_surveys.support.node_times:node_times_service"
_START_S: Final = 120.0
#: Microseconds in a second.
_MICRO: Final = 1e-6


@dataclass(frozen=True, slots=True)
class NodeTime:
    """All nodes of one kind in a program on a platform.

    kind: as the runtime calls the operator, fused kinds among them. nodes: how many ran. seconds: of all of them, in
    one run.
    """

    kind: str
    nodes: int
    seconds: float


def node_times(
    source: str, platforms: Sequence[str], repeat: int, deadline_s: float
) -> dict[str, list[NodeTime] | str]:
    """Returns the nodes of each platform of `PROFILED`, those that take longest first, or why there are none.

    Seconds are medians over `repeat` runs after a first one. Other platforms are left out.
    """
    times: dict[str, list[NodeTime] | str] = {}
    client = WorkerClient(WorkerStart(_SERVICE), {}, RequestLimits(_START_S))
    try:
        for platform in platforms:
            if platform in PROFILED:
                times[platform] = _measured_times(client, source, platform, repeat, deadline_s)
    finally:
        client.close()
    return times


def _measured_times(
    client: WorkerClient, source: str, platform: str, repeat: int, deadline_s: float
) -> list[NodeTime] | str:
    header = {"kind": "profile", "source": source, "platform": platform, "repeat": repeat}
    try:
        answer = client.ask(header, (), RequestLimits(deadline_s), "profiling").header
    except (WorkerFailed, MindgapError) as error:
        return " ".join(str(error).split())
    if answer["kind"] != "profiled":
        return " ".join(str(answer.get("reason") or answer.get("message") or answer.get("broken")).split())
    return [NodeTime(*each) for each in answer["nodes"]]


def node_times_service(_: Channel) -> Service:
    importlib.import_module("mindgap.sources")
    warnings.simplefilter("ignore")
    return Service({"profile": answering(_profile)})


def _profile(header: Mapping[str, Any]) -> Answer:
    import torch

    from mindgap.own_path.program_run import FlatProgram
    from mindgap.own_path.worker import opened_program

    built = opened_program(header["source"])
    program = FlatProgram(built.program, built.args, built.kwargs)
    with torch.no_grad():
        runs = PROFILED[header["platform"]](program, header["repeat"])
    return {"kind": "profiled", "nodes": [[each.kind, each.nodes, each.seconds] for each in nodes_of(runs)]}, ()


#: The nodes of one run: kind, how many, and their seconds.
Run = Sequence[tuple[str, int, float]]


def nodes_of(runs: Sequence[Run]) -> list[NodeTime]:
    """Returns the nodes of each kind with the median of their seconds over runs, those that take longest first."""
    totals = list(map(_times_by_kind, runs))
    times: list[NodeTime] = []
    for kind in dict.fromkeys(kind for run in totals for kind in run):
        ran = [run.get(kind, (0, 0.0)) for run in totals]
        times.append(NodeTime(kind, max(count for count, _ in ran), median(seconds for _, seconds in ran)))
    return sorted(times, key=lambda each: (-each.seconds, each.kind))


def _times_by_kind(run: Run) -> dict[str, tuple[int, float]]:
    totals: dict[str, tuple[int, float]] = {}
    for kind, count, seconds in run:
        before = totals.get(kind, (0, 0.0))
        totals[kind] = before[0] + count, before[1] + seconds
    return totals


def _eager_runs(program: FlatProgram, repeat: int) -> list[Run]:
    """By torch.profiler: the time of each operator without that of the operators that it calls."""
    import torch

    runs: list[Run] = []
    for _ in range(repeat + 1):
        given = program.fresh()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            program(*given)
        averages: Any = profiler.key_averages()
        runs.append([(e.key, e.count, e.self_cpu_time_total * _MICRO) for e in averages if "::" in e.key])
    return runs[1:]


def _onnxruntime_runs(program: FlatProgram, repeat: int) -> list[Run]:
    """By the profile of a session of ONNX Runtime: its kernels, after its optimisations."""
    import torch

    onnxruntime: Any = importlib.import_module("onnxruntime")
    onnx: Any = torch.onnx
    exported = onnx.export(program, program.fresh(), dynamo=True, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/profile"
        session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString(), options)
        names = [each.name for each in session.get_inputs()]
        feeds = {name: tensor.numpy() for name, tensor in zip(names, program.fresh(), strict=True)}
        for _ in range(repeat + 1):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    durations: dict[tuple[str, str], list[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            durations.setdefault((event["args"]["op_name"], event["name"]), []).append(event["dur"] * _MICRO)
    # A node of a branch or a loop runs in some runs only, or several times: its time is that of all, spread evenly.
    return [[(kind, 1, median(each[1:] or each) * len(each) / (repeat + 1)) for (kind, _), each in durations.items()]]


def _openvino_runs(program: FlatProgram, repeat: int) -> list[Run]:
    """By `get_profiling_info` of OpenVINO: the nodes of the compiled model that ran."""
    import torch

    from mindgap.platforms.openvino.backend import properties

    openvino: Any = importlib.import_module("openvino")
    model = openvino.convert_model(torch.export.export(program, program.fresh()))
    request = openvino.compile_model(model, "CPU", {**properties({}), "PERF_COUNT": True}).create_infer_request()
    given = [tensor.numpy() for tensor in program.fresh()]
    runs: list[Run] = []
    for _ in range(repeat + 1):
        request.infer(given)
        ran = [each for each in request.get_profiling_info() if each.real_time.total_seconds() > 0]
        runs.append([(each.node_type, 1, each.real_time.total_seconds()) for each in ran])
    return runs[1:]


#: Platforms whose runtimes have a profiler that separates nodes.
PROFILED: Final[Mapping[str, Callable[[FlatProgram, int], list[Run]]]] = {
    "cpu/eager": _eager_runs, "onnxruntime/cpu": _onnxruntime_runs, "openvino/cpu": _openvino_runs,
}  # fmt: skip
