"""Finds what a server's log-probabilities look like where rounding does not explain them.

The model is computed with what servers do otherwise: other tokens, positions, frequencies, dtypes. What comes nearest
is named where it explains the log-probabilities within rounding. Else the places decide: a fault that single steps of
decoding alone show is of the cache, one that the first token does not show is of positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mindgap_surveys.servers.against_model import ComparedText, compared, root_mean_square
from mindgap_surveys.servers.local_model import Change, LocalModel
from mindgap_surveys.servers.served_texts import ServedText, Vocabulary

Cause = Literal[
    "template or BOS token", "positions or RoPE scaling", "another dtype", "quantisation", "cache", "sampling",
    "other weights",
]  # fmt: skip
#: A change of the model is looked at where it leaves so much of the differences.
_NEARER: Final = 0.5
#: Rounding that has nothing in common with the server's leaves more than all of them; what leaves less than this, has.
_RELATED: Final = 0.8
#: So many of them, the nearest first, are judged.
_TRIED: Final = 2
#: What servers do otherwise with positions.
_POSITIONS: Final = {
    **{f"positions that begin at {shift}": Change(shift=shift) for shift in (1, 2)},
    **{f"rotary embeddings that turn {times:g} times slower": Change(slower=times) for times in (2.0, 4.0, 8.0, 16.0)},
    **{f"rotary embeddings that turn {times:g} times as fast": Change(slower=1 / times) for times in (2.0, 4.0)},
    "rotary embeddings without scaling": Change(base=math.inf),
    **{f"a base of rotary embeddings of {base:g}": Change(base=base) for base in (1e4, 5e5, 1e6)},
}
_DTYPES: Final = ("bfloat16", "float16")
#: Bits of quantised weights, the most first.
_BITS: Final = (8, 4)
#: Differences that are so many times as large as the largest of these are of other weights.
_LARGER: Final = 4.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What it looks like. `explained`: a run of the model with this change gives the server's log-probabilities."""

    cause: Cause
    detail: str
    explained: bool = False


_SAMPLING: Final = (
    "the log-probabilities are the model's, and a chosen token is not the likeliest at temperature 0: penalties or "
    "defaults of generation_config.json, or another temperature"
)


@dataclass(frozen=True, slots=True)
class _Guess:
    """The model with other tokens or inputs. moved: tokens more than the prompt has."""

    cause: Cause
    detail: str
    ids: tuple[int, ...]
    change: Change | None = None
    moved: int = 0


def diagnose(
    model: LocalModel, vocabulary: Vocabulary, texts: Sequence[ComparedText], step: float, most: int
) -> Diagnosis | None:
    """Returns None where all is rounding. `step`: as of `compared`. `most`: tokens that the model takes."""
    wrong = [each for each in texts if each.verdict == "beyond"]
    if not wrong:
        return Diagnosis("sampling", _SAMPLING) if any(each.verdict == "other token" for each in texts) else None
    before = [text for text in wrong if any(p.beyond and p.how != "decoding" for p in text.places)]
    if not before:
        first = min(p.index - text.served.length + 2 for text in wrong for p in text.places if p.beyond)
        detail = f"every prompt is right, and single steps of decoding are not, from generated token {first} on"
        return Diagnosis("cache", detail)
    text = max(before, key=lambda each: len(each.served.ids))
    guesses = [*_other_tokens(text.served, vocabulary)]
    guesses += [_Guess("positions or RoPE scaling", name, text.served.ids, each) for name, each in _POSITIONS.items()]
    words = model.logits.shape[-1]
    possible = [each for each in guesses if len(each.ids) + 2 <= most and max(each.ids) < words]
    nearest = _nearest(model, text.served, possible)
    for guess in nearest[:_TRIED]:
        local = model.text(guess.ids, guess.change)
        if compared(text.served, local, step, guess.moved, guess.change is not None).verdict != "beyond":
            return Diagnosis(guess.cause, f"with {guess.detail}, the local model gives the same within rounding", True)
    seen = _tokens_differ(text) or _from_a_place_on(texts)
    if seen is None and nearest:
        seen = Diagnosis(nearest[0].cause, f"with {nearest[0].detail}, the local model comes nearest")
    return seen or _everywhere(model, text.served)


def _other_tokens(served: ServedText, vocabulary: Vocabulary) -> Iterator[_Guess]:
    """The prompt with special tokens more or less, by another template, or without one. Of a server that counts its
    tokens, those of as many."""
    tokenizer, own, rest = vocabulary.tokenizer, served.ids[: served.length], served.ids[served.length :]
    prompts: dict[str, Sequence[int]] = {}
    for name, one in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
        prompts[f"an additional {name} at the start of the prompt"] = (one, *own)
        prompts[f"an additional {name} at the end of the prompt"] = (*own, one)
        prompts[f"no {name} at the start of the prompt"] = own[1:] if one == own[0] else ()
        prompts[f"no {name} at the end of the prompt"] = own[:-1] if one == own[-1] else ()
    if tokenizer.chat_template:
        prompts["the chat template"] = vocabulary.chat(served.prompt)
        prompts["the chat template, and no beginning of the answer"] = vocabulary.chat(served.prompt, False)
    for detail, text in (
        ("the plain text of the prompt", served.prompt), ("a space before the prompt", f" {served.prompt}"),
        ("a line end after the prompt", f"{served.prompt}\n"), ("no spaces around the prompt", served.prompt.strip()),
    ):  # fmt: skip
        prompts[detail] = tuple(tokenizer(text)["input_ids"])
    for detail, ids in prompts.items():
        if ids and ids != own and served.counted in (None, len(ids)):
            yield _Guess("template or BOS token", detail, (*ids, *rest), moved=len(ids) - len(own))


def _nearest(model: LocalModel, served: ServedText, guesses: Sequence[_Guess]) -> list[_Guess]:
    """The guesses that leave less than half of the differences, the nearest first."""
    exact, whole = model.exact(served.ids), [each for each in served.places if each.how != "first tokens"]
    left: list[tuple[float, _Guess]] = []
    for guess in guesses:
        places = whole if guess.change is None else served.places
        far = root_mean_square(places, model.exact(guess.ids, guess.change), moved=guess.moved)
        if far < _NEARER * root_mean_square(places, exact):
            left.append((far, guess))
    return [guess for _, guess in sorted(left, key=lambda each: each[0])]


def _tokens_differ(text: ComparedText) -> Diagnosis | None:
    """Where the server's tokens of the prompt are others: it counts others, or is right where it gets numbers."""
    served = text.served
    if served.counted not in (None, served.length):
        counts = f"the server counts {served.counted} tokens of the prompt, the folder's tokenizer {served.length}"
        return Diagnosis("template or BOS token", counts)
    first = [each for each in text.places if each.how == "first tokens"]
    if served.by_number and first and not any(each.beyond for each in first):
        return Diagnosis("template or BOS token", "tokens that are sent as numbers give the model's log-probabilities")
    return None


def _from_a_place_on(texts: Sequence[ComparedText]) -> Diagnosis | None:
    places = [each for text in texts for each in text.places if each.how != "decoding"]
    right = max((each.index for each in places if not each.beyond), default=-1)
    wrong = [each for each in places if each.beyond]
    nearest, furthest = (pick(wrong, key=lambda each: each.index) for pick in (min, max))
    if right < 0 or any(each.beyond for each in places if each.index == 0):
        return None
    detail = (
        f"the first token is right; off by {nearest.exact:.2g} after {nearest.index + 1} tokens, "
        f"by {furthest.exact:.2g} after {furthest.index + 1}"
    )
    return Diagnosis("positions or RoPE scaling", f"{detail}: positions, RoPE scaling, or an attention window")


def _everywhere(model: LocalModel, served: ServedText) -> Diagnosis:
    """By what other dtypes, and weights of fewer bits, do to this text: the nearest, else one of the same size."""
    exact = model.exact(served.ids)
    far = root_mean_square(served.places, exact)
    others = {f"weights of {bits} bits by row": [model.exact(served.ids, Change(bits=bits))] for bits in _BITS}
    for dtype in (each for each in _DTYPES if each != model.logits.dtype):
        local = model.text(served.ids, dtype=dtype)
        others[dtype] = [local.exact, local.stepwise]
    left = {name: min(root_mean_square(served.places, each) for each in some) for name, some in others.items()}
    sizes = {name: root_mean_square(served.places, some[-1], exact) for name, some in others.items()}
    nearest = min(left, key=lambda name: left[name])
    alike = min(sizes, key=lambda name: abs(math.log((sizes[name] or math.inf) / far)))
    name = nearest if left[nearest] < _RELATED * far else alike
    cause: Cause = "another dtype" if name in _DTYPES else "quantisation"
    detail = f"everywhere, {far:.2g} off (root mean square), where {name} gives {sizes[name]:.2g}"
    return Diagnosis(cause if far < _LARGER * max(sizes.values()) else "other weights", detail, name == nearest)
