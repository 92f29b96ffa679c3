"""Reads a server's completions, with the log-probabilities of their tokens, in the forms of the OpenAI API.

`/completions` has lists of tokens, of numbers and of tables of alternatives; `/chat/completions`, and llama.cpp's
server in both, a list of objects, of llama.cpp with the token's number (`id`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

#: Characters of a server's text that are shown.
_SHOWN: Final = 160
#: What vLLM sends for a token of probability 0.
_NONE: Final = -9999.0
#: vLLM's name of a token by its number.
_NUMBERED: Final = re.compile(r"token_id:(\d+)")


@dataclass(frozen=True, slots=True)
class ServedToken:
    """A token that a server names, with its number where the server gives it, and its log-probability."""

    text: str
    logprob: float
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server answered.

    tokens: as the server names them; of a server that names none, the characters of the text.
    logprobs: of each token, empty where the server gives none. top: the token at each place and alternatives to it.
    prompt_tokens: how many the server counts, None where it does not.
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
    top: tuple[tuple[ServedToken, ...], ...] = ()
    prompt_tokens: int | None = None


class BadAnswer(Exception):
    """The server answered something that is no completion."""


def shown(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


def json_object(text: str) -> dict[str, Any]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer(f"it sent no JSON: {shown(text) or 'nothing'}") from None
    if not isinstance(content, dict):
        raise BadAnswer(f"it sent no JSON object: {shown(text)}")
    return cast("dict[str, Any]", content)


def _dumped(value: Any) -> str:
    try:
        return shown(json.dumps(value))
    except RecursionError:
        return "it is nested too deeply to show"


def completion_from_text(text: str, chat: bool) -> Completion:
    """Reads a completion. Raises `BadAnswer`."""
    return _completion(json_object(text), chat)


def _completion(given: Mapping[str, Any], chat: bool) -> Completion:
    try:
        if "error" in given:
            raise BadAnswer(f"it says: {_dumped(given['error'])}")
        choice = given["choices"][0]
        part: Any = choice.get("message", choice.get("delta", {})) if chat else choice
        text = part.get("content" if chat else "text")
        # The first event of a chat has the role alone.
        text = "" if text is None and "delta" in choice else text
        if not isinstance(text, str):
            raise BadAnswer(f"its choice has no text: {_dumped(choice)}")
        tokens, numbers, top = _logprobs(choice.get("logprobs"))
        usage: dict[str, Any] = given.get("usage") or {}
        count = usage.get("prompt_tokens")
        return Completion(
            text, tokens, numbers, str(choice.get("finish_reason") or ""), top=top,
            prompt_tokens=count if isinstance(count, int) else None,
        )  # fmt: skip
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        raise BadAnswer(f"it sent no completion: {_dumped(given)}") from None


_Logprobs = tuple[tuple[str, ...], tuple[float, ...], tuple[tuple[ServedToken, ...], ...]]


def _logprobs(given: Any) -> _Logprobs:
    if not given:
        return (), (), ()
    if "content" in given:
        entries: list[Any] = given["content"] or []
        places = [[_served(each) for each in (entry, *(entry.get("top_logprobs") or ()))] for entry in entries]
        kept = tuple(tuple(each for each in place if each.logprob > _NONE) for place in places)
        return tuple(place[0].text for place in places), tuple(place[0].logprob for place in places), kept
    tokens, numbers = (list[Any](given.get(name) or []) for name in ("tokens", "token_logprobs"))
    tables: list[Any] = list(given.get("top_logprobs") or []) or [{}] * len(tokens)
    # The first token of an echoed prompt has none.
    pairs = [
        (str(token), _finite(number)) for token, number in zip(tokens, numbers, strict=False) if number is not None
    ]
    top: list[tuple[ServedToken, ...]] = []
    for (token, own), table in zip(pairs, tables[len(tables) - len(pairs) :], strict=False):
        others: dict[str, Any] = {token: own, **(table or {})}
        top.append(tuple(_named(name, _finite(each)) for name, each in others.items() if each > _NONE))
    return tuple(map(str, tokens)), tuple(number for _, number in pairs), tuple(top)


def _served(entry: Mapping[str, Any]) -> ServedToken:
    token, number = _named(str(entry["token"]), _finite(entry["logprob"])), entry.get("id")
    return ServedToken(token.text, token.logprob, number if isinstance(number, int) else token.number)


def _named(name: str, logprob: float) -> ServedToken:
    numbered = _NUMBERED.fullmatch(name)
    return ServedToken(name, logprob, int(numbered[1]) if numbered else None)


def _finite(given: Any) -> float:
    """Raises `BadAnswer` for NaN and infinities: no difference of them has a meaning."""
    number = float(given)
    if not math.isfinite(number):
        raise BadAnswer(f"one of its log-probabilities is {number}")
    return number


def completion_from_events(text: str, chat: bool) -> Completion:
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
                raise BadAnswer(f"its stream has a line that is no event: {shown(line)}")
            continue
        if data.strip() == "[DONE]":
            finish = finish or "done"
            break
        event = json_object(data)
        if event.get("choices") == []:
            continue
        part = _completion(event, chat)
        texts.append(part.text)
        tokens += part.tokens
        numbers += part.logprobs
        finish = part.finish or finish
    if not finish:
        raise BadAnswer(f"its stream ended without an end: {shown(''.join(texts)) or 'nothing'}")
    return Completion("".join(texts), tuple(tokens), tuple(numbers), finish)
