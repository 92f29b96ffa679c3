"""Worker process that runs jobs on one platform: `python -m mindgap.run.worker --platform NAME`.

Frames come on standard input and answers go to the standard output that the process started with.
Both are claimed (see `worker_setup`) before a framework is imported.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from mindgap.graph import Graph, MindgapError, TensorStore, decode, default_tensor_store
from mindgap.graph.cache import Cache
from mindgap.platforms.inside import add_options, described, probed
from mindgap.platforms.protocol import Platform
from mindgap.run.backend_lookup import backend_inside, find_backend
from mindgap.run.batch_loading import prepare
from mindgap.run.channel import Frame, FrameReader, send_frame
from mindgap.run.identity import remember
from mindgap.run.local import Caches, fingerprint_of, run_job
from mindgap.run.machine import own_bytes
from mindgap.run.message import PROTOCOL, graph_bytes, outcome_frame, read_job, sent_graphs
from mindgap.run.outcome import Job
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Serves jobs until the parent hangs up, then ends the process; with status 1 if the platform cannot be opened."""
    arguments = _arguments(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, arguments.memory_limit)
    try:
        platform, description = _open(arguments)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit too: a library that calls sys.exit() has not opened the platform
        permanent = isinstance(error, (MindgapError, ImportError))
        message = str(error)
        if not isinstance(error, MindgapError):
            message = f"platform {arguments.platform} cannot be opened: {type(error).__name__}: {error}"
        send_frame(answers, {"kind": "failed", "permanent": permanent, "message": message})
        # No teardown: a thread of the library may go on for ever.
        sys.stderr.flush()
        os._exit(1)
    server = _Server(platform, description, answers, arguments)
    serve_until_hangup(lambda: server.serve(requests))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mindgap.run.worker", description=__doc__)
    parser.add_argument("--platform", required=True, help="the platform to open, as in `cpu/eager@isa=avx2`")
    parser.add_argument("--tensors", type=Path, help="the directory of stored tensors")
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--memory-limit", type=int, help="resident bytes at which the worker ends itself")
    parser.add_argument("--recycle", type=int, help="resident bytes after a job at which caches are emptied")
    parser.add_argument("--backend", help="the backend's object, `package.module:attribute`, in another environment")
    add_options(parser)
    return parser.parse_args(argv)


def _open(arguments: argparse.Namespace) -> tuple[Platform, dict[str, Any]]:
    name: str = arguments.platform
    place: str | None = arguments.backend
    backend, options = find_backend(name) if place is None else backend_inside(name, place)
    availability = probed(backend, arguments)
    if not availability.available:
        raise MindgapError(f"platform {name} is not available: {availability.reason}")
    platform = backend.open(options)
    description = dict(platform.describe()) | ({} if place is None else {"environment": described()})
    # Whatever a platform puts in, a number of numpy's for one, what travels is JSON.
    return platform, json.loads(json.dumps(description, default=str))


class _Server:
    """Answers requests in a loop; keeps graphs and caches between jobs."""

    def __init__(
        self, platform: Platform, description: dict[str, Any], answers: int, arguments: argparse.Namespace
    ) -> None:
        self._platform = platform
        self._description = description
        self._fingerprint = fingerprint_of(description)
        self._answers = answers
        self._pid = os.getpid()
        self._name: str = arguments.platform
        self._recycle: int | None = arguments.recycle
        self._tensors = default_tensor_store() if arguments.tensors is None else TensorStore(arguments.tensors)
        self._caches = Caches()
        self._graphs: Cache[str, Graph] = Cache(256, 1 << 27)

    def serve(self, requests: int) -> None:
        """Answers every frame. Raises `ChannelClosed` when the parent hangs up."""
        reader = FrameReader(requests)
        # What a framework brings along is garbage only at the end: no collection need walk through it.
        gc.collect()
        gc.freeze()
        self._send(
            {
                "kind": "ready",
                "protocol": PROTOCOL,
                "description": self._description,
                "fingerprint": self._fingerprint,
                "rss": own_bytes("self"),
            }
        )
        while True:
            self._answer(reader.next())

    def _send(self, header: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
        # A library may fork, and let the child return: the channel is the parent's.
        if os.getpid() != self._pid:
            os._exit(0)
        send_frame(self._answers, header, arrays)

    def _answer(self, frame: Frame) -> None:
        if frame.header.get("kind") == "prepare":
            self._prepare(frame)
            return
        try:
            graph = self._graph(frame)
            if graph is None:
                self._send({"kind": "need"})
                return
            job = read_job(frame, self._name, graph)
            outcome = run_job(
                self._platform,
                job,
                tensors=self._tensors,
                caches=self._caches,
                fingerprint=self._fingerprint,
                on_stage=self._on_stage,
            )
        except MindgapError as error:
            self._send({"kind": "refused", "message": str(error)})
            return
        rss = own_bytes("self")
        if self._recycle is not None and rss > self._recycle:
            self._slim()
            rss = own_bytes("self")
        self._send(*outcome_frame(outcome, rss))

    def _prepare(self, frame: Frame) -> None:
        try:
            jobs = [
                Job(self._name, self._keep(digest, data), inputs=inputs) for digest, data, inputs in sent_graphs(frame)
            ]
        except MindgapError as error:
            self._send({"kind": "refused", "message": str(error)})
            return
        held, message = prepare(self._platform, jobs, self._tensors, self._caches)
        self._send({"kind": "prepared", "held": held, "message": message})

    def _on_stage(self, stage: str) -> None:
        self._send({"stage": stage})

    def _graph(self, frame: Frame) -> Graph | None:
        digest: str = frame.header["graph"]
        data = graph_bytes(frame)
        return self._graphs.get(digest) if data is None else self._keep(digest, data)

    def _keep(self, digest: str, data: bytes) -> Graph:
        """Decodes a graph and keeps it under its digest. Raises `GraphError`."""
        graph = decode(data)
        # Frames have a checksum and decoding checks every rule, so the parent's word is as good as our own.
        remember(graph, digest)
        # A decoded graph takes some ten times its compressed bytes.
        self._graphs.put(digest, graph, 10 * len(data))
        return graph

    def _slim(self) -> None:
        """Frees caches and unused memory, so that what remains is a leak."""
        self._caches.clear()
        self._graphs.clear()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    main()
