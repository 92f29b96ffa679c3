"""Finds the sample sources of a public function, module or tensor method of PyTorch, by its full name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch

from mindgap.graph.operators.registry import traits
from mindgap.sources.source import SourceError
from mindgap_zoo.operator_samples import modules, operators
from mindgap_zoo.operator_samples.sample_call import Sample, evenly_spaced
from mindgap_zoo.operator_samples.signatures import Options, options_of, shows_dtypes, uses_only

_TENSOR: Final = "torch.Tensor."
#: Samples of one function that are tried, evenly spaced over its variants.
_VARIANTS: Final = 3


def sources_of(full: str, calls: Sequence[Options] = (), shown: bool = True) -> tuple[str, ...]:
    """Returns the sources that call `torch.nn.functional.gelu`, `torch.nn.Conv2d` or `torch.Tensor.cumsum`; none where
    PyTorch's test suite has no samples of it. Raises `SourceError` if the suite cannot be imported.

    calls: the options of calls in a user's code, `shown` whole or in part. Samples that pass others are left out where
    they are shown whole, unless all do; so are samples that pass a dtype which no call passes.
    """
    last = full.rpartition(".")[2]
    name = full.removeprefix(_TENSOR) if full.startswith(_TENSOR) else full.removeprefix("torch.")
    if full.startswith("torch.nn.") and last in _modules():
        sources, samples = [f"modules:{last}"], modules.constructor_calls
    else:
        named = _operators().get(name) or _operators().get(f"nn.functional.{name}") or ()
        sources, samples = [f"ops:{each}" for each in named], operators.sample_calls
    for fits in ([uses_only] if shown else []) + [shows_dtypes] if calls else []:
        fitting = [some for each in sources if (some := _fitting(full, each, samples, calls, fits))]
        if fitting:
            return tuple(one for some in fitting[:_VARIANTS] for one in some)
    return tuple(sources[:_VARIANTS])


def _fitting(
    full: str, source: str, samples: Callable[[str], Sequence[Sample]], calls: Sequence[Options],
    fits: Callable[[Options, Sequence[Options]], bool],
) -> tuple[str, ...]:  # fmt: skip
    """Returns sources of the samples that fit the calls."""
    try:
        drawn = samples(source.partition(":")[2])
    except SourceError:
        return (source,)  # Whoever opens it gets the reason.
    fitting = [number for number, each in enumerate(drawn) if fits(_options(full, each), calls)]
    if len(fitting) == len(drawn):
        return (source,)
    return tuple(f"{source}#{fitting[place]}" for place in evenly_spaced(fitting, operators.MOST))


def _options(full: str, sample: Sample) -> Options:
    method = int(full.startswith(_TENSOR))
    return options_of(full, [_known(each) for each in sample.call.args[method:]], {
        name: _known(value) for name, value in sample.call.kwargs.items()
    })  # fmt: skip


def _known(value: object) -> object:
    if isinstance(value, torch.dtype):
        return str(value)
    return value if isinstance(value, (str, bool, int, float, type(None))) else ...


def draws_random(full: str) -> bool:
    """Tells whether a function draws random numbers, which a captured graph has as an input."""
    return traits(full.rpartition(".")[2]).random


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset(modules.names())


@functools.cache
def _operators() -> Mapping[str, tuple[str, ...]]:
    """By the name of a function without `torch.`, the names of its operators with samples, the plain one first."""
    names: dict[str, tuple[str, ...]] = {}
    for name in operators.names():
        described = operators.public_name(name)
        for public in described:
            names[public] = tuple(sorted({*names.get(public, ()), name}, key=lambda each: (each != public, each)))
    return names
