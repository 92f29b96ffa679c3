"""Asks whether a causal model's text depends on how it is computed: padding, a prompt in chunks, a cache, a compiler.

The same tokens go through one platform whole, in parts and step by step, and the logits of all tokens are compared
with those of the whole text. Between platforms, two ways of decoding are followed step by step: along the tokens of
eager mode (teacher-forced), and along the platform's own (free-running).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindgap.graph import Array, Graph, MindgapError, TensorStore, materialise
from mindgap.judge.trace.side_values import reason_of
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap.source_worker.client import GeneratedText
from mindgap_surveys.decoding.answer_judge import Answer, AnswerJudge, AnswerVerdict, Condition, digests

#: Captures one call of the model, with a number of tokens and a number of tokens in its cache. Inputs, in order: tokens
#: and attention mask and positions, int64 [1, T], [1, C + T], [1, T]; keys and values of each layer, [1, heads, C,
#: width]. Outputs: logits, [1, T, vocabulary]; keys and values of all C + T tokens (`sources.cached_decoding`).
CallOf = Callable[[int, int], Graph]

#: Padding tokens at a side, and tokens in a chunk of a prompt.
_PADDING: Final = (1, 4)
_CHUNKS: Final = (2, 4, 8)
#: Steps with a cache that grows, each of which is a separate graph.
_GROWING: Final = 8


@dataclass(frozen=True, slots=True)
class Divergence:
    """How far two platforms part while they decode the same prompt.

    kind: along the reference's tokens (teacher-forced), or each along its own (free-running).
    distances: the largest difference of the logits, by step.
    other_tokens: whether the two choose different tokens, by step.
    margin: at the first step with another token, how far the reference's choice was ahead of the other one.
    verdict: of all steps, along the reference's tokens.
    """

    kind: Literal["teacher-forced", "free-running"]
    reference: PlatformName
    distances: tuple[float, ...]
    other_tokens: tuple[bool, ...]
    margin: float | None
    verdict: AnswerVerdict

    @property
    def first_step(self) -> int:
        """The first step at which the logits differ (the first is 1); 0 for none."""
        return next((step for step, far in enumerate(self.distances, 1) if far), 0)

    @property
    def first_token(self) -> int:
        """The first step at which another token is chosen; 0 for none."""
        return next((step for step, other in enumerate(self.other_tokens, 1) if other), 0)

    @property
    def rejoined(self) -> int:
        """The step from which on all tokens are the same again; 0 where none differs, or the last does."""
        last = max((step for step, other in enumerate(self.other_tokens, 1) if other), default=0)
        return last + 1 if 0 < last < len(self.other_tokens) else 0


@dataclass(frozen=True)
class Decoded:
    """What one platform answers to one text, however it is computed."""

    answers: tuple[Answer, ...] = ()
    divergences: tuple[Divergence, ...] = ()


@dataclass(frozen=True)
class CachedModel:
    """Calls a model on one platform."""

    call_of: CallOf
    platform: PlatformName
    pool: WorkerPool
    deadline_s: float

    def call(self, ids: Array, mask: Array, positions: Array, cache: Sequence[Array] = ()) -> tuple[Array, ...]:
        """Returns logits, keys and values. Raises `MindgapError` where the platform gives none."""
        graph = self.call_of(ids.shape[1], cache[0].shape[2] if cache else 0)
        given = dict(enumerate((ids, mask, positions, *cache)))
        outcome = self.pool.run(
            Job(self.platform, graph, want="outputs", repeat=1, deadline_s=self.deadline_s, inputs=given)
        )
        if not outcome.ran or outcome.arrays is None:
            raise MindgapError(reason_of(outcome))
        return outcome.arrays

    def in_chunks(self, ids: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
        """Gives the tokens in parts of these sizes, each with the cache of those before."""
        logits: list[Array] = []
        cache: tuple[Array, ...] = ()
        done = 0
        for size in sizes:
            positions = np.arange(done, done + size)[None]
            results, *grown = self.call(ids[:, done : done + size], _ones(done + size), positions, cache)
            logits.append(results)
            cache, done = tuple(grown), done + size
        return np.concatenate(logits, 1), *cache

    def padded(self, ids: Array, left: int, right: int) -> tuple[Array, ...]:
        """Gives the tokens with padding, and returns what belongs to the tokens."""
        count = ids.shape[1]
        mask = np.pad(_ones(count), ((0, 0), (left, right)))
        positions = np.clip(np.cumsum(mask, 1) - 1, 0, None)
        logits, *cache = self.call(np.pad(ids, ((0, 0), (left, right))), mask, positions)
        own = slice(left, left + count)
        return logits[:, own], *(each[:, :, own] for each in cache)

    def decode(self, ids: Array, steps: int, forced: bool) -> tuple[Array, tuple[Array, ...]]:
        """Decodes after the first tokens, in a cache with a fixed number of places, of which those not filled are
        masked. Empty places are the first ones, so that a window over the last tokens holds tokens. Of `ids`, all but
        the last `steps` - 1 are the prompt; `forced`: these are given in turn, else what was chosen. Returns the tokens
        that were chosen, int64 [steps], and the answer to all tokens given."""
        places, prompt = ids.shape[1], ids.shape[1] - steps + 1
        results, *filled = self.in_chunks(ids[:, :prompt], [prompt])
        cache = [np.pad(each, ((0, 0), (0, 0), (places - prompt, 0), (0, 0))) for each in filled]
        logits, chosen = [results], [_choice(results)]
        for at in range(prompt, places):
            token = ids[:, at : at + 1] if forced else np.array([[chosen[-1]]], np.int64)
            mask = _ones(places + 1)
            mask[:, : places - at] = 0
            results, *grown = self.call(token, mask, np.array([[at]], np.int64), cache)
            cache = [each[:, :, 1:] for each in grown]
            logits.append(results)
            chosen.append(_choice(results))
        return np.array(chosen, np.int64), (np.concatenate(logits, 1), *cache)


def _ones(count: int) -> Array:
    return np.ones((1, count), np.int64)


def _choice(logits: Array) -> int:
    return int(np.argmax(logits[0, -1]))


class Decoding:
    """One text of a causal model: a prompt, and the tokens that eager mode chooses after it."""

    def __init__(
        self, call_of: CallOf, prompt: int, steps: int, *, tensors: TensorStore, deadline_s: float = 300.0
    ) -> None:
        """`prompt`: tokens in the prompt, from 2 up. `steps`: tokens after it, from 2 up. Raises `MindgapError` where
        the model has no such calls, or eager mode does not run them."""
        if prompt < 2 or steps < 2:
            raise MindgapError(f"a prompt of {prompt} and {steps} steps: both take 2 tokens or more")
        self._call_of, self._prompt, self._steps = call_of, prompt, steps
        self._tensors, self._deadline_s = tensors, deadline_s
        first = materialise(call_of(prompt, 0).inputs[0], tensors)
        with WorkerPool([CPU_EAGER], tensors=tensors) as pool:
            model = CachedModel(call_of, CPU_EAGER, pool, deadline_s)
            room = np.pad(first, ((0, 0), (0, steps - 1)))
            self.chosen, _ = model.decode(room, steps, forced=False)
            #: The prompt, and all tokens but the last that eager mode chose after it: int64 [1, prompt + steps - 1].
            self.ids = np.concatenate([first, self.chosen[None, :-1]], 1)
            self._eager = model.in_chunks(self.ids, [self.ids.shape[1]])
            self._eager_forced = model.decode(self.ids, steps, forced=True)
            self._eager_free = model.decode(self.ids, steps, forced=False)

    def ask(self, platform: PlatformName, notes: list[str], texts: Sequence[GeneratedText] = ()) -> Decoded:
        """Asks one platform. `texts`: what `generate` gave on it for the same prompt, the first of them alone.

        `notes`: gets what a reader has to know besides. Raises `MindgapError` where the platform does not run the
        whole text.
        """
        count = self.ids.shape[1]
        with WorkerPool(list(dict.fromkeys([CPU_EAGER, platform])), tensors=self._tensors) as pool:
            model = CachedModel(self._call_of, platform, pool, self._deadline_s)
            try:
                alone = model.in_chunks(self.ids, [count])
            except MindgapError as error:
                raise MindgapError(f"nothing is compared: {platform} gives {error}") from None
            graph = self._call_of(count, 0)
            given: list[Array] = [self.ids, _ones(count), np.arange(count)[None]]
            inputs = [*given, *(materialise(each, self._tensors) for each in graph.inputs[len(given) :])]
            judge = AnswerJudge(graph, inputs, platform, pool, alone, notes)
            answers = [self._answer(judge, each, run, alone) for each, run in self._runs(model)]
            answers += self._generated_answers(judge, texts, alone)
            return Decoded(tuple(answers), () if platform == CPU_EAGER else self._divergences(model, judge))

    def _runs(self, model: CachedModel) -> Iterator[tuple[Condition, Callable[[], tuple[Array, ...]]]]:
        """Yields each other way to compute the same, with the function that does it."""
        ids, count = self.ids, self.ids.shape[1]
        if model.platform != CPU_EAGER:
            yield Condition("eager mode", "the whole text"), lambda: self._eager
        yield Condition("repeat", "the whole text again"), lambda: model.in_chunks(ids, [count])
        yield Condition("process", "the whole text in a new process", fresh=True), lambda: self._in_new_process(model)
        for side in ("left", "right"):
            for size in _PADDING:
                sides = (size, 0) if side == "left" else (0, size)
                yield Condition("padding", f"{size} {side}", size), lambda sides=sides: model.padded(ids, *sides)
        for size in [each for each in _CHUNKS if each < count]:
            sizes = [size] * (count // size) + ([count % size] if count % size else [])
            yield Condition("chunked", f"{size} tokens", size), lambda sizes=sizes: model.in_chunks(ids, sizes)
        grown = min(_GROWING, self._steps - 1)
        sizes = [count - grown] + [1] * grown
        yield Condition("decoding", f"the last {grown} tokens one by one"), lambda: model.in_chunks(ids, sizes)
        label = f"the last {self._steps - 1} tokens one by one"
        yield Condition("static cache", label), lambda: model.decode(ids, self._steps, forced=True)[1]

    def _in_new_process(self, model: CachedModel) -> tuple[Array, ...]:
        with WorkerPool([model.platform], tensors=self._tensors, forks=False) as pool:
            return replace(model, pool=pool).in_chunks(self.ids, [self.ids.shape[1]])

    def _answer(
        self, judge: AnswerJudge, condition: Condition, run: Callable[[], tuple[Array, ...]], alone: Sequence[Array]
    ) -> Answer:
        try:
            outcome = run()
        except MindgapError as error:
            return Answer(condition, "not_run", detail=str(error))
        if [(each.shape, each.dtype) for each in outcome] != [(each.shape, each.dtype) for each in alone]:
            return Answer(condition, "not_run", detail="its outputs have another shape or dtype")
        return judge.answer(condition, outcome, alone, _first_other(self._choices(outcome), self._choices(alone)))

    def _choices(self, answer: Sequence[Array]) -> Array:
        """The token that each step chooses, int64 [steps]."""
        return np.argmax(answer[0][0, self._prompt - 1 :], -1)

    def _generated_answers(
        self, judge: AnswerJudge, texts: Sequence[GeneratedText], alone: Sequence[Array]
    ) -> Iterator[Answer]:
        """Compares what `generate` gave: the first with the logits of the whole text, others with the first."""
        if not texts:
            return
        if texts[0].error:
            yield Answer(Condition("generate", texts[0].label), "not_run", detail=texts[0].error)
            return
        base = self._decode_text(texts[0], alone)
        yield judge.answer(Condition("generate", "alone"), base, alone, _first_other(texts[0].tokens, self.chosen))
        for text in texts[1:]:
            if text.error:
                yield Answer(Condition("generate", text.label), "not_run", detail=text.error)
                continue
            token = _first_other(text.tokens, texts[0].tokens)
            # After another token, the logits are of another text.
            end = token or self._steps
            yield judge.answer(
                Condition("generate", text.label), self._decode_text(text, alone, end),
                self._decode_text(texts[0], alone, end), token,
            )  # fmt: skip

    def _decode_text(self, text: GeneratedText, alone: Sequence[Array], end: int | None = None) -> tuple[Array, ...]:
        """The answer alone, with the logits of a generated text as long as it has the tokens of `ids`."""
        steps = min(_first_other(text.tokens, self.chosen) or self._steps, end or self._steps)
        logits = alone[0].copy()
        logits[0, self._prompt - 1 : self._prompt - 1 + steps] = text.logits[:steps]
        return logits, *alone[1:]

    def _divergences(self, model: CachedModel, judge: AnswerJudge) -> tuple[Divergence, ...]:
        try:
            forced = model.decode(self.ids, self._steps, forced=True)
            free = model.decode(self.ids, self._steps, forced=False)
        except MindgapError as error:
            judge.note(f"divergence is not followed: {error}")
            return ()
        same = digests(forced[1]) == digests(self._eager_forced[1])
        verdict = "identical" if same else judge.verdict(forced[1], self._eager_forced[1])
        return (
            self._divergence("teacher-forced", forced, self._eager_forced, verdict),
            self._divergence("free-running", free, self._eager_free, verdict),
        )

    def _divergence(
        self, kind: Literal["teacher-forced", "free-running"], ours: tuple[Array, tuple[Array, ...]],
        theirs: tuple[Array, tuple[Array, ...]], verdict: AnswerVerdict,
    ) -> Divergence:  # fmt: skip
        mine, reference = (each[1][0][0, self._prompt - 1 :].astype(np.float64) for each in (ours, theirs))
        distances = np.abs(mine - reference).max(-1)
        other = ours[0] != theirs[0]
        margin = None
        if other.any():
            at = int(np.argmax(other))
            margin = float(reference[at, theirs[0][at]] - reference[at, ours[0][at]])
        return Divergence(kind, CPU_EAGER, tuple(distances.tolist()), tuple(other.tolist()), margin, verdict)


def _first_other(tokens: Array, others: Array) -> int:
    """The number of the first token that differs, the first is 1; 0 for none."""
    return next((number for number, pair in enumerate(zip(tokens, others, strict=True), 1) if pair[0] != pair[1]), 0)
