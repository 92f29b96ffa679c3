"""Opens `ops:NAME`: an operator with the sample inputs of PyTorch's own tests.

`ops:NAME` gives up to eight samples that differ in more than the values of their tensors, evenly spaced among all.
`ops:NAME#*` gives all of them, `ops:NAME#K` the one with this number. Variants are written `ops:NAME.VARIANT`. Samples
are in float32 (`?dtype=` for others), or in the first dtype that the operator takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from mindgap.aten.torch_private.operator_tests import operator_descriptions
from mindgap.sources.libraries import stay_offline
from mindgap.sources.program import Built, Program
from mindgap.sources.sample_inputs import draw_samples, new_registry, round_inexact
from mindgap.sources.source import Source, SourceError, one_line, parse, source_options, suggest
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_zoo.operator_samples.sample_call import Sample, evenly_spaced, sample_of

#: Samples that a name alone gives.
MOST: Final = 8
#: Where float32 is not taken, the first of these that is.
_DTYPES: Final = (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.int32, torch.bool)


@functools.cache
def _operators() -> Mapping[str, Any]:
    """Returns PyTorch's descriptions of operators by name. Raises `SourceError` if the suite cannot be imported."""
    stay_offline()
    try:
        descriptions = operator_descriptions()
    except ImportError as error:
        raise SourceError(f"ops: PyTorch's test suite needs a package ({error}); pip install expecttest") from error
    known: dict[str, Any] = {}
    for info in descriptions:
        known.setdefault(f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name, info)
    return known


def names() -> list[str]:
    """Returns the names of all operators and variants with samples on a CPU, without those that are compiled for
    GPUs only."""
    known = _operators().items()
    return [name for name, info in known if info.supported_dtypes("cpu") and not name.startswith("jiterator")]


def public_name(name: str) -> tuple[str, ...]:
    """Returns the names of the function that an operator's samples call, without `torch.`: its name, its aliases."""
    info = _operators()[name]
    return (info.name, *(alias.name for alias in info.aliases))


def sample_calls(name: str) -> list[Sample]:
    """Returns the samples of an operator or variant in their numbers' order. Raises `SourceError`."""
    source, info = parse(f"ops:{name}"), _operators()[name]
    return _samples(source, info, _dtype(source, info, None), 0, new_registry())


def sample_database() -> Mapping[str, tuple[str, ...]]:
    """Returns the names of PyTorch's sample database, each with its variants (`div`: `div.no_rounding_mode`, …)."""
    by_operator: dict[str, list[str]] = {}
    for variant, info in _operators().items():
        by_operator.setdefault(info.name, []).append(variant)
    return {name: tuple(variants) for name, variants in sorted(by_operator.items())}


def run_sample(variant: str) -> None:
    """Runs the first sample of an operator in eager mode on the CPU, as PyTorch's tests do, without a graph.

    Raises `SourceError` with PyTorch's own words where that fails, or where there is no sample for a CPU.
    """
    sample = sample_calls(variant)[0]
    try:
        sample.call(*sample.tensors)
    except Exception as error:
        raise SourceError(f"ops:{variant}: {one_line(error)}") from error


def open_operators(source: Source) -> list[Program]:
    """Returns a program for each requested sample.

    Raises `SourceError` if there is no such operator or sample, or if the operator does not take the dtype.
    """
    chosen = source_options(source)
    name, hash_sign, number = source.target.partition("#")
    known = _operators()
    if name not in known:
        variants = [other for other in known if other.startswith(f"{name}.")][:6]
        near = f"; its variants: {', '.join(variants)}" if variants else suggest(name, known)
        raise SourceError(f"{source.text}: PyTorch has no samples for {name!r}{near}")
    registry = new_registry()
    samples = _samples(source, known[name], _dtype(source, known[name], chosen.dtype), chosen.seed, registry)
    wanted = chosen_numbers(source, number if hash_sign else "", len(samples))
    return [one_program(source, name, k, functools.partial(samples[k].built, registry)) for k in wanted]


def one_program(source: Source, name: str, number: int, make: Callable[[], Built]) -> Program:
    """Returns the program of a sample, with the source that names only this sample."""
    _, mark, options = source.text.partition("?")
    return Program(f"{name}#{number}", f"{source.scheme}:{name}#{number}{mark}{options}", make)


def chosen_numbers(source: Source, number: str, count: int) -> list[int]:
    """Returns the positions among `count` that `#K`, `#*` or nothing selects. Raises `SourceError`."""
    if number == "*":
        return list(range(count))
    if not number:
        return evenly_spaced(range(count), MOST)
    if not number.isdecimal() or int(number) >= count:
        raise SourceError(f"{source.text}: no sample {number!r}; they are numbered 0 to {count - 1}")
    return [int(number)]


def _dtype(source: Source, info: Any, asked: str | None) -> torch.dtype:
    taken = info.supported_dtypes("cpu")
    if asked is not None:
        if getattr(torch, asked) not in taken:
            have = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in taken))
            raise SourceError(f"{source.text}: no samples of {asked}; it takes {have or 'nothing on a CPU'}")
        return getattr(torch, asked)
    chosen = next((dtype for dtype in _DTYPES if dtype in taken), next(iter(taken), None))
    if chosen is None:
        raise SourceError(f"{source.text}: PyTorch has no samples for it on a CPU")
    return chosen


def _samples(source: Source, info: Any, dtype: torch.dtype, seed: int, registry: TensorRegistry) -> list[Sample]:
    """Returns the samples that differ in more than values, in the suite's order. Raises `SourceError` if there are
    none."""
    slopes = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    try:
        made = draw_samples(lambda: info.sample_inputs_func(info, "cpu", dtype, slopes), info.name, seed, registry)
    except Exception as error:
        raise SourceError(f"{source.text}: PyTorch's samples raised {one_line(error)}") from error
    samples: dict[str, Sample] = {}
    for given, inexact in made:
        sample = sample_of(info.op, (given.input, *given.args), given.kwargs, "input")
        if inexact:
            for tensor in sample.all_tensors:
                round_inexact(tensor, registry)
        samples.setdefault(sample.form(), sample)
    if not samples:
        raise SourceError(f"{source.text}: PyTorch's suite has no samples of {str(dtype).removeprefix('torch.')}")
    return list(samples.values())
