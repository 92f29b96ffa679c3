"""Opens `pyg:CLASS`: layers and models of PyTorch Geometric, small, on one fixed graph.

The graph (edges, assignment of nodes to examples, types of nodes and edges) is a constant of the program, as in
training on a single graph. Layers ask it for self-loops, degrees and counts, which decide shapes. The arguments are
features of nodes and edges, weights, positions, and indices of entities. A layer is refused, with the reason, if its
shapes follow from computed values or if it needs the compiled extensions.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from mindgap.sources.libraries import import_library
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_zoo.weights.seeding import finished, seed_weights
from mindgap_zoo.zoos.named_model import open_named
from mindgap_zoo.zoos.pyg.example_graph import SIZES, ExampleGraph
from mindgap_zoo.zoos.pyg.layer_cases import ABSTRACT, CONSTRUCTED, GIVEN


def _layers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns of each compiled extension that is missing.
        return import_library("torch_geometric.nn", "pyg: torch_geometric", "pyg")


def names() -> list[str]:
    """Returns the names of all layers and models, without base classes and aliases."""
    names_known: dict[str, None] = {}
    library = _layers()
    for name in sorted(dir(library)):
        value = getattr(library, name)
        if isinstance(value, type) and issubclass(value, nn.Module) and name == value.__name__ and name not in ABSTRACT:
            names_known[name] = None
    return list(names_known)


def open_pyg(source: Source) -> list[Program]:
    return open_named(source, names(), "PyTorch Geometric has no layer", _build)


def _build(source: Source, chosen: SourceOptions) -> Built:
    name, library, registry = source.target, _layers(), TensorRegistry()
    world = ExampleGraph(library, registry, chosen.seed, chosen.dtype or "float32")
    layer = construct(source, chosen, lambda: _create(source, getattr(library, name), world))
    seed_weights(layer, chosen.seed, registry)
    held, given = _arguments(source, layer, world)
    return finished(layer, chosen, registry, kwargs=given, fixed=held, source=source)


def _create(source: Source, layer: Any, world: ExampleGraph) -> nn.Module:
    """Creates the layer from its table entry, with small sizes for other required arguments."""
    made: Any = CONSTRUCTED[source.target](world) if source.target in CONSTRUCTED else {}
    if isinstance(made, nn.Module):
        return made
    for name, parameter in inspect.signature(layer.__init__).parameters.items():
        required = parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if name == "self" or name in made or not required:
            continue
        if name not in SIZES:
            raise SourceError(f"{source.text}: there is no telling what its argument {name} takes")
        made[name] = SIZES[name]
    return layer(**made)


def _arguments(source: Source, layer: nn.Module, world: ExampleGraph) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Returns (arguments that belong to the fixed graph, other arguments) for a call of the layer."""
    known: dict[str, Any] = GIVEN[source.target](world) if source.target in GIVEN else {}
    for name, parameter in inspect.signature(layer.forward).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or name in known:
            continue
        required = parameter.default is parameter.empty
        if not required and not world.worth_giving(name, layer):
            continue
        value = world.named(name)
        if value is None and required:
            raise SourceError(f"{source.text}: there is no telling what its input {name} takes")
        known[name] = value
    known = {name: value for name, value in known.items() if value is not None}
    held = {name: value for name, value in known.items() if world.fixes(name)}
    return held, {name: value for name, value in known.items() if name not in held}
