"""Analyses operators that read the memory behind an operand: `as_strided` and similar ones.

Their result depends on the storage that the operand is a view of, on its offset and on its strides, and not on the
operand's elements alone. `x[2:].as_strided((3,), (1,), 1)` reads `x[1]`, which is no element of `x[2:]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.fake_call import fake_call
from mindgap.aten.operators import bind, facts, makes_new, overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, extent, torch_dtype_name
from mindgap.aten.torch_private.fake_tensors import FakeTensorMode, storage_id
from mindgap.graph import (
    Arg,
    Graph,
    MindgapError,
    Node,
    Ref,
    TensorSpec,
    operands,
)

#: Of each, the position of the first argument after the tensors: sizes, strides and an offset follow from there.
READS_STORAGE: Final = {
    "aten.as_strided.default": 1,
    "aten.as_strided_copy.default": 1,
    "aten.as_strided_scatter.default": 2,
}


class UnknownStorage(MindgapError):
    """The graph does not tell which memory an operator reads."""


@dataclass(frozen=True)
class Window:
    """Shape, strides and offset (in elements) of a tensor in the memory of another one."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class StorageRead:
    """A node's read from memory.

    `root`: number of the value whose memory it is, with this `layout`. `views`: the nodes that lead from the
    root to the operand, in execution order. `operand`: where the operand lies in that memory; `window`: what the node
    reads of it, or writes to it (`as_strided_scatter`).
    """

    root: int
    layout: TensorSpec
    views: tuple[int, ...]
    operand: Window
    window: Window


def storage_reads(graph: Graph) -> dict[int, StorageRead]:
    """Returns the reads of each node of a functional graph that reads storage.

    Raises `UnknownStorage` if the graph does not tell.
    """
    if not any(node.op in READS_STORAGE for node in graph.nodes):
        return {}
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        places = _ValueLocations(graph)
        return {i: places.read(i) for i, node in enumerate(graph.nodes) if node.op in READS_STORAGE}


def on_roots(graph: Graph, reads: dict[int, StorageRead]) -> Graph:
    """Rewrites every such node to read its root, at an explicit offset. Numbers of values stay.

    The nodes then are valid only where the root has the layout `StorageRead.layout`.
    """
    if not reads:
        return graph
    nodes = list(graph.nodes)
    for index, read in reads.items():
        node, at = nodes[index], read.window
        args = (Ref(read.root), *node.args[1 : READS_STORAGE[node.op]], at.shape, at.stride, at.offset)
        nodes[index] = Node(node.op, args, (), node.outputs)
    return Graph(graph.inputs, tuple(nodes), graph.outputs, graph.grad, graph.labels)


def cells_of(root: torch.Tensor, layout: TensorSpec) -> torch.Tensor:
    """Returns the memory of a tensor with the declared layout, as a new vector; values in any dtype.

    Raises `UnknownStorage` where some cell between its first and last element belongs to no element.
    """
    offsets = torch.zeros(layout.shape, dtype=torch.int64)
    for dim, (size, step) in enumerate(zip(layout.shape, layout.stride, strict=True)):
        offsets += (torch.arange(size) * step).reshape([-1 if d == dim else 1 for d in range(len(layout.shape))])
    count = int(offsets.max()) + 1 if offsets.numel() else 0
    held = torch.zeros(count, dtype=torch.bool)
    held[offsets.flatten()] = True
    if not bool(held.all()):
        raise UnknownStorage(
            "an operator reads memory between the elements of a tensor, and no value says what is there"
        )
    cells = torch.empty(count, dtype=root.dtype)
    cells[offsets.flatten()] = root.reshape(-1)
    return cells


def read_cells(read: StorageRead, root: torch.Tensor, source: torch.Tensor | None = None) -> torch.Tensor:
    """Computes the node's result. `source`: the tensor that `as_strided_scatter` writes.

    Raises `UnknownStorage` where it reads past the memory of the root.
    """
    cells, at = cells_of(root, read.layout), read.window
    if _end(at) > cells.numel() or at.offset < 0:
        raise UnknownStorage(f"an operator reads cell {_end(at) - 1} of a memory of {cells.numel()}")
    window = torch.as_strided(cells, at.shape, at.stride, at.offset)
    if source is None:
        return window.clone(memory_format=torch.contiguous_format)
    window.copy_(source)
    own = read.operand
    return torch.as_strided(cells, own.shape, own.stride, own.offset).clone(memory_format=torch.contiguous_format)


def _end(at: Window) -> int:
    if 0 in at.shape:
        return at.offset
    return at.offset + 1 + sum(step * (size - 1) for size, step in zip(at.shape, at.stride, strict=True))


def empty(spec: TensorSpec) -> torch.Tensor:
    """Makes an uninitialised tensor of this spec."""
    return torch.empty_strided(spec.shape, spec.stride, dtype=TORCH_DTYPES[spec.dtype])


def call_on(
    op: str,
    args: Sequence[Arg],
    kwargs: Sequence[tuple[str, Arg]],
    tensors: Sequence[torch.Tensor | None] | Callable[[int], torch.Tensor | None],
) -> Any:
    """Calls an operator under a fake tensor mode. `tensors`: the tensors that references name, or what gives them."""
    bound = [bind(arg, tensors) for arg in args]
    named = {key: bind(arg, tensors) for key, arg in kwargs}
    if facts(op).takes_device and "device" not in named and len(args) <= facts(op).arguments.index("device"):
        named["device"] = torch.device("cpu")
    return fake_call(overload(op), bound, named)


class _ValueLocations:
    """Locates the values of a functional graph: each is a fake tensor in the memory of its root."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, tuple[int, torch.Tensor, tuple[int, ...]]] = {}

    def read(self, index: int) -> StorageRead:
        """Returns what one node reads."""
        node = self._graph.nodes[index]
        known = dict(zip(facts(node.op).arguments, node.args, strict=False)) | dict(node.kwargs)
        ref = known["self"]
        assert isinstance(ref, Ref)
        root, fake, views = self.place(ref.index)
        layout = self._graph.values[root]
        if "scatter" in node.op and any(
            not step and size > 1 for step, size in zip(fake.stride(), fake.shape, strict=True)
        ):
            # PyTorch copies an expanded operand before it writes to it.
            root, views, fake = ref.index, (), fake.clone()
            layout = TensorSpec(torch_dtype_name(fake.dtype), tuple(fake.shape), tuple(fake.stride()))
        if layout is None or TORCH_DTYPES[layout.dtype] != fake.dtype:
            raise UnknownStorage(f"node {index} ({node.op}) reads memory that holds another dtype")
        offset = known.get("storage_offset")
        size, stride = known["size"], known["stride"]
        assert isinstance(size, tuple) and isinstance(stride, tuple)
        at = Window(_ints(size), _ints(stride), int(fake.storage_offset()) if offset is None else _int(offset))
        own = Window(tuple(fake.shape), tuple(fake.stride()), int(fake.storage_offset()))
        return StorageRead(root, layout, views, own, at)

    def place(self, number: int) -> tuple[int, torch.Tensor, tuple[int, ...]]:
        """Returns the root of a value, the value in the root's memory, and the nodes between them."""
        if number not in self._known:
            self._known[number] = self._located(number)
        return self._known[number]

    def _located(self, number: int) -> tuple[int, torch.Tensor, tuple[int, ...]]:
        graph = self._graph
        index, spec = graph.producer[number], graph.values[number]
        assert spec is not None
        if index < 0:
            return number, empty(spec), ()
        node = graph.nodes[index]
        if makes_new(node.op):
            return number, empty(spec), ()
        places = {v: self.place(v) for v in operands(node)}
        known = [places[v][1] if v in places else None for v in range(number)]
        try:
            result = flatten_result(call_on(node.op, node.args, node.kwargs, known))[number - graph.first_value[index]]
        except (RuntimeError, ValueError, TypeError) as error:
            raise UnknownStorage(
                f"node {index} ({node.op}): it is unknown which operand's memory its result shares: {error}"
            ) from None
        assert result is not None
        for root, fake, views in places.values():
            if storage_id(fake) == storage_id(result):
                return root, result, (*views, index)
        if result.storage_offset() or (extent(result) > 0 and tuple(result.stride()) != spec.stride):
            raise UnknownStorage(
                f"node {index} ({node.op}): its result is a view of memory that belongs to no value of the graph"
            )
        return number, empty(spec), ()


def _ints(values: tuple[Arg, ...]) -> tuple[int, ...]:
    return tuple(_int(v) for v in values)


def _int(value: Arg) -> int:
    if not isinstance(value, int):
        raise UnknownStorage("a size, a stride or an offset that is no number")
    return value
