"""Asks an OpenAI-compatible server for completions, with the standard library's HTTP client.

Protocol: `POST /completions` with model, prompt, max_tokens, temperature 0, a seed and `logprobs`; see the OpenAI API
reference, "Completions" and "Chat completions". What a server does wrong is a `Completion` with an error.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from mindgap.graph import MindgapError

#: Bytes of one answer that are read.
_MOST_BYTES: Final = 8 << 20
#: Characters of what a server says that are shown.
_SHOWN: Final = 160
#: Seconds that a `Retry-After` is followed at most, and how many times.
_LONGEST_WAIT_S: Final = 30.0
_RETRIES: Final = 3


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What is asked. chat: as a message of a user, at `/chat/completions`. stream: as server-sent events."""

    model: str
    prompt: str
    max_tokens: int = 32
    chat: bool = False
    stream: bool = False
    seed: int = 0

    def body(self) -> dict[str, Any]:
        """The body of the request."""
        asked: dict[str, Any] = {
            "model": self.model, "max_tokens": self.max_tokens, "temperature": 0, "seed": self.seed,
            "stream": self.stream,
        }  # fmt: skip
        if self.chat:
            return {**asked, "messages": [{"role": "user", "content": self.prompt}], "logprobs": True}
        return {**asked, "prompt": self.prompt, "logprobs": 1}


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server answered.

    tokens: as the server names them; of a server that names none, the characters of the text.
    logprobs: of each token, empty where the server gives none.
    error: why there is no text; empty where there is one.
    waited: how many times the server limited the rate, and was asked again.
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


class CompletionClient:
    """Asks one server. Thread-safe. `timeout_s`: of one request, from its start to its last byte."""

    def __init__(self, url: str, timeout_s: float = 60.0, key: str = "") -> None:
        """`url`: with the version, `http://HOST:PORT/v1`. `key`: sent as a bearer token. Raises `MindgapError`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise MindgapError(f"{url}: it is no address of a server, such as http://localhost:8000/v1")
        if parts.query or parts.fragment or parts.username:
            raise MindgapError(f"{url}: leave out all but the host, port and path, as in http://localhost:8000/v1")
        self.url = url.rstrip("/")
        self._timeout_s, self._key = timeout_s, key
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        # A server on this machine is not behind a proxy. A redirection would send a prompt elsewhere.
        self._opener: OpenerDirector = build_opener(_NoRedirects, *([ProxyHandler({})] if local else []))

    def models(self) -> list[str]:
        """The names of the server's models. Raises `MindgapError` where it does not say."""
        try:
            found = _json(self._read(Request(f"{self.url}/models", headers=self._headers())))
            return [str(each["id"]) for each in found["data"]]
        except (BadAnswer, KeyError, TypeError) as error:
            raise MindgapError(f"{self.url}: it names no models: {error}") from None
        except HTTPError as error:
            raise MindgapError(f"{self.url}: it names no models: {_said(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise MindgapError(f"{self.url}: no server answers: {_reason(error)}") from None

    def complete(self, asked: CompletionRequest) -> Completion:
        """Asks once; again, after the time that it names, where the server limits the rate."""
        path = "chat/completions" if asked.chat else "completions"
        data = json.dumps(asked.body()).encode()
        request = Request(f"{self.url}/{path}", data, {**self._headers(), "Content-Type": "application/json"})
        started = time.monotonic()
        for waited in range(_RETRIES + 1):
            try:
                text = self._read(request)
                found = _of_events(text, asked.chat) if asked.stream else _of_json(_json(text), asked.chat)
                return Completion(*found, waited=waited, seconds=time.monotonic() - started)
            except HTTPError as error:
                pause = _pause(error.headers) if error.code in (429, 503) else None
                if pause is None or waited == _RETRIES:
                    limited = " after waiting" if waited else ""
                    return Completion(error=f"{_said(error)}{limited}", waited=waited)
                time.sleep(pause)
            except BadAnswer as error:
                return Completion(error=str(error), waited=waited)
            except (OSError, http.client.HTTPException) as error:
                return Completion(error=_reason(error), waited=waited)
        raise AssertionError("the last round returns")

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", **({"Authorization": f"Bearer {self._key}"} if self._key else {})}

    def _read(self, request: Request) -> str:
        """The body of an answer. A socket's timeout is of one read; a server that drips is stopped all the same."""
        until = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        with self._opener.open(request, timeout=self._timeout_s) as answer:
            while part := answer.read1(1 << 16):
                parts.append(part)
                if sum(map(len, parts)) > _MOST_BYTES:
                    raise BadAnswer(f"it sent more than {_MOST_BYTES >> 20} MiB")
                if time.monotonic() > until:
                    raise TimeoutError
        try:
            return b"".join(parts).decode()
        except UnicodeDecodeError:
            raise BadAnswer("it sent bytes that are no text") from None


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


def _said(error: HTTPError) -> str:
    try:
        said = error.read(4096).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        said = ""
    limited = "it limits the rate: " if error.code == 429 else ""
    return f"{limited}status {error.code} {error.reason}: {_shown(said)}".rstrip(": ")


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
        found: Any = json.loads(text)
    except ValueError:
        raise BadAnswer(f"it sent no JSON: {_shown(text) or 'nothing'}") from None
    if not isinstance(found, dict):
        raise BadAnswer(f"it sent no JSON object: {_shown(text)}")
    return cast("dict[str, Any]", found)


_Found = tuple[str, tuple[str, ...], tuple[float, ...], str]


def _of_json(found: Mapping[str, Any], chat: bool) -> _Found:
    """The text, tokens, log-probabilities and the reason of the end. Raises `BadAnswer`."""
    try:
        if "error" in found:
            raise BadAnswer(f"it says: {_shown(json.dumps(found['error']))}")
        choice = found["choices"][0]
        part: Any = choice.get("message", choice.get("delta", {})) if chat else choice
        text = part.get("content" if chat else "text")
        # The first event of a chat has the role alone.
        text = "" if text is None and "delta" in choice else text
        if not isinstance(text, str):
            raise BadAnswer(f"its choice has no text: {_shown(json.dumps(choice))}")
        tokens, numbers = _logprobs(choice.get("logprobs"), chat)
        return text, tokens, numbers, str(choice.get("finish_reason") or "")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise BadAnswer(f"it sent no completion: {_shown(json.dumps(found))}") from None


def _logprobs(given: Any, chat: bool) -> tuple[tuple[str, ...], tuple[float, ...]]:
    if not given:
        return (), ()
    if "content" in given:
        entries: list[Any] = given["content"] or []
        return tuple(str(each["token"]) for each in entries), tuple(float(each["logprob"]) for each in entries)
    numbers: list[Any] = given.get("token_logprobs") or []
    tokens: list[Any] = given.get("tokens") or []
    # The first token of an echoed prompt has none.
    return tuple(map(str, tokens)), tuple(float(each) for each in numbers if each is not None)


def _of_events(text: str, chat: bool) -> _Found:
    """The completion of server-sent events. Raises `BadAnswer` for a stream that is none, or ends too early."""
    texts: list[str] = []
    tokens: list[str] = []
    numbers: list[float] = []
    finish = ""
    for line in text.splitlines():
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
        part, named, measured, ended = _of_json(event, chat)
        texts.append(part)
        tokens += named
        numbers += measured
        finish = ended or finish
    if not finish:
        raise BadAnswer(f"its stream ended without an end: {_shown(''.join(texts)) or 'nothing'}")
    return "".join(texts), tuple(tokens), tuple(numbers), finish
