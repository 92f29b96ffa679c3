"""Asks an OpenAI-compatible server for completions, with the standard library's HTTP client.

Protocol: `POST /completions` with model, prompt, max_tokens, temperature 0, a seed and `logprobs`; see the OpenAI API
reference, "Completions" and "Chat completions". What a server does wrong is a `Completion` with an error.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from mindgap.graph import MindgapError
from mindgap_surveys.servers.completion_format import (
    BadAnswer,
    Completion,
    completion_from_events,
    completion_from_text,
    json_object,
    shown,
)

#: Bytes of one answer that are read.
_MOST_BYTES: Final = 8 << 20
#: Seconds that a `Retry-After` is followed at most, and how many times.
_LONGEST_WAIT_S: Final = 30.0
_RETRIES: Final = 3


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request. prompt: a text, or tokens. chat: as a message of a user, at `/chat/completions`. stream: as
    server-sent events. top: alternatives to each token whose log-probabilities are wanted; 0 for the token's alone.
    numbered: tokens are named by their numbers, where the server knows how (vLLM)."""

    model: str
    prompt: str | tuple[int, ...]
    max_tokens: int = 32
    chat: bool = False
    stream: bool = False
    seed: int = 0
    top: int = 0
    numbered: bool = False

    def body(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "model": self.model, "max_tokens": self.max_tokens, "temperature": 0, "seed": self.seed,
            "stream": self.stream, **({"return_tokens_as_token_ids": True} if self.numbered else {}),
        }  # fmt: skip
        if self.chat:
            return {**content, "messages": [{"role": "user", "content": self.prompt}], "logprobs": True,
                    **({"top_logprobs": self.top} if self.top else {})}  # fmt: skip
        return {**content, "prompt": self.prompt, "logprobs": self.top or 1}


class _Refused(Exception):
    """The server answered with a status that is an error. `pause`: the seconds until the next request, infinite where
    it names none."""

    def __init__(self, error: HTTPError) -> None:
        body, text = cast("Any", error), b""
        with suppress(OSError, http.client.HTTPException):
            # What has come: the rest may drip.
            text = body.read1(4096)
        limited = "it limits the rate: " if error.code == 429 else ""
        words = f"{shown(str(error.reason))}: {shown(text.decode(errors='replace'))}"
        super().__init__(f"{limited}status {error.code} {words}".rstrip(": "))
        after = error.headers.get("Retry-After", "")
        named = error.code in (429, 503) and re.fullmatch(r"\d+(\.\d*)?", after)
        self.pause = float(after) if named else math.inf


class CompletionClient:
    """Asks one server. Thread-safe. `timeout_s`: of one request, from its start to its last byte."""

    def __init__(self, url: str, timeout_s: float = 60.0, key: str = "") -> None:
        """`url`: with the version, `http://HOST:PORT/v1`. `key`: sent as a bearer token. Raises `MindgapError`."""
        parts, key = _address(url), key.strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            # The key itself is never printed.
            raise MindgapError(f"{url}: its key has characters that no HTTP header holds (spaces, line ends, …)")
        self.url = url.rstrip("/")
        self._timeout_s, self._key = timeout_s, key
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        # A server on this machine is not behind a proxy. A redirection would send a prompt elsewhere.
        self._opener = build_opener(_NoRedirects, *([ProxyHandler({})] if local else []))

    def models(self) -> list[str]:
        """The names of the server's models. Raises `MindgapError` where it does not say."""
        try:
            content = json_object(self._read("models"))
            return [str(each["id"]) for each in content["data"]]
        except (BadAnswer, _Refused, KeyError, TypeError) as error:
            raise MindgapError(f"{self.url}: it names no models: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise MindgapError(f"{self.url}: no server answers: {_reason(error)}") from None

    def complete(self, request: CompletionRequest) -> Completion:
        """Sends a request; again, after the time that the server names, where it limits the rate."""
        path = "chat/completions" if request.chat else "completions"
        read = completion_from_events if request.stream else completion_from_text
        data, started, waited = json.dumps(request.body()).encode(), time.monotonic(), 0
        while True:
            try:
                completion = read(self._read(path, data), request.chat)
                return replace(completion, waited=waited, seconds=time.monotonic() - started)
            except _Refused as error:
                if error.pause > _LONGEST_WAIT_S or waited == _RETRIES:
                    return Completion(error=f"{error}{' after waiting' if waited else ''}", waited=waited)
                time.sleep(error.pause)
                waited += 1
            except (BadAnswer, OSError, http.client.HTTPException) as error:
                return Completion(error=_reason(error), waited=waited)

    def _read(self, path: str, data: bytes | None = None) -> str:
        """Returns the body of an answer. Raises `BadAnswer`, `_Refused`, `OSError`, `http.client.HTTPException`.

        A socket's timeout is of one read: a thread reads, and is left behind where a server drips.
        """
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {self._key}"} if self._key else {})}
        if data is not None:
            headers["Content-Type"] = "application/json"
        request, body = Request(f"{self.url}/{path}", data, headers), Future[bytes]()

        def read() -> None:
            try:
                body.set_result(self._body(request))
            except Exception as error:  # `result` raises it
                body.set_exception(error)

        threading.Thread(target=read, daemon=True).start()
        try:
            return body.result(self._timeout_s).decode()
        except UnicodeDecodeError:
            raise BadAnswer("it sent bytes that are no text") from None

    def _body(self, request: Request) -> bytes:
        data, until = bytearray(), time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                while part := answer.read1(1 << 16):
                    data += part
                    if time.monotonic() > until:
                        raise TimeoutError
                    if len(data) > _MOST_BYTES:
                        raise BadAnswer(f"it sent more than {_MOST_BYTES >> 20} MiB")
        except HTTPError as error:
            with error:
                raise _Refused(error) from None
        return bytes(data)


def _address(url: str) -> SplitResult:
    """Takes an address apart. Raises `MindgapError` for one that no request can be sent to."""
    shown = re.sub(r"//[^/]*@", "//…@", url)
    try:
        parts = urlsplit(url)
        # Both raise where they are malformed.
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        parts, host = SplitResult("", "", "", "", ""), b""
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise MindgapError(f"{shown}: it is no address of a server, such as http://localhost:8000/v1")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise MindgapError(f"{shown}: leave out all but the host, port and path, as in http://localhost:8000/v1")
    return parts


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, BadAnswer):
        return str(error)
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, TimeoutError):
        return "it did not answer in time (--timeout)"
    return shown(f"the connection failed: {inner or type(error).__name__}")
