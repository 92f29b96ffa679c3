"""Puts one operator in the place of another one of the same form in a reduced graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mindgap.aten.operators import overload
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import Arg, Graph, Input, MindgapError, Node, Ref, TensorSpec, contiguous_stride, operands

#: Operands with one dimension more in the variant of an operator for one dimension more.
_WITH_SPACE: Final = ("input", "self", "weight")
#: What a list of sizes holds for a dimension of size 1 that nothing is to happen to.
_NEUTRAL: Final[Mapping[str, Arg]] = {
    "kernel_size": 1, "stride": 1, "dilation": 1, "padding": 0, "output_padding": 0, "output_size": 1
}  # fmt: skip
_TENSORS: Final = ("Tensor", "Optional[Tensor]")


@dataclass(frozen=True, slots=True)
class _Form:
    """An overload's arguments and how many tensors it returns."""

    arguments: tuple[Any, ...]
    returns: int

    @staticmethod
    def of(op: str) -> _Form | None:
        """None where the overload is not known, or returns other than tensors."""
        try:
            schema = schema_of(overload(op))
        except MindgapError:
            return None
        if any(str(each.type) != "Tensor" for each in schema.returns):
            return None
        return _Form(tuple(schema.arguments), len(schema.returns))


def swapped(graph: Graph, old: str, new: str) -> Graph | None:
    """The graph with the overload `new` in the place of `old`, None where its schema does not fit.

    Arguments go by name, and tensors by position where names differ. Each operand must be used, and each attribute
    that `new` has not must have its default. `max_pool2d` in the place of `max_pool1d` gets a dimension of size 1.
    Results' specs are those of `old`: what runs the draft computes them again.
    """
    places = [index for index, node in enumerate(graph.nodes) if node.op == old]
    before, after = _Form.of(old), _Form.of(new)
    if len(places) != 1 or before is None or after is None:
        return None
    node = graph.nodes[places[0]]
    given = _by_name(node, before)
    found = _fitted(given, before, after)
    extra = _more_dimensions(before, after)
    if found is None or extra < 0:
        return None
    inputs = graph.inputs
    if extra:
        widened = _widened(graph, node, [found[name] for name in _WITH_SPACE if name in found], extra)
        if widened is None:
            return None
        inputs = widened
        found = {name: _padded(name, value, extra) for name, value in found.items()}
    return _with_node(graph, inputs, places[0], _node(new, found, after, node))


def _by_name(node: Node, form: _Form) -> dict[str, Arg]:
    positional = {each.name: value for each, value in zip(form.arguments, node.args, strict=False)}
    return {**positional, **dict(node.kwargs)}


def _fitted(given: Mapping[str, Arg], before: _Form, after: _Form) -> dict[str, Arg] | None:
    """The arguments of the new operator; None where one is missing, or one that matters has no place."""
    names = {each.name for each in after.arguments}
    found = {name: value for name, value in given.items() if name in names}
    tensors = [each.name for each in before.arguments if str(each.type) in _TENSORS and each.name in given]
    places = [each.name for each in after.arguments if str(each.type) in _TENSORS]
    for name, place in zip(tensors, places, strict=False):
        if name not in names:
            found.setdefault(place, given[name])
    used = [value for value in found.values() if isinstance(value, Ref)]
    if len(used) != sum(isinstance(value, Ref) for value in given.values()):
        return None
    defaults = {each.name: each.default_value for each in before.arguments if each.has_default_value()}
    dropped = [name for name in given if name not in names and not isinstance(given[name], Ref)]
    if any(name not in defaults or not _equal(given[name], defaults[name]) for name in dropped):
        return None
    missing = [each.name for each in after.arguments if not each.has_default_value() and each.name not in found]
    return None if missing else found


def _equal(value: Arg, default: Any) -> bool:
    return (list(value) if isinstance(value, tuple) else value) == default


def _more_dimensions(before: _Form, after: _Form) -> int:
    """How many dimensions of space the new operator has more, by the lengths of its lists of sizes."""
    lengths = {each.name: each.N for each in before.arguments if each.name in _NEUTRAL and each.N}
    steps = {each.N - lengths[each.name] for each in after.arguments if each.name in lengths and each.N}
    return steps.pop() if len(steps) == 1 else 0


def _widened(graph: Graph, node: Node, values: Sequence[Arg], extra: int) -> tuple[Input, ...] | None:
    """The graph's inputs with dimensions of size 1 in those that are operands with space; None where that cannot be."""
    inputs = list(graph.inputs)
    for value in values:
        if not isinstance(value, Ref):
            continue
        number = value.index
        if number >= len(inputs) or sum(number in operands(each) for each in graph.nodes) != 1:
            return None
        spec = inputs[number].spec
        if spec.stride != contiguous_stride(spec.shape) or len(spec.shape) < 2:
            return None
        shape = (*spec.shape[: _space(node, spec)], *(1,) * extra, *spec.shape[_space(node, spec) :])
        inputs[number] = replace(inputs[number], spec=TensorSpec(spec.dtype, shape, contiguous_stride(shape)))
    return tuple(inputs)


def _space(node: Node, spec: TensorSpec) -> int:
    """Where an operand's dimensions of space begin: behind batch and channels, or behind channels alone."""
    digit = next((int(part) for part in node.op if part.isdigit()), 1)
    return max(len(spec.shape) - digit, 1)


def _padded(name: str, value: Arg, extra: int) -> Arg:
    """A list of sizes with the neutral size for each further dimension; an empty one is a default."""
    if name in _NEUTRAL and isinstance(value, tuple) and value:
        return (*(_NEUTRAL[name],) * extra, *value)
    return value


def _node(new: str, found: Mapping[str, Arg], form: _Form, old: Node) -> Node:
    positional: list[Arg] = []
    for each in form.arguments:
        if each.kwarg_only or each.name not in found:
            break
        positional.append(found[each.name])
    by_name = {each.name for each in form.arguments[: len(positional)]}
    kwargs = tuple(sorted((name, value) for name, value in found.items() if name not in by_name))
    outputs = (*old.outputs, *(old.outputs[-1:] * form.returns))[: form.returns]
    return Node(new, tuple(positional), kwargs, outputs)


def _with_node(graph: Graph, inputs: tuple[Input, ...], index: int, node: Node) -> Graph | None:
    """The graph with another node; None where a value is read that the new one does not give."""
    before, after = len(graph.nodes[index].outputs), len(node.outputs)
    nodes = (*graph.nodes[:index], node, *graph.nodes[index + 1 :])
    if before == after:
        return Graph(inputs, nodes, graph.outputs)
    first = graph.first_value[index]
    lost = range(first + after, first + before)
    kept = tuple(number for number in graph.outputs if number not in lost)
    return Graph(inputs, nodes, kept) if index == len(graph.nodes) - 1 and kept else None
