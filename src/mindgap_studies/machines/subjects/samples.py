"""Draws further samples of a model: other values for its arguments, equal on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from mindgap.aten.functional import functionalize
from mindgap.graph import (
    Array,
    Constant,
    Graph,
    GraphError,
    Input,
    Literal,
    MindgapError,
    Stored,
    TensorStore,
    materialise,
)
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.materialisation import overlapping_cells
from mindgap_studies.machines.subjects.runnable import Runnable, runnable

#: Between the seeds of two samples of one argument: large and odd, so that they do not meet other arguments' seeds.
_STEP: Final = 0x9E3779B1
_SEEDS: Final = 1 << 32


def sample(graph: Graph, number: int, tensors: TensorStore) -> dict[int, Array]:
    """Returns other arrays for the graph's arguments, by number of the input; for sample 0 none.

    Arguments that a recipe draws are drawn with another seed. Others, a user's own tensors, get their elements in
    another order: their distribution stays, and so do the valid indices among integers. The paper permutes inputs in
    the same way (section 3.5). Arguments with one value everywhere stay.
    """
    if number == 0:
        return {}
    found: dict[int, Array] = {}
    for place, given in enumerate(graph.inputs):
        if given.role != "input":
            continue
        old = materialise(given, tensors)
        new = _drawn(given, old, number, place)
        if digest_array(new) != digest_array(old):
            found[place] = new
    return found


def _drawn(given: Input, old: Array, number: int, place: int) -> Array:
    recipe = given.recipe
    if isinstance(recipe, Constant):
        return old
    if not isinstance(recipe, (Literal, Stored)):
        other = replace(recipe, seed=(recipe.seed + number * _STEP) % _SEEDS)
        return materialise(Input(given.spec, other, given.role))
    # Elements that share memory must keep one value.
    if 0 in given.spec.stride or overlapping_cells(given.spec) is not None:
        return old
    order = np.random.Generator(np.random.Philox(key=number * _STEP + place)).permutation(old.size)
    return old.reshape(-1)[order].reshape(old.shape)


def given_model(name: str, graph: Graph, samples: int, tensors: TensorStore) -> Iterator[Runnable]:
    """Yields the samples of a captured model, as subjects `NAME/0`, `NAME/1`, ….

    The graph is brought into its functional form: an inner value that is written over later could not be shown. Where
    there is no such form, it stays as captured. Raises `MindgapError` for a model without a computed output, and for
    one without arguments that have other values.
    """
    with suppress(GraphError):
        graph = functionalize(graph).graph
    if not any(graph.producer[number] >= 0 for number in graph.outputs):
        raise MindgapError(f"{name} computes no output: there is nothing to compare")
    for number in range(samples):
        inputs = sample(graph, number, tensors)
        if number and not inputs:
            raise MindgapError(
                f"{name} has no argument with other values for a second sample: collect it with --samples 1"
            )
        output = next(spec for i in graph.outputs if graph.producer[i] >= 0 and (spec := graph.values[i]) is not None)
        facts = {"model": name, "sample": number, "dtype": output.dtype}
        yield runnable(f"{name}/{number}", "models", graph, facts, keep="computed", inputs=inputs)
