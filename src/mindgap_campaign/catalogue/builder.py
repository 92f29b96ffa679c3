"""Builds a catalogue: opens and captures every source once, on several workers. A build can be killed and resumed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol

from mindgap.graph import MindgapError
from mindgap.results.catalogue import PASSES, Catalogue, Pass
from mindgap.results.store import Writer
from mindgap.run.failure_signature import signature
from mindgap_campaign.catalogue.capture_client import CaptureClient, ModelLimits, Wanted, WorkerDied
from mindgap_campaign.catalogue.integrity import GraphChecker, damaged_graphs, discard

_log = logging.getLogger(__name__)

__all__ = [
    "BuildProgress",
    "BuildSession",
    "CaptureAnswers",
    "CapturePlace",
    "ModelLimits",
    "build",
    "is_new",
    "library_versions",
]

#: A build that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 500
_AGE_S: Final = 60.0
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


class CaptureAnswers(Protocol):
    """Gives the answers about the programs of a source, as `CaptureClient` does."""

    def open(self, source: str) -> Mapping[str, Any]:
        """Returns the answer to `open`, of kind `opened`, `left_out` or `failed`. Raises `WorkerDied`."""
        ...

    def capture(self, source: str, index: int, name: str, wanted: Wanted) -> tuple[Mapping[str, Any], bytes]:
        """Returns the answer to `capture`, and the graph's bytes if they were wanted. Raises `WorkerDied`."""
        ...


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
    """State of one build, shared by its threads. `known`: the graph of each (pass, structure), and its program."""

    catalogue: Catalogue
    passes: tuple[Pass, ...]
    limits: ModelLimits
    on_tick: Callable[[BuildProgress], None]
    finished: int = 0
    total: int = 0
    wrong: list[str] = field(default_factory=list[str])
    queue: deque[str] = field(default_factory=deque[str])
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.writer: Writer = self.catalogue.store.writer(rows=_ROWS, age_s=_AGE_S)
        self.lock = threading.Lock()
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
        self.queue.extend(sources)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(max(1, jobs))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self.queue.clear()
            raise
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        client = CaptureClient(self.catalogue.tensors, self.limits)
        try:
            while True:
                try:
                    source = self.queue.popleft()
                except IndexError:
                    return
                self.record(client, source)
        except BaseException as error:
            # A full disk, or a bug of ours: the others stop too, and the caller hears of it.
            self.error = error
            self.queue.clear()
        finally:
            client.close()

    def record(self, client: CaptureAnswers, source: str) -> None:
        """Captures one source, writes its rows and graphs, and reports that it is done."""
        statuses = self._one(client, source)
        _log.info("%s: %s", source, ", ".join(f"{n} {status}" for status, n in statuses.items()))
        with self.lock:
            self.finished += 1
            self.on_tick(BuildProgress(self.finished, self.total, source, statuses))

    def _one(self, client: CaptureAnswers, source: str) -> Mapping[str, int]:
        """Captures all programs and passes of one source, then records that the source is done."""
        statuses: dict[str, int] = {}

        def count(status: str) -> str:
            statuses[status] = statuses.get(status, 0) + 1
            return status

        try:
            opened: Mapping[str, Any] = client.open(source)
        except WorkerDied as died:
            opened = {"kind": "failed", "reason": str(died)}
        programs = [(str(each["name"]), str(each["source"])) for each in opened.get("programs", ())]
        if opened["kind"] != "opened":
            status = "left_out" if opened["kind"] == "left_out" else "failed"
            self.failed(source, source, "forward", opened["reason"], count(status), opened)
        for index, program in enumerate(programs):
            parameters = 0
            for each in self.passes:
                if each != "forward" and (reason := self._too_big(parameters)):
                    count(self.failed(program[1], source, each, reason, "left_out", label=program[0]))
                    break
                status, parameters = self._pass(client, source, index, program, each)
                if count(status) != "captured":
                    break
        self.writer.append("asked", {"source": source, "passes": list(self.passes), "programs": len(programs)})
        return statuses

    def _pass(
        self, client: CaptureAnswers, source: str, index: int, program: tuple[str, str], name: Pass
    ) -> tuple[str, int]:
        """Captures one pass of one program and writes its row. Returns its status and number of parameters."""
        label, text = program
        try:
            answer, data = client.capture(source, index, name, lambda found: is_new(self.known, name, found, text))
        except WorkerDied as died:
            return self.failed(text, source, name, str(died), label=label), 0
        if answer["kind"] != "captured":
            return self.failed(text, source, name, answer["reason"], "failed", answer, label=label), 0
        with self.lock:
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

    def _too_big(self, parameters: int) -> str:
        """Returns why a model of so many parameters is not captured with gradients, or ""."""
        most = self.limits.trained_parameters
        if most is None or parameters <= most:
            return ""
        return f"{parameters / 1e6:,.0f} million parameters, {most / 1e6:,.0f} are allowed with gradients"

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


def is_new(known: Mapping[tuple[str, str], tuple[str, str]], name: str, structure: str, source: str) -> bool:
    """Whether no other source's graph is kept for this structure. `known`: as that of `BuildSession`."""
    held = known.get((name, structure))
    return held is None or held[1] == source


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
