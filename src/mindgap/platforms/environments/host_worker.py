"""The other machine's side of a host: `python -m mindgap worker`, which the command of `[hosts.NAME]` starts there.

It writes to standard output what it is (the greeting, one line), reads from standard input what to run (the order, one
line), and runs that with the same three streams. Beside that process it stays: it sends signs of life on standard
error, ends the process when the connection ends, and reports at last how it ended.

Standard library only, so that what another Python lacks is named, not met as an import error.
"""

import contextlib
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

#: Raised when either side would misread the other: a worker of a host is another installation.
PROTOCOL = 8
#: Begins the greeting and surrounds a record on standard error. No text has it.
MARK = "\x1e"
GREETING = MARK + "mindgap-host "
#: The record that is sent every `BEAT_S` seconds, and the beginning of the last one.
ALIVE = "alive"
ENDED = "ended "
BEAT_S = 2.0
#: The packages that every worker needs, besides those of its platform.
NEEDED = ("numpy", "ml_dtypes", "xxhash", "zstandard")
#: What an order's command holds in place of what is known here only: the interpreter, the file `start.py`, the folder
#: of mindgap, the order's folder, this process, and the bytes that a worker may hold.
PYTHON, START, PACKAGE, FOLDER, PARENT, MEMORY = "{python}", "{start}", "{package}", "{folder}", "{parent}", "{memory}"
#: The share of the machine's memory that a worker may hold.
_SHARE = 0.8
_PREFIX = "mindgap-hosted-"
#: A folder that is younger may have no lock yet.
_YOUNG_S = 60.0
_PR_SET_PDEATHSIG = 1
_HERE = os.path.dirname(os.path.abspath(__file__))
#: How long a process that hangs has to print where.
_LAST_WORDS_S = 0.3


def main() -> int:
    """Greets, reads an order, and runs it until it ends or the connection does. Returns the exit status."""
    folder, problem = _folder()
    try:
        os.write(1, (GREETING + json.dumps({**_greeting(), "problem": problem}) + "\n").encode())
        line = _read_line()
        if not line or problem:
            return 0
        order = _order(line)
        if order is None:
            os.write(2, b"mindgap worker: what came is no order: the command of a host starts it, no person\n")
            return 2
        for name, text in order["files"].items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        variables = dict(os.environ, MINDGAP_SHARED=folder)
        for name, value in order["variables"].items():
            variables.pop(name, None)
            if value is not None:
                variables[name] = value
        before = oom_kills()
        process = subprocess.Popen(
            _command(order["command"], folder), env=variables, start_new_session=True, preexec_fn=_die_together()
        )
        threading.Thread(target=_attend, args=(process,), daemon=True).start()
        status = process.wait()
        _kill(process.pid)
        _record(ENDED + json.dumps(_ended(status, before)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _folder() -> "tuple[str, str]":
    """Makes the order's folder. Returns it, and why there is none."""
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        with contextlib.suppress(OSError):
            # Held, with the lock, until this process ends, however it does.
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
            _remove_left(os.path.dirname(folder))
        return folder, ""
    except OSError as error:
        return "", "no temporary folder can be made: %s" % (error.strerror or error)


def _remove_left(parent: str) -> None:
    """Removes the folders of processes like this one that were killed."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            if name.startswith(_PREFIX) and time.time() - os.stat(path).st_mtime > _YOUNG_S:
                held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(held)


def _die_together() -> "Callable[[], None]":
    """Makes what a child process calls before its program, so that the kernel ends it with this one (Linux)."""
    import ctypes

    library, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        if hasattr(library, "prctl"):
            library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


def own_version() -> str:
    """Returns the version of this mindgap, whose package whoever runs this file has imported."""
    return sys.modules["mindgap"].__version__


def _greeting() -> "dict[str, object]":
    import importlib.util
    import platform

    return {
        "mindgap": own_version(),
        "package": os.path.dirname(os.path.dirname(_HERE)),
        "protocol": PROTOCOL,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "system": platform.system(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "byte_order": sys.byteorder,
        "boot": _boot(),
        "terminal": os.isatty(0) or os.isatty(1),
        "missing": [name for name in NEEDED if importlib.util.find_spec(name) is None],
    }


def _boot() -> str:
    """Returns what the kernel calls this start of the machine; empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _read_line() -> bytes:
    """Nothing follows the order until it is answered, so that no byte of a frame is taken. Empty: no order."""
    line = b""
    while not line.endswith(b"\n"):
        got = os.read(0, 1 << 16)
        if not got:
            return b""
        line += got
    return line


def _order(line: bytes) -> "dict[str, Any] | None":
    """Reads the order. None for a line that is none."""
    try:
        order = json.loads(line)
        right = order["command"] and all(isinstance(each, str) for each in order["command"])
        return order if right and isinstance(order["files"], dict) and isinstance(order["variables"], dict) else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _command(command: "list[str]", folder: str) -> "list[str]":
    known = {
        PYTHON: sys.executable,
        START: os.path.join(_HERE, "start.py"),
        PACKAGE: os.path.dirname(os.path.dirname(_HERE)),
        FOLDER: folder,
        PARENT: str(os.getpid()),
        MEMORY: str(_memory()),
    }
    return [known.get(each, each) for each in command]


def _memory() -> int:
    """Returns the bytes that a worker may hold."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            total = min(total, int(file.read()))
    except (OSError, ValueError):
        pass
    return int(_SHARE * total)


def _attend(process: "subprocess.Popen[bytes]") -> None:
    """Sends signs of life; ends the process when the other side hangs up, also where it hangs itself."""
    poll = select.poll()
    poll.register(0, 0)
    while not poll.poll(BEAT_S * 1000):
        if not _record(ALIVE):
            break
    try:
        # A worker prints its stack.
        process.send_signal(signal.SIGUSR1)
        time.sleep(_LAST_WORDS_S)
    finally:
        _kill(process.pid)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _record(text: str) -> bool:
    try:
        os.write(2, (MARK + text + MARK).encode())
    except OSError:
        return False
    return True


def _ended(status: int, before: int) -> "dict[str, object]":
    """How the process ended. `before`: how many processes this kernel had killed for lack of memory before it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    oom = status == -signal.SIGKILL and oom_kills() > before
    return {"status": status, "oom": oom, "cpu": used.ru_utime + used.ru_stime}


def oom_kills() -> int:
    """Returns how many processes this kernel has killed for lack of memory; 0 if unknown."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
