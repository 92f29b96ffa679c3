"""Asks a server, for `mindgap invariance http://HOST:PORT/v1`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mindgap.cli.streams import Exit, result_stream
from mindgap.graph import MindgapError
from mindgap.results.answer_rows import AnswerRow
from mindgap_surveys.cli.against_model import compare_server
from mindgap_surveys.cli.answer_outputs import AnswerFiles, short
from mindgap_surveys.report.answer_page import answer_page

if TYPE_CHECKING:
    from mindgap_surveys.servers.endpoint import ServedAnswers

_LEAD: Final = (
    "The same prompt, alone and beside others, with greedy decoding. Log-probabilities are compared for the same "
    "tokens, up to where two completions part."
)


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    model: str | None
    prompts: Sequence[str]
    max_tokens: int
    requests: int
    in_flight: int
    max_requests: int
    chat: bool
    stream: bool
    timeout_s: float
    key_variable: str | None
    against: str | None


def is_endpoint(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def ask_server(url: str, options: EndpointOptions, files: AnswerFiles, require_identical: bool) -> Exit:
    from mindgap_surveys.servers.completion_client import CompletionClient, CompletionRequest
    from mindgap_surveys.servers.endpoint import Load, ask_endpoint

    prompts = [*dict.fromkeys(options.prompts)]
    if not (prompts or options.against) or not all(prompts):
        raise MindgapError(f"{url}: give a prompt, as in --prompt 'Once upon a time'")
    key = ""
    if options.key_variable is not None:
        key = os.environ.get(options.key_variable, "").strip()
        if not key:
            raise MindgapError(f"--key-variable {options.key_variable}: no such environment variable, or it is empty")
    client = CompletionClient(url, options.timeout_s, key)
    names = [options.model] if options.model else client.models()
    if len(names) != 1:
        raise MindgapError(f"{client.url}: name one of its models with --model: {', '.join(names[:10]) or 'none'}")
    model = names[0]
    files.check()
    request = CompletionRequest(model, "", options.max_tokens, options.chat, options.stream)
    if options.against is not None:
        return compare_server(client, request, prompts, options.against, files)
    notes: list[str] = []
    with result_stream() as out:
        load = Load(options.requests, options.in_flight, options.max_requests)
        answers = ask_endpoint(client, request, prompts, load, notes)
        rows = [*_rows(client.url, model, answers, require_identical)]
        page = answer_page(f"{model} at {client.url}", _LEAD, rows, notes=notes)
        document = {"url": client.url, "model": model, "results": answers, "notes": notes}
        settings = {"url": client.url, "requests": load.repeats, "in_flight": load.in_flight, "stream": request.stream}
        return files.write("endpoint", page, rows, document, out, settings)


def _rows(url: str, model: str, found: Sequence[ServedAnswers], require_identical: bool) -> Iterator[AnswerRow]:
    for each in found:
        numbers = {
            "completions": each.asked, "distinct": len(each.completions), "parts at": each.parts_at,
            "drift": each.drift or 0.0, "waited": each.waited,
        }  # fmt: skip
        wrong = each.verdict == "other text" or (each.verdict == "drift" and require_identical)
        state = "found" if wrong else "unknown" if each.verdict == "not_run" else "passed"
        texts = [f"{count} × {short(text)}" for text, count in each.completions[:4] if each.verdict == "other text"]
        if each.parts_at and not each.by_tokens:
            texts.append("it parts at a character: the server names no tokens")
        yield AnswerRow(model, url, each.prompt, each.setting, each.verdict, state, "; ".join(texts), numbers)
        if each.errors:
            text = "; ".join(f"{count} × {error}" for error, count in each.errors)
            failed = {"requests": sum(count for _, count in each.errors)}
            yield AnswerRow(model, url, each.prompt, f"{each.setting}: failed", "not_run", "unknown", text, failed)
