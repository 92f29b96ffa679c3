"""The other machine's side of a host: `python -m mindgap worker`, which the command of `[hosts.NAME]` starts there.

It says on standard output what it is (the greeting, one line), reads from standard input what to run (the order, one
line), and runs that with the same three streams. Beside that process it stays: it sends signs of life on standard
error, ends the process when the connection ends, and says at last how it ended.

Standard library only, so that what another Python lacks is named, not met as an import error.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

#: Raised when either side would misread the other: a worker of a host is another installation.
PROTOCOL = 6
#: Begins the greeting and surrounds a record on standard error. No text has it.
MARK = "\x1e"
GREETING = MARK + "mindgap-host "
#: The record that is sent every `BEAT_S` seconds, and the beginning of the last one.
ALIVE = "alive"
ENDED = "ended "
BEAT_S = 2.0
#: The packages that every worker needs, beside those of its platform.
NEEDED = ("numpy", "ml_dtypes", "xxhash", "zstandard")
#: What an order's command holds in place of what is known here only: the interpreter, the file `start.py`, the folder
#: of mindgap, the order's folder, this process, and the bytes that a worker may hold.
PYTHON, START, PACKAGE, FOLDER, PARENT, MEMORY = "{python}", "{start}", "{package}", "{folder}", "{parent}", "{memory}"
#: The share of the machine's memory that a worker may hold.
_SHARE = 0.8
_HERE = os.path.dirname(os.path.abspath(__file__))
#: How long a process that hangs has to print where.
_LAST_WORDS_S = 0.3


def main() -> None:
    """Greets, reads an order, and runs it until it ends or the connection does."""
    folder, problem = _folder()
    try:
        os.write(1, (GREETING + json.dumps({**_greeting(), "problem": problem}) + "\n").encode())
        order = _read_order()
        if order is None or problem:
            return
        for name, text in order["files"].items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        variables = dict(os.environ, MINDGAP_SHARED=folder)
        for name, value in order["variables"].items():
            variables.pop(name, None)
            if value is not None:
                variables[name] = value
        before = _oom_kills()
        process = subprocess.Popen(_command(order["command"], folder), env=variables, start_new_session=True)
        threading.Thread(target=_attend, args=(process,), daemon=True).start()
        status = process.wait()
        _kill(process.pid)
        _record(ENDED + json.dumps({"status": status, "oom": _oom_kills() > before}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _folder() -> "tuple[str, str]":
    """Makes the order's folder. Returns it, and why there is none."""
    try:
        return tempfile.mkdtemp(prefix="mindgap-host-"), ""
    except OSError as error:
        return "", "no temporary folder can be made: %s" % (error.strerror or error)


def own_version() -> str:
    """Returns the version of this mindgap, whose package whoever runs this file has imported."""
    return sys.modules["mindgap"].__version__


def _greeting() -> "dict[str, object]":
    import importlib.util
    import platform

    return {
        "mindgap": own_version(),
        "protocol": PROTOCOL,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "system": platform.system(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "byte_order": sys.byteorder,
        "terminal": os.isatty(0) or os.isatty(1),
        "missing": [name for name in NEEDED if importlib.util.find_spec(name) is None],
    }


def _read_order() -> "dict[str, Any] | None":
    """Nothing follows the order until it is answered, so that no byte of a frame is taken. None: nobody orders."""
    line = b""
    while not line.endswith(b"\n"):
        got = os.read(0, 1 << 16)
        if not got:
            return None
        line += got
    return json.loads(line)


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


def _oom_kills() -> int:
    """Returns how many processes this kernel has killed for lack of memory; 0 if unknown."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    main()
