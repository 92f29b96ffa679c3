"""Generates text with `generate` of transformers in several ways that must give the same tokens."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.sources.cached_decoding import causal_model, prompt_tokens
from mindgap.sources.program import Program
from mindgap.sources.source import one_line

_PADDING: Final = 4


@dataclass(frozen=True, slots=True)
class GenerationWay:
    """One way to generate the text. left: padding tokens before the prompt; longer, others: prompts with it in the
    batch, of a greater or the same length; settings: of `GenerationConfig`; compiled: `torch.compile` of the model."""

    label: str
    left: int = 0
    longer: int = 0
    others: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    compiled: bool = False


WAYS: Final = (
    GenerationWay("alone"),
    GenerationWay("again"),
    GenerationWay("no cache", settings={"use_cache": False}),
    GenerationWay("static cache", settings={"cache_implementation": "static"}),
    GenerationWay("prefill in chunks of 4", settings={"prefill_chunk_size": 4}),
    GenerationWay(f"{_PADDING} left", left=_PADDING),
    GenerationWay("in a batch of 4", others=3),
    GenerationWay("beside a longer prompt", longer=1),
)
#: A cache of fixed size: one that grows is compiled again at each step.
COMPILED: Final = GenerationWay("compiled", settings={"cache_implementation": "static"}, compiled=True)


@dataclass(frozen=True, slots=True)
class Generated:
    """tokens: int64 [N]; logits: that each was chosen by, float [N, vocabulary]. error: why there are none."""

    label: str
    tokens: torch.Tensor
    logits: torch.Tensor
    error: str = ""


def generated(program: Program, prompt: int, steps: int, compiled: bool) -> Iterator[Generated]:
    """Yields the greedy continuation of the program's own prompt, `prompt` tokens, in each way.

    `compiled`: alone, and by `torch.compile`. Raises `SourceError` for a program that is no causal language model.
    """
    built = program.make()
    model = causal_model(built, program.source)
    ids = prompt_tokens(built, prompt, program.source)
    for way in (WAYS[0], COMPILED) if compiled else WAYS:
        try:
            yield _generated(model, ids, steps, way)
        except Exception as error:
            nothing = torch.zeros(0)
            yield Generated(way.label, nothing.long(), nothing, f"it raised {one_line(error)}")


def _generated(model: Any, ids: torch.Tensor, steps: int, way: GenerationWay) -> Generated:
    transformers: Any = importlib.import_module("transformers")
    batch, mask = _batch(ids, way)
    config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=steps, pad_token_id=0, output_logits=True, return_dict_in_generate=True,
        disable_compile=True, **way.settings,
    )  # fmt: skip
    forward: Callable[..., Any] = model.forward
    before = model.generation_config
    try:
        # Without tokens that end a text: all texts have the same length.
        model.generation_config = transformers.GenerationConfig()
        if way.compiled:
            model.forward = torch.compile(forward)  # pyright: ignore[reportUnknownMemberType] # typed in parts
        with torch.no_grad():
            output = model.generate(batch, attention_mask=mask, generation_config=config)
    finally:
        model.generation_config = before
        if way.compiled:
            del model.forward
    logits = torch.stack([each[0] for each in output.logits])
    return Generated(way.label, output.sequences[0, batch.shape[1] :].clone(), logits)


def _batch(ids: torch.Tensor, way: GenerationWay) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and attention mask of the prompt, first in its batch."""
    left = way.left or _PADDING * bool(way.longer)
    padded = torch.nn.functional.pad(ids, (left, 0))
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, 0))
    others = [ids.roll(place + 1, 1) for place in range(way.others)]
    others += [ids[:, torch.arange(padded.shape[1]) % ids.shape[1]]] * way.longer
    return torch.cat([padded, *others]), torch.cat([mask, *(torch.ones_like(each) for each in others)])
