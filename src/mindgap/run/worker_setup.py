"""Sets up a worker process: claims its channel, ends it with its parent, limits its memory, serves until hangup.

The channel's two pipes are moved to private descriptors. Descriptor 0 then reads nothing; descriptor 1 and
`sys.stdout` write to standard error. So a library that prints, from Python or from C, cannot break the channel.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from mindgap.run.channel import ChannelClosed
from mindgap.run.log_setup import configure_logging
from mindgap.run.machine import own_bytes
from mindgap.run.message import OOM_EXIT
from mindgap.run.parent_death import die_with

#: How often a worker looks at its own memory, for a parent that cannot (another host, a container).
_WATCH_MS: Final = 200


def claim_channel() -> tuple[int, int]:
    """Takes descriptors 0 and 1 for the channel and leaves harmless ones in their place."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Line by line, so that what was printed before a crash is there to be read.
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "replace", line_buffering=True)
    return requests, answers


def prepare_to_die(parent: int | None, requests: int, memory_limit: int | None) -> None:
    """Ends this worker with its parent, prints stacks on crashes and SIGUSR1, limits its memory."""
    with contextlib.suppress(ValueError):
        # A level that is none has been reported by the command that started this worker.
        configure_logging(parent)
    logging.getLogger(__name__).info("worker process started: %s", " ".join(sys.argv))
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # When memory runs out for the whole machine, the kernel takes this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    if parent is not None and parent == os.getppid():
        # The fork server has seen to its own children.
        die_with(parent)
    threading.Thread(target=_watch, args=(requests, memory_limit), daemon=True).start()


def serve_until_hangup(serve: Callable[[], None]) -> NoReturn:
    """Runs `serve` until the parent closes the channel, then ends the process.

    Frameworks are not torn down: some hang or crash in it, and nothing in a worker needs saving.
    """
    with contextlib.suppress(ChannelClosed):
        serve()
    sys.stderr.flush()
    os._exit(0)


def _watch(requests: int, memory_limit: int | None) -> None:
    """Ends the process when the parent hangs up, in the middle of a job too, or when memory passes the limit."""
    poll = select.poll()
    poll.register(requests, 0)
    while True:
        if poll.poll(_WATCH_MS if memory_limit is not None else None):
            os._exit(0)
        if memory_limit is not None and own_bytes("self") > memory_limit:
            os._exit(OOM_EXIT)
