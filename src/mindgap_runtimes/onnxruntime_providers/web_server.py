"""Serves one runner of onnxruntime-web: a process of Node, or a page in a separate browser, on the loopback only.

The runner (`web_runner.mjs`) asks for requests and posts answers. All paths begin with a random word, so that no other
process of the machine takes part. The headers of cross-origin isolation let a page have threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.platforms.protocol import Array, Fallback

_RUNNER: Final = Path(__file__).with_name("web_runner.mjs")
_PAGE: Final = b'<!doctype html><meta charset="utf-8"><script type="module" src="web_runner.mjs"></script>'
_KINDS: Final = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm"}
#: A runner that hears nothing for so long asks again.
_IDLE_S: Final = 30.0
#: So long a browser may take to fetch its first request.
_START_S: Final = 60.0
#: So often the process is looked at while it works.
_LOOK_S: Final = 0.25

REMEDY: Final = {"node": "apt-get install nodejs", "chromium": "apt-get install chromium"}
#: The kernel then ends the process with the thread that started it.
_PR_SET_PDEATHSIG: Final = 1

#: Chromium without a profile, an account or any network but this server, and with WebGPU where there is no GPU.
CHROMIUM: Final = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--mute-audio",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-unsafe-webgpu", "--enable-features=Vulkan,WebGPU", "--ignore-gpu-blocklist",
)  # fmt: skip
#: The software driver that Chromium brings.
SWIFTSHADER: Final = ("--use-webgpu-adapter=swiftshader", "--use-angle=swiftshader")


class RunnerEnded(Exception):
    """The runner's process ended, or its page no longer answers."""


class RunnerError(Exception):
    """What the runner raised. `kind`: the class of JavaScript's error. `printed`: lines that the library printed."""

    def __init__(self, message: str, kind: str, printed: Sequence[str]) -> None:
        super().__init__(message)
        self.kind = kind
        self.printed = tuple(printed)


@dataclass(eq=False)
class WebRunner:
    """One runner, which starts with its first request and again after its end.

    dist: the folder `dist` of onnxruntime-web. module: its file that the runner imports.
    browser: arguments of the browser; None for Node.
    starts: how often it was started; a session is there until the next start.
    """

    dist: Path
    module: str
    browser: Sequence[str] | None = None
    starts: int = 0
    _forgotten: list[int] = field(default_factory=list[int])
    _process: subprocess.Popen[bytes] | None = None
    _server: _Server | None = None
    _profile: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def ask(
        self, action: str, arguments: Mapping[str, Any], blocks: Sequence[Array | bytes] = ()
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Sends a request. Returns the header of the answer, and its blocks.

        Raises `RunnerError` for what the runner raised, `RunnerEnded` where it ended.
        """
        if self._process is None or self._process.poll() is not None:
            self.start()
        assert self._server is not None
        forgotten, self._forgotten = self._forgotten, []
        self._server.requests.put(encode({"action": action, "forgotten": forgotten, **arguments}, blocks))
        header, answers = decode(self._answer())
        if "error" in header:
            raise RunnerError(str(header["error"]), str(header["kind"]), header.get("printed") or ())
        return header, answers

    def forget(self, session: int) -> None:
        """Releases a session with the next request."""
        self._forgotten.append(session)

    def start(self) -> None:
        """Starts the process. What ran before ends. Raises `Fallback` where the program is not there."""
        self.stop()
        self._forgotten = []
        self._server = server = _Server(self.dist, self.module)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        name = "node" if self.browser is None else "chromium"
        program = program_of(name)
        if program is None:
            raise Fallback(f"{name} is not on this machine: {REMEDY[name]}")
        if self.browser is None:
            command = [program, str(_RUNNER), server.address, (self.dist / self.module).as_uri()]
        else:
            self._profile = tempfile.TemporaryDirectory(prefix="mindgap-browser-", ignore_cleanup_errors=True)
            command = [program, f"--user-data-dir={self._profile.name}", *self.browser, server.address]
        system = ctypes.CDLL(None)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=lambda: system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        )  # fmt: skip
        self.starts += 1
        weakref.finalize(self, _end, self._process)

    def stop(self) -> None:
        """Ends the process and the server, where there are any."""
        if self._process is not None:
            _end(self._process)
            self._process = None
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._profile is not None:
            self._profile.cleanup()
            self._profile = None

    def _answer(self) -> bytes:
        assert self._server is not None and self._process is not None
        waited = 0.0
        while True:
            try:
                return self._server.answers.get(timeout=_LOOK_S)
            except queue.Empty:
                waited += _LOOK_S
            if self._process.poll() is not None:
                status = self._process.returncode
                self.stop()
                raise RunnerEnded(f"{'Node' if self.browser is None else 'the browser'} ended with status {status}")
            if not self._server.asked.is_set() and waited > _START_S:
                self.stop()
                raise RunnerEnded(f"the page did not start within {_START_S:g} s")


def program_of(name: str) -> str | None:
    """The path of `node`, or of a browser for `chromium`; None without one."""
    names = ("chromium", "chromium-browser", "google-chrome") if name == "chromium" else (name,)
    return next(filter(None, map(shutil.which, names)), None)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def encode(header: Mapping[str, Any], blocks: Sequence[Array | bytes]) -> bytes:
    """A message: the header's length, the header with the blocks' sizes, the blocks, each at a multiple of 8 bytes."""
    raw = [block if isinstance(block, bytes) else np.ascontiguousarray(block).tobytes() for block in blocks]
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + b"".join(each + bytes(-len(each) % 8) for each in raw)


def parts(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Where blocks of these sizes are in a message, as begin and length in bytes."""
    places, begin = list[tuple[int, int]](), 0
    for size in blocks:
        places.append((begin, size))
        begin += size + -size % 8
    return places


def decode(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header of an answer, and its blocks."""
    begin = 4 + int.from_bytes(message[:4], "little")
    header: dict[str, Any] = json.loads(message[4:begin])
    blocks = list[bytes]()
    for size in header.pop("sizes"):
        blocks.append(message[begin : begin + size])
        begin += size
    return header, blocks


class _Server(ThreadingHTTPServer):
    """Gives the runner its files and requests, and takes its answers."""

    daemon_threads = True

    def __init__(self, dist: Path, module: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.word = secrets.token_hex(16)
        self.dist, self.module = dist, module
        self.requests: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bytes] = queue.Queue()
        self.asked = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner that ends in the middle of a request is found by its process."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.word}/"


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] # no other server makes it
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self._path()
        if path == "next":
            self.server.asked.set()
            try:
                self._send(self.server.requests.get(timeout=_IDLE_S), "application/octet-stream")
            except queue.Empty:
                self._send(b"", "", 204)
        elif path == "":
            self._send(_PAGE, "text/html")
        elif path == _RUNNER.name:
            text = _RUNNER.read_text(encoding="utf-8").replace("MODULE", self.server.module)
            self._send(text.encode(), "text/javascript")
        elif path is not None and path.startswith("ort/") and (file := self.server.dist / Path(path).name).is_file():
            self._send(file.read_bytes(), _KINDS.get(file.suffix, "application/octet-stream"))
        else:
            self._send(b"", "", 404)

    def do_POST(self) -> None:
        message = self.rfile.read(int(self.headers["Content-Length"]))
        if self._path() == "answer":
            self.server.answers.put(message)
        self._send(b"", "", 204)

    def _path(self) -> str | None:
        """The path behind the random word; None without it."""
        _, word, path = ("/" + self.path.lstrip("/")).split("/", 2) if self.path.count("/") > 1 else ("", "", "")
        return path.partition("?")[0] if secrets.compare_digest(word, self.server.word) else None

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():  # fmt: skip
            if value and not (status == 204 and name == "Content-Length"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""
