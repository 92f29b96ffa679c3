"""Opens `modules:NAME`: a module of `torch.nn` with the arguments of PyTorch's own tests.

`modules:NAME` gives up to eight samples that differ in more than the values of their tensors, evenly spaced among all.
`modules:NAME#*` gives all of them, `modules:NAME#K` the one with this number. Weights are seeded as those of a model
library.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from mindgap.aten.torch_private.operator_tests import module_descriptions
from mindgap.sources.libraries import stay_offline
from mindgap.sources.program import Built, Program
from mindgap.sources.sample_inputs import draw_samples, new_registry, round_inexact
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line, parse, source_options, suggest
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_zoo.operator_samples.operators import chosen_numbers, one_program
from mindgap_zoo.operator_samples.sample_call import Sample, sample_of
from mindgap_zoo.weights.seeding import seed_statistics, seed_weights


@functools.cache
def _modules() -> Mapping[str, Any]:
    """Returns PyTorch's descriptions of modules by class name. Raises `SourceError` if the suite cannot be
    imported."""
    stay_offline()
    try:
        descriptions = module_descriptions()
    except ImportError as error:
        raise SourceError(f"modules: PyTorch's test suite needs a package ({error}); pip install expecttest") from error
    return {info.module_cls.__name__: info for info in descriptions}


def names() -> list[str]:
    return list(_modules())


def constructor_calls(name: str) -> list[Sample]:
    """Returns the calls that construct the samples of a module, in their numbers' order. Raises `SourceError`."""
    source = parse(f"modules:{name}")
    return [built for built, _ in _samples(source, _modules()[name], source_options(source), new_registry())]


def open_modules(source: Source) -> list[Program]:
    chosen = source_options(source)
    target, hash_sign, number = source.target.partition("#")
    name = target.removeprefix("nn.")
    known = _modules()
    if name not in known:
        raise SourceError(f"{source.text}: PyTorch has no samples for {target!r}{suggest(name, known)}")
    registry = new_registry()
    samples = _samples(source, known[name], chosen, registry)
    wanted = chosen_numbers(source, number if hash_sign else "", len(samples))
    return [
        one_program(source, name, k, functools.partial(_build, source, chosen, *samples[k], registry)) for k in wanted
    ]


def _samples(source: Source, info: Any, chosen: SourceOptions, registry: TensorRegistry) -> list[tuple[Sample, Sample]]:
    """Returns (constructor, forward call) of the samples that differ in more than values."""
    dtype = getattr(torch, chosen.dtype or "float32")
    try:
        made = draw_samples(
            lambda: info.module_inputs_func(info, "cpu", dtype, False, chosen.train), info.name, chosen.seed, registry
        )
    except Exception as error:
        raise SourceError(f"{source.text}: PyTorch's samples raised {one_line(error)}") from error
    samples: dict[str, tuple[Sample, Sample]] = {}
    for given, inexact in made:
        built, called = given.constructor_input, given.forward_input
        pair = (
            sample_of(info.module_cls, built.args, built.kwargs, "argument_0"),
            sample_of(info.module_cls, called.args, called.kwargs, "input"),
        )
        if inexact:
            for tensor in (*pair[0].all_tensors, *pair[1].all_tensors):
                round_inexact(tensor, registry)
        samples.setdefault(f"{pair[0].form()} {pair[1].form()}", pair)
    return list(samples.values())


def _build(source: Source, chosen: SourceOptions, built: Sample, called: Sample, registry: TensorRegistry) -> Built:
    module = construct(source, chosen, lambda: _module(built, called))
    args, kwargs = _arguments(called)
    seed_weights(module, chosen.seed, registry)
    seed_statistics(module, lambda: module(*copy.deepcopy(args), **copy.deepcopy(kwargs)), chosen.seed, registry)
    if chosen.train:
        module.train()
    return Built(module, args, kwargs, registry)


def _module(built: Sample, called: Sample) -> Any:
    module: Any = copy.deepcopy(built.call)(*copy.deepcopy(built.tensors))
    if issubclass(type(module), LazyModuleMixin):
        args, kwargs = _arguments(called)
        with torch.no_grad():
            module(*args, **kwargs)  # Its parameters have shapes only then.
    return module


def _arguments(called: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments with tensors of their own."""
    return called.call.filled(copy.deepcopy(called.tensors))
