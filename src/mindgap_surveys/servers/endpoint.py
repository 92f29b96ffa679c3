"""Asks whether a server's answer to a prompt depends on what it answers at the same time.

Each prompt is sent several times alone, one request after the other, and as often with other prompts. Greedy
decoding (temperature 0) with a seed must give one completion. The load is bounded: so many requests in flight, and so
many in all.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Literal

from mindgap.graph import MindgapError
from mindgap_surveys.servers.completion_client import Completion, CompletionClient, CompletionRequest

Setting = Literal["alone", "under load"]
#: - `identical`: the same text, and log-probabilities where the server gives them.
#: - `drift`: the same text, other log-probabilities. `other text`: at least one completion is another.
#: - `not_run`: no completion.
ServedVerdict = Literal["identical", "drift", "other text", "not_run"]
#: Failures in a row after which a server is left alone.
_GIVEN_UP: Final = 3
_NO_LOAD: Final = "no request beside it completed at the same time: this was no load"


@dataclass(frozen=True, slots=True)
class Load:
    """repeats: of a prompt in each setting. in_flight: requests at once. most: requests in all."""

    repeats: int = 10
    in_flight: int = 8
    most: int = 500


@dataclass(frozen=True, slots=True)
class ServedAnswers:
    """What a server answered to one prompt in one setting.

    base: the most frequent completion alone (under load, where none came alone), with which all are compared.
    completions: how often each text came, the most frequent first.
    parts_at: the first token (or character, where `by_tokens` is false) at which another text parts; 0 for none.
    drift: the largest difference of log-probabilities of the same tokens up to there; None where there are none.
    errors: how often each error came; under load also those of the requests with it. waited: how often the server
        limited the rate and got a request again.
    """

    prompt: str
    setting: Setting
    verdict: ServedVerdict
    base: str
    completions: tuple[tuple[str, int], ...]
    parts_at: int = 0
    by_tokens: bool = True
    drift: float | None = None
    errors: tuple[tuple[str, int], ...] = ()
    waited: int = 0

    @property
    def asked(self) -> int:
        return sum(count for _, count in self.completions)


class _Budget:
    """Counts requests, and failures in a row. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._left, self._failures = most, 0
        self._lock = threading.Lock()

    @property
    def why_stopped(self) -> str:
        """Why no further request is sent; empty where one may be."""
        if self._failures >= _GIVEN_UP:
            return f"{_GIVEN_UP} requests in a row failed: the server is asked no more"
        return "" if self._left > 0 else "the largest number of requests is reached (--max-requests)"

    def take(self) -> bool:
        """Takes one request, where there is one."""
        with self._lock:
            if self.why_stopped:
                return False
            self._left -= 1
            return True

    def ended(self, failed: bool) -> None:
        """Counts a failure; a success ends a row of them."""
        with self._lock:
            self._failures = self._failures + 1 if failed else 0


def ask_endpoint(
    client: CompletionClient, asked: CompletionRequest, prompts: Sequence[str], load: Load, notes: list[str]
) -> list[ServedAnswers]:
    """Asks a server for each prompt, alone and under load. `asked`: everything but the prompt.

    `notes`: gets what a reader has to know besides. Raises `MindgapError` where no request gave a completion.
    """
    budget = _Budget(load.most)
    answers: list[ServedAnswers] = []

    def complete(prompt: str) -> Completion | None:
        if not budget.take():
            return None
        completion = client.complete(replace(asked, prompt=prompt))
        budget.ended(bool(completion.error))
        return completion

    with ThreadPoolExecutor(load.in_flight, "mindgap-request") as threads:
        for number, prompt in enumerate(prompts):
            alone = [complete(prompt) for _ in range(load.repeats)]
            others = beside(prompts, number, load.in_flight - 1)
            rounds = [list(threads.map(complete, [prompt, *others])) for _ in range(load.repeats)]
            loaded, company = [each[0] for each in rounds], [one for each in rounds for one in each[1:]]
            base = _most_frequent(alone) or _most_frequent(loaded) or Completion()
            judged = [_under_load(mine, beside, base) for mine, *beside in rounds]
            answers += [_answers(prompt, "alone", alone, base), _answers(prompt, "under load", judged, base, company)]
    if budget.why_stopped:
        notes.append(budget.why_stopped)
    if not any(each.asked for each in answers):
        reasons = [reason for each in answers for reason, _ in each.errors]
        raise MindgapError(f"{client.url}: no request gave a completion: {reasons[0] if reasons else 'none was sent'}")
    if not any(each.drift is not None for each in answers):
        notes.append("the server gives no log-probabilities: only texts are compared")
    return answers


def _under_load(mine: Completion | None, company: Sequence[Completion | None], base: Completion) -> Completion | None:
    """Returns the completion of one round, or an error where no request with it completed: that was no load.

    Another text than `base` is a finding all the same. A request that waited for the rate more or less often than this
    one was answered at another time.
    """
    if mine is None or mine.error or mine.text != base.text:
        return mine
    if any(each is not None and not each.error and each.waited == mine.waited for each in company):
        return mine
    return replace(mine, error=_NO_LOAD)


def beside(prompts: Sequence[str], number: int, count: int) -> list[str]:
    """Returns prompts that are sent at the same time as one: the others, then the same one turned about and shorter,
    so that lengths differ."""
    others = [each for place, each in enumerate(prompts) if place != number]
    words = prompts[number].split() or ["?"]
    for turn in range(1, count + 1):
        turned = words[turn % len(words) :] + words[: turn % len(words)]
        others.append(" ".join(turned * (1 + turn % 3))[: max(1, len(prompts[number]) * (1 + turn % 3) - turn)])
    return others[:count]


def _most_frequent(given: Sequence[Completion | None]) -> Completion | None:
    """A completion with the most frequent text, with log-probabilities where one has them; None where none came."""
    completions = [each for each in given if each is not None and not each.error]
    if not completions:
        return None
    (text, _), *_ = Counter(each.text for each in completions).most_common()
    same = [each for each in completions if each.text == text]
    return next((each for each in same if each.logprobs), same[0])


def _answers(
    prompt: str, setting: Setting, given: Sequence[Completion | None], base: Completion,
    company: Sequence[Completion | None] = (),
) -> ServedAnswers:  # fmt: skip
    """Compares completions with `base`. `company`: of requests sent with them, of which only errors count."""
    came = [each for each in given if each is not None and not each.error]
    sent = [each for each in (*given, *company) if each is not None]
    counts = Counter(each.text for each in came).most_common()
    errors = Counter(each.error for each in sent if each.error).most_common()
    waited = sum(each.waited for each in sent)
    if not came:
        return ServedAnswers(prompt, setting, "not_run", base.text, (), errors=tuple(errors), waited=waited)
    by_tokens = all(each.tokens for each in (base, *came))
    parts = [_parts_at(each, base, by_tokens) for each in came]
    drifts = [far for each in came if (far := _drift(each, base)) is not None]
    drift = max(drifts, default=None)
    verdict: ServedVerdict = "other text" if any(parts) else "drift" if drift else "identical"
    first = min(filter(None, parts), default=0)
    return ServedAnswers(
        prompt, setting, verdict, base.text, tuple(counts), first, by_tokens, drift, tuple(errors), waited
    )


def _parts_at(one: Completion, other: Completion, by_tokens: bool) -> int:
    """The first token or character at which two completions part, the first is 1; 0 for none."""
    if one.text == other.text:
        return 0
    pair = (one.tokens, other.tokens) if by_tokens else (one.text, other.text)
    number = next((number for number, (a, b) in enumerate(zip(*pair, strict=False), 1) if a != b), 0)
    return number or min(map(len, pair)) + 1


def _drift(one: Completion, other: Completion) -> float | None:
    """The largest difference of log-probabilities up to the first token that differs."""
    if not (one.logprobs and other.logprobs):
        return None
    end = next((n for n, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)) if a != b), len(one.logprobs))
    pairs = zip(one.logprobs[:end], other.logprobs[:end], strict=False)
    return max((abs(a - b) for a, b in pairs), default=0.0)
