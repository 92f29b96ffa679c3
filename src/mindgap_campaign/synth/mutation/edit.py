"""Represents changes to a graph as data, independent of the rules that proposed them.

An edited graph is a *draft*: slots of new nodes have no spec until a trial run
(`mindgap_campaign.synth.regions.trial`), which also decides whether the edit is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import (
    Arg,
    Constant,
    Device,
    DType,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Layout,
    Literal as Bytes,
    MemoryFormat,
    Node,
    Normal,
    Permutation,
    Recipe,
    Ref,
    TensorSpec,
    Uniform,
    map_refs,
    refs,
    renumbered,
)

Json = Any


@dataclass(frozen=True, slots=True)
class DraftCall:
    """A call of a draft. `slots`: how many tensors it returns.

    A `Ref` from 0 up names a value of the graph before the edit; `Ref(-1 - k)` names slot k, counted over all
    steps of the same edit.
    """

    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...] = ()
    slots: int = 1


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Puts `steps` where a node stood: none deletes it, the node itself among others inserts next to it.

    `results`: for each slot of the old node, what its readers read from now on (a `Ref` as in `DraftCall`), or None
    for a slot that held no tensor or that nothing reads. `new_outputs`: slots of the steps that become outputs.
    """

    node: int
    steps: tuple[DraftCall, ...]
    results: tuple[Ref | None, ...]
    new_outputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InputEdit:
    """Gives an input another spec or recipe; its role stays."""

    number: int
    spec: TensorSpec
    recipe: Recipe


Edit = Rewrite | InputEdit


def apply(graph: Graph, edits: Sequence[Edit]) -> Graph:
    """Applies the edits one after the other. Numbers in an edit refer to the graph after the previous edit.

    Labels and `grad` are dropped. Raises `GraphError` for a node, an input or a value that is not there.
    """
    for edit in edits:
        graph = _given(graph, edit) if isinstance(edit, InputEdit) else _rewritten(graph, edit)
    return graph


def _given(graph: Graph, edit: InputEdit) -> Graph:
    if not 0 <= edit.number < len(graph.inputs):
        raise GraphError(f"cannot edit: there is no input {edit.number}, the graph has {len(graph.inputs)}")
    inputs = list(graph.inputs)
    inputs[edit.number] = Input(edit.spec, edit.recipe, inputs[edit.number].role)
    return Graph(tuple(inputs), graph.nodes, graph.outputs)


def _rewritten(graph: Graph, edit: Rewrite) -> Graph:
    if not 0 <= edit.node < len(graph.nodes):
        raise GraphError(f"cannot edit: there is no node {edit.node}, the graph has {len(graph.nodes)}")
    old = graph.nodes[edit.node]
    if len(edit.results) != len(old.outputs):
        raise GraphError(
            f"cannot edit: node {edit.node} has {len(old.outputs)} slots, {len(edit.results)} are replaced"
        )
    first = graph.first_value[edit.node]
    made = sum(step.slots for step in edit.steps)
    renumber = {value: value for value in range(first)}
    renumber |= {-1 - slot: first + slot for slot in range(made)}
    nodes = list(graph.nodes[: edit.node])
    known = set(range(first))
    for step in edit.steps:
        nodes.append(_node(step, renumber, known))
        fresh = len(known) - first
        known |= {-1 - slot for slot in range(fresh, fresh + step.slots)}
    for slot, result in enumerate(edit.results):
        if result is not None:
            if result.index not in known:
                raise GraphError(f"cannot edit: node {edit.node} is to give value {result.index}, which is not there")
            renumber[first + slot] = renumber[result.index]
    last, shift = first + len(old.outputs), made - len(old.outputs)
    renumber |= {value: value + shift for value in range(last, len(graph.values))}
    try:
        nodes += [renumbered(node, renumber) for node in graph.nodes[edit.node + 1 :]]
        outputs = [renumber[value] for value in graph.outputs]
    except KeyError as missing:
        raise GraphError(f"cannot edit: value {missing} of node {edit.node} is still needed") from None
    outputs += [first + slot for slot in edit.new_outputs]
    return Graph(graph.inputs, tuple(nodes), tuple(dict.fromkeys(outputs)))


def _node(step: DraftCall, renumber: dict[int, int], known: set[int]) -> Node:
    for arg in (*step.args, *(arg for _, arg in step.kwargs)):
        for value in refs(arg):
            if value not in known:
                raise GraphError(f"cannot edit: {step.op} reads value {value}, which is not there yet")
    return Node(
        step.op,
        tuple(map_refs(arg, renumber) for arg in step.args),
        tuple(sorted((name, map_refs(arg, renumber)) for name, arg in step.kwargs)),
        (None,) * step.slots,
    )


def to_json(edit: Edit) -> Json:
    """Encodes an edit as lists, numbers and strings; `from_json` is the inverse."""
    if isinstance(edit, InputEdit):
        spec = edit.spec
        return ["given", edit.number, spec.dtype, list(spec.shape), list(spec.stride), recipe_json(edit.recipe)]
    steps = [
        [step.op, [arg_json(a) for a in step.args], {k: arg_json(a) for k, a in step.kwargs}, step.slots]
        for step in edit.steps
    ]
    results = [None if result is None else result.index for result in edit.results]
    return ["rewrite", edit.node, steps, results, list(edit.new_outputs)]


def from_json(data: Json) -> Edit:
    """The inverse of `to_json`. Raises `GraphError` for anything else."""
    try:
        if data[0] == "given":
            _, number, dtype, shape, stride, recipe = data
            return InputEdit(number, TensorSpec(dtype, tuple(shape), tuple(stride)), recipe_of(recipe))
        _, node, steps, results, new_outputs = data
        return Rewrite(
            node,
            tuple(
                DraftCall(op, tuple(arg_of(a) for a in args), tuple((k, arg_of(a)) for k, a in kwargs.items()), slots)
                for op, args, kwargs, slots in steps
            ),
            tuple(None if index is None else Ref(index) for index in results),
            tuple(new_outputs),
        )
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise GraphError(f"this is no edit: {str(data)[:120]} ({error})") from None


_WORDS: Final = {"dtype": DType, "format": MemoryFormat, "layout": Layout}
_RECIPES: Final = {
    "uniform": Uniform,
    "normal": Normal,
    "integers": Integers,
    "permutation": Permutation,
    "exceptional": Exceptional,
}


def arg_json(arg: Arg) -> Json:
    """Encodes an argument as JSON without loss of types: objects of one key for types that JSON lacks."""
    match arg:
        case Ref(index):
            return {"ref": index}
        case DType(name):
            return {"dtype": name}
        case MemoryFormat(name):
            return {"format": name}
        case Layout(name):
            return {"layout": name}
        case Device():
            return {"device": 0}
        case complex():
            return {"complex": [repr(arg.real), repr(arg.imag)]}
        case float() if not math.isfinite(arg):
            return {"float": repr(arg)}
        case tuple():
            return [arg_json(item) for item in arg]
        case _:
            return arg


def arg_of(data: Json) -> Arg:
    """The inverse of `arg_json`."""
    if isinstance(data, list):
        return tuple(arg_of(item) for item in data)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON has no types
    if not isinstance(data, dict):
        return data
    (word, value), *_ = data.items()  # pyright: ignore[reportUnknownVariableType] # JSON has no types
    match str(word):  # pyright: ignore[reportUnknownArgumentType] # JSON has no types
        case "ref":
            return Ref(value)  # pyright: ignore[reportUnknownArgumentType] # JSON has no types
        case "device":
            return Device()
        case "float":
            return float(value)  # pyright: ignore[reportUnknownArgumentType] # JSON has no types
        case "complex":
            return complex(*(float(part) for part in value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # JSON has no types
        case name:
            return _WORDS[name](value)  # pyright: ignore[reportUnknownArgumentType] # JSON has no types


def recipe_json(recipe: Recipe) -> Json:
    """Encodes a recipe as a list whose first item is its name. Raises `GraphError` for a stored tensor."""
    match recipe:
        case Uniform():
            return ["uniform", recipe.seed, recipe.low, recipe.high]
        case Normal():
            return ["normal", recipe.seed, recipe.mean, recipe.std]
        case Integers():
            return ["integers", recipe.seed, recipe.low, recipe.high]
        case Permutation():
            return ["permutation", recipe.seed]
        case Exceptional():
            return ["exceptional", recipe.seed, recipe.share]
        case Constant():
            return ["constant", arg_json(recipe.value)]
        case Bytes():
            return ["bytes", recipe.data.hex()]
        case _:
            raise GraphError("an edit cannot hold a stored tensor")


def recipe_of(data: Json) -> Recipe:
    """The inverse of `recipe_json`."""
    word, *rest = data
    if word == "constant":
        value = arg_of(rest[0])
        if not isinstance(value, (bool, int, float, complex)):
            raise GraphError(f"this is no constant: {rest[0]}")
        return Constant(value)
    return Bytes(bytes.fromhex(rest[0])) if word == "bytes" else _RECIPES[word](*rest)
