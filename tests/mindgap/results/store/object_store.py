"""An S3-compatible server in this process, which can be made to refuse what is written to it."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

#: Answers of servers that take nothing more: status and code, as MinIO, Ceph and AWS have them.
FULL = (507, "XMinioStorageFull")
QUOTA = (403, "QuotaExceeded")
DENIED = (403, "AccessDenied")


@dataclass
class ObjectStore:
    """`refusal`: status and code with which requests to write are answered; None: they are answered as they should.
    `after`: requests to write that are still taken before that."""

    url: str
    refusal: tuple[int, str] | None = None
    after: int = 0

    def wrapped(self, application: Callable[..., Any]) -> Callable[..., Any]:
        """The server's application behind the refusals, one request at a time: moto closes an object that another
        request writes over."""
        turn = threading.Lock()

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if self.refusal is not None and environ["REQUEST_METHOD"] in ("PUT", "POST"):
                self.after -= 1
                if self.after < 0:
                    status, code = self.refusal
                    start(f"{status} Refused", [("Content-Type", "application/xml")])
                    return [f"<Error><Code>{code}</Code><Message>the server says {code}</Message></Error>".encode()]
            with turn:
                return application(environ, start)

        return answer


@contextmanager
def object_store(patch: pytest.MonkeyPatch) -> Generator[ObjectStore]:
    """Starts moto's server with the bucket `bucket`. s3fs finds it by the environment."""
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'mindgap[dev]'")
    import logging

    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = ObjectStore(f"http://{host}:{port}")
    server._server.app = found.wrapped(server._server.app)
    # One attempt: a server that refuses is not asked again and again.
    for name, value in {"ENDPOINT_URL": found.url, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test",
                        "MAX_ATTEMPTS": "1", "DEFAULT_REGION": "us-east-1"}.items():  # fmt: skip
        patch.setenv(f"AWS_{name}", value)
    s3fs.S3FileSystem.clear_instance_cache()
    # What an earlier server of this process held is moto's still.
    urllib.request.urlopen(urllib.request.Request(f"{found.url}/moto-api/reset", method="POST")).close()
    s3fs.S3FileSystem().mkdir("bucket")
    try:
        yield found
    finally:
        server.stop()
        s3fs.S3FileSystem.clear_instance_cache()
