"""Makes one call of a causal language model with a cache a program: `?decoding=TOKENS,CACHED`.

`decoding=8,0` is the prefill of 8 tokens. `decoding=1,8` is a step of decoding with a cache of 8 tokens. The arguments
are those of a model of transformers: tokens, attention mask, positions, then the keys and values of each layer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, one_line

#: Layers whose cache holds keys and values of each token, as transformers names them. Those with a window or chunks may
#: drop old tokens; here all are kept, and the attention mask hides what the layer must not see.
_KNOWN: Final = ("full_attention", "sliding_attention", "chunked_attention")
#: What decides in transformers whether a mask is left out.
_SKIP: Final = "_ignore_causal_mask_sdpa"
#: The option of a source.
DECODING: Final = "decoding"


@dataclass(frozen=True, slots=True)
class DecodingCall:
    """One call of a model: how many tokens it is given, and how many its cache holds."""

    tokens: int
    cached: int = 0

    def __str__(self) -> str:
        return f"{self.tokens},{self.cached}"


def decoding_call(source: Source) -> tuple[DecodingCall | None, Source]:
    """Returns the call that a source's options ask for, and the source without this option. Raises `SourceError`."""
    text = source.options.get(DECODING)
    if text is None:
        return None, source
    tokens, _, cached = text.partition(",")
    if not (tokens.isdecimal() and int(tokens) and cached.isdecimal()):
        raise SourceError(f"{source.text}: decoding={text}; it takes TOKENS,CACHED, as in decoding=1,8")
    return DecodingCall(int(tokens), int(cached)), source.without(DECODING)


def decoding_program(one: Program, call: DecodingCall) -> Program:
    """Returns the program of one call with a cache. Building it raises `SourceError` for a program that is no causal
    language model of transformers with attention in every layer."""

    def make() -> Built:
        built = one.make()
        model = causal_model(built, one.source)
        ids = prompt_tokens(built, call.cached + call.tokens, one.source)
        with torch.no_grad():
            try:
                _, *cache = CachedCall(model)(*_arguments(ids[:, : call.cached])) if call.cached else (None,)
                arguments = _arguments(ids, call.cached, cache)
                program = CachedCall(model)
                program(*arguments)
            except Exception as error:
                raise SourceError(f"{one.source}: decoding={call}: it raised {one_line(error)}") from error
        return replace(built, program=program, args=arguments, kwargs={}, dynamic_shapes=None)

    return replace(one, make=make, remake=None, make_submodule=None)


def causal_model(built: Built, where: str) -> Any:
    """Returns the model of a program. Raises `SourceError`, beginning with `where`, as `decoding_program` does."""
    program: Any = built.program
    program = program.func if isinstance(program, functools.partial) else program
    can_generate: Any = getattr(program, "can_generate", None)
    if not (isinstance(program, torch.nn.Module) and callable(can_generate) and can_generate()):
        name = getattr(program, "__name__", type(program).__name__)
        raise SourceError(
            f"{where}: {name} is no causal language model of transformers, such as transformers:GPT2LMHeadModel: it "
            "decodes no text with a cache"
        )
    kinds = _layers(program.config)
    if other := [kind for kind in kinds if kind not in _KNOWN]:
        raise SourceError(
            f"{where}: {len(other)} of its layers are {other[0]}: they keep no keys and values of each token; "
            f"caches of {', '.join(kind.replace('_', ' ') for kind in _KNOWN)} are known"
        )
    return program


def prompt_tokens(built: Built, count: int, where: str) -> torch.Tensor:
    """Returns `count` tokens, int64 [1, count]: those of the program's own arguments, repeated or cut."""
    given: Any = dict(built.kwargs).get("input_ids", built.args[0] if built.args else None)
    if not isinstance(given, torch.Tensor) or given.dim() != 2 or not given.numel():
        raise SourceError(f"{where}: it has no argument input_ids with the tokens of a text")
    return given[:1, torch.arange(count) % given.shape[1]]


def _layers(config: Any) -> list[str]:
    text: Any = config.get_text_config(decoder=True)
    cache: Any = importlib.import_module("transformers.cache_utils")
    return list(cache.get_layer_types_and_kwargs(text)[0])


def _arguments(ids: torch.Tensor, cached: int = 0, cache: Any = ()) -> tuple[torch.Tensor, ...]:
    positions = torch.arange(cached, ids.shape[1])[None].expand(ids.shape[0], -1).contiguous()
    return ids[:, cached:].contiguous(), torch.ones_like(ids), positions, *(each for each in cache if each is not None)


class CachedCall(torch.nn.Module):
    """Calls a causal model with a cache that is given and returned as tensors.

    Arguments: tokens, int64 [B, T]; attention mask, int64 [B, C + T], 0 for padding; positions, int64 [B, T]; keys and
    values of each layer, [B, heads, C, width], none where C is 0. Returns the logits, [B, T, vocabulary], and the keys
    and values of all C + T tokens.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, *cache: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        layers = [_layer(*pair) for pair in zip(cache[::2], cache[1::2], strict=True)]
        layers = layers or [_layer() for _ in _layers(self.model.config)]
        held: Any = importlib.import_module("transformers.cache_utils").Cache(layers=layers)
        with _masks_are_made():
            result = self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=held,
                use_cache=True,
                return_dict=True,
            )
        return result.logits, *(each for layer in layers for each in (layer.keys, layer.values))


@contextlib.contextmanager
def _masks_are_made() -> Generator[None]:
    """Makes the attention masks that transformers leaves out where it reads that nothing is padding.

    It does not read this while a program is captured or exported. A run that leaves them out is another program: with
    grouped queries, other kernels and other bits.
    """
    masks: Any = importlib.import_module("transformers.masking_utils")
    before: Any = getattr(masks, _SKIP, None)
    if before is None:
        yield
        return
    setattr(masks, _SKIP, lambda *_, **__: False)  # pyright: ignore[reportUnknownLambdaType] # of any arguments
    try:
        yield
    finally:
        setattr(masks, _SKIP, before)


def _layer(*pair: torch.Tensor) -> Any:
    """A layer of a cache with these keys and values."""
    layer = _layer_class()()
    if pair:
        layer.update(*pair)
    return layer


@functools.cache
def _layer_class() -> Any:
    """The library's layer of a growing cache. An empty one keeps what it is given first, without a concatenation with
    an empty tensor of one dimension, which not every runtime has."""
    base: Any = importlib.import_module("transformers.cache_utils").DynamicLayer

    class Layer(base):
        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.is_initialized:
                return base.update(self, key_states, value_states, *args, **kwargs)
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states, value_states
            return self.keys, self.values

    return Layer
