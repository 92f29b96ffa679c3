"""Draws tensors from recipes and remembers the recipe of each tensor by its bytes.

A model's weights are drawn here, copied into the model and captured with it. Afterwards `restore` replaces the bytes
in the captured graph by the recipe that gave them. The graph file then holds a few bytes for each tensor and still
describes it bit for bit.
"""

from __future__ import annotations

import dataclasses
import tempfile
import zlib

import numpy as np
import torch
import xxhash

from mindgap.aten.tensors import to_torch
from mindgap.graph import Array, Graph, Input, Literal, Recipe, Stored, TensorSpec
from mindgap.graph.materialisation import materialise
from mindgap.graph.tensors import PendingTensors, TensorStore, default_tensor_store

#: What was not drawn (masks, position tables) travels inside the graph up to this many bytes.
_INSIDE = 1 << 20


def seed_of(name: str, seed: int) -> int:
    """Returns a 32-bit seed for the tensor of this name, the same on every machine."""
    return zlib.crc32(f"{seed}/{name}".encode())


def _key(array: Array) -> str:
    """Returns a key for a tensor in memory. It has the form of a `tensor_key` but is made by a faster hash."""
    hashed = xxhash.xxh3_128(f"{array.dtype}{array.shape}".encode())
    hashed.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest().rjust(64, "0")


class TensorRegistry:
    """Maps the content of drawn tensors to their recipes."""

    def __init__(self) -> None:
        self._recipes: dict[str, Recipe] = {}
        self._described: dict[str, Recipe] = {}

    def __bool__(self) -> bool:
        return bool(self._recipes)

    @property
    def describes(self) -> bool:
        """Whether `describe` was called: tensors without values have recipes here."""
        return bool(self._described)

    def describe(self, label: str, recipe: Recipe) -> None:
        """Keeps the recipe of a tensor without values (on the meta device). `label`: its name in the graph."""
        self._described[label] = recipe

    def described(self, graph: Graph) -> Graph:
        """Returns a graph that was captured from tensors without values, with the recipe of each."""
        known = zip(graph.inputs, graph.labels.inputs, strict=True)
        inputs = tuple(
            dataclasses.replace(given, recipe=self._described[label])
            if given.role in ("input", "parameter", "buffer") and label in self._described
            else given
            for given, label in known
        )
        return dataclasses.replace(graph, inputs=inputs)

    def draw(self, recipe: Recipe, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns a new contiguous CPU tensor with the values of `recipe`.

        Raises `GraphError` if the recipe does not fit the dtype or shape.
        """
        array = materialise(Input(TensorSpec.contiguous(dtype, shape), recipe))
        self._recipes[_key(array)] = recipe
        tensor = to_torch(array)
        return tensor.clone() if isinstance(recipe, Stored) else tensor

    def knows(self, array: Array) -> bool:
        """Whether a tensor with these bytes was drawn here."""
        return _key(array) in self._recipes

    def restore(self, graph: Graph, kept: MemoryStore, tensors: TensorStore | None) -> Graph:
        """Returns the graph with a recipe in place of every tensor that was drawn here.

        `kept`: the store that the graph was captured with. A tensor that was not drawn goes inside the graph if it has
        at most 1 MiB, else into `tensors` (by default the user's store).
        """
        inputs = tuple(self._restored(given, kept, tensors) for given in graph.inputs)
        return dataclasses.replace(graph, inputs=inputs)

    def _restored(self, given: Input, kept: MemoryStore, tensors: TensorStore | None) -> Input:
        if isinstance(given.recipe, Literal):
            drawn = self._recipes.get(_key(materialise(given)))
            return given if drawn is None else dataclasses.replace(given, recipe=drawn)
        if not isinstance(given.recipe, Stored):
            return given
        drawn = self._recipes.get(given.recipe.key)
        if drawn is None:
            array = kept.get(given.recipe.key)
            if array.nbytes <= _INSIDE:
                drawn = Literal(array.tobytes())
            else:
                drawn = Stored((tensors or default_tensor_store()).put(array))
        return dataclasses.replace(given, recipe=drawn)


class MemoryStore(PendingTensors):
    """Keeps tensors in memory, under keys that no file has and that are made faster. `TensorRegistry.restore` replaces
    them."""

    def __init__(self) -> None:
        super().__init__(TensorStore(tempfile.gettempdir()))

    def put(self, array: Array) -> str:
        key = _key(array)
        self._arrays[key] = array
        return key
