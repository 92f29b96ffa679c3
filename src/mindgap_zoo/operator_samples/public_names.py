"""Finds the sample sources of a public function, module or tensor method of PyTorch, by its full name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mindgap.graph.operators.registry import traits
from mindgap.sources.source import SourceError
from mindgap_zoo.operator_samples import modules, operators
from mindgap_zoo.operator_samples.sample_call import Sample, evenly_spaced
from mindgap_zoo.operator_samples.signatures import Options, options_of, uses_only

_TENSOR: Final = "torch.Tensor."
#: Samples of one function that are tried, evenly spaced over its variants.
_VARIANTS: Final = 3


def sources_of(full: str, calls: Sequence[Options] = ()) -> tuple[str, ...]:
    """Returns the sources that call `torch.nn.functional.gelu`, `torch.nn.Conv2d` or `torch.Tensor.cumsum`; none where
    PyTorch's test suite has no samples of it. Raises `SourceError` if the suite cannot be imported.

    calls: the options of calls in a user's code. Samples that pass others are left out, unless all do.
    """
    last = full.rpartition(".")[2]
    if full.startswith("torch.nn.") and last in _modules():
        return _fitting(full, f"modules:{last}", modules.constructor_calls, calls) or (f"modules:{last}",)
    name = full.removeprefix(_TENSOR) if full.startswith(_TENSOR) else full.removeprefix("torch.")
    sources = _operators().get(name) or _operators().get(f"nn.functional.{name}") or ()
    fitting = [some for each in sources if (some := _fitting(full, f"ops:{each}", operators.sample_calls, calls))]
    return tuple(one for some in fitting[:_VARIANTS] for one in some) or tuple(f"ops:{n}" for n in sources[:_VARIANTS])


def _fitting(
    full: str, source: str, samples: Callable[[str], Sequence[Sample]], calls: Sequence[Options]
) -> tuple[str, ...]:
    """Returns sources of the samples that pass no other options than the calls do."""
    if not calls:
        return (source,)
    try:
        drawn = samples(source.partition(":")[2])
    except SourceError:
        return (source,)  # Whoever opens it gets the reason.
    fitting = [number for number, each in enumerate(drawn) if uses_only(_options(full, each), calls)]
    if len(fitting) == len(drawn):
        return (source,)
    return tuple(f"{source}#{fitting[place]}" for place in evenly_spaced(fitting, operators.MOST))


def _options(full: str, sample: Sample) -> Options:
    method = int(full.startswith(_TENSOR))
    return options_of(full, [_known(each) for each in sample.call.args[method:]], {
        name: _known(value) for name, value in sample.call.kwargs.items()
    })  # fmt: skip


def _known(value: object) -> object:
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
