"""Studies functions of PyTorch: samples of its own test suite, run on platforms by the worker pool, and judged."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.graph.compare.reason import has
from mindgap.platforms.environments.environment import installed
from mindgap.platforms.listing import PlatformInfo, list_platforms
from mindgap.platforms.name import PlatformName, recorded
from mindgap.platforms.registry import canonical
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.message_cleaning import shortened_paths
from mindgap.source_worker.client import SourceClient
from mindgap.workflows.diff import Session, Subject
from mindgap_studies.porting_runs.direct_client import DirectCalls, NotMeasured, runner_of
from mindgap_studies.porting_runs.framework_modes import functions_of, reason_of, uses_of_public
from mindgap_studies.porting_runs.other_frameworks import measured_sample, with_process
from mindgap_studies.results.ported_functions import FunctionCell, Latency, PortingSettings, Reason, SampleResult
from mindgap_zoo.operator_samples.public_names import sources_of

if TYPE_CHECKING:
    from typing import Self

SOURCE: Final = "cpu/eager"
#: What functions go to where nobody names platforms; of the second line, what is here.
TARGETS: Final = ("cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu")
MORE_TARGETS: Final = (
    "executorch/cpu", "iree/cpu", "jax/cpu", "litert/cpu", "ncnn/cpu", "tinygrad/cpu", "tvm/cpu", "xla/eager",
    "onnxruntime/qnn", "rknn/simulator", "executorch/tosa",
)  # fmt: skip
#: Devices of the paper that the study names whether they are here or not.
_DEVICES: Final = ("cuda/eager", "xla/eager@pjrt=tpu")
#: Samples of a function, evenly spaced over those of its first source.
_SAMPLES: Final = 4
_MODULES: Final = (
    "torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.signal.windows",
    "torch.nn.init", "torch.sparse", "torch.autograd", "torch.nn.utils.rnn",
)  # fmt: skip
#: Colours in a message for a terminal.
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
#: Runtimes whose own kernels run what their delegate does not take: these are the platform with `delegate=none`.
_OWN_KERNELS: Final = frozenset({"executorch/cpu", "litert/cpu"})
#: A sample that is not done in time is tried once more, with so many times the limit.
_MORE_TIME: Final = 4
#: The reason of a status, whatever the message says.
_ENDS: Final[Mapping[str, Reason]] = {"crash": "crash", "timeout": "time-out", "oom": "memory"}


class PyTorchFunctions:
    """Runs functions of PyTorch on platforms. Use as a context manager: leaving it ends the workers."""

    name: str = "pytorch"
    source: str = SOURCE

    def __init__(self, platforms: Sequence[str], settings: PortingSettings, tensors: TensorStore) -> None:
        """`platforms`: none for `TARGETS`. Raises `PlatformError` for one that is not known."""
        self._settings, self._tensors = settings, tensors
        self._wanted = [canonical(each) for each in platforms or _default_targets()]
        self._client = SourceClient(tensors, settings.deadline_s)
        self._session = Session(tensors=tensors)
        self._taken: dict[tuple[str, ...], str] = {}
        self._graphs: dict[tuple[str, str], Graph] = {}
        self._infos: dict[PlatformName, PlatformInfo | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._client.close()

    def uses(self, calls: Mapping[str, int]) -> tuple[Counter[str], int]:
        """Returns calls by public function, of calls by any name, and how many public functions there are."""
        public = _public()
        return uses_of_public(public, calls), len(public)

    def untestable(self, function: str) -> str:
        """Returns why a function is not drawn. One whose samples are those of another that was drawn is that one by
        another name."""
        try:
            sources = sources_of(function)
        except MindgapError as error:
            return str(error)
        if not sources:
            return "PyTorch's test suite has no samples of it"
        if sources in self._taken:
            return f"it has the samples of {self._taken[sources]}"
        why = self._uncapturable(function)
        if not why:
            self._taken[sources] = function
        return why

    def versions(self) -> Mapping[str, str]:
        versions = dict(installed(("torch",)))
        for info in filter(None, map(self._info, self._wanted)):
            if info.available:
                where = f" in {info.environment}" if info.environment else ""
                versions |= {f"{package}{where}": version for package, version in info.versions.items()}
        return versions

    def targets(self) -> dict[str, str]:
        """Returns the platforms, and why one is not available, empty where it is."""
        return {str(each): self._missing(each) for each in self._wanted}

    def cells(self, function: str, targets: Sequence[str]) -> list[FunctionCell]:
        """Runs the samples of a function on platforms, and judges what they give. Measures nothing."""
        settings = RunSettings(trace=False, deadline_s=self._settings.deadline_s)
        sources = self._samples(function)
        subjects = [
            Subject(source, partial(self._captured, source, function), source, in_process=False) for source in sources
        ]
        try:
            report = self._session.diff_many(subjects, targets, settings=settings)
        except MindgapError as error:
            failed = (SampleResult("", "not compared", str(error)),)
            return [FunctionCell(self.name, function, target, failed) for target in targets]
        refused = {each.source: each.reason for each in report.refused}
        rows = {(row.model, str(row.platform)): row for row in report.rows}
        rows |= self._with_more_time(subjects, rows, settings)
        own = self._by_own_kernels(subjects, rows, settings)
        results = {key: _result(key[0], row, None) for key, row in rows.items()}
        results |= {key: _judged_elsewhere(rows[key], row) for key, row in own.items()}

        def sample(source: str, target: str) -> SampleResult:
            return results.get((source, target)) or _result(source, None, refused.get(source))

        return [FunctionCell(self.name, function, t, tuple(sample(source, t) for source in sources)) for t in targets]

    def _with_more_time(
        self, subjects: Sequence[Subject], rows: Mapping[tuple[str, str], Row], settings: RunSettings
    ) -> dict[tuple[str, str], Row]:
        """Judges again what was not done in time: with other work on the machine the limit is soon reached."""
        rows_by_pair: dict[tuple[str, str], Row] = {}
        longer = replace(settings, deadline_s=_MORE_TIME * settings.deadline_s)
        for subject in subjects:
            if late := [t for (name, t), row in rows.items() if name == subject.name and row.status == "timeout"]:
                rows_by_pair |= {(row.model, str(row.platform)): row for row in self._again([subject], late, longer)}
        return rows_by_pair

    def _again(self, subjects: Sequence[Subject], targets: Sequence[str], settings: RunSettings) -> Sequence[Row]:
        """Judges samples that were judged before. Where that fails they are `not_run`, with the reason."""
        try:
            return self._session.diff_many(subjects, targets, settings=settings).rows
        except MindgapError as error:
            pairs = ((each.name, recorded(target)) for each in subjects for target in targets)
            return [Row(*pair, "not_run", None, message=str(error)) for pair in pairs]

    def _by_own_kernels(
        self, subjects: Sequence[Subject], rows: Mapping[tuple[str, str], Row], settings: RunSettings
    ) -> dict[tuple[str, str], Row]:
        """Judges what a delegate takes nothing of on the runtime's own kernels, as its users' programs run on them."""
        rows_by_pair: dict[tuple[str, str], Row] = {}
        for target in dict.fromkeys(row.platform for row in rows.values()):
            there = [(each, row) for each in subjects if (row := rows.get((each.name, target)))]
            left = [each for each, row in there if has(row.reasons, "took_none")]
            if left and target.device_mode in _OWN_KERNELS:
                again = self._again(left, [target.with_options(delegate="none")], settings)
                rows_by_pair |= {(row.model, str(target)): row for row in again}
        return rows_by_pair

    def measured_pass(
        self, cells: Sequence[FunctionCell], tick: Callable[[int, int, str], None]
    ) -> Iterator[tuple[FunctionCell, Latency | str]]:
        """Measures the first sample of each cell that is ported, by direct calls, in one process for each target. As
        many targets are measured at once as there are processors, each process on another.

        Yields each cell with the seconds of one process more, or with the reason why it has none.
        """
        todo: dict[str, list[FunctionCell]] = {}
        for cell in cells:
            todo.setdefault(cell.target, []).append(cell)
        for target in [*todo]:
            if why := self._untimed(canonical(target)):
                yield from ((cell, why) for cell in todo.pop(target))
        answers: SimpleQueue[tuple[FunctionCell, Latency | str] | BaseException | None] = SimpleQueue()
        processors = os.sched_getaffinity(0)
        left = deque(todo.items())
        threads = [
            threading.Thread(target=self._measure_targets, args=(left, place, answers.put), daemon=True)
            for place in range(min(len(processors), len(left)))
        ]
        for thread in threads:
            thread.start()
        total, done, running = sum(map(len, todo.values())), 0, len(threads)
        while running:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                running -= 1
                continue
            done += 1
            tick(done, total, f"{self.name}: measured {answer[0].function} on {answer[0].target}")
            yield answer

    def _measure_targets(
        self, left: deque[tuple[str, list[FunctionCell]]], processor: int,
        put: Callable[[tuple[FunctionCell, Latency | str] | BaseException | None], None],
    ) -> None:  # fmt: skip
        """Takes targets from those that are left, and measures their functions."""
        limits = self._settings.deadline_s, self._settings.memory_bytes
        try:
            while True:
                try:
                    target, cells = left.popleft()
                except IndexError:
                    break
                with _empty_caches() as caches, DirectCalls(canonical(target), *limits, processor, caches) as calls:
                    for cell in cells:
                        put((cell, self._measured(calls, cell)))
        except BaseException as error:  # raised again in the caller's thread
            put(error)
        put(None)

    def _measured(self, calls: DirectCalls, cell: FunctionCell) -> Latency | str:
        sample = str(measured_sample(cell))
        try:
            return with_process(cell.latency, sample, **calls.seconds(sample, self._settings.rounds))
        except NotMeasured as error:
            return _one_line(_COLOURS.sub("", str(error)))

    def _untimed(self, platform: PlatformName) -> str:
        info = self._info(platform)
        if info is not None and info.execution:
            return f"{info.execution}: its seconds are not the device's"
        here = installed(("torch",))["torch"]
        # A version without what it says of the build.
        if info is not None and info.versions.get("torch", here).partition("+")[0] != here.partition("+")[0]:
            return f"its environment has PyTorch {info.versions['torch']}, whose test suite may have other samples"
        try:
            runner_of(platform)
        except MindgapError as error:
            return str(error)
        return ""

    def _missing(self, platform: PlatformName) -> str:
        info = self._info(platform)
        if info is None:
            return "no such platform"
        if info.available and "pjrt=tpu" in platform:
            there = any(Path("/dev").glob("accel*")) or Path("/dev/vfio").is_dir()
            return "" if there else "PJRT finds no TPU here (/dev/accel* and /dev/vfio are not there)"
        return "" if info.available else info.reason

    def _info(self, platform: PlatformName) -> PlatformInfo | None:
        if platform not in self._infos:
            listed = list_platforms({platform.device_mode})
            self._infos[platform] = next((each for each in listed if each.platform == platform.device_mode), None)
        return self._infos[platform]

    def _samples(self, function: str) -> list[str]:
        """The sources of single samples of a function. Raises `MindgapError`."""
        sources: list[str] = []
        for source in sources_of(function):
            sources += [program.source for program in self._client.open(source).programs]
            if len(sources) >= _SAMPLES:
                break
        step = max(1, len(sources) // _SAMPLES)
        return sources[::step][:_SAMPLES]

    def _captured(self, source: str, function: str) -> Graph:
        key = (function, source)
        if key not in self._graphs:
            self._graphs[key] = self._client.capture(self._client.open(source), 0)
        return self._graphs[key]

    def _uncapturable(self, function: str) -> str:
        """Why no sample of a function can be captured, empty where one can."""
        reason = "PyTorch's test suite has no samples of it"
        try:
            for source in self._samples(function):
                try:
                    self._captured(source, function)
                except MindgapError as error:
                    reason = str(error)
                else:
                    return ""
        except MindgapError as error:
            reason = str(error)
        return _one_line(reason)


def _one_line(message: str) -> str:
    """A message on one line of at most 300 characters, without paths of this machine."""
    return " ".join(shortened_paths(message).split())[:300]


def _default_targets() -> list[str]:
    here = {info.platform for info in list_platforms(MORE_TARGETS) if info.available}
    return [*TARGETS, *(each for each in MORE_TARGETS if each in here), *_DEVICES]


def _public() -> Mapping[str, Callable[..., Any]]:
    import torch

    members: Mapping[str, Any] = vars(torch.nn)
    modules = {
        f"torch.nn.{name}": value
        for name, value in members.items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and not name.startswith("_")
    }
    return {**functions_of({name: importlib.import_module(name) for name in _MODULES}), **modules}


@contextlib.contextmanager
def _empty_caches() -> Generator[Mapping[str, str]]:
    """Gives variables with which a process has no compiled programs of earlier ones."""
    with tempfile.TemporaryDirectory(prefix="mindgap-compiled-") as folder:
        yield {"TORCHINDUCTOR_CACHE_DIR": folder, "CACHEDB": f"{folder}/tinygrad.db"}


def _result(source: str, row: Row | None, refused: str | None) -> SampleResult:
    """What a row says of a sample, in the paper's reasons."""
    if row is None:
        return SampleResult(source, "not compared", refused or "it has no row")
    broken = f"mindgap failed: {row.broken.strip().splitlines()[-1]}" if row.broken else ""
    text = " ".join((broken or row.message or row.detail).split())[:400]
    if row.status == "ok" and not row.finding and row.verdict is not None:
        return SampleResult(source)
    if row.status == "ok" and row.finding:
        return SampleResult(source, "type failure" if row.verdict == "structural" else "precision", text or row.word)
    if row.status in ("ok", "not_run", "nondeterministic") or row.word in ("no_reference", "not_judged", "unjudged"):
        return SampleResult(source, "not compared", text or row.word)
    if has(row.reasons, "computed_before"):
        return SampleResult(source, "not compared", text)
    reason = _ENDS.get(row.status) or reason_of(text)
    lacks = row.status == "unsupported" and reason != "type failure"
    return SampleResult(source, "not implemented" if lacks else reason, text)


def _judged_elsewhere(left: Row, row: Row) -> SampleResult:
    """What a runtime's own kernels made of a sample, with the words that its delegate took nothing of it."""
    result = _result(left.model, row, None)
    told = f"{' '.join(left.message.split())[:400]}; judged by the runtime's own kernels, {row.platform}"
    return replace(result, message=f"{told}: {result.message}" if result.message else told)
