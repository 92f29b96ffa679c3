"""Serves the requests of one service in a worker process:
`python -m mindgap.run.server PACKAGE.MODULE:FUNCTION --parent PID --options JSON`.

The function opens the service: it takes the channel and the options, and returns what answers each kind of request.

worker → parent   ready      the protocol's version, and the service's description; first frame of a worker
                             that lives
                  failed     why the service could not be opened; last frame of one that does not
                  refused    an answer: the request was bad input (`MindgapError`)
All other frames are the service's own; an answer has the processor seconds that it took.

The channel's two pipes are moved to private descriptors before the service is imported. Descriptor 0 then reads
nothing; descriptor 1 and `sys.stdout` write to standard error. So a library that prints, from Python or from C, cannot
break the channel.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import io
import json
import logging
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from mindgap.graph import MindgapError
from mindgap.platforms.environments.host_worker import PROTOCOL
from mindgap.platforms.protocol import PlatformError
from mindgap.run.channel import Array, ChannelClosed, Frame, FrameReader, send_frame
from mindgap.run.log_setup import configure_logging
from mindgap.run.message import OOM_EXIT
from mindgap.run.system import die_with, own_bytes

#: How often a worker checks its memory. Its parent looks too, but may be busy.
_WATCH_MS: Final = 200

#: The header and the arrays of an answer.
Answer = tuple[Mapping[str, Any], Sequence[Array]]


@dataclass(frozen=True, slots=True)
class Service:
    """`answers`: what answers each kind of request. A `MindgapError` refuses the request; any other error ends the
    process. `about`: sent to the parent when the service is open."""

    answers: Mapping[str, Callable[[Frame], Answer]]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Channel:
    """The worker's end of the channel to its parent."""

    def __init__(self, requests: int, answers: int) -> None:
        self._reader, self._answers, self._pid = FrameReader(requests), answers, os.getpid()

    def send(self, header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
        """Sends a frame. Raises `ChannelClosed` when the parent has hung up."""
        # A library may fork, and let the child return: the channel is the parent's.
        if os.getpid() != self._pid:
            os._exit(0)
        sys.stderr.flush()
        send_frame(self._answers, header, arrays)

    def receive(self) -> Frame:
        """Waits for the next frame. Raises `ChannelClosed` when the parent has hung up."""
        return self._reader.next()


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Serves until the parent hangs up, then ends the process; with status 1 if the service cannot be opened."""
    parser = argparse.ArgumentParser(prog="mindgap.run.server", description=__doc__)
    parser.add_argument("service", help="the function that opens the service, `package.module:function`")
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--memory-limit", type=int, help="resident bytes at which the worker ends itself")
    parser.add_argument("--remote", action="store_true", help="on a host, whose `host_worker` sees to its end")
    parser.add_argument("--options", type=json.loads, default={}, help="the options of the service, as JSON")
    arguments = parser.parse_args(argv)
    requests, answers = _claim_channel()
    _prepare_to_die(arguments.parent, None if arguments.remote else requests, arguments.memory_limit)
    channel = Channel(requests, answers)
    module, _, function = arguments.service.partition(":")
    status = 0
    with contextlib.suppress(ChannelClosed):
        try:
            service: Service = getattr(importlib.import_module(module), function)(channel, **arguments.options)
        except (ChannelClosed, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit too: a library that calls sys.exit() has not opened the service
            channel.send(_failed(error))
            status = 1
        else:
            _serve(service, channel, arguments.remote)
    # Frameworks are not torn down: some hang or crash in it, a thread of one may go on for ever, and nothing in a
    # worker needs saving.
    sys.stderr.flush()
    os._exit(status)


def _failed(error: BaseException) -> dict[str, Any]:
    """The frame with the reason why the service could not be opened. `permanent`: another try cannot succeed."""
    ours = isinstance(error, MindgapError)
    message = str(error) if ours else f"{type(error).__name__}: {error}"
    wrong_use = isinstance(error, PlatformError)
    permanent = ours or isinstance(error, ImportError)
    return {"kind": "failed", "permanent": permanent, "ours": ours, "wrong_use": wrong_use, "message": message}


def _serve(service: Service, channel: Channel, remote: bool) -> NoReturn:
    """Answers every frame. Raises `ChannelClosed` when the parent hangs up. `remote`: reports when a request is there,
    and when its answer leaves, between which alone a deadline counts."""
    # What a framework brings along is garbage only at the end: no collection need walk through it.
    gc.collect()
    gc.freeze()
    channel.send({"kind": "ready", "protocol": PROTOCOL, "cpu": _cpu_seconds(), **service.about})
    while True:
        frame = channel.receive()
        if remote:
            channel.send({"clock": "start"})
        before = time.process_time()
        try:
            header, arrays = service.answers[frame.header["kind"]](frame)
        except MindgapError as error:
            header, arrays = {"kind": "refused", "message": str(error)}, ()
        if remote:
            channel.send({"clock": "stop", "cpu": _cpu_seconds()})
        channel.send({"cpu_seconds": time.process_time() - before, **header}, arrays)


def _cpu_seconds() -> float:
    """Returns the processor seconds of this process so far, and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


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


def _prepare_to_die(parent: int | None, requests: int | None, memory_limit: int | None) -> None:
    """Ends this worker with its parent, prints stacks on crashes and SIGUSR1, limits its memory. `requests`: where to
    look whether the parent hangs up."""
    with contextlib.suppress(ValueError):
        # A level that is none has been reported by the command that started this worker.
        configure_logging(parent)
    logging.getLogger("mindgap.run.server").info("worker process started: %s", " ".join(sys.argv))
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # When memory runs out for the whole machine, the kernel takes this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    if parent is not None and parent == os.getppid():
        # The fork server has reaped its children.
        die_with(parent)
    threading.Thread(target=_watch, args=(requests, memory_limit), daemon=True).start()


def _watch(requests: int | None, memory_limit: int | None) -> None:
    """Ends the process when the parent hangs up, in the middle of a job too, or when memory passes the limit."""
    poll = select.poll()
    if requests is not None:
        poll.register(requests, 0)
    while True:
        if poll.poll(_WATCH_MS if memory_limit is not None else None):
            os._exit(0)
        if memory_limit is not None and own_bytes("self") > memory_limit:
            os._exit(OOM_EXIT)


if __name__ == "__main__":
    main()
