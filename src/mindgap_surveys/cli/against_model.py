"""Compares a server with a local model, for `mindgap invariance http://HOST:PORT/v1 --against hub:FOLDER`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mindgap.cli.sources import only_program, source_client, with_options
from mindgap.cli.streams import Exit, result_stream
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.results.answer_rows import AnswerRow
from mindgap.results.settings import DEADLINE_S
from mindgap_surveys.cli.answer_outputs import AnswerFiles, short
from mindgap_surveys.report.answer_page import answer_page

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


def compare_server(
    client: CompletionClient, request: CompletionRequest, prompts: Sequence[str], against: str, files: AnswerFiles
) -> Exit:
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
        about = {"url": client.url, "against": against}
        rows = [_row(request.model, client.url, model.logits.dtype, each, looks_like) for each in texts]
        document = {
            **about, "model": request.model, "dtype": model.logits.dtype, "results": texts, "looks_like": looks_like,
        }  # fmt: skip
        return files.write(
            "endpoint", answer_page(f"{request.model} and {against}", _LEAD, rows), rows, document, out, about
        )


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


def _row(model: str, url: str, dtype: str, text: ComparedText, looks_like: Diagnosis | None) -> AnswerRow:
    length, right = text.served.length, text.verdict == "rounding"
    numbers = {
        "tokens": length, "tokens by the server": text.served.counted or 0,
        "log-probabilities": sum(each.compared for each in text.places),
        "from float64": max(each.exact for each in text.places),
        f"from {dtype}": max(each.stepwise for each in text.places),
        "of the limit": max(each.ratio for each in text.places),
        "first beyond": 0 if text.first is None else text.first.index + 1,
    }  # fmt: skip
    details: list[str] = []
    if (first := text.first) is not None:
        after = first.index + 1 - length
        where = f"generated token {after}" if after > 0 else f"token {first.index + 1} of the prompt"
        off = f"{first.exact:.2g} off, where rounding leads {first.limit:.2g}" if first.beyond else "another token"
        details.append(f"first after {where}: {off}")
    if looks_like is not None and not right:
        details.append(f"looks like {looks_like.cause}: {looks_like.detail}")
    return AnswerRow(
        model, url, text.served.prompt, "against the model", text.verdict, "passed" if right else "found",
        "; ".join(details), numbers,
    )  # fmt: skip
