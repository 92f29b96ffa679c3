"""One warm process that runs jobs on one platform: `python -m mindgap.run.worker --platform NAME`.

Frames come on standard input and answers go to the standard output that the process started with.
Both are moved to descriptors that nothing else knows of before a framework is imported: descriptor 0
then reads nothing, and descriptor 1 and `sys.stdout` write to standard error, so that a library that
prints, from Python or from C, cannot hurt the channel.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import io
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph, GraphError, MindgapError, TensorStore, decode, default_tensor_store
from mindgap.platforms.protocol import Platform
from mindgap.run.cache import Cache
from mindgap.run.channel import ChannelClosed, Frame, FrameReader, send_frame
from mindgap.run.identity import remember
from mindgap.run.local import Caches, fingerprint_of, missing_tensors, run_job
from mindgap.run.message import OOM_EXIT, PROTOCOL, graph_bytes, outcome_frame, read_job, sent_tensors
from mindgap.run.opening import find_backend

_PR_SET_PDEATHSIG: Final = 1
#: How often a worker looks at its own memory, for a parent that cannot (another host, a container).
_WATCH_MS: Final = 200
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def main(argv: Sequence[str] | None = None) -> int:
    """Serves jobs until the parent hangs up. Returns the exit status."""
    arguments = _arguments(argv)
    requests, answers = _claim_channel()
    _prepare_to_die(arguments.parent, requests, arguments.memory_limit)
    try:
        platform, description = _open(arguments.platform)
    except Exception as error:
        permanent = isinstance(error, (MindgapError, ImportError))
        message = str(error)
        if not isinstance(error, MindgapError):
            message = f"platform {arguments.platform} cannot be opened: {type(error).__name__}: {error}"
        send_frame(answers, {"kind": "failed", "permanent": permanent, "message": message})
        return 1
    server = _Server(platform, description, answers, arguments)
    with contextlib.suppress(ChannelClosed):
        server.serve(requests)
    # No teardown of the frameworks: some of them hang or crash in it, and nothing here is worth saving.
    sys.stderr.flush()
    os._exit(0)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mindgap.run.worker", description=__doc__)
    parser.add_argument("--platform", required=True, help="the platform to open, as in `cpu/eager@isa=avx2`")
    parser.add_argument("--tensors", type=Path, help="the directory of stored tensors")
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--memory-limit", type=int, help="resident bytes at which the worker ends itself")
    parser.add_argument("--recycle", type=int, help="resident bytes after a job at which caches are emptied")
    return parser.parse_args(argv)


def _open(name: str) -> tuple[Platform, dict[str, Any]]:
    backend, options = find_backend(name)
    # A local parent has set these already; over ssh or in a container nobody has.
    for key, value in backend.environment(options).items():
        os.environ.setdefault(key, value)
    availability = backend.probe()
    if not availability.available:
        raise MindgapError(f"platform {name} is not available: {availability.reason}")
    platform = backend.open(options)
    # Whatever a platform puts in, a number of numpy's for one, what travels is JSON.
    return platform, json.loads(json.dumps(dict(platform.describe()), default=str))


class _Server:
    """The loop, and what it keeps between jobs."""

    def __init__(
        self, platform: Platform, description: dict[str, Any], answers: int, arguments: argparse.Namespace
    ) -> None:
        self._platform = platform
        self._description = description
        self._fingerprint = fingerprint_of(description)
        self._answers = answers
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
                "rss": resident_bytes(),
            }
        )
        while True:
            frame = reader.pull()
            if frame is not None:
                self._answer(frame)

    def _send(self, header: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
        send_frame(self._answers, header, arrays)

    def _answer(self, frame: Frame) -> None:
        try:
            graph = self._graph(frame)
            if graph is None:
                self._send({"kind": "need", "graph": True})
                return
            job = read_job(frame, self._name, graph)
            for key, array in sent_tensors(frame).items():
                if self._tensors.put(array) != key:
                    raise GraphError(f"the tensor sent is not {key}: does the worker run another version of mindgap?")
            if missing := missing_tensors(job, self._tensors, self._caches):
                self._send({"kind": "need", "tensors": missing})
                return
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
        rss = resident_bytes()
        if self._recycle is not None and rss > self._recycle:
            self._slim()
            rss = resident_bytes()
        self._send(*outcome_frame(outcome, rss))

    def _on_stage(self, stage: str) -> None:
        self._send({"stage": stage})

    def _graph(self, frame: Frame) -> Graph | None:
        digest: str = frame.header["graph"]
        data = graph_bytes(frame)
        if data is None:
            return self._graphs.get(digest)
        graph = decode(data)
        # Frames have a checksum and decoding checks every rule, so the parent's word is as good as our own.
        remember(graph, digest)
        # A decoded graph takes some ten times its compressed bytes.
        self._graphs.put(digest, graph, 10 * len(data))
        return graph

    def _slim(self) -> None:
        """Gives back what can be given back, to tell a full cache from a leak."""
        self._caches.clear()
        self._graphs.clear()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def _claim_channel() -> tuple[int, int]:
    """Takes descriptors 0 and 1 for the channel and leaves harmless ones in their place."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Line by line, so that what was printed before a crash is there to be read.
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "replace", line_buffering=True)
    return requests, answers


def _prepare_to_die(parent: int | None, requests: int, memory_limit: int | None) -> None:
    """No worker outlives its parent, none hangs or crashes without saying where, none takes the parent along."""
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # When memory runs out for the whole machine, the kernel takes this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    if parent is not None and parent == os.getppid():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    threading.Thread(target=_watch, args=(requests, memory_limit), daemon=True).start()


def _watch(requests: int, memory_limit: int | None) -> None:
    """Ends the process when the parent hangs up, in the middle of a job too, or when memory passes the limit."""
    poll = select.poll()
    poll.register(requests, 0)
    while True:
        if poll.poll(_WATCH_MS if memory_limit is not None else None):
            os._exit(0)
        if memory_limit is not None and resident_bytes() > memory_limit:
            os._exit(OOM_EXIT)


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
