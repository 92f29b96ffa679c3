"""Finds the operators that give other bits for one example in another batch, and the sizes at which that changes.

Each operator runs alone on the platform, on the values that eager mode has in the batch, and on the example's part of
them. Its result for the example is compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, MindgapError, TensorSpec, operands
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.operators import traits
from mindgap.graph.sizes import output_bytes
from mindgap.judge.trace.intermediate_values import shown, with_outputs
from mindgap.judge.trace.side_values import reason_of
from mindgap.judge.trace.smallest_part import label_of
from mindgap.judge.trace.subgraphs import Execute, cut, fits, readers_of, run_subgraphs
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.run.outcome import Job

#: Bytes of all values of a graph that are held at once.
_MOST_BYTES: Final = 1 << 30
#: Operators whose sizes are gone through.
_MOST: Final = 3
#: Operators whose kernels depend on shapes, by family.
_MAPPED: Final = frozenset(("attention", "contractions", "normalisation"))
#: Results further apart than this share of the largest are not of the same example.
_ALIKE: Final = 0.05


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """An operator that by itself gives other bits for the same operands in a batch of another size.

    node, op, label: of the graph as captured in its functional form.
    shapes: of its tensor operands at `size`.
    nodes: how many nodes call the operator with these shapes and differ.
    classes: the sizes that were tried, grouped by the bits of the result; empty where they could not be run.
    """

    node: int
    op: str
    label: str
    shapes: tuple[tuple[int, ...], ...]
    size: int
    nodes: int
    classes: tuple[tuple[int, ...], ...]


def batch_axis(alone: Sequence[int], batch: Sequence[int]) -> int | None:
    """Returns the one dimension in which a batch is a multiple of one example; None if there is none."""
    if len(alone) != len(batch):
        return None
    axes = [axis for axis, (one, many) in enumerate(zip(alone, batch, strict=True)) if one != many]
    if len(axes) != 1 or not alone[axes[0]] or batch[axes[0]] % alone[axes[0]]:
        return None
    return axes[0]


def example_of(array: Array, alone: TensorSpec | Array, position: int) -> Array | None:
    """Returns the part of a batch that belongs to the example at `position`; None where it has no such part."""
    if array.shape == alone.shape:
        return array
    axis = batch_axis(alone.shape, array.shape)
    if axis is None:
        return None
    size = alone.shape[axis]
    return np.ascontiguousarray(np.take(array, range(position * size, (position + 1) * size), axis))


def kernel_choices(
    graphs: Mapping[int, Graph], given: Mapping[int, Array], size: int, platform: PlatformName, execute: Execute,
    deadline_s: float, within_rounding: bool = True,
) -> tuple[list[KernelChoice], str]:  # fmt: skip
    """Returns the operators, and why there are none where there are none: those whose results are far apart first,
    then by execution order.

    `graphs`: of the model by batch size (or number of tokens), the smallest that of the example alone. `given`: the
    inputs of the graph of `size`, the first example of which is compared. `within_rounding`: the answers are, so that
    results far apart are of other examples.
    """
    forms = {size: functionalize(graph).graph for size, graph in graphs.items()}
    alone, batch = forms[min(forms)], forms[size]
    if (needed := output_bytes(with_outputs(batch, shown(batch)))) > _MOST_BYTES:
        return [], f"its values take {needed >> 20} MiB, more than {_MOST_BYTES >> 20}: no operator is named"
    if any([n.op for n in form.nodes] != [n.op for n in alone.nodes] for form in forms.values()):
        return [], "the functional forms have other operators at other sizes: no operator is named"
    values = _values(batch, given, execute, deadline_s)
    parts = {number: part for number, array in values.items() if (part := _part(alone, number, array)) is not None}
    nodes = [i for i, node in enumerate(alone.nodes) if all(v in parts for v in operands(node))]
    here = _results(alone, nodes, parts, platform, execute, deadline_s)
    there = _results(batch, nodes, values, platform, execute, deadline_s)
    differing = [i for i in nodes if _differs(here.get(i), there.get(i), within_rounding)]
    if not differing:
        return [], "no operator alone gives other bits: the difference comes from several that the platform runs as one"
    groups: dict[tuple[str, tuple[tuple[int, ...], ...]], list[int]] = {}
    for index in sorted(differing, key=lambda index: not _far(here[index], there[index])):
        groups.setdefault((alone.nodes[index].op, _shapes(batch, index)), []).append(index)
    choices: list[KernelChoice] = []
    for (op, shapes), members in list(groups.items())[:_MOST]:
        classes = _classes(forms, members[0], parts, platform, execute, deadline_s)
        choices.append(KernelChoice(members[0], op, label_of(batch, members[0]), shapes, size, len(members), classes))
    more = len(groups) - len(choices)
    return choices, f"{more} more operators give other bits by themselves: not gone through" if more else ""


def kernel_map(
    graphs: Mapping[int, Graph], inputs: Sequence[Array], platform: PlatformName, execute: Execute, deadline_s: float
) -> tuple[list[KernelChoice], str]:
    """Returns which sizes share bits, for each matrix product, convolution, softmax, attention and normalisation of a
    model with other shapes; and why there are none where there are none.

    `graphs`: as for `kernel_choices`. `inputs`: of the graph of the smallest size. Each operator runs alone, on the
    values that eager mode has in it, and on batches of their copies.
    """
    forms = {size: functionalize(graph).graph for size, graph in graphs.items()}
    alone = forms[min(forms)]
    if any([n.op for n in form.nodes] != [n.op for n in alone.nodes] for form in forms.values()):
        return [], "the functional forms have other operators at other sizes: no kernels are mapped"
    if (needed := output_bytes(with_outputs(alone, shown(alone)))) > _MOST_BYTES:
        return [], f"its values take {needed >> 20} MiB, more than {_MOST_BYTES >> 20}: no kernels are mapped"
    parts = _values(alone, dict(enumerate(inputs)), execute, deadline_s)
    groups: dict[tuple[str, tuple[tuple[int, ...], ...]], list[int]] = {}
    for index, node in enumerate(alone.nodes):
        if traits(node.op).family in _MAPPED and all(value in parts for value in operands(node)):
            groups.setdefault((node.op, _shapes(alone, index)), []).append(index)
    return [
        KernelChoice(
            members[0], op, label_of(alone, members[0]), shapes, min(forms), len(members),
            _classes(forms, members[0], parts, platform, execute, deadline_s),
        )
        for (op, shapes), members in groups.items()
    ], ""  # fmt: skip


def _values(graph: Graph, given: Mapping[int, Array], execute: Execute, deadline_s: float) -> dict[int, Array]:
    """Every value of the graph in eager mode."""
    outcome = execute(Job(CPU_EAGER, graph, want="trace", repeat=1, deadline_s=deadline_s, inputs=given))
    if outcome.values is None:
        raise MindgapError(f"eager mode shows no values of the batch: {reason_of(outcome)}")
    made = enumerate(outcome.values, start=len(graph.inputs))
    return {**given, **{number: array for number, array in made if array is not None}}


def _part(alone: Graph, number: int, array: Array) -> Array | None:
    """The part of a value that belongs to the first example."""
    spec = alone.values[number]
    return None if spec is None else example_of(array, spec, 0)


def _results(
    graph: Graph, nodes: Sequence[int], values: Mapping[int, Array], platform: PlatformName, execute: Execute,
    deadline_s: float,
) -> dict[int, tuple[Array, ...]]:  # fmt: skip
    """What the platform gives for each node alone."""
    readers = readers_of(graph)
    cuts = [c for c in (cut(graph, [i], readers) for i in nodes) if c.outputs and fits(c, values)]
    results = run_subgraphs(cuts, values, platform, execute, deadline_s)
    return {r.cut.nodes[0]: r.arrays for r in results if r.arrays is not None}


def _differs(here: tuple[Array, ...] | None, there: tuple[Array, ...] | None, within_rounding: bool) -> bool:
    """Whether the example's results differ in bits, and are results of the same example."""
    if here is None or there is None or len(here) != len(there):
        return False
    return any(
        digest_array(one) != digest_array(part) and (not within_rounding or _alike(one, part))
        for one, part in _parts_of_example(here, there)
    )


def _far(here: tuple[Array, ...], there: tuple[Array, ...]) -> bool:
    """Whether a result is another for the example, and not the same with other roundings."""
    return any(not _alike(one, part) for one, part in _parts_of_example(here, there))


def _parts_of_example(here: tuple[Array, ...], there: tuple[Array, ...]) -> Iterator[tuple[Array, Array]]:
    """Yields each result of the example alone with its part of the batch's. A result of one shape at both sizes, such
    as a mean over the batch, is the example's as a whole."""
    for one, many in zip(here, there, strict=True):
        if (part := example_of(many, one, 0)) is not None:
            yield one, part


def _alike(one: Array, other: Array) -> bool:
    """Whether two results are close: where the first dimension of a value does not run over examples first, a part of
    it belongs to several."""
    if one.dtype.kind not in "fc":
        return False
    first, second = (each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in (one, other))
    with np.errstate(invalid="ignore"):
        largest, apart = np.nanmax(np.abs(first), initial=0.0), np.nanmax(np.abs(first - second), initial=0.0)
    return bool(apart <= _ALIKE * largest)


def _shapes(graph: Graph, index: int) -> tuple[tuple[int, ...], ...]:
    specs = (graph.values[value] for value in operands(graph.nodes[index]))
    return tuple(spec.shape for spec in specs if spec is not None)


def _classes(
    forms: Mapping[int, Graph], index: int, parts: Mapping[int, Array], platform: PlatformName, execute: Execute,
    deadline_s: float,
) -> tuple[tuple[int, ...], ...]:  # fmt: skip
    """The batch sizes, grouped by the bits that the node gives for the example in a batch of its copies."""
    classes: dict[str, list[int]] = {}
    for size, graph in sorted(forms.items()):
        values: dict[int, Array] = {}
        for number in operands(graph.nodes[index]):
            spec, part = graph.values[number], parts[number]
            axis = None if spec is None else batch_axis(part.shape, spec.shape)
            copies = 1 if axis is None or spec is None else spec.shape[axis] // part.shape[axis]
            values[number] = np.concatenate([part] * copies, axis or 0) if copies > 1 else part
        for arrays in _results(graph, [index], values, platform, execute, deadline_s).values():
            alone = forms[min(forms)]
            part = _part(alone, alone.first_value[index], arrays[0])
            if part is not None:
                classes.setdefault(digest_array(part), []).append(size)
    return tuple(map(tuple, classes.values()))
