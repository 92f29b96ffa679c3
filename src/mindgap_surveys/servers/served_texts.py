"""Asks a server for the log-probabilities of texts, and names the tokens by the numbers of a local tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap_surveys.servers.completion_client import CompletionClient, CompletionRequest
from mindgap_surveys.servers.completion_format import Completion, ServedToken

#: How a server came to a place: from the text of the prompt, from its first tokens, as numbers or as text, or by a
#: step of decoding.
How = Literal["prompt", "first tokens", "decoding"]
#: Alternatives to each token.
_TOP: Final = 5


@dataclass(frozen=True, slots=True)
class Place:
    """What a server gives after a token: `index`, the first is 0. logprobs: by token. chosen: the token that it chose,
    None where its name stands for several."""

    index: int
    how: How
    logprobs: Mapping[int, float]
    chosen: int | None

    @property
    def arrays(self) -> tuple[Array, Array]:
        return np.array([*self.logprobs], np.int64), np.array([*self.logprobs.values()])


@dataclass(frozen=True, slots=True)
class ServedText:
    """A prompt and what a server gives after it.

    ids: of the prompt, by the local tokenizer, and of what was generated. length: tokens of the prompt. counted: those
    that the server counts, None where it does not. by_number: whether first tokens were sent as numbers.
    """

    prompt: str
    ids: tuple[int, ...]
    length: int
    counted: int | None
    places: tuple[Place, ...]
    by_number: bool = False


class Vocabulary:
    """The tokens of a local tokenizer by the names that servers give them: text, piece, or number."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._named: dict[str, set[int]] = {}
        every = [*range(len(tokenizer))]
        texts = tokenizer.batch_decode([[each] for each in every])
        for number, *names in zip(every, texts, tokenizer.convert_ids_to_tokens(every), strict=True):
            for name in (*names, *(str(each).replace("▁", " ") for each in names)):
                self._named.setdefault(str(name), set()).add(number)

    def numbers(self, token: ServedToken) -> set[int]:
        """The tokens that a name may stand for; none where it stands for no token here."""
        if token.number is not None:
            return {token.number}
        return self._named.get(token.text, set())

    def encoded(self, prompt: str, chat: bool) -> tuple[int, ...]:
        """Raises `MindgapError` for a chat where the tokenizer has no template, and for a text without tokens."""
        if chat and not self.tokenizer.chat_template:
            raise MindgapError("--chat: the folder's tokenizer has no chat template")
        ids = self.chat(prompt) if chat else tuple(self.tokenizer(prompt)["input_ids"])
        if not ids:
            raise MindgapError(f"--prompt {prompt!r}: the folder's tokenizer makes no tokens of it")
        return ids

    def chat(self, prompt: str, answer: bool = True) -> tuple[int, ...]:
        """The tokens of a user's message. answer: with the beginning of the model's."""
        message = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(message, add_generation_prompt=answer, tokenize=False)
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


class TextServer:
    """Asks one model of a server. `request`: everything but the prompt."""

    def __init__(self, client: CompletionClient, request: CompletionRequest, vocabulary: Vocabulary) -> None:
        self._client, self._vocabulary = client, vocabulary
        self._request = replace(request, top=_TOP, numbered=True)
        self._by_number, self._decimals = True, 0

    @property
    def step(self) -> float:
        """Between log-probabilities as the server prints them, by the most decimals that one has."""
        return 10.0**-self._decimals

    def ask(self, prompt: str) -> ServedText:
        """Asks for the prompt, then for its first 1, 2, 4, … tokens. Raises `MindgapError` where the server fails,
        gives no log-probabilities, or has other tokens."""
        ids = self._vocabulary.encoded(prompt, self._request.chat)
        completion = self._completed(replace(self._request, prompt=prompt))
        places: list[Place] = []
        generated: list[int] = []
        for number, top in enumerate(completion.top):
            places.append(self._place(len(ids) + number - 1, "decoding" if number else "prompt", top))
            if (chosen := places[-1].chosen) is None:
                break
            generated.append(chosen)
        lengths = {*(2**power for power in range((len(ids) - 1).bit_length())), len(ids)}
        for length in () if self._request.chat else sorted(lengths):
            first = self._beginning(ids[:length], len(ids))
            if first is not None and first.top:
                places.append(self._place(length - 1, "first tokens", first.top[0]))
        text = (*ids, *generated)[: max(each.index for each in places) + 1]
        return ServedText(prompt, text, len(ids), completion.prompt_tokens, tuple(places), self._by_number)

    def _beginning(self, ids: tuple[int, ...], whole: int) -> Completion | None:
        """The token after some: given as numbers, or of a server that takes none, as a text with these tokens; None
        where there is no such text."""
        request = replace(self._request, max_tokens=1)
        if self._by_number:
            completion = self._client.complete(replace(request, prompt=ids))
            if not completion.error and completion.prompt_tokens in (None, len(ids)):
                return completion
            self._by_number = False
        text = self._vocabulary.tokenizer.decode(ids, skip_special_tokens=True)
        if len(ids) == whole or not text or self._vocabulary.encoded(text, False) != ids:
            return None
        return self._completed(replace(request, prompt=text))

    def _completed(self, request: CompletionRequest) -> Completion:
        completion, url = self._client.complete(request), self._client.url
        if completion.error and self._request.numbered:
            # Some servers refuse what they do not know.
            plain = self._client.complete(replace(request, numbered=False))
            if not plain.error:
                self._request, completion = replace(self._request, numbered=False), plain
        if completion.error:
            raise MindgapError(f"{url}: {completion.error}")
        if not completion.top:
            raise MindgapError(f"{url}: it gives no log-probabilities (logprobs), which are compared with the model's")
        tokens = [each for top in completion.top for each in top]
        unknown = [repr(each.text) for each in tokens if not self._vocabulary.numbers(each)]
        if len(unknown) * 2 > len(tokens):
            raise MindgapError(
                f"{url}: it names tokens that the folder's tokenizer does not have ({', '.join(unknown[:3])}): the "
                "folder is of another model"
            )
        return completion

    def _place(self, index: int, how: How, top: Sequence[ServedToken]) -> Place:
        self._decimals = max(self._decimals, *(len(repr(each.logprob).partition(".")[2]) for each in top), 0)
        named = [(self._vocabulary.numbers(each), each.logprob) for each in top]
        single = {min(numbers): logprob for numbers, logprob in named if len(numbers) == 1}
        return Place(index, how, single, min(named[0][0]) if named and len(named[0][0]) == 1 else None)
