"""Captures sources of a catalogue on a node: the node's part of `mindgap corpus build --ray`.

A node builds its sources into a separate catalogue, with the builder of one machine, and hands back what its capture
worker answered. The driver gives these answers to the same builder, which writes the catalogue.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mindgap.graph import MindgapError, TensorStore, decode, stored_keys
from mindgap.results.catalogue import Catalogue, Pass
from mindgap_campaign.catalogue.builder import BuildSession, CaptureAnswers, ModelLimits, is_new, library_versions
from mindgap_campaign.catalogue.capture_client import CaptureClient, Wanted, WorkerDied
from mindgap_campaign.cluster import SHUTDOWN_S
from mindgap_campaign.cluster.connection import code_digest
from mindgap_campaign.cluster.messages import ClusterProblem, Failure, pack, unpack

_T = TypeVar("_T")

#: The graph of each (pass, structure), and its program: `BuildSession.known`.
Known = Mapping[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class NodeSoftware:
    """What must be equal on all nodes and the driver. `code`: the digest of mindgap's source files. `libraries`: the
    versions of those that models come from."""

    code: str
    libraries: Mapping[str, str]

    @classmethod
    def here(cls) -> NodeSoftware:
        """Returns that of this machine."""
        return cls(code_digest(), library_versions())

    def require(self) -> None:
        """Raises `ClusterProblem` if this machine's differs: its graphs and refusals would too."""
        mine, host = NodeSoftware.here(), socket.gethostname()
        if mine.code != self.code:
            raise ClusterProblem(
                f"node {host} has another mindgap than this machine: install the same version and files there"
            )
        wrong = [
            f"{name} {mine.libraries.get(name, 'is absent')} (here {self.libraries.get(name, 'absent')})"
            for name in sorted({*mine.libraries, *self.libraries})
            if mine.libraries.get(name) != self.libraries.get(name)
        ]
        if wrong:
            raise ClusterProblem(
                f"node {host} has other libraries than this machine: {', '.join(wrong)}: install the same versions "
                "there, since a model's graph, or why it has none, depends on them"
            )


@dataclass(frozen=True)
class SourceFile:
    """A file or folder that a source names, which each node must have. `size`: of a file, in bytes."""

    path: str
    size: int | None

    @classmethod
    def at(cls, path: Path) -> SourceFile:
        """Describes one of this machine."""
        return cls(str(path.absolute()), path.stat().st_size if path.is_file() else None)

    def require(self) -> None:
        """Raises `ClusterProblem` if this node has none at the same path, or another."""
        path, host = Path(self.path), socket.gethostname()
        if not path.exists():
            raise ClusterProblem(f"node {host} has no {path}, which a source names: share it, or copy it there")
        if SourceFile.at(path) != self:
            raise ClusterProblem(f"node {host} has another {path}, which a source names: share it, or copy it there")


def files_of(source: str) -> list[SourceFile]:
    """Returns the files and folders of this machine that a source names."""
    from mindgap.sources.source import SourceError, parse

    try:
        parsed = parse(source)
    except SourceError:
        # Its row will say so.
        return []
    named = list(parsed.options.values())
    if not parsed.kind.listed:
        target = parsed.target
        named += [target, target.rpartition("#")[0], target.rpartition(":")[0]]
    return [SourceFile.at(Path(name)) for name in named if name and Path(name).exists()]


@dataclass(frozen=True)
class Answer:
    """A worker's answer to one request. `died`: why there is none. `wanted`: whether the graph, of this `structure`,
    was to be proven and sent; without a structure it was not requested. `tensors`: files of those that `data` refers
    to."""

    header: Mapping[str, Any] = field(default_factory=dict[str, Any])
    data: bytes = b""
    tensors: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    died: str = ""
    structure: str = ""
    wanted: bool = False

    def checked(self) -> Mapping[str, Any]:
        """Returns the header. Raises `WorkerDied` if the worker died."""
        if self.died:
            raise WorkerDied(self.died)
        return self.header


@dataclass
class SourceAnswers:
    """All answers about one source. `captures`: by the number of the program, and the pass."""

    opened: Answer = field(default_factory=Answer)
    captures: dict[tuple[int, str], Answer] = field(default_factory=dict[tuple[int, str], Answer])


@dataclass(frozen=True)
class CaptureSetup:
    """What holds for all sources of a build. `directory`: the driver's, which paths in sources are relative to."""

    software: NodeSoftware
    passes: tuple[Pass, ...]
    limits: ModelLimits
    directory: str = field(default_factory=os.getcwd)

    @contextlib.contextmanager
    def on_node(self, files: Sequence[SourceFile]) -> Generator[Path]:
        """Enters the driver's directory, if this node has it, and yields a folder for what is captured.

        Raises `ClusterProblem` for a node with other software or without the files of the sources.
        """
        self.software.require()
        for file in files:
            file.require()
        inside = contextlib.chdir(self.directory) if Path(self.directory).is_dir() else contextlib.nullcontext()
        with inside, tempfile.TemporaryDirectory(prefix="mindgap-capture-") as folder:
            yield Path(folder)


@dataclass
class AnswerRecorder:
    """A capture client that keeps the answers of another. `tensors`: where the other's worker puts tensors."""

    client: CaptureAnswers
    tensors: TensorStore
    answers: SourceAnswers = field(default_factory=SourceAnswers)

    def open(self, source: str) -> Mapping[str, Any]:
        """Opens a source, of which the answers are kept from now on."""
        self.answers = SourceAnswers()
        self.answers.opened = _answered(lambda: Answer(self.client.open(source)))
        return self.answers.opened.checked()

    def capture(self, source: str, index: int, name: str, wanted: Wanted) -> tuple[Mapping[str, Any], bytes]:
        """Captures one pass of one program."""
        passes: list[tuple[str, bool]] = [("", False)]

        def decide(structure: str) -> bool:
            passes.append((structure, wanted(structure)))
            return passes[-1][1]

        def capture() -> Answer:
            header, data = self.client.capture(source, index, name, decide)
            keys = stored_keys(decode(data)) if data else ()
            return Answer(header, data, {key: self.tensors.file(key).read_bytes() for key in keys})

        answer = _answered(capture)
        structure, proved = passes[-1]
        answer = Answer(answer.header, answer.data, answer.tensors, answer.died, structure, proved)
        self.answers.captures[index, name] = answer
        return answer.checked(), answer.data


def check_software(packed: bytes) -> bytes:
    """Compares this node's software with the driver's. Returns a packed `Failure`, or None."""
    return _packed(lambda: unpack(packed).require())


def capture_sources(packed: bytes, known: bytes) -> bytes:
    """Captures sources. `packed`: the setup, the sources and their files. `known`: what needs no proof, `Known`.

    Returns, packed, the `SourceAnswers` of each source, or a `Failure`.
    """

    def run() -> list[SourceAnswers]:
        setup, sources, files = unpack(packed)
        with setup.on_node(files) as folder:
            return _captured(setup, sources, unpack(known), folder)

    return _packed(run)


def capture_once(packed: bytes, known: bytes) -> bytes:
    """Captures one pass of one program. `packed`: the setup, the source, the program's number and source, the
    pass, and the files of the source.

    Returns, packed, its `Answer`, or a `Failure`.
    """

    def run() -> Answer:
        setup, source, index, program, name, files = unpack(packed)
        held: Known = unpack(known)
        with setup.on_node(files) as tensors:
            client = CaptureClient(tensors, setup.limits)
            recorder = AnswerRecorder(client, TensorStore(tensors))
            # The driver raises the death of a worker again.
            with contextlib.closing(client), contextlib.suppress(WorkerDied):
                recorder.capture(source, index, name, lambda found: is_new(held, name, found, program))
            return recorder.answers.captures[index, name]

    return _packed(run)


def _captured(setup: CaptureSetup, sources: Sequence[str], known: Known, folder: Path) -> list[SourceAnswers]:
    catalogue = Catalogue(folder, create=True)
    session = BuildSession(catalogue, setup.passes, setup.limits, lambda tick: None)
    session.known = dict(known)
    client, answers = CaptureClient(catalogue.tensors, setup.limits), list[SourceAnswers]()
    with contextlib.closing(session.writer), contextlib.closing(client):
        for source in sources:
            recorder = AnswerRecorder(client, TensorStore(catalogue.tensors))
            session.record(recorder, source)
            answers.append(recorder.answers)
    return answers


def _answered(ask: Callable[[], Answer]) -> Answer:
    """Returns the answer. A worker that was killed from outside may be the first process to end of a node that shuts
    down: waits for the others, so that Ray repeats the task on another node."""
    try:
        return ask()
    except WorkerDied as died:
        if died.killed:
            time.sleep(SHUTDOWN_S)
        return Answer(died=str(died))


def _packed(run: Callable[[], _T]) -> bytes:
    """Packs a result; a `MindgapError` as a `Failure`."""
    try:
        return pack(run())
    except ClusterProblem as error:
        return pack(Failure(str(error), lost=True))
    except MindgapError as error:
        return pack(Failure(f"node {socket.gethostname()}: {error}"))
