"""Runs every operator of a catalogue on strided, offset, expanded and overlapping operands, and compares three results.

    .venv/bin/python benchmarks/strided_operands.py CATALOGUE [--most 6] [--dtype float64] [--only PACKET]
        [--rows FILE.csv]

For each overload, up to `--most` calls that differ in more than values are taken from the catalogue's graphs, with the
operands that they have there (in another dtype with `--dtype`). Each call is made anew with its floating-point operands
laid out in five ways, each as graph inputs with such strides and as the results of view nodes:

    offset       a slice of a larger buffer, dense
    transposed   dense, the first and the last dimension exchanged in memory
    strided      every second element of a buffer, and (from two dimensions on) transposed
    expanded     a dimension of stride 0
    overlapping  rows that share memory, by as_strided

The third result is the same operator on contiguous copies: in float64 with mindgap's bounds around it, and by eager in
the declared dtype. A disagreement is one of

    eager wrong     eager is outside the bounds on this layout, and inside them on contiguous copies
    shadow wrong    eager is inside the bounds, and the shadow of the strided graph rejects it
    blind           eager is outside the bounds, and the shadow of the strided graph accepts it
    layout decides  the operator reads memory (`as_strided`), so contiguous copies are another computation; the shadow
                    of the strided graph accepts eager
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mindgap.aten.functional import functionalize
from mindgap.aten.operators import facts, overload
from mindgap.aten.storage import READS_STORAGE
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import spec_of, to_numpy, to_torch
from mindgap.graph import (
    Constant,
    Graph,
    Input,
    MindgapError,
    Node,
    Ref,
    TensorStore,
    map_refs,
    materialise_all,
    operands,
)
from mindgap.graph.operators import traits
from mindgap.judge.oracle import Oracle, OracleError, local_expectation
from mindgap.judge.trace.single_operators import kind_of_error
from mindgap_campaign.catalogue import Catalogue

END = 9223372036854775807
MOST_ELEMENTS = 1 << 16
_RANDOM = ("rand", "bernoulli", "dropout", "normal", "multinomial", "poisson", "exponential", "geometric", "cauchy",
           "uniform", "rrelu", "_standard_gamma", "_sample_dirichlet", "binomial", "fractional_max_pool")  # fmt: skip

#: The view nodes that lead from a buffer to an operand: (operator, further arguments).
Views = list[tuple[str, tuple[Any, ...]]]
Laid = tuple[torch.Tensor, Views]


@dataclass(frozen=True)
class Case:
    """One call with its operands, contiguous."""

    source: str
    node: Node
    values: tuple[torch.Tensor, ...]


def cases(catalogue: Catalogue, most: int, only: str) -> Iterator[Case]:
    """Distinct calls of every overload, with operands that have elements."""
    store, seen = TensorStore(catalogue.tensors), Counter[str]()
    known = set[str]()
    for entry in catalogue.entries("status = 'captured' AND scheme IN ('ops', 'modules')"):
        if only and not any(op.split(".")[1] == only for op in entry.operators):
            continue
        try:
            graph = functionalize(replace(catalogue.graph(entry), grad=())).graph
            arrays = materialise_all(graph, store)
            inputs = [to_torch(a, i.spec) for a, i in zip(arrays, graph.inputs, strict=True)]
            found: list[Case] = []
            _record(graph, inputs, entry.source, found)
        except (MindgapError, RuntimeError):
            continue
        for case in found:
            key = f"{case.node.op} {case.node.args} {case.node.kwargs} {[(v.dtype, v.dim()) for v in case.values]}"
            packet = case.node.op.split(".")[1]
            if key in known or seen[case.node.op] >= most or (only and packet != only):
                continue
            known.add(key)
            seen[case.node.op] += 1
            yield case


def _record(graph: Graph, inputs: Sequence[torch.Tensor], source: str, found: list[Case]) -> None:
    values: list[Any] = list(inputs)

    def on_node(index: int, results: list[torch.Tensor | None]) -> None:
        node = graph.nodes[index]
        numbers = list(dict.fromkeys(operands(node)))
        given = tuple(values[n].clone(memory_format=torch.contiguous_format) for n in numbers)
        values.extend(results)
        usable = any(v.is_floating_point() and v.numel() > 1 for v in given)
        if usable and sum(v.numel() for v in given) <= MOST_ELEMENTS and not _leave_out(node.op):
            places = {n: k for k, n in enumerate(numbers)}
            args = tuple(map_refs(a, places) for a in node.args)
            kwargs = tuple((k, map_refs(a, places)) for k, a in node.kwargs)
            found.append(Case(source, Node(node.op, args, kwargs, node.outputs), given))

    with torch.no_grad():
        Tape(graph).run(inputs, on_node=on_node)


def in_dtype(case: Case, dtype: torch.dtype) -> Case:
    """The call with its real operands in another dtype; dtypes among its arguments stay."""
    return replace(case, values=tuple(v.to(dtype) if v.is_floating_point() else v for v in case.values))


def _leave_out(op: str) -> bool:
    packet = op.split(".")[1]
    return traits(op).returns_uninitialised or any(word in packet for word in _RANDOM) or bool(facts(op).mutates)


def offset(x: torch.Tensor) -> Laid | None:
    buffer = torch.cat([torch.full((5,), 7.0, dtype=x.dtype), x.reshape(-1)])
    return buffer, [("aten.slice.Tensor", (0, 5, END)), ("aten.view.default", (tuple(x.shape),))]


def strided(x: torch.Tensor) -> Laid | None:
    if x.dim() == 0:
        return None
    turned = x.transpose(0, -1)
    buffer = torch.stack([turned, torch.full_like(turned, 7.0)], -1)
    return buffer, [("aten.select.int", (-1, 0)), ("aten.transpose.int", (0, x.dim() - 1))]


def transposed(x: torch.Tensor) -> Laid | None:
    if x.dim() < 2:
        return None
    return x.transpose(0, -1).contiguous(), [("aten.transpose.int", (0, x.dim() - 1))]


def expanded(x: torch.Tensor) -> Laid | None:
    wide = [d for d in range(x.dim()) if x.shape[d] > 1]
    if not wide:
        return None
    return x.narrow(wide[0], 0, 1).clone(), [("aten.expand.default", (tuple(x.shape),))]


def overlapping(x: torch.Tensor) -> Laid | None:
    if x.dim() < 2 or x.shape[0] < 2 or x[0].numel() < 2:
        return None
    stride = (x.stride(0) - 1, *x.stride()[1:])
    return x.reshape(-1), [("aten.as_strided.default", (tuple(x.shape), stride, 0))]


LAYOUTS = {
    "offset": offset,
    "transposed": transposed,
    "strided": strided,
    "expanded": expanded,
    "overlapping": overlapping,
}


@dataclass(frozen=True)
class Laying:
    """A case in one layout: operands for eager, and the graph of views and call on their buffers."""

    given: tuple[torch.Tensor, ...]
    graph: Graph
    buffers: tuple[torch.Tensor, ...]


def laid_out(case: Case, layout: Any) -> Laying | None:
    """None where no operand can be laid out so."""
    given: list[torch.Tensor] = []
    buffers: list[torch.Tensor] = []
    chains: list[Views] = []
    for value in case.values:
        found = layout(value) if value.is_floating_point() and value.numel() > 1 else None
        buffer, chain = found or (value, [])
        buffers.append(buffer)
        chains.append(chain)
        seen = buffer
        for op, args in chain:
            seen = overload(op)(seen, *args)
        given.append(seen)
    if not any(chains):
        return None
    return Laying(tuple(given), _with_views(case, buffers, chains), tuple(buffers))


def _with_views(case: Case, buffers: Sequence[torch.Tensor], chains: Sequence[Views]) -> Graph:
    nodes: list[Node] = []
    places: dict[int, int] = {}
    count = len(buffers)
    for k, (buffer, chain) in enumerate(zip(buffers, chains, strict=True)):
        number, seen = k, buffer
        for op, args in chain:
            seen = overload(op)(seen, *args)
            nodes.append(Node(op, (Ref(number), *args), (), (spec_of(seen),)))
            number, count = count, count + 1
        places[k] = number
    args = tuple(map_refs(a, places) for a in case.node.args)
    kwargs = tuple((k, map_refs(a, places)) for k, a in case.node.kwargs)
    return _finished(
        [Input(spec_of(b), Constant(0)) for b in buffers], nodes, replace(case.node, args=args, kwargs=kwargs)
    )


def _finished(inputs: Sequence[Input], nodes: Sequence[Node], last: Node) -> Graph:
    first = len(inputs) + sum(len(n.outputs) for n in nodes)
    shown = tuple(first + slot for slot, spec in enumerate(last.outputs) if spec is not None)
    return Graph(tuple(inputs), (*nodes, last), shown)


def called(node: Node, given: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Eager's results on these operands."""
    graph = _finished([Input(spec_of(v), Constant(0)) for v in given], [], node)
    seen: list[list[torch.Tensor | None]] = []
    with torch.no_grad():
        Tape(graph).run(list(given), on_node=lambda _, results: seen.append(results))
    return seen[0]


def judged(graph: Graph, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor | None]) -> str:
    """What the oracle of a graph says of results of its last node: empty for calm."""
    expected = local_expectation(Oracle(graph, [to_numpy(v) for v in inputs]), len(graph.nodes) - 1)
    kinds = [kind_of_error(expected.examine(slot, to_numpy(y))) for slot, y in enumerate(results) if y is not None]
    return next((kind for kind in kinds if kind is not None), "")


def declared(node: Node, results: Sequence[torch.Tensor | None]) -> Node:
    """The node as it is on these operands: it declares the specs of what eager gave."""
    return replace(node, outputs=tuple(None if y is None else spec_of(y) for y in results))


def compare(case: Case, laying: Laying) -> str:
    """The class of the disagreement, empty for agreement."""
    contiguous = [v.clone(memory_format=torch.contiguous_format) for v in laying.given]
    try:
        ours, plain = called(case.node, laying.given), called(case.node, contiguous)
    except (RuntimeError, IndexError, ValueError) as error:
        return f"eager raises: {str(error).splitlines()[0][:60]}"
    inputs = [Input(spec_of(v), Constant(0)) for v in laying.given]
    alone = _finished([replace(i, spec=spec_of(v)) for i, v in zip(inputs, contiguous, strict=True)], [],
                      declared(case.node, plain))  # fmt: skip
    viewed = replace(laying.graph, nodes=(*laying.graph.nodes[:-1], declared(laying.graph.nodes[-1], ours)))
    spaced = _finished(inputs, [], declared(case.node, ours))
    try:
        right, right_plain = judged(alone, contiguous, ours), judged(alone, contiguous, plain)
        by_views = judged(viewed, laying.buffers, ours)
        by_strides = "" if case.node.op in READS_STORAGE else judged(spaced, laying.given, ours)
    except (OracleError, RuntimeError) as error:
        return f"no shadow: {str(error).splitlines()[0][:60]}"
    if right_plain:
        return f"wrong on every layout ({right_plain})" if right else "right on this layout only"
    if case.node.op in READS_STORAGE:
        return f"shadow wrong ({by_views})" if by_views else "layout decides" if right else ""
    if right:
        return f"eager wrong ({right})" if by_views and by_strides else f"blind ({right}; {by_views}; {by_strides})"
    return f"shadow wrong ({by_views}; {by_strides})" if by_views or by_strides else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue")
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--rows")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[tuple[str, str, str, str]] = []
    tried = Counter[str]()
    for case in cases(Catalogue(Path(asked.catalogue)), asked.most, asked.only):
        if asked.dtype:
            case = in_dtype(case, getattr(torch, asked.dtype))
        tried["calls"] += 1
        for name, layout in LAYOUTS.items():
            try:
                laying = laid_out(case, layout)
            except RuntimeError:
                continue
            if laying is None:
                continue
            tried["comparisons"] += 1
            found = compare(case, laying)
            if found:
                rows.append((case.node.op, name, found, case.source))
                print(*rows[-1], sep=" | ", flush=True)
    print(f"{tried['calls']} calls, {tried['comparisons']} comparisons")
    for (op, name, word), count in sorted(Counter((r[0], r[1], r[2].split(" (")[0]) for r in rows).items()):
        print(f"{op:60} {name:12} {word:40} {count}")
    if asked.rows:
        with open(asked.rows, "w", newline="") as file:
            csv.writer(file).writerows([("operator", "layout", "class", "source"), *rows])


if __name__ == "__main__":
    main()
