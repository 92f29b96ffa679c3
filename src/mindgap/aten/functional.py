"""Rewrites a graph to its functional form: the same values without in-place writes.

Every in-place call becomes its functional counterpart; what it wrote through a view is scattered back into the
view's base, and other views of that base are taken anew when they are next read. Views themselves stay, as plain view
operators. Which values share memory is seen by running the calls on fake tensors, not read from schemas: `reshape`,
`contiguous` and `to` share or copy as the strides decide. Calls whose memory no write can reach are copied as they
are, without fake tensors, which take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import torch

from mindgap.aten.counterpart import counterpart, is_layout_change
from mindgap.aten.operators import facts, is_inplace, makes_new
from mindgap.aten.shared_memory import LazyFake, Memory, Value, reached_by_writes, root_of
from mindgap.aten.storage import READS_STORAGE, call_on, empty
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, spec_of
from mindgap.aten.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    storage_id,
)
from mindgap.aten.view_inverse import ViewStep, same_layout, scattered, write_back, writes_back
from mindgap.graph import (
    Arg,
    DType,
    Graph,
    GraphError,
    MemoryFormat,
    Node,
    Ref,
    TensorSpec,
    live_nodes,
    map_refs,
    operands,
    refs,
    renumbered,
    select,
)


def laid_out_as(builder: Builder, number: int, now: torch.Tensor, layout: torch.Tensor) -> int:
    """Returns a value with the same elements, the strides of `layout`, and no offset; emits a copy if needed.

    `now`: the value's fake tensor. Raises `GraphError` for strides that no permutation of a contiguous tensor has.
    """
    alike = now.stride() == layout.stride()
    if alike and not now.storage_offset():
        return number
    order = sorted(range(layout.dim()), key=lambda d: (-layout.stride(d), d))
    dense = layout.permute(order)
    if not dense.is_contiguous():
        raise GraphError(
            "a write or a read through as_strided, whose base has gaps or overlaps, has no functional form"
        )
    turned = builder.emit("aten.permute.default", Ref(number), tuple(order))[0]
    copied = builder.emit("aten.clone.default", Ref(turned), memory_format=MemoryFormat("contiguous_format"))[0]
    return builder.emit("aten.permute.default", Ref(copied), tuple(order.index(d) for d in range(len(order))))[0]


#: What fake kernels say where values decide, or of batch norms over nothing.
_BY_VALUES: Final = (DynamicOutputShapeException, DataDependentOutputException, ZeroDivisionError)


@dataclass(frozen=True)
class Functional:
    """A functional form. `origin`: for each node of `graph`, the index of its node in the original graph."""

    graph: Graph
    origin: tuple[int, ...]


def functionalize(graph: Graph) -> Functional:
    """Rewrites `graph` to its functional form: same inputs, same outputs in the same order.

    An output that was an input written to becomes the value that the input ends with. The graph itself is returned
    where nothing writes.

    Raises `GraphError` for a write that has no functional form (`resize_`, a write through an unknown view).
    """
    if not any(is_inplace(node.op) for node in graph.nodes):
        return Functional(graph, tuple(range(len(graph.nodes))))
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        builder = Builder(graph)
        for index, node in enumerate(graph.nodes):
            builder.add(index, node)
        outputs = tuple(builder.read(builder.values[value]) for value in graph.outputs)
    labels = graph.labels
    ordered = tuple(labels.nodes[node] for node in builder.origin) if labels.nodes else ()
    rewritten = Graph(graph.inputs, tuple(builder.nodes), outputs, graph.grad, replace(labels, nodes=ordered))
    kept = live_nodes(rewritten)
    return Functional(select(rewritten, kept), tuple(builder.origin[node] for node in kept))


@dataclass
class Builder:
    """Builds the functional graph node by node."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list[Node])
    origin: list[int] = field(default_factory=list[int])
    fakes: list[LazyFake | None] = field(default_factory=list["LazyFake | None"])
    values: list[Value | None] = field(default_factory=list["Value | None"])
    at: int = 0

    def __post_init__(self) -> None:
        self._tape = Tape(self.graph)
        self._by_memory: dict[int, list[Value]] = {}
        self._written = reached_by_writes(self.graph)
        for number, given in enumerate(self.graph.inputs):
            self.fakes.append(LazyFake(given.spec))
            self._keep(Value(given.spec, Memory(), number))

    def _keep(self, value: Value | None) -> None:
        if value is not None and len(self.values) in self._written:
            self._by_memory.setdefault(storage_id(value.fake), []).append(value)
        self.values.append(value)

    def add(self, index: int, node: Node) -> None:
        """Adds one node of the original graph."""
        self.at = index
        if self._copy_unchanged(node):
            return
        results = flatten_result(self._original(node))
        if is_layout_change(node.op):
            self._relayout(node, results)
        elif is_inplace(node.op):
            self._write(node, results)
        else:
            self._plain(node, results)

    def _copy_unchanged(self, node: Node) -> bool:
        """Copies a call whose results share no memory that is written, if its operands have the declared layout.

        Its results then have theirs too, and no fake call is needed.
        """
        results = range(len(self.values), len(self.values) + len(node.outputs))
        shares = not makes_new(node.op) and any(number in self._written for number in results)
        if shares or node.op in READS_STORAGE or is_inplace(node.op) or any(spec is None for spec in node.outputs):
            return False
        numbers: dict[int, int] = {}
        for index in operands(node):
            value = self.values[index]
            if value is None:
                return False
            numbers[index] = self.read(value)
            if self.spec(numbers[index]) != value.spec:
                return False
        first = len(self.fakes)
        self.nodes.append(renumbered(node, numbers))
        self.origin.append(self.at)
        for number, spec in enumerate(node.outputs, start=first):
            assert spec is not None
            self.fakes.append(LazyFake(spec))
            self._keep(Value(spec, Memory(), number))
        return True

    def _original(self, node: Node) -> Any:
        """Makes the call on the original run's fake tensors, which shows which results share memory."""
        return self._call(node.op, node.args, node.kwargs, self._before)

    def _before(self, number: int) -> torch.Tensor | None:
        """A value of the original run."""
        value = self.values[number]
        return None if value is None else value.fake

    def _after(self, number: int) -> torch.Tensor | None:
        """A value of the new graph."""
        lazy = self.fakes[number]
        return None if lazy is None else lazy.fake

    def _call(
        self,
        op: str,
        args: tuple[Arg, ...],
        kwargs: tuple[tuple[str, Arg], ...],
        tensors: Callable[[int], torch.Tensor | None],
    ) -> Any:
        try:
            return call_on(op, args, kwargs, tensors)
        except _BY_VALUES:
            # The size depends on values (of a constant mask, say): the graph has it, and such a result is no view.
            node = self.graph.nodes[self.at]
            if node.op != op:
                raise
            return [None if spec is None else empty(spec) for spec in node.outputs]

    def emit(self, op: str, *args: Arg, **kwargs: Arg) -> list[int]:
        """Appends a call to the new graph. Returns the numbers of its results."""
        named = tuple(sorted(kwargs.items()))
        try:
            results = flatten_result(self._call(op, args, named, self._after))
        except (RuntimeError, ValueError, ZeroDivisionError) as error:
            if op != "aten.view.default":
                raise GraphError(
                    f"node {self.at} ({self.graph.nodes[self.at].op}): no functional form: {error}"
                ) from None
            return self.emit("aten.reshape.default", *args, **kwargs)  # the new value may be laid out otherwise
        if op == "aten._native_batch_norm_legit_functional.default":
            # The fake kernel promotes narrow running statistics; the real one keeps their dtype.
            for slot, operand in ((3, args[3]), (4, args[4])):
                fake = results[slot]
                if isinstance(operand, Ref) and fake is not None:
                    results[slot] = fake.to(TORCH_DTYPES[self.spec(operand.index).dtype])
        self.nodes.append(Node(op, args, named, tuple(None if r is None else spec_of(r) for r in results)))
        self.origin.append(self.at)
        first = len(self.fakes)
        self.fakes.extend(None if r is None else LazyFake(r) for r in results)
        return list(range(first, len(self.fakes)))

    def spec(self, number: int) -> TensorSpec:
        """Returns the spec of a value of the new graph."""
        lazy = self.fakes[number]
        assert lazy is not None
        return lazy.spec

    def read(self, value: Value | None) -> int:
        """Returns the number of the value's present contents."""
        if value is None:
            raise GraphError(f"node {self.at}: an operand that is no tensor")
        if value.version == value.memory.version:
            return value.number
        if value.parent is None or value.step is None:
            raise GraphError(f"node {self.at}: a write that the rewriting lost sight of")
        step = value.step
        if step.op in READS_STORAGE:
            value.number = self._strided(step.op, value.parent, step.args, step.kwargs)[0]
        else:
            renumber = {step.operand: self.read(value.parent)}
            args = tuple(self._present(arg, renumber) for arg in step.args)
            kwargs = {key: self._present(arg, renumber) for key, arg in step.kwargs}
            value.number = self.emit(step.op, *args, **kwargs)[step.slot]
        value.version = value.memory.version
        return value.number

    def _present(self, arg: Arg, known: Mapping[int, int]) -> Arg:
        numbers = {i: known[i] if i in known else self.read(self.values[i]) for i in refs(arg)}
        return map_refs(arg, numbers)

    def _plain(self, node: Node, results: list[torch.Tensor | None]) -> None:
        if node.op in READS_STORAGE:
            first = self.values[next(refs(node.args[0]))]
            assert first is not None
            numbers = self._strided(node.op, first, node.args, node.kwargs)
        else:
            args = tuple(self._present(arg, {}) for arg in node.args)
            numbers = self.emit(node.op, *args, **{key: self._present(arg, {}) for key, arg in node.kwargs})
        sizes = tuple(() if r is None else tuple(r.shape) for r in results)
        for slot, (number, result) in enumerate(zip(numbers, results, strict=True)):
            if result is None:
                self._keep(None)
                continue
            parent = self._owner(node, result)
            if parent is None:
                self._keep(Value(result, Memory(), number))
            else:
                index, owner = parent
                step = ViewStep(node.op, node.args, node.kwargs, slot, index, sizes)
                self._keep(Value(result, owner.memory, number, owner.memory.version, owner, step))

    def _strided(
        self, op: str, operand: Value, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...]
    ) -> list[int]:
        """Adds an operator that reads storage: unchanged if its operand has the same layout, else on the root.

        After a write, the operand may be a view of another memory.
        """
        root, now = root_of(operand), self._fake(self.read(operand))
        base = self._fake(self.read(root))
        if storage_id(now) == storage_id(base) and same_layout(now, operand.fake) and same_layout(base, root.fake):
            numbers = {i: self.read(self.values[i]) for arg in args for i in refs(arg)} | {
                next(refs(args[0])): self.read(operand)
            }
            return self.emit(op, *(map_refs(arg, numbers) for arg in args), **dict(kwargs))
        named = dict(zip(facts(op).arguments, args, strict=False)) | dict(kwargs)
        offset = named.get("storage_offset")
        at = int(operand.fake.storage_offset()) if offset is None else cast("int", offset)
        window = named["size"], named["stride"], at - int(root.fake.storage_offset())
        laid = laid_out_as(self, self.read(root), base, root.fake)
        if "src" not in named:
            return self.emit(op, Ref(laid), *window)
        (whole,) = self.emit(op, Ref(laid), self._present(named["src"], {}), *window)
        own = operand.fake
        begin = int(own.storage_offset()) - int(root.fake.storage_offset())
        return self.emit("aten.as_strided.default", Ref(whole), tuple(own.shape), tuple(own.stride()), begin)

    def _fake(self, number: int) -> torch.Tensor:
        fake = self._after(number)
        assert fake is not None
        return fake

    def _owner(self, node: Node, result: torch.Tensor) -> tuple[int, Value] | None:
        """Returns the operand whose memory a result shares."""
        for index in operands(node):
            value = self.values[index]
            if value is not None and storage_id(value.fake) == storage_id(result):
                return index, value
        return None

    def _relayout(self, node: Node, results: list[torch.Tensor | None]) -> None:
        """Adds `t_` and similar operators: the tensor becomes a view of its former self."""
        target = self.values[next(refs(node.args[0]))]
        assert target is not None
        op = counterpart(node.op).op
        hidden = Value(
            _copy_of(self._fake(self.read(target))),
            target.memory,
            target.number,
            target.version,
            target.parent,
            target.step,
        )
        index = next(refs(node.args[0]))
        number = self.emit(op, Ref(self.read(hidden)), *node.args[1:], **dict(node.kwargs))[0]
        target.parent, target.number = hidden, number
        target.step = ViewStep(op, node.args, node.kwargs, 0, index, (tuple(target.fake.shape),))
        self._keep(target)

    def _write(self, node: Node, results: list[torch.Tensor | None]) -> None:
        known = facts(node.op)
        written = [
            self.values[i]
            for position, arg in [*enumerate(node.args), *node.kwargs]
            if position in known.mutates
            for i in refs(arg)
        ]
        rule = counterpart(node.op)
        args = [self._present(arg, {}) for arg in node.args]
        kwargs = {key: self._present(arg, {}) for key, arg in node.kwargs if key not in rule.dropped}
        made = rule.emit(self, args, kwargs)
        fresh = made[len(made) - len(written) :]
        for value, number in zip(written, fresh, strict=True):
            assert value is not None
            self._replace(value, self._fitted(value, number))
        for result, number in zip(results, made, strict=False):
            self._keep(None if result is None else self._known(result, number))

    def _known(self, result: torch.Tensor, number: int) -> Value:
        """Returns the value of an in-place call's result: the written one, or a new one."""
        for value in reversed(self._by_memory.get(storage_id(result), [])):
            if value.fake is result:
                return value
        return Value(result, Memory(), number)

    def _fitted(self, value: Value, number: int) -> int:
        """Casts and expands a result to the tensor that it is written to."""
        wanted, made = spec_of(value.fake), self.spec(number)
        if made.dtype != wanted.dtype:
            number = self.emit("aten.to.dtype", Ref(number), DType(wanted.dtype))[0]
        if made.shape != wanted.shape:
            number = self.emit("aten.expand.default", Ref(number), wanted.shape)[0]
        return number

    def _replace(self, value: Value, number: int) -> None:
        """Sets the contents of `value`, and writes them back to its base if `value` is a view."""
        chain: list[tuple[Value, int]] = [(value, number)]
        while value.parent is not None and value.step is not None:
            parent = value.parent
            if not writes_back(value.step, parent.fake, value.fake):
                # The views between are taken anew from their base.
                base = root_of(value)
                laid = laid_out_as(self, self.read(base), self._fake(self.read(base)), base.fake)
                chain.append((base, scattered(self, laid, number, base.fake, value.fake)))
                break
            number = write_back(self, value.step, self.read(parent), number, parent.fake, value.fake)
            value = parent
            chain.append((value, number))
        value.memory.version += 1
        for one, present in chain:
            one.number, one.version = present, one.memory.version


def _copy_of(fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype)
