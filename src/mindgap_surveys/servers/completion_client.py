"""Asks an OpenAI-compatible server for completions, with the standard library's HTTP client.

Protocol: `POST /completions` with model, prompt, max_tokens, temperature 0, a seed and `logprobs`; see the OpenAI API
reference, "Completions" and "Chat completions". What a server does wrong is a `Completion` with an error.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import (
    AbstractHTTPHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from mindgap.graph import MindgapError

#: Bytes of one answer that are read.
_MOST_BYTES: Final = 8 << 20
#: Characters of a server's text that are shown.
_SHOWN: Final = 160
#: Seconds that a `Retry-After` is followed at most, and how many times.
_LONGEST_WAIT_S: Final = 30.0
_RETRIES: Final = 3


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request. chat: as a message of a user, at `/chat/completions`. stream: as server-sent events."""

    model: str
    prompt: str
    max_tokens: int = 32
    chat: bool = False
    stream: bool = False
    seed: int = 0

    def body(self) -> dict[str, Any]:
        """The body of the request."""
        content: dict[str, Any] = {
            "model": self.model, "max_tokens": self.max_tokens, "temperature": 0, "seed": self.seed,
            "stream": self.stream,
        }  # fmt: skip
        if self.chat:
            return {**content, "messages": [{"role": "user", "content": self.prompt}], "logprobs": True}
        return {**content, "prompt": self.prompt, "logprobs": 1}


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server answered.

    tokens: as the server names them; of a server that names none, the characters of the text.
    logprobs: of each token, empty where the server gives none.
    error: why there is no text; empty where there is one.
    waited: how many times the server limited the rate, and got the request again.
    """

    text: str = ""
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish: str = ""
    error: str = ""
    waited: int = 0
    seconds: float = 0.0


class BadAnswer(Exception):
    """The server answered something that is no completion."""


class _Refused(Exception):
    """The server answered with a status that is an error. `pause`: the seconds until the next request."""

    def __init__(self, error: HTTPError) -> None:
        super().__init__(_error_text(error))
        self.pause = _pause(error.headers) if error.code in (429, 503) else None


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
        self._opener: OpenerDirector = build_opener(
            _NoRedirects, _StoppedHTTP, _StoppedHTTPS, *([ProxyHandler({})] if local else [])
        )

    def models(self) -> list[str]:
        """The names of the server's models. Raises `MindgapError` where it does not say."""
        try:
            content = _json(self._read("models"))
            return [str(each["id"]) for each in content["data"]]
        except (BadAnswer, _Refused, KeyError, TypeError) as error:
            raise MindgapError(f"{self.url}: it names no models: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise MindgapError(f"{self.url}: no server answers: {_reason(error)}") from None

    def complete(self, asked: CompletionRequest) -> Completion:
        """Asks once; again, after the time that it names, where the server limits the rate."""
        path = "chat/completions" if asked.chat else "completions"
        data = json.dumps(asked.body()).encode()
        started = time.monotonic()
        for waited in range(_RETRIES + 1):
            try:
                text = self._read(path, data)
                completion = (
                    _completion_from_events(text, asked.chat)
                    if asked.stream
                    else _completion_from_json(_json(text), asked.chat)
                )
                return Completion(*completion, waited=waited, seconds=time.monotonic() - started)
            except _Refused as error:
                if error.pause is None or waited == _RETRIES:
                    return Completion(error=f"{error}{' after waiting' if waited else ''}", waited=waited)
                time.sleep(error.pause)
            except BadAnswer as error:
                return Completion(error=str(error), waited=waited)
            except (OSError, http.client.HTTPException) as error:
                return Completion(error=_reason(error), waited=waited)
        raise AssertionError("the last round returns")

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", **({"Authorization": f"Bearer {self._key}"} if self._key else {})}

    def _read(self, path: str, data: bytes | None = None) -> str:
        """The body of an answer. Raises `BadAnswer`, `_Refused`, `OSError`, `http.client.HTTPException`.

        A socket's timeout is of one read; a server that drips is stopped all the same.
        """
        request = _StoppedRequest(f"{self.url}/{path}", data, self._headers())
        if data is not None:
            request.add_header("Content-Type", "application/json")
        timer = threading.Timer(self._timeout_s, request.stop)
        timer.daemon = True
        timer.start()
        try:
            answer = self._body(request)
        except HTTPError as error:
            with error:
                raise _Refused(error) from None
        except (OSError, http.client.HTTPException):
            if request.stopped:
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
        if request.stopped:
            raise TimeoutError
        try:
            return answer.decode()
        except UnicodeDecodeError:
            raise BadAnswer("it sent bytes that are no text") from None

    def _body(self, request: Request) -> bytes:
        data = bytearray()
        with self._opener.open(request, timeout=self._timeout_s) as answer:
            while part := answer.read1(1 << 16):
                data += part
                if len(data) > _MOST_BYTES:
                    raise BadAnswer(f"it sent more than {_MOST_BYTES >> 20} MiB")
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


class _StoppedRequest(Request):
    """A request whose connection another thread can end."""

    connection: socket.socket | None = None
    stopped = False

    def stop(self) -> None:
        """Ends the connection, so that every read of it ends too."""
        self.stopped = True
        if self.connection is not None:
            with contextlib.suppress(OSError):
                # Of a TLS connection, without a last message to the server.
                socket.socket.shutdown(self.connection, socket.SHUT_RDWR)


class _Stopped(AbstractHTTPHandler):
    """Gives requests their connections."""

    def do_open(self, http_class: Callable[..., Any], req: Request, **http_conn_args: Any) -> Any:
        """As the base class does."""

        def opened(host: str, **given: Any) -> Any:
            connection = http_class(host, **given)
            connect = connection.connect

            def connected() -> None:
                connect()
                if isinstance(req, _StoppedRequest):
                    req.connection = connection.sock
                    if req.stopped:
                        raise TimeoutError

            connection.connect = connected
            return connection

        return super().do_open(cast("Any", opened), req, **http_conn_args)


class _StoppedHTTP(_Stopped, HTTPHandler):
    pass


class _StoppedHTTPS(_Stopped, HTTPSHandler):
    pass


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _pause(headers: Message) -> float | None:
    """Seconds to wait before the next try; None for a server that names more than is waited, or nothing."""
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST_WAIT_S else None


def _error_text(error: HTTPError) -> str:
    try:
        text = error.read(4096).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        text = ""
    limited = "it limits the rate: " if error.code == 429 else ""
    return f"{limited}status {error.code} {_shown(str(error.reason))}: {_shown(text)}".rstrip(": ")


def _reason(error: Exception) -> str:
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, TimeoutError):
        return "it did not answer in time (--timeout)"
    return _shown(f"the connection failed: {inner or type(error).__name__}")


def _shown(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


def _json(text: str) -> dict[str, Any]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer(f"it sent no JSON: {_shown(text) or 'nothing'}") from None
    if not isinstance(content, dict):
        raise BadAnswer(f"it sent no JSON object: {_shown(text)}")
    return cast("dict[str, Any]", content)


def _dumped(value: Any) -> str:
    try:
        return _shown(json.dumps(value))
    except RecursionError:
        return "it is nested too deeply to show"


_Found = tuple[str, tuple[str, ...], tuple[float, ...], str]


def _completion_from_json(found: Mapping[str, Any], chat: bool) -> _Found:
    """The text, tokens, log-probabilities and the reason of the end. Raises `BadAnswer`."""
    try:
        if "error" in found:
            raise BadAnswer(f"it says: {_dumped(found['error'])}")
        choice = found["choices"][0]
        part: Any = choice.get("message", choice.get("delta", {})) if chat else choice
        text = part.get("content" if chat else "text")
        # The first event of a chat has the role alone.
        text = "" if text is None and "delta" in choice else text
        if not isinstance(text, str):
            raise BadAnswer(f"its choice has no text: {_dumped(choice)}")
        tokens, numbers = _logprobs(choice.get("logprobs"), chat)
        return text, tokens, numbers, str(choice.get("finish_reason") or "")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        raise BadAnswer(f"it sent no completion: {_dumped(found)}") from None


def _logprobs(given: Any, chat: bool) -> tuple[tuple[str, ...], tuple[float, ...]]:
    if not given:
        return (), ()
    if "content" in given:
        entries: list[Any] = given["content"] or []
        return tuple(str(each["token"]) for each in entries), tuple(_finite(each["logprob"]) for each in entries)
    numbers: list[Any] = given.get("token_logprobs") or []
    tokens: list[Any] = given.get("tokens") or []
    # The first token of an echoed prompt has none.
    return tuple(map(str, tokens)), tuple(_finite(each) for each in numbers if each is not None)


def _finite(given: Any) -> float:
    """Raises `BadAnswer` for NaN and infinities: no difference of them has a meaning."""
    number = float(given)
    if not math.isfinite(number):
        raise BadAnswer(f"one of its log-probabilities is {number}")
    return number


def _completion_from_events(text: str, chat: bool) -> _Found:
    """The completion of server-sent events. Raises `BadAnswer` for a stream that is none, or ends too early."""
    texts: list[str] = []
    tokens: list[str] = []
    numbers: list[float] = []
    finish = ""
    # Of a text inside an event, other characters that end a line for Python are a part.
    for line in re.split("\r\n|\n|\r", text):
        name, _, data = line.partition(":")
        if name != "data":
            if line and name not in ("event", "id", "retry", ""):
                raise BadAnswer(f"its stream has a line that is no event: {_shown(line)}")
            continue
        if data.strip() == "[DONE]":
            finish = finish or "done"
            break
        event = _json(data)
        if event.get("choices") == []:
            continue
        part, named, measured, ended = _completion_from_json(event, chat)
        texts.append(part)
        tokens += named
        numbers += measured
        finish = ended or finish
    if not finish:
        raise BadAnswer(f"its stream ended without an end: {_shown(''.join(texts)) or 'nothing'}")
    return "".join(texts), tuple(tokens), tuple(numbers), finish
