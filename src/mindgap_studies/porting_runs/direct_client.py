"""Client of the process that measures functions of PyTorch on one target by direct calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.own_path.runners import program_runner_of, runner_json
from mindgap.platforms.environments import Environment
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment, declared
from mindgap.platforms.protocol import Scripted
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.registry import find
from mindgap.platforms.script_runner import ScriptRunner, call_apart
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_studies.porting_runs.call_times import SIDES

if TYPE_CHECKING:
    from typing import Self

_SERVICE: Final = "mindgap_studies.porting_runs.direct_calls:direct_calls_service"
#: Seconds in which a worker must have imported PyTorch and the runtime.
_START_S: Final = 300.0
#: Seconds beside those of a sample: the program that goes to the target first.
_WARM_UP_S: Final = 120.0
#: Words of platforms that compute on the processor; the calls of others are measured by the clock.
_PROCESSOR: Final = frozenset({"cpu", "reference"})


class NotMeasured(MindgapError):
    """A function on a target that has no seconds, and why."""


class DirectCalls:
    """Measures functions on one target, in a process that starts with the first of them, and again where it died. Use
    as a context manager: leaving it ends the process."""

    def __init__(
        self, target: PlatformName, deadline_s: float, memory_bytes: int, processor: int, variables: Mapping[str, str]
    ) -> None:
        """`processor`: the number of the one on which the process is held. `variables`: of the process, beside those
        of this one and of the target. Raises what `runner_of` raises."""
        backend = find(target)[0]
        self._runner, self._options = runner_of(target), dict(target.backend_options)
        self._limits = RequestLimits(deadline_s + _WARM_UP_S, memory_bytes=memory_bytes)
        self._on_device, self._eager_on = device_of(target)
        where: Environment | None = None
        if isinstance(backend, BackendInEnvironment) and isinstance(backend.where, Environment):
            where = backend.where
            where.check("torch")
        found = {**os.environ, **backend.environment(target.backend_options), **variables}
        start = WorkerStart(_SERVICE, found, where)
        self._client = WorkerClient(start, {"processor": processor}, RequestLimits(_START_S), name=str(target))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def seconds(self, source: str, rounds: int) -> dict[str, Any]:
        """Returns what `direct_calls.measured` returns. Raises `NotMeasured`."""
        header: dict[str, Any] = {
            "kind": "measure", "source": source, "runner": runner_json(self._runner), "rounds": rounds,
            "prepare": [self._runner.prepare, self._options] if self._runner.prepare else [],
            "on_device": self._on_device, "eager_on": self._eager_on,
        }  # fmt: skip
        try:
            answer = self._client.ask(header, (), self._limits, "measuring direct calls").header
        except WorkerFailed as failed:
            raise NotMeasured(failed.message) from None
        if answer["kind"] != "measured":
            raise NotMeasured(str(answer.get("reason") or answer.get("message") or answer.get("broken")))
        return {side: answer[side] for side in SIDES}


def device_of(target: PlatformName) -> tuple[bool, str]:
    """Returns whether a target computes on another device than the processor, and the name of that device where the
    target is its eager mode, else an empty one."""
    device, _, mode = target.device_mode.partition("/")
    on_device = _PROCESSOR.isdisjoint((device, mode))
    return on_device, device if on_device and mode == "eager" and device in DEVICES else ""


def runner_of(target: PlatformName) -> ScriptRunner:
    """Returns how the target's users export and load a program, with the call apart. Raises `MindgapError` where there
    is no such way, or it cannot be called many times."""
    backend = find(target)[0]
    script_runner, own = program_runner_of(backend, target), declared(backend)
    if script_runner is None and isinstance(own, Scripted):  # eager mode of a device
        script_runner = own.script_runner(target.backend_options)
    if script_runner is None:
        raise NotMeasured("this platform, with these options, does not say how its users run a program")
    divided = call_apart(script_runner)
    if divided is None:
        raise NotMeasured("its users' script loads the model with each call")
    return divided
