"""Studies functions of JAX and TensorFlow, in a worker of an environment of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments import find
from mindgap.results.ported_functions import FrameworkDraw, FunctionCell, Latency, SampleResult
from mindgap.run.process import RequestLimits, WorkerFailed
from mindgap.run.worker_client import WorkerClient, WorkerStart, if_doubtful
from mindgap.workflows.porting.settings import PortingSettings
from mindgap.workflows.porting.usage import Usage, draw_functions

if TYPE_CHECKING:
    from typing import Self

_SERVICE: Final = "mindgap.workflows.porting.worker:framework_service"
#: Seconds in which a worker must have imported its framework.
_START_S: Final = 300.0
#: Forked processes that a request may take in a row: one for each call that ends its process.
_PROCESSES: Final = 12


@dataclass(frozen=True, slots=True)
class _FoundCall:
    number: int
    label: str


class OtherFramework:
    """One framework with its worker. Use as a context manager: leaving it ends the worker.

    `environment`: the name of the environment that has the framework.
    """

    def __init__(self, name: str, environment: str, settings: PortingSettings) -> None:
        """Raises `EnvironmentProblem` where there is no such environment, or no worker can run there."""
        where = find(environment)
        where.check()
        self.name, self._settings = name, settings
        limits = RequestLimits(_START_S)
        self._client = WorkerClient(WorkerStart(_SERVICE, where=where), {"framework": name}, limits, name=name)
        self._calls: dict[str, tuple[_FoundCall, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def draw(self, usage: Usage, tick: Callable[[str], None]) -> FrameworkDraw:
        """Draws functions. Raises `MindgapError` where the framework does not import, or none can be called."""
        found = self._ask({"kind": "usage", "calls": dict(usage.calls)})
        uses: Counter[str] = Counter(found["uses"])

        def untestable(name: str) -> str:
            tick(name)
            return self._find_calls(name)

        drawn, left_out = draw_functions(
            uses, top=self._settings.top, per_decile=self._settings.per_decile, seed=self._settings.seed,
            untestable=untestable,
        )  # fmt: skip
        if not drawn:
            raise MindgapError(
                f"{self.name}: no function could be called: {next(iter(left_out.items()), 'none is used')}"
            )
        return FrameworkDraw(
            self.name, self.versions(), self._client.about["source"], usage.files, uses.total(),
            found["public"], len(uses), drawn, left_out, self.targets(),
        )  # fmt: skip

    def versions(self) -> Mapping[str, str]:
        """Returns the versions of the framework's packages. Raises `MindgapError` where it does not import."""
        if not self._client.about:
            self.targets()
        return self._client.about["versions"]

    def targets(self) -> dict[str, str]:
        """Returns the targets, and why one is not available, empty where it is. Raises `MindgapError`."""
        return self._ask({"kind": "targets"})["targets"]

    def cells(self, function: str, targets: Sequence[str]) -> list[FunctionCell]:
        """Runs a function on targets: compares all its calls, and measures the first that is ported on each."""
        if why := "" if function in self._calls else self._find_calls(function):
            # It had calls when it was drawn.
            return [FunctionCell(self.name, function, t, (SampleResult("", "not compared", why),)) for t in targets]
        calls = self._calls[function]
        pairs = [(target, call.number) for target in targets for call in calls]
        results = self._ask({"kind": "compare", "function": function, "pairs": pairs})["results"]
        by_pair: dict[tuple[str, int], dict[str, Any]] = {(each["on"], each["call"]): each for each in results}
        ported = {
            target: call
            for target in targets
            for call in reversed(calls)
            if by_pair.get((target, call.number), {}).get("reason") == ""
        }
        latencies = self._latencies(function, ported)
        return [
            FunctionCell(
                self.name, function, target,
                tuple(_sample(call, by_pair.get((target, call.number))) for call in calls), latencies.get(target),
            )
            for target in targets
        ]  # fmt: skip

    def _latencies(self, function: str, ported: Mapping[str, _FoundCall]) -> dict[str, Latency]:
        """Measures targets in several processes. One that fails in a process lacks that process's seconds."""
        pairs = [(target, call.number) for target, call in ported.items()]
        runs: dict[str, list[dict[str, Any]]] = {target: [] for target in ported}
        for _ in range(self._settings.processes if pairs else 0):
            header = {"kind": "measure", "function": function, "pairs": pairs, "rounds": self._settings.rounds}
            for each in self._ask(header)["results"]:
                if "source_first" in each:
                    runs[each["on"]].append(each)
        return {target: _latency(ported[target].label, each) for target, each in runs.items() if each}

    def _find_calls(self, function: str) -> str:
        """Returns why a function has no call, empty where it has; keeps its calls."""
        try:
            found = self._ask({"kind": "calls", "function": function})
        except MindgapError as error:
            return str(error)
        if not found["calls"]:
            return found["why"]
        self._calls[function] = tuple(_FoundCall(each["call"], each["label"]) for each in found["calls"])
        return ""

    def _ask(self, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sends a request. Raises `MindgapError` where the worker refuses it, or ends."""
        deadline = self._settings.deadline_s
        limits = RequestLimits(deadline * _PROCESSES + _START_S)
        asked = {**header, "deadline_s": deadline, "memory_bytes": self._settings.memory_bytes}
        try:
            answer = self._client.attempt(lambda worker: worker.ask(asked, (), limits), if_doubtful).header
        except WorkerFailed as failed:
            raise MindgapError(f"the worker of {self.name} failed: {failed.message}") from None
        if answer["kind"] == "refused":
            raise MindgapError(answer["message"])
        return answer


def _sample(call: _FoundCall, found: Mapping[str, Any] | None) -> SampleResult:
    if found is None:
        return SampleResult(call.label, "not compared", "the process gave no answer")
    return SampleResult(call.label, found["reason"], found["message"])


def _latency(label: str, runs: Sequence[Mapping[str, Any]]) -> Latency:
    """Puts together what processes measured."""
    first = [tuple(rounded(run[side]) for run in runs) for side in ("source_first", "target_first")]
    later = [tuple(tuple(map(rounded, run[side])) for run in runs) for side in ("source", "target")]
    return Latency(label, first[0], first[1], later[0], later[1])


def rounded(seconds: float) -> float:
    """Rounds seconds to five significant digits."""
    return float(f"{seconds:.5g}")
