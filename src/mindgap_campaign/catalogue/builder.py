"""Builds a catalogue: opens and captures every source once, on several workers, and records them in their order. A
build can be killed and resumed."""

from __future__ import annotations

import logging
import threading
from collections import ChainMap, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol

from mindgap.graph import MindgapError, TensorStore
from mindgap.results.catalogue import PASSES, Catalogue, Pass
from mindgap.results.store import Writer
from mindgap.run.failure_signature import signature
from mindgap_campaign.catalogue.answers import (
    Again,
    Answer,
    AnswerRecorder,
    RecordedAnswers,
    SourceAnswers,
    answer_source,
    is_new,
)
from mindgap_campaign.catalogue.capture_client import CaptureClient, ModelLimits, WorkerDied
from mindgap_campaign.catalogue.integrity import GraphChecker, damaged_graphs, discard

_log = logging.getLogger(__name__)

#: A build that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 500
_AGE_S: Final = 60.0
#: Sources that are captured while an earlier one is not done: a build that is killed loses them too.
_AHEAD: Final = 100
_LIBRARIES: Final = (
    "mindgap","torch", "timm", "torchvision", "transformers", "diffusers", "open_clip_torch", "torch_geometric",
                "pytorchcv", "onnx")  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """Reports that a source is done: `done` of `total`. `statuses`: the number of programs and passes by status."""

    done: int
    total: int
    source: str
    statuses: Mapping[str, int]


class CapturePlace(Protocol):
    """Captures the sources of a build elsewhere than on this machine."""

    def capture(self, session: BuildSession, sources: Sequence[str]) -> None:
        """Gives each source and its client to `session.record`."""
        ...


def build(
    catalogue: Catalogue,
    patterns: Sequence[str],
    passes: Sequence[Pass] = ("forward",),
    *,
    limits: ModelLimits | None = None,
    jobs: int = 1,
    place: CapturePlace | None = None,
    retry: bool = False,
    on_tick: Callable[[BuildProgress], None] = lambda tick: None,
) -> int:
    """Captures the sources that the patterns match and the catalogue lacks. Returns the number of these sources.

    Passes after `forward` are tried on programs whose forward graph has a new structure. `retry`: also repeats sources
    that had a failure. Sources whose graph is damaged are always repeated. A source that fails costs its own rows
    only. A pattern that matches nothing becomes a failed row. `jobs`: workers on this machine, unless there is a
    `place`. Raises `MindgapError` if no pattern matches anything.
    """
    wanted: tuple[Pass, ...] = tuple(each for each in PASSES if each == "forward" or each in passes)
    session = BuildSession(catalogue, wanted, limits or ModelLimits(), on_tick)
    try:
        sources = session.expanded(patterns)
        if not sources:
            raise MindgapError("nothing to build: " + "; ".join(session.wrong or ["no pattern was given"]))
        undone = session.undone(sources, retry)
        session.total = len(undone)
        if place is None:
            session.run(undone, jobs)
        else:
            place.capture(session, undone)
    finally:
        session.writer.close()
    catalogue.store.compact()
    return session.finished


@dataclass
class BuildSession:
    """State of one build, shared by its threads. `known`: the graph of each (pass, structure), and its program.
    `ready`: what was answered about sources, by their numbers, while an earlier source is not done."""

    catalogue: Catalogue
    passes: tuple[Pass, ...]
    limits: ModelLimits
    on_tick: Callable[[BuildProgress], None]
    finished: int = 0
    total: int = 0
    wrong: list[str] = field(default_factory=list[str])
    queue: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    ready: dict[int, tuple[str, SourceAnswers]] = field(default_factory=dict[int, tuple[str, SourceAnswers]])
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.writer: Writer = self.catalogue.store.writer(rows=_ROWS, age_s=_AGE_S)
        self.turn = threading.Condition()
        self.known: dict[tuple[str, str], tuple[str, str]] = self.catalogue.holders()
        self.versions = library_versions()
        self.checker = GraphChecker(self.catalogue)

    def undone(self, sources: Sequence[str], retry: bool) -> list[str]:
        """Returns the sources to capture. A damaged graph represents no structure any more."""
        damaged = {each.graph for each in damaged_graphs(self.catalogue)}
        self.known = {kind: held for kind, held in self.known.items() if held[0] not in damaged}
        done = self.catalogue.done(self.passes, retry=retry, damaged=sorted(damaged))
        wanted = [source for source in sources if source not in done]
        for graph in self.catalogue.holders_of(wanted) & damaged:
            discard(self.catalogue, graph)
        return wanted

    def expanded(self, patterns: Sequence[str]) -> list[str]:
        """Returns the sources that the patterns match, each once. A pattern that matches nothing becomes a failed
        row."""
        client = CaptureClient(self.catalogue.tensors, self.limits)
        found: dict[str, None] = {}
        try:
            for pattern in patterns:
                try:
                    found |= dict.fromkeys(client.expand(pattern))
                except (LookupError, WorkerDied) as error:
                    self.wrong.append(str(error))
                    self.failed(pattern, pattern, "forward", str(error))
        finally:
            client.close()
        return list(found)

    def run(self, sources: Sequence[str], jobs: int) -> None:
        """Captures the sources on `jobs` threads, each with a worker process. Raises the first error of a thread."""
        self.queue.extend(enumerate(sources))
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(max(1, jobs))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            with self.turn:
                self.queue.clear()
                self.turn.notify_all()
            raise
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        client = CaptureClient(self.catalogue.tensors, self.limits)

        def again(source: str, index: int, program: str, name: str) -> Answer:
            return AnswerRecorder(client).capture(source, index, program, name, self.known)

        try:
            while (task := self._next()) is not None:
                number, source = task
                held = ChainMap(dict[tuple[str, str], tuple[str, str]](), self.known)
                answers = answer_source(AnswerRecorder(client), source, self.passes, self.limits, held)
                self._record_ready(number, source, answers, again)
        except BaseException as error:
            # A full disk, or a bug of ours: the others stop too, and the caller hears of it.
            with self.turn:
                self.error = error
                self.queue.clear()
                self.turn.notify_all()
        finally:
            client.close()

    def _next(self) -> tuple[int, str] | None:
        """Returns the next source and its number, once it is not too far ahead of those recorded; None at the end."""
        with self.turn:
            self.turn.wait_for(lambda: not self.queue or self.queue[0][0] < self.finished + _AHEAD)
            return self.queue.popleft() if self.queue else None

    def _record_ready(self, number: int, source: str, answers: SourceAnswers, again: Again) -> None:
        """Records the sources whose turn it is now that this one is answered."""
        with self.turn:
            self.ready[number] = (source, answers)
            while self.finished in self.ready:
                source, answers = self.ready.pop(self.finished)
                self.record(RecordedAnswers(answers, TensorStore(self.catalogue.tensors), again), source)
            self.turn.notify_all()

    def record(self, client: RecordedAnswers, source: str) -> None:
        """Captures one source, writes its rows and graphs, and reports that it is done."""
        statuses = self._one(client, source)
        _log.info("%s: %s", source, ", ".join(f"{n} {status}" for status, n in statuses.items()))
        self.finished += 1
        self.on_tick(BuildProgress(self.finished, self.total, source, statuses))

    def _one(self, client: RecordedAnswers, source: str) -> Mapping[str, int]:
        """Captures all programs and passes of one source, then records that the source is done."""
        statuses: dict[str, int] = {}

        def count(status: str) -> str:
            statuses[status] = statuses.get(status, 0) + 1
            return status

        opened = client.answers.opened.header or {"kind": "failed", "reason": client.answers.opened.died}
        programs = [(str(each["name"]), str(each["source"])) for each in opened.get("programs", ())]
        if opened["kind"] != "opened":
            status = "left_out" if opened["kind"] == "left_out" else "failed"
            self.failed(source, source, "forward", opened["reason"], count(status), opened)
        for index, program in enumerate(programs):
            parameters = 0
            for each in self.passes:
                if each != "forward" and (reason := self.limits.too_many_to_train(parameters)):
                    count(self.failed(program[1], source, each, reason, "left_out", label=program[0]))
                    break
                status, parameters = self._pass(client, source, index, program, each)
                if count(status) != "captured":
                    break
        self.writer.append("asked", {"source": source, "passes": list(self.passes), "programs": len(programs)})
        return statuses

    def _pass(
        self, client: RecordedAnswers, source: str, index: int, program: tuple[str, str], name: Pass
    ) -> tuple[str, int]:
        """Captures one pass of one program and writes its row. Returns its status and number of parameters."""
        label, text = program
        recorded = client.capture(source, index, text, name, self.known)
        answer, data = recorded.header, recorded.data
        if recorded.died:
            return self.failed(text, source, name, recorded.died, label=label), 0
        if answer["kind"] != "captured":
            return self.failed(text, source, name, answer["reason"], "failed", answer, label=label), 0
        own = bool(data) and is_new(self.known, name, answer["structure"], text)
        if own:
            # Before any row can name it.
            self.catalogue.keep(str(answer["graph"]), data)
            fault = self.checker.fault(str(answer["graph"]))
            if fault:
                discard(self.catalogue, str(answer["graph"]))
                reason = f"captured, but it cannot be made again from the catalogue: {fault}"
                return self.failed(text, source, name, reason, "failed", answer, label=label), 0
            self.known[name, answer["structure"]] = (str(answer["graph"]), text)
        holder = self.known[name, answer["structure"]][0]
        status = "captured" if own else "duplicate"
        columns = ("graph", "structure", "structure_operators", "structure_shapes", "nodes", "parameters", "operators")
        self._row(text, source, name, status, answer, label, {
            **{column: answer[column] for column in columns}, "holder": holder, "proven": answer["proven"],
        })  # fmt: skip
        return status, int(answer["parameters"])

    def failed(
        self, text: str, asked: str, name: str, reason: str, status: str = "failed",
        answer: Mapping[str, Any] | None = None, label: str = "",
    ) -> str:  # fmt: skip
        """Writes the row of a failure and returns its status."""
        _log.info("%s, %s pass: %s: %s", text, name, status, reason)
        self._row(text, asked, name, status, answer or {}, label or text.partition(":")[2], {"reason": reason})
        return status

    def _row(
        self, text: str, asked: str, name: str, status: str, answer: Mapping[str, Any], label: str,
        more: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.writer.append("captures", {
            "source": text, "pass": name, "asked": asked, "scheme": _scheme(text), "name": label,
            "status": status, "signature": signature(str(more.get("reason", ""))),
            "cpu_seconds": answer.get("cpu_seconds"), "peak_bytes": answer.get("peak_bytes"),
            "versions": self.versions, **more,
        })  # fmt: skip


def _scheme(text: str) -> str:
    from mindgap.sources.source import SourceError, parse

    try:
        return parse(text).scheme
    except SourceError:  # its row says so
        return "python"


def library_versions() -> dict[str, str]:
    """Returns the versions of the libraries that models come from, those that are installed."""
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
