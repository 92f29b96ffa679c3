"""Captures sources of a catalogue on a node: the node's part of `mindgap corpus build --ray`.

A node hands back what its capture worker answered. The driver gives these answers to the builder of one machine, which
writes the catalogue.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mindgap.graph import MindgapError, TensorStore
from mindgap.results.catalogue import Pass
from mindgap_campaign.catalogue.answers import Answer, AnswerRecorder, Known, SourceAnswers, answer_source
from mindgap_campaign.catalogue.builder import library_versions
from mindgap_campaign.catalogue.capture_client import CaptureClient, ModelLimits
from mindgap_campaign.cluster import SHUTDOWN_S
from mindgap_campaign.cluster.connection import code_digest
from mindgap_campaign.cluster.messages import ClusterProblem, Failure, pack, unpack

_T = TypeVar("_T")


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


def check_software(packed: bytes) -> bytes:
    """Compares this node's software with the driver's. Returns a packed `Failure`, or None."""
    return _packed(lambda: unpack(packed).require())


def capture_sources(packed: bytes, known: bytes) -> bytes:
    """Captures sources. `packed`: the setup, the sources and their files. `known`: what needs no proof, `Known`.

    Returns, packed, the `SourceAnswers` of each source, or a `Failure`.
    """

    def run() -> list[SourceAnswers]:
        setup, sources, files = unpack(packed)
        held: dict[tuple[str, str], tuple[str, str]] = {**unpack(known)}
        with setup.on_node(files) as tensors, contextlib.closing(CaptureClient(tensors, setup.limits)) as client:
            recorder = _recorder(client, tensors)
            return [answer_source(recorder, source, setup.passes, setup.limits, held) for source in sources]

    return _packed(run)


def capture_once(packed: bytes, known: bytes) -> bytes:
    """Captures one pass of one program. `packed`: the setup, the source, the program's number and source, the
    pass, and the files of the source.

    Returns, packed, its `Answer`, or a `Failure`.
    """

    def run() -> Answer:
        setup, source, index, program, name, files = unpack(packed)
        held: Known = unpack(known)
        with setup.on_node(files) as tensors, contextlib.closing(CaptureClient(tensors, setup.limits)) as client:
            return _recorder(client, tensors).capture(source, index, program, name, held)

    return _packed(run)


def _recorder(client: CaptureClient, tensors: Path) -> AnswerRecorder:
    """A worker that was killed from outside may be the first process to end of a node that shuts down: the recorder
    waits for the others, so that Ray repeats the task on another node."""
    return AnswerRecorder(client, TensorStore(tensors), SHUTDOWN_S)


def _packed(run: Callable[[], _T]) -> bytes:
    """Packs a result; a `MindgapError` as a `Failure`."""
    try:
        return pack(run())
    except ClusterProblem as error:
        return pack(Failure(str(error), lost=True))
    except MindgapError as error:
        return pack(Failure(f"node {socket.gethostname()}: {error}"))
