"""Refuses models that are too large for the machine, before memory is taken for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from torch import nn

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.run.system import memory_bytes
from mindgap.sources.argument_sets import ARGUMENTS
from mindgap.sources.cached_decoding import DECODING
from mindgap.sources.source import Source, SourceError, SourceOptions, parse
from mindgap.sources.weights.construction import parameters_on_meta

#: The share of the memory that a model's weights may take. What is left holds a platform's copy.
MOST_OF_MEMORY: Final = 0.5


def refuse_size(
    source: Source,
    chosen: SourceOptions,
    made: str,
    make: Callable[[], nn.Module],
    *,
    shrinks: bool = False,
    narrows: bool = False,
    inside: str = "",
) -> None:
    """Raises `SourceError` if the model has too many parameters, before memory is taken for them.

    `made`: the dtype in which it is made, before it has that of the options. `shrinks`: it takes `layers=`.
    `narrows`: it is made in the dtype of the options. `inside`: the path of the submodule that it is.
    """
    needed = too_large(chosen, made, make)
    if not needed:
        return
    count, dtype = parameters_on_meta(make) or 0, chosen.dtype or made
    advice: list[str] = []
    if narrows and _bytes_of(made) > 2:
        advice.append(f"with ?dtype=bfloat16 it takes {count * 2 / 2**30:.1f}")
    elif _bytes_of(dtype) > _bytes_of(made):
        advice.append(f"without dtype={dtype} it takes {count * _bytes_of(made) / 2**30:.1f}")
    if shrinks and (chosen.layers or 3) > 2:
        advice.append("with ?layers=2 it is built with two layers")
    if shrinks and not narrows:
        advice += _submodule_advice(parse(source.text).options)
    of = f"{inside} has " if inside else ""
    raise SourceError(
        f"{source.text}: {of}{count:,} parameters, {needed:.1f} GiB in {_widest(chosen, made)}, and this machine has "
        f"{memory_bytes() / 2**30:.1f}: {', and '.join(advice) or 'take a machine with more memory'}"
    )


def _submodule_advice(options: Mapping[str, str]) -> list[str]:
    """What of a model's submodules can be read: none alone where another option changes what the model gets."""
    if "inside" not in options:
        return ["with --inside PATH one submodule (model.layers.0) is read without the rest"]
    changing = [name for name in (*ARGUMENTS, DECODING) if name in options]
    return (
        [f"without {', '.join(f'{each}=' for each in changing)} {options['inside']} is read alone"] if changing else []
    )


def too_large(chosen: SourceOptions, made: str, make: Callable[[], nn.Module]) -> float:
    """Returns the GiB that a model's weights take where that is more than their share of the memory, else 0."""
    count = parameters_on_meta(make)
    needed = (count or 0) * _bytes_of(_widest(chosen, made)) / 2**30
    return needed if needed > memory_bytes() / 2**30 * MOST_OF_MEMORY else 0.0


def _widest(chosen: SourceOptions, made: str) -> str:
    return max(made, chosen.dtype or made, key=_bytes_of)


def _bytes_of(dtype: str) -> int:
    return TORCH_DTYPES[dtype].itemsize
