"""Digests the values of a run as they are made. A view of memory that was digested already is not digested again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch

from mindgap.aten.operators import facts
from mindgap.aten.storage import READS_STORAGE
from mindgap.aten.tape import Call, Tape
from mindgap.graph import Graph, refs
from mindgap.platforms.protocol import ValueDigest

#: Makes the digest of a value, by its number.
DigestOf = Callable[[int, torch.Tensor], str]
_UNKNOWN: Final = 0


class DigestingRun:
    """Runs a tape and digests every result of every node.

    A result that shares the memory of an operand whose digest still holds gets the operand's number instead of a
    digest: equal operands give equal views. After a write to any memory, the digests of earlier values do not hold.
    """

    def __init__(self, tape: Tape, as_given: bool) -> None:
        """`as_given`: the inputs' tensors hold the given bytes, not a conversion of them."""
        graph = tape.graph
        self._tape = tape
        self._values = graph.values
        self._inputs = len(graph.inputs)
        self._views = [_viewed(graph, index) for index in range(len(graph.nodes))]
        self._writes = [bool(facts(node.op).mutates) for node in graph.nodes]
        written = set(tape.written_inputs)
        self._unwritten = [i for i in range(self._inputs) if i not in written] if as_given else []

    def __call__(
        self, inputs: Sequence[torch.Tensor], digest: DigestOf, call: Call | None = None
    ) -> tuple[list[torch.Tensor], list[ValueDigest]]:
        """Returns the outputs, and for every result slot its digest, the value that it is a view of, or None."""
        tensors_digested: list[ValueDigest] = []
        addresses = [_UNKNOWN] * self._inputs
        for number in self._unwritten:
            addresses[number] = _address(inputs[number])
        holding = set(self._unwritten)

        def record(index: int, results: list[torch.Tensor | None]) -> None:
            nonlocal holding
            if self._writes[index]:
                holding = set(self._unwritten)
            operands = self._views[index]
            for result in results:
                number = len(addresses)
                address = _UNKNOWN
                if result is None or self._values[number] is None:
                    tensors_digested.append(None)
                else:
                    address = _address(result)
                    bases = [o for o in operands if o in holding and self._is_view(number, address, o, addresses[o])]
                    if bases:
                        known = tensors_digested[bases[0] - self._inputs] if bases[0] >= self._inputs else bases[0]
                        tensors_digested.append(known if isinstance(known, int) else bases[0])
                    else:
                        tensors_digested.append(digest(number, result))
                    holding.add(number)
                addresses.append(address)

        return self._tape.run(inputs, on_node=record, call=call), tensors_digested

    def _is_view(self, number: int, address: int, operand: int, operands_address: int) -> bool:
        mine, theirs = self._values[number], self._values[operand]
        if mine is None or theirs is None or address == _UNKNOWN:
            return False
        return address == operands_address and mine.dtype == theirs.dtype


def _viewed(graph: Graph, index: int) -> tuple[int, ...]:
    """The operands that a result of the node may be a view of. None for a view of memory beyond its operand."""
    node = graph.nodes[index]
    known = facts(node.op)
    if known.mutates or not known.views or node.op in READS_STORAGE:
        return ()
    places = [(place, arg) for place, arg in [*enumerate(node.args), *node.kwargs] if place in known.views]
    return tuple(number for _, arg in places for number in refs(arg))


def _address(tensor: torch.Tensor) -> int:
    """The address of the tensor's memory; `_UNKNOWN` where the device does not tell it."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return _UNKNOWN
