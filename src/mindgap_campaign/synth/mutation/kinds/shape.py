"""Changes sizes that several tensors share to edge cases: empty, one, next to the width of a vector or tile, prime, or
past 16 bits."""

from __future__ import annotations

import math
import random
from typing import Final

from mindgap.graph import Arg, Graph, Input, Integers, Node, Recipe, Ref, TensorSpec, numpy_dtype, operands
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.edit import DraftCall, Edit, InputEdit, Rewrite
from mindgap_campaign.synth.mutation.kinds.layout import dense_stride
from mindgap_campaign.synth.mutation.rules import Rules
from mindgap_campaign.synth.mutation.schemas import bind, call, signature
from mindgap_campaign.synth.regions.cut import MOST_BYTES
from mindgap_campaign.synth.values.recipes import DRAWN

#: Next to the widths of vectors and tiles.
_BORDERS: Final = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
#: How often all sizes change, each to one of those.
_ALL: Final = 0.3
#: How often a dimension is emptied that is no batch: most operators refuse.
_DELIBERATE: Final = 0.15
#: Whole numbers in arguments that may be sizes by their type and are none by their meaning.
_NO_SIZES: Final = frozenset(
    {
        "stride", "padding", "dilation", "output_padding", "kernel_size", "start", "step", "index", "dim", "dims",
        "shifts",
    }
)  # fmt: skip


def propose(flow: DataFlow, rng: random.Random, rules: Rules) -> tuple[Edit, ...] | None:
    """Changes a size, or all, in the inputs that share it, and in the arguments that contain it."""
    graph = flow.graph
    if any(spec is None for spec in graph.values) and not all(flow.known(node) for node in graph.nodes):
        return None
    sizes = sorted({size for given in graph.inputs for size in given.spec.shape if size > 1})
    fragile = any(node.op in rules.no_empty for node in graph.nodes)
    tried = [{size: rng.choice(_BORDERS) for size in sizes}] if rng.random() < _ALL else []
    for size in rng.sample(sizes, min(4, len(sizes))):
        for new in rng.sample(_others(size, rng), 2):
            if new or (not fragile and (_is_batch(graph, size) or rng.random() < _DELIBERATE)):
                tried.append({size: new})
    for first in tried:
        changed = _consistent(graph, first, rules)
        edits = _edits(graph, changed, rules) if changed is not None and _moderate(graph, changed) else None
        if edits:
            return edits
    return None


def _is_batch(graph: Graph, size: int) -> bool:
    """Tells whether the size occurs as first dimension only."""
    return all(size not in given.spec.shape[1:] for given in graph.inputs)


def _others(size: int, rng: random.Random) -> list[int]:
    """Returns edge sizes that may replace the size."""
    near, other = rng.sample(_BORDERS[1:], 2)
    prime = rng.choice((11, 13, 31, 61, 127, 131))
    large = rng.choice((65_536, 65_537, 65_539, 131_073))
    return [new for new in (0, 1, near, other, prime, size + 1, size - 1, large, large) if new != size] or [size + 1]


def _consistent(graph: Graph, changed: dict[int, int], rules: Rules) -> dict[int, int] | None:
    """Returns all sizes that must change with the first, such as products in views; None if none fit."""
    for _ in range(3):
        before = len(changed)
        for node in graph.nodes:
            if node.op in rules.reshapes and not _reshaped(graph, node, changed):
                return None
        if len(changed) == before:
            return changed if _derived_alone(graph, changed, rules) else None
    return None


def _derived_alone(graph: Graph, changed: dict[int, int], rules: Rules) -> bool:
    """Tells whether no operator derives, from a changed size, a size that an unchanged input also has."""
    sizes = {size for given in graph.inputs for size in given.spec.shape if size > 1 and size not in changed}
    for node in graph.nodes:
        if node.op not in rules.deriving or not node.outputs or node.outputs[0] is None:
            continue
        after = node.outputs[0].shape
        for value in operands(node)[: 1 + (node.op == "aten.cat.default")]:
            spec = graph.values[value]
            if spec is None or len(spec.shape) != len(after):
                continue
            pairs = [
                (have, got) for have, got in zip(spec.shape, after, strict=True) if have in changed and have != got
            ]
            if pairs and (node.op in rules.parting or any(got in sizes for _, got in pairs)):
                return False
    return True


def _reshaped(graph: Graph, node: Node, changed: dict[int, int]) -> bool:
    """Keeps the number of elements of a view equal to its operand's; changes one more size if that helps."""
    operand = node.args[0]
    before = graph.values[operand.index] if isinstance(operand, Ref) else None
    after = node.outputs[0] if len(node.outputs) == 1 else None
    if before is None or after is None:
        return True
    have = math.prod(changed.get(size, size) for size in before.shape)
    want = math.prod(changed.get(size, size) for size in after.shape)
    if have == want:
        return True
    for shape, wrong, right in ((after.shape, want, have), (before.shape, have, want)):
        for size in shape:
            if size in changed or size < 2 or shape.count(size) != 1:
                continue
            other, rest = divmod(right * size, wrong) if wrong else (0, 1)
            if rest == 0:
                changed[size] = other
                return True
    return False


def _moderate(graph: Graph, changed: dict[int, int]) -> bool:
    """Tells whether every tensor stays small enough to run."""
    return all(
        spec is None
        or math.prod(max(changed.get(size, size), 1) for size in spec.shape) * numpy_dtype(spec.dtype).itemsize
        <= MOST_BYTES
        for spec in graph.values
    )


def _edits(graph: Graph, changed: dict[int, int], rules: Rules) -> tuple[Edit, ...] | None:
    edits: list[Edit] = []
    for number, given in enumerate(graph.inputs):
        if not any(size in changed for size in given.spec.shape):
            continue
        edit = _resized(number, given, changed)
        if edit is None:
            return None
        edits.append(edit)
    for index, node in enumerate(graph.nodes):
        step = _with_sizes(node, changed, rules)
        if step is not None:
            results = tuple(Ref(-1 - slot) for slot in range(len(node.outputs)))
            edits.append(Rewrite(index, (step,), results))
    return tuple(edits)


def _resized(number: int, given: Input, changed: dict[int, int]) -> InputEdit | None:
    spec = given.spec
    recipe = _resized_recipe(given.recipe, changed)
    if recipe is None:
        return None
    shape = tuple(changed.get(size, size) for size in spec.shape)
    order = sorted(range(len(shape)), key=lambda dim: (-spec.stride[dim], dim))
    stride = dense_stride([1 if spec.stride[dim] == 0 else size for dim, size in enumerate(shape)], order)
    expanded = (0 if old == 0 and size > 1 else new for old, new, size in zip(spec.stride, stride, shape, strict=True))
    return InputEdit(number, TensorSpec(spec.dtype, shape, tuple(expanded)), recipe)


def _resized_recipe(recipe: Recipe, changed: dict[int, int]) -> Recipe | None:
    """Keeps integers below a size below the new one. Recipes of exact bytes cannot change their shape."""
    if not isinstance(recipe, DRAWN):
        return None
    if isinstance(recipe, Integers) and recipe.high in changed:
        return Integers(recipe.seed, recipe.low, changed[recipe.high]) if recipe.low < changed[recipe.high] else None
    return recipe


def _with_sizes(node: Node, changed: dict[int, int], rules: Rules) -> DraftCall | None:
    """Returns the call with its sizes changed; None if it contains none of them."""
    known = signature(node.op)
    if not any(p.size and p.name not in _NO_SIZES for p in known.parameters):
        return None
    given = bind(node)
    if node.op in rules.shapes and len(node.outputs) == 1 and node.outputs[0] is not None:
        shape = node.outputs[0].shape
        (name,) = rules.shapes[node.op]
        given[name] = tuple(changed.get(size, size) for size in shape)  # without -1, which size 0 forbids
        return call(node.op, given, 1) if given[name] != shape else None
    fits = False
    for parameter in known.parameters:
        if not parameter.size or parameter.name in _NO_SIZES or parameter.name not in given:
            continue
        new = _renamed(given[parameter.name], changed)
        if new != given[parameter.name]:
            given[parameter.name], fits = new, True
    return call(node.op, given, len(node.outputs)) if fits else None


def _renamed(arg: Arg, changed: dict[int, int]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_renamed(item, changed) for item in arg)
    return changed.get(arg, arg) if isinstance(arg, int) and not isinstance(arg, bool) else arg
