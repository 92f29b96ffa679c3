"""Studies functions of JAX and TensorFlow, in a worker of an environment of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments import find
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart, if_doubtful
from mindgap_studies.porting_runs.call_times import SIDES
from mindgap_studies.results.ported_functions import FunctionCell, Latency, PortingSettings, SampleResult

if TYPE_CHECKING:
    from typing import Self

_SERVICE: Final = "mindgap_studies.porting_runs.worker:framework_service"
#: Seconds in which a worker must have imported its framework.
_START_S: Final = 300.0
#: Forked processes that a request may take in a row: one for each call that ends its process.
_PROCESSES: Final = 12


class OtherFramework:
    """One framework with its worker, in the environment of that name. Use as a context manager: leaving it ends the
    worker."""

    def __init__(self, name: str, settings: PortingSettings) -> None:
        """Raises `EnvironmentProblem` where there is no such environment, or no worker can run there."""
        where = find(name)
        where.check()
        self.name, self._settings = name, settings
        limits = RequestLimits(_START_S)
        self._client = WorkerClient(WorkerStart(_SERVICE, where=where), {"framework": name}, limits, name=name)
        #: Of each function the numbers of its calls, by label.
        self._calls: dict[str, dict[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def source(self) -> str:
        return self._client.about["source"]

    def uses(self, calls: Mapping[str, int]) -> tuple[Counter[str], int]:
        """Returns calls by public function, of calls by any name, and how many public functions there are."""
        answer = self._ask({"kind": "usage", "calls": dict(calls)})
        return Counter(answer["uses"]), answer["public"]

    def versions(self) -> Mapping[str, str]:
        if not self._client.about:
            self.targets()
        return self._client.about["versions"]

    def targets(self) -> dict[str, str]:
        """Returns the targets, and why one is not available, empty where it is. Raises `MindgapError`."""
        return self._ask({"kind": "targets"})["targets"]

    def cells(self, function: str, targets: Sequence[str]) -> list[FunctionCell]:
        """Runs a function on targets, and compares all its calls. Measures nothing."""
        if why := "" if function in self._calls else self.untestable(function):
            # It had calls when it was drawn.
            return [FunctionCell(self.name, function, t, (SampleResult("", "not compared", why),)) for t in targets]
        calls = self._calls[function]
        pairs = [(target, number) for target in targets for number in calls.values()]
        results = self._ask({"kind": "compare", "function": function, "pairs": pairs})["results"]
        by_pair: dict[tuple[str, int], dict[str, Any]] = {(each["on"], each["call"]): each for each in results}
        none = {"reason": "not compared", "message": "the process gave no answer"}

        def sample(target: str, label: str) -> SampleResult:
            row = by_pair.get((target, calls[label]), none)
            return SampleResult(label, row["reason"], row["message"])

        return [FunctionCell(self.name, function, t, tuple(sample(t, label) for label in calls)) for t in targets]

    def measured_pass(
        self, cells: Sequence[FunctionCell], tick: Callable[[int, int, str], None]
    ) -> Iterator[tuple[FunctionCell, Latency | str]]:
        """Measures the first call of each cell that is ported, those of a function in one process that forks for it.

        Yields each cell with the seconds of one process more, or with the reason why it has none.
        """
        by_function: dict[str, list[FunctionCell]] = {}
        for cell in cells:
            by_function.setdefault(cell.function, []).append(cell)
        for place, (function, group) in enumerate(by_function.items()):
            tick(place, len(by_function), f"{self.name}: measuring {function}")
            if function not in self._calls and (why := self.untestable(function)):
                yield from ((cell, why) for cell in group)
                continue
            numbers = self._calls[function]
            wanted = {cell.target: (cell, str(measured_sample(cell))) for cell in group}
            pairs = [(target, numbers[label]) for target, (_, label) in wanted.items() if label in numbers]
            processes = max(len(cell.latency.source) if cell.latency else 0 for cell in group)
            header = {
                "kind": "measure", "function": function, "pairs": pairs, "rounds": self._settings.rounds,
                "processor": processes,
            }  # fmt: skip
            results = {each["on"]: each for each in (self._ask(header)["results"] if pairs else ())}
            for target, (cell, label) in wanted.items():
                answer = results.get(target, {"message": "the process gave no answer"})
                if "source_first" not in answer:
                    yield cell, str(answer["message"])
                    continue
                yield cell, with_process(cell.latency, label, **{side: answer[side] for side in SIDES})

    def untestable(self, function: str) -> str:
        """Returns why a function has no call, empty where it has; keeps its calls."""
        try:
            answer = self._ask({"kind": "calls", "function": function})
        except MindgapError as error:
            return str(error)
        if not answer["calls"]:
            return answer["why"]
        self._calls[function] = {each["label"]: each["call"] for each in answer["calls"]}
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


def measured_sample(cell: FunctionCell) -> str | None:
    """Returns the sample of a function that is measured on a target: the first that is ported."""
    return next((each.sample for each in cell.samples if each.reason in ("", "form only")), None)


def with_process(
    before: Latency | None, sample: str, source_first: float, target_first: float, source: Sequence[float],
    target: Sequence[float],
) -> Latency:  # fmt: skip
    """Adds the seconds of a process to those of earlier ones, with five significant digits."""
    old = before or Latency(sample, (), (), (), ())
    return Latency(
        sample, (*old.source_first, _rounded(source_first)), (*old.target_first, _rounded(target_first)),
        (*old.source, tuple(map(_rounded, source))), (*old.target, tuple(map(_rounded, target))),
    )  # fmt: skip


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.5g}")
