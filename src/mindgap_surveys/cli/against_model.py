"""Compares a server with a local model, for `mindgap invariance http://HOST:PORT/v1 --against hub:FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from mindgap.cli.sources import only_program, source_client, with_options
from mindgap.cli.streams import Exit, result_stream
from mindgap.cli.trace import json_text
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.results.answer_rows import AnswerRow
from mindgap.results.settings import DEADLINE_S
from mindgap_surveys.cli.answer_outputs import AnswerFiles, short, status_of_answers

if TYPE_CHECKING:
    from mindgap_surveys.servers.against_model import ComparedText
    from mindgap_surveys.servers.completion_client import CompletionClient, CompletionRequest
    from mindgap_surveys.servers.diagnosis import Diagnosis
    from mindgap_surveys.servers.served_texts import Vocabulary

#: Of lengths that differ. Those that the model has no room for are left out.
_PROMPTS: Final = (
    "Once upon a time",
    "def main(argv): return the number of",
    "The quick brown fox jumps over the lazy dog, and the dog, which has seen many foxes, goes on sleeping in the sun.",
)
_LEAD: Final = (
    "Log-probabilities of a server and of the model in a local folder, after the same tokens. Those that are further "
    "apart than the oracle's noise of this model leads are findings."
)


@dataclass(frozen=True)
class _Results:
    """looks_like: None without a finding."""

    url: str
    model: str
    against: str
    dtype: str
    results: Sequence[ComparedText]
    looks_like: Diagnosis | None


def compare_server(
    client: CompletionClient, request: CompletionRequest, prompts: Sequence[str], against: str, files: AnswerFiles,
    as_json: bool,
) -> Exit:  # fmt: skip
    """Compares, prints and writes. `prompts`: none for mindgap's own. Raises `MindgapError`."""
    from mindgap_surveys.servers.against_model import compared
    from mindgap_surveys.servers.diagnosis import diagnose
    from mindgap_surveys.servers.local_model import LocalModel
    from mindgap_surveys.servers.served_texts import TextServer, Vocabulary
    from mindgap_zoo.hubs.tokenizer import tokenizer_of

    against = f"hub:{against[3:]}" if against.startswith("hf:") else against
    tensors = default_tensor_store()
    with result_stream() as out, source_client(tensors, DEADLINE_S, None) as sources:
        tokenizer, most = tokenizer_of(against)
        vocabulary = Vocabulary(tokenizer)
        fitting = _fitting(prompts, request, vocabulary, most)
        server = TextServer(client, request, vocabulary)
        served = [server.ask(each) for each in fitting]

        def graph_of(tokens: int, dtype: str) -> Graph:
            options = [f"decoding={tokens},0", *([f"dtype={dtype}"] if dtype else [])]
            return sources.capture(only_program(sources, with_options(against, options), against), 0)

        model = LocalModel(graph_of, tensors)
        # Room for tokens that a server may add.
        model.prepare(min(most, max(len(each.ids) for each in served) + 2))
        texts = [compared(each, model.text(each.ids), server.step) for each in served]
        looks_like = diagnose(model, vocabulary, texts, server.step, most)
        results = _Results(client.url, request.model, against, model.logits.dtype, texts, looks_like)
        out.write(json_text(results)) if as_json else _print(results, out)
        rows, settings = [*_rows(results)], {"url": client.url, "against": against}
        status = files.write("endpoint", f"{request.model} and {against}", _LEAD, rows, settings=settings)
    return status or status_of_answers(rows)


def _fitting(prompts: Sequence[str], request: CompletionRequest, vocabulary: Vocabulary, most: int) -> list[str]:
    """The prompts that leave room for what is generated. Raises `MindgapError` for one of the user's that does not."""
    lengths = {each: len(vocabulary.encoded(each, request.chat)) for each in prompts or _PROMPTS}
    fitting = [each for each, length in lengths.items() if length + request.max_tokens <= most]
    for prompt, length in lengths.items():
        if prompt not in fitting and (prompts or not fitting):
            raise MindgapError(
                f"--prompt {short(prompt)}: {length} tokens and {request.max_tokens} after it (--max-tokens) are more "
                f"than the model's {most} positions"
            )
    return fitting


def _rows(results: _Results) -> Iterator[AnswerRow]:
    for text in results.results:
        found = results.looks_like if text.verdict != "rounding" else None
        numbers = {
            "log-probabilities": sum(each.compared for each in text.places),
            "from float64": max(each.exact for each in text.places),
            f"from {results.dtype}": max(each.stepwise for each in text.places),
            "of the limit": max(each.ratio for each in text.places),
            "first beyond": 0 if text.first is None else text.first.index + 1,
        }
        yield AnswerRow(
            results.model, results.url, text.served.prompt, "against the model", text.verdict,
            "passed" if text.verdict == "rounding" else "found", f"{found.cause}: {found.detail}" if found else "",
            numbers,
        )  # fmt: skip


def _print(results: _Results, out: TextIO) -> None:
    out.write(f"{results.model} at {results.url} against {results.against} ({results.dtype})\n")
    for text, row in zip(results.results, _rows(results), strict=True):
        count, exact, stepwise, ratio, _ = row.numbers.values()
        length, others = text.served.length, len(text.served.ids) - text.served.length + 1
        counted = "" if text.served.counted in (None, length) else f" (the server counts {text.served.counted})"
        out.write(
            f"  {short(text.served.prompt)}\n    {text.verdict:<11} {length} + {others} tokens{counted}, {count} "
            f"log-probabilities up to {exact:.2g} from the model in float64, {stepwise:.2g} in {results.dtype}: "
            f"{ratio:.2g} of what rounding leads to\n"
        )
        if (first := text.first) is not None:
            after = first.index + 1 - length
            where = f"generated token {after}" if after > 0 else f"token {first.index + 1} of the prompt"
            off = f"{first.exact:.2g} off, where rounding leads {first.limit:.2g}" if first.beyond else "another token"
            out.write(f"    first after {where}: {off}\n")
    if results.looks_like is not None:
        out.write(f"  looks like: {results.looks_like.cause}: {results.looks_like.detail}\n")
