"""Runs a model that keeps a cache for several steps, as one program: `FILE.py:make?steps=16`.

The model takes tokens and a cache, and returns logits, or the next tokens, and a cache. Each step takes the token of
the largest logit of the step before, and the cache as that step left it. So each platform goes on with what it gave
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import Decision, Graph, TensorStore, materialise_all
from mindgap.graph.decisions import outcome_of
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError

#: Steps of one program, at most.
_MOST: Final = 1000
#: What the tokens that a step gives are called among the outputs.
_TOKEN: Final = "token"


class StepLoop(torch.nn.Module):
    """Calls a model `steps` times. Returns the tokens and logits of each step, and the last cache.

    Two forms of models are known. `model(tokens, *cache)` returns `(logits, *cache)`. A model of transformers is called
    with keyword arguments, and returns an object with `logits` and `past_key_values`. Logits are float, and have the
    vocabulary as their last dimension; the position before the last dimension is that of the token where there are
    three. Whole numbers in their place are the next tokens.
    """

    def __init__(self, model: torch.nn.Module, steps: int) -> None:
        super().__init__()
        self.model, self.steps = model, steps
        self.training = model.training

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns `steps` (of each its token, and its logits where it gives any) and `cache`."""
        taken: list[dict[str, torch.Tensor]] = []
        cache: Any = ()
        for _ in range(self.steps):
            result = self.model(*args, **kwargs)
            if hasattr(result, "past_key_values"):
                scores, cache = result.logits, result.past_key_values
            else:
                scores, *cache = (result,) if isinstance(result, torch.Tensor) else result
            token = _next_token(scores)
            taken.append({_TOKEN: token} | ({"logits": scores} if scores.is_floating_point() else {}))
            args, kwargs = _next_arguments(args, kwargs, token, cache)
        return {"steps": taken, "cache": cache}


def _next_token(scores: torch.Tensor) -> torch.Tensor:
    """Returns the tokens of the next step, of shape (batch, 1)."""
    if not scores.is_floating_point():
        return scores.reshape(scores.shape[0], -1)[:, -1:]
    last = scores[:, -1] if scores.dim() == 3 else scores
    return last.argmax(-1, keepdim=True)


def _next_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], token: torch.Tensor, cache: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of the next step. Of keyword arguments, masks grow by the token and flags stay."""
    named = {name: value for name, value in kwargs.items() if not isinstance(value, torch.Tensor)}
    if isinstance(cache, (list, tuple)) and "input_ids" not in kwargs:
        first = args[0]
        return (token.to(first.dtype), *cache), named  # pyright: ignore[reportUnknownVariableType] # of any type
    named |= {"input_ids": token, "past_key_values": cache}
    if (mask := kwargs.get("attention_mask")) is not None:
        named["attention_mask"] = torch.cat([mask, mask.new_ones((mask.shape[0], 1))], -1)
    return (), named


def steps_option(source: Source) -> tuple[int, Source]:
    """Returns how many steps a source's options ask for (0: none), and the source without that option. Raises
    `SourceError`."""
    option = source.options.get("steps")
    if option is None:
        return 0, source
    if not option.isdecimal() or not 1 <= int(option) <= _MOST:
        raise SourceError(f"{source.text}: steps={option}; it takes a whole number from 1 to {_MOST}")
    return int(option), source.without("steps")


def stepwise(one: Program, steps: int) -> Program:
    """Returns the program that runs a model for several steps. Building it raises `SourceError` where the program is
    no module, or is called without tokens."""

    def make() -> Built:
        built = one.make()
        if not isinstance(built.program, torch.nn.Module):
            raise SourceError(f"{one.source}: steps={steps} takes a module, not a {type(built.program).__name__}")
        tokens = built.kwargs.get("input_ids", built.args[0] if built.args else None)
        if not isinstance(tokens, torch.Tensor) or tokens.is_floating_point() or tokens.dim() != 2:
            raise SourceError(
                f"{one.source}: steps={steps} takes a model whose first argument, or input_ids, is a tensor of tokens "
                "of shape (batch, length)"
            )
        return replace(built, program=StepLoop(built.program, steps), dynamic_shapes=None)

    name = f"{one.name} ({steps} steps)"
    group = one.group and f"{one.group} ({steps} steps)"
    return replace(one, name=name, make=make, group=group, remake=None, make_submodule=None)


def with_tokens(graph: Graph, tensors: TensorStore | None) -> Graph:
    """Returns the graph of a loop, in which the tokens of each step are decisions."""
    names = graph.labels.outputs
    places = [n for n, name in enumerate(names) if name.startswith("steps.") and name.endswith(f".{_TOKEN}")]
    values = Tape(graph).run(input_tensors(graph, materialise_all(graph, tensors)))
    tokens = tuple(
        Decision(n, "token", outcome_of("token", to_numpy(values[n])), "", f"step {int(names[n].split('.')[1]) + 1}")
        for n in places
    )
    return replace(graph, labels=replace(graph.labels, decisions=(*graph.labels.decisions, *tokens)))
