"""Chooses recipes for the border values of regions, such that every operator accepts its operands."""

from __future__ import annotations

import math
import random
from typing import Final

import numpy as np

from mindgap.aten.tape import written_inputs
from mindgap.graph import (
    Constant,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    TensorSpec,
    TensorStore,
    Uniform,
    UnknownOperator,
    contiguous_stride,
    materialise,
    numpy_dtype,
)
from mindgap.graph.recipe_rules import check_recipe, integer_range
from mindgap_campaign.synth.mutation.edit import InputEdit
from mindgap_campaign.synth.values.constraints import INF, Constraints, ValueConstraint, constraints_of
from mindgap_campaign.synth.values.rules import value_rules
from mindgap_campaign.synth.values.structured import structured_recipe

#: What can be drawn for another shape.
DRAWN: Final = (Uniform, Normal, Constant, Integers, Permutation)
#: The largest tensor whose very bytes may stand in a region's description.
MOST_LITERAL: Final = 16 << 10
#: Few, so that inputs of one spec in the regions of one base are often one array.
_SEEDS: Final = 8
#: Beyond this many elements floats are uniform, of like deviation: drawing normal ones would cost more than using them.
_MANY: Final = 1 << 14
_FREE: Final = ValueConstraint()
#: Integers without a constraint.
_INTEGERS: Final = (0, 3)


def recipes(
    graph: Graph,
    rng: random.Random,
    *,
    exceptional: bool = False,
    before: Graph | None = None,
    tensors: TensorStore | None = None,
) -> tuple[tuple[InputEdit, ...], frozenset[int]]:
    """Chooses recipes for the inputs that need one. Returns them, and the inputs that only their recipe may feed.

    New ones get: placeholders of cuts (`Constant(0)` with role `input`), stored tensors (their bytes where they are few
    and `tensors` has them), and seeded floats outside of what the graph's operators ask. All other inputs keep
    theirs: captured numbers suit what they were captured with. With `before`, the graph that this one is an edited form
    of, only those inputs get a new one whose recipe suited it and no longer does. With `exceptional`, every float
    input that is not held gets NaN, Inf, zeros, subnormals and extremes among its values. A graph with an operator that
    this PyTorch lacks gets none, and all its inputs are held.
    """
    rules = value_rules()
    try:
        needs = constraints_of(graph, rules)
        held = _held(graph, needs)
    except UnknownOperator:
        return (), frozenset(range(len(graph.inputs)))
    earlier = constraints_of(before, rules).of if before is not None else {}
    first = rng.randrange(_SEEDS)
    edits: list[InputEdit] = []
    for number, given in enumerate(graph.inputs):
        need, seed = needs.of.get(number, _FREE), first + number
        if exceptional and number not in held and given.spec.numel > 0:
            edits.append(InputEdit(number, given.spec, Exceptional(seed)))
        elif isinstance(given.recipe, Stored):
            edits.append(InputEdit(number, given.spec, _stored_recipe(given, need, seed, tensors)))
        elif _unfit(given, need) if before is None else _broken(given, need, earlier.get(number, _FREE)):
            edits.append(InputEdit(number, given.spec, recipe_for(given.spec, need, seed)))
    return tuple(edits), held


def free_inputs(graph: Graph) -> tuple[int, ...]:
    """Returns the inputs with role `input` that accept any floats within the range of their recipe."""
    held = _held(graph, constraints_of(graph, value_rules()))
    return tuple(number for number, given in enumerate(graph.inputs) if number not in held and given.role == "input")


def recipe_for(spec: TensorSpec, need: ValueConstraint, seed: int) -> Recipe:
    """Chooses a recipe that meets a constraint, or comes close where none can; the trial run decides."""
    if need.form not in ("", "index") and spec.numel > 0:
        recipe = structured_recipe(spec, need, seed, MOST_LITERAL)
        if recipe is not None:
            return recipe
    match spec.kind:
        case "bool":
            return Integers(seed, 0, 2) if spec.numel > 1 else Constant(True)
        case "int":
            return _integers(spec, need, seed)
        case "complex":
            return Normal(seed)
        case "float":
            return _floats(spec, need, seed)


def _floats(spec: TensorSpec, need: ValueConstraint, seed: int) -> Recipe:
    low, high = need.low, need.high
    if need.form == "index" and high < INF:
        high += 0.96875  # cut off again by the cast to integers
    if low == -INF and high == INF:
        std = need.std or 1.0
        return Normal(seed, 0.0, std) if spec.numel <= _MANY else Uniform(seed, -1.75 * std, 1.75 * std)
    if high == INF:
        high = low + max(1.5, abs(low) * 0.5)
    elif low == -INF:
        low = high - max(1.5, abs(high) * 0.5)
    if low > high:
        low = high
    recipe = Uniform(seed, low, high) if low < high else Constant(low)
    if low <= -3.0 and high >= 3.0 and need.form == "":
        recipe = Normal(seed, 0.0, min(1.0, -low / 6, high / 6))
    return recipe if fits(spec, recipe) else Constant(low)


def _integers(spec: TensorSpec, need: ValueConstraint, seed: int) -> Recipe:
    least, largest = integer_range(spec.dtype)
    low, high = need.low, need.high
    if (low, high) == (-INF, INF) and spec.dtype in ("int8", "uint8"):
        low, high = least, largest  # the numbers of quantised tensors
    if low == -INF:
        low = min(_INTEGERS[0], high) if high < INF else _INTEGERS[0]
    if high == INF:
        high = max(low + _INTEGERS[1] - 1, _INTEGERS[1] - 1)
    first = min(max(math.ceil(low), least), largest)
    last = min(max(math.floor(high), first), largest)
    return Integers(seed, first, last + 1)


def fits(spec: TensorSpec, recipe: Recipe) -> bool:
    """Returns whether a recipe can make a tensor of this spec."""
    try:
        check_recipe(spec, recipe)
    except GraphError:
        return False
    return True


def _unfit(given: Input, need: ValueConstraint) -> bool:
    """Tells whether an input needs a new recipe: a placeholder, or seeded floats outside of its constraint."""
    if given.role == "input" and given.recipe in (Constant(0), Constant(False)):
        return True
    return isinstance(given.recipe, (Uniform, Normal)) and not _meets(given, need)


def _broken(given: Input, need: ValueConstraint, earlier: ValueConstraint) -> bool:
    """Tells whether the recipe met the constraint before an edit and no longer does."""
    return not fits(given.spec, given.recipe) or (_meets(given, earlier) and not _meets(given, need))


def _stored_recipe(given: Input, need: ValueConstraint, seed: int, tensors: TensorStore | None) -> Recipe:
    """Returns a stored tensor's bytes if they are few and available, else plain values."""
    assert isinstance(given.recipe, Stored)
    if given.spec.nbytes <= MOST_LITERAL and tensors is not None and given.recipe.key in tensors:
        array = materialise(given, tensors)
        return Literal(np.ascontiguousarray(array).tobytes())
    return recipe_for(given.spec, need, seed)


def _meets(given: Input, need: ValueConstraint) -> bool:
    """The recipe's values lie in the range. Of a form, what made the recipe knew better; exceptional ones are meant."""
    if not need.bounded or given.spec.numel == 0 or isinstance(given.recipe, Exceptional):
        return True
    low, high = bounds_of(given)
    slack = 1.0 if need.form == "index" and given.spec.kind == "float" else 0.0
    return need.low <= low and high <= need.high + slack


def bounds_of(given: Input) -> tuple[float, float]:
    """Returns the least and the largest value that a recipe can make; for bytes, those that they contain."""
    recipe = given.recipe
    match recipe:
        case Uniform():
            return recipe.low, recipe.high
        case Normal():
            return recipe.mean - 6 * recipe.std, recipe.mean + 6 * recipe.std
        case Integers():
            return recipe.low, recipe.high - 1
        case Permutation():
            return 0, max((given.spec.shape or (1,))[-1] - 1, 0)
        case Constant(value) if not isinstance(value, complex):
            return float(value), float(value)
        case Literal() if given.spec.kind in ("int", "bool", "float") and given.spec.numel:
            array = np.frombuffer(recipe.data, numpy_dtype(given.spec.dtype))
            return float(array.min()), float(array.max())
        case _:
            return -INF, INF


def _held(graph: Graph, needs: Constraints) -> frozenset[int]:
    written = frozenset(written_inputs(graph))
    return frozenset(
        number
        for number, given in enumerate(graph.inputs)
        if given.spec.kind != "float"
        or number in written
        or number in needs.decisive
        or needs.of.get(number, _FREE).form
        or not _plain_strides(given.spec)
    )


def _plain_strides(spec: TensorSpec) -> bool:
    """Tells whether strides are row-major or channels-last."""
    if spec.stride == contiguous_stride(spec.shape):
        return True
    if len(spec.shape) not in (4, 5):
        return False
    moved = (spec.shape[0], *spec.shape[2:], spec.shape[1])
    steps = contiguous_stride(moved)
    return spec.stride == (steps[0], steps[-1], *steps[1:-1])
