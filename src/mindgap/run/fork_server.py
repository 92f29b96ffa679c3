"""The fork server: a process that imports PyTorch once and forks worker processes from that state.

`run.forking` starts it as `python -m mindgap.run.fork_server` and sends it requests, one JSON object a message, through
a socket. Each answer has the request's number `id`.

    server → driver   ready, or failed: a reason
    driver → server   fork: module, arguments, directory, variables; with the worker's three streams as descriptors
    server → driver   pid, or refused: a reason
    driver → server   reap: a pid that has ended, or is about to
    server → driver   status: as `os.waitstatus_to_exitcode` gives it

Only the thread that calls fork lives on in the child, and what other threads held stays locked there for ever. So the
server runs nothing but imports, and forks only while it has a single thread. A child seeds its generators again.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.run.system import die_with

#: What workers of the PyTorch platforms and the worker that opens sources import. They bring torch and numpy along.
PRELOADED: Final = (
    "mindgap.run.server",
    "mindgap.run.worker",
    "mindgap.platforms.pytorch.device.settings",
    "mindgap.platforms.pytorch.execution.eager_executable",
    "mindgap.platforms.pytorch.compilation.compiled",
    "mindgap.sources",
    "mindgap.aten.torch_private.inductor",
)
#: A message's bytes at most.
LONGEST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class _Worker:
    """What a forked child is to run: `python -m module arguments`."""

    module: str
    arguments: Sequence[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the driver closes the socket. In a forked child, runs the worker instead."""
    parser = argparse.ArgumentParser(prog="mindgap.run.fork_server", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="the process to die with")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of a socket of the kind SOCK_SEQPACKET")
    arguments = parser.parse_args(argv)
    die_with(arguments.parent)
    with socket.socket(fileno=arguments.socket) as driver:
        worker = _served(driver)
    if worker is None:
        return 0
    module = importlib.import_module(worker.module)
    sys.argv = [str(module.__file__), *worker.arguments]
    return module.main(worker.arguments)


def threads_now() -> int:
    """Returns how many threads this process has, those of native libraries included."""
    return len(os.listdir("/proc/self/task"))


def _served(driver: socket.socket) -> _Worker | None:
    """Serves requests. Returns None when the driver has closed the socket, and the worker to run in a child."""
    try:
        for module in PRELOADED:
            importlib.import_module(module)
        _end_restartable_threads()
    except Exception as error:
        _send(driver, {"failed": f"{type(error).__name__}: {error}"})
        return None
    # Collections in the workers then leave these pages alone, which all of them share.
    gc.collect()
    gc.freeze()
    if not _send(driver, {"ready": True}):
        return None
    ended: dict[int, int] = {}
    while True:
        data, streams, _, _ = socket.recv_fds(driver, LONGEST, 3)
        if not data:
            return None
        request: dict[str, Any] = json.loads(data)
        if "fork" in request:
            answer = _fork(request["fork"], streams, driver)
            if isinstance(answer, _Worker):
                return answer
            ended.pop(answer.get("pid", 0), None)
        else:
            pid: int = request["reap"]
            if pid not in ended:  # else its driver was interrupted in its last request
                ended[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            answer = {"status": ended[pid]}
        if not _send(driver, {"id": request["id"], **answer}):
            return None


def _send(driver: socket.socket, message: Mapping[str, Any]) -> bool:
    """Sends a message; returns False where the driver has gone."""
    try:
        driver.send(json.dumps(message).encode())
    except ConnectionError:
        return False
    return True


def _end_restartable_threads() -> None:
    """Ends the threads of OpenBLAS, which numpy's import starts: it ends them before each fork, and starts them again,
    in whichever process, with its next computation."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _fork(request: Mapping[str, Any], streams: Sequence[int], driver: socket.socket) -> _Worker | dict[str, Any]:
    """Forks. Returns the answer, and in the child the worker to run."""
    server, threads = os.getpid(), threads_now()
    try:
        if threads > 1:
            return {"refused": f"the fork server has {threads} threads"}
        child = os.fork()
        if child == 0:
            _become_worker(request, streams, server, driver)
            return _Worker(request["module"], request["arguments"])
        return {"pid": child}
    except OSError as error:
        return {"refused": str(error)}
    finally:
        if os.getpid() == server:
            for fd in streams:
                os.close(fd)


def _become_worker(request: Mapping[str, Any], streams: Sequence[int], server: int, driver: socket.socket) -> None:
    """Gives the child what a process has that was started by a command line: a session, streams, variables, entropy."""
    try:
        os.setsid()
        die_with(server)
        driver.close()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
            os.close(fd)
        os.chdir(request["directory"])
        for name, value in request["variables"].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _seed_again()
        importlib.invalidate_caches()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _seed_again() -> None:
    """Seeds the global generators of numpy and PyTorch, which import seeds from entropy. `random` sees to it itself."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


if __name__ == "__main__":
    sys.exit(main())
