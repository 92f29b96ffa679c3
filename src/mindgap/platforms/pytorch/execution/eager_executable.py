"""Runs a graph operator by operator in PyTorch's eager mode; returns every value on request."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Sequence
from typing import Any, Final

import torch

from mindgap.aten.operators import facts
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, cotangent, to_numpy, torch_dtype_name
from mindgap.graph import Graph
from mindgap.graph.compare.digest import digest_bytes
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.protocol import UNVERIFIED, Array, Fallback, Options, Unsupported, ValueDigest
from mindgap.platforms.pytorch.device.devices import CPU, TorchDevice
from mindgap.platforms.pytorch.device.runtime import synchronise, watched
from mindgap.platforms.pytorch.device.settings import in_force
from mindgap.platforms.pytorch.execution.input_binding import InputBinder, check_devices, declared_dtypes, given_out
from mindgap.platforms.pytorch.execution.memory_layout import with_memory_layout
from mindgap.platforms.pytorch.execution.value_digests import DigestingRun
from mindgap.platforms.pytorch.execution.widen import wide, widened
from mindgap.platforms.pytorch.refusals import refusal


def as_leaves(tensors: Sequence[torch.Tensor], differentiated: Sequence[int]) -> list[torch.Tensor]:
    """Makes the tensors numbered in `differentiated` leaves that require a gradient (memory is shared)."""
    leaves = list(tensors)
    for index in differentiated:
        leaves[index] = leaves[index].detach().requires_grad_()
    return leaves


def gradients(outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Computes d(Σ cotangent·output)/d(leaf) for every leaf; zeros if no output depends on it.

    Outputs that autograd does not follow (integers, detached values) do not take part.
    """
    roots = [output for output in outputs if output.requires_grad]
    if not roots:
        return [torch.zeros_like(leaf) for leaf in leaves]
    gradients_found = torch.autograd.grad(roots, leaves, [cotangent(r) for r in roots], materialize_grads=True)
    return list(gradients_found)


#: Stages of a run that are no node of the graph.
_FEEDING: Final = -2
_GOING_BACK: Final = -1


def rewritten(graph: Graph, options: Options) -> Graph:
    """Rewrites the graph as the options demand. Raises `Unsupported` if that is impossible."""
    if "dtype" in options:
        graph = widened(graph)
    return with_memory_layout(graph, options["layout"]) if "layout" in options else graph


class EagerExecutable:
    """Executable and traceable. With `graph.grad` the gradients follow the outputs."""

    def __init__(self, graph: Graph, options: Options, device: TorchDevice) -> None:
        self._graph = graph
        self._options = options
        self._device = device
        program = rewritten(graph, options)
        self._feeds = InputBinder(program.inputs, device.torch_name)
        self._tape = Tape(program, device.torch_name)
        self._dtypes = declared_dtypes(graph)
        #: Options that change dtypes on the way; without them a wrong dtype is there to be seen.
        self._cast = "dtype" in options or "autocast" in options
        self._at = _FEEDING
        self._digesting: DigestingRun | None = None
        #: Ways to run the graph that no operator left for the CPU: the next run calls the same operators.
        self._verified: set[str] = set()
        self.facts: dict[str, Any] = {}

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Returns outputs (and gradients) as arrays. Raises `Unsupported`, `Fallback`, or PyTorch's errors."""
        with in_force(self._options, self._device):
            self._at = _FEEDING
            try:
                with self._watching("call"):
                    tensors = self._feeds(inputs)
                    results = self._backward(tensors) if self._graph.grad else self._forward(tensors)
                    synchronise(self._device)
            except Exception as error:
                self._refuse(error)
                raise
            return self._given_out(results)

    def digest_values(self, inputs: Sequence[Array]) -> tuple[list[Array], list[ValueDigest]]:
        """Returns outputs, and the digest of every output slot of every node in its declared dtype."""
        if self._digesting is None:
            self._digesting = DigestingRun(self._tape, as_given=not self._cast)
        self._at = _FEEDING
        with in_force(self._options, self._device), torch.no_grad():
            try:
                with self._watching("digests"):
                    results, digests = self._digesting(self._feeds(inputs), self._digest, self._counted)
            except Exception as error:
                self._refuse(error)
                raise
            return self._given_out(results), digests

    def trace(self, inputs: Sequence[Array], numbers: Collection[int] | None = None) -> list[Array | None]:
        """Returns output slots of nodes as they were when the node returned, in the declared dtypes.

        `numbers`: the values that are wanted, all by default; the others are None.
        """
        seen = _Seen(self._device, len(inputs), numbers)
        self._at = _FEEDING
        with in_force(self._options, self._device), torch.no_grad():
            try:
                with self._watching("trace"):
                    self._tape.run(self._feeds(inputs), on_node=seen.record, call=self._watched(seen))
            except Exception as error:
                self._refuse(error)
                raise
            self._check_values(seen.values)
        declared = self._graph.values[len(self._graph.inputs) :]
        return [
            None if array is None or spec is None else self._as_declared(array, spec.dtype)
            for array, spec in zip(seen.values, declared, strict=True)
        ]

    @contextlib.contextmanager
    def _watching(self, way: str) -> Generator[None]:
        names = [node.op for node in self._graph.nodes]
        with watched(self._device, events=way not in self._verified, operators=names) as seen:
            yield
        self._verified.add(way)
        if seen.lowered:
            self.facts |= Delegation(self._device.maker, seen.lowered).as_fact()
        if seen.unverified:
            self.facts[UNVERIFIED] = sorted({*self.facts.get(UNVERIFIED, ()), *seen.unverified})

    def _given_out(self, found: list[torch.Tensor]) -> list[Array]:
        check_devices(found, self._device.torch_name, len(self._graph.grad))
        return given_out(found, self._dtypes, self._feeds, self._cast)

    def _digest(self, number: int, tensor: torch.Tensor) -> str:
        spec = self._graph.values[number] if self._cast else None
        return digest_bytes(to_numpy(tensor if spec is None else self._in_dtype(tensor, spec.dtype)))

    def _check_values(self, values: Sequence[torch.Tensor | None]) -> None:
        """Raises `Fallback` for a value on another device; single numbers may be on the host."""
        names = [node.op for node in self._graph.nodes for _ in node.outputs]
        for name, value in zip(names, values, strict=True):
            if value is not None and value.dim() > 0 and value.device.type != self._device.torch_name:
                raise Fallback(f"what {name} gave is on {value.device.type}, the platform is {self._device.name}")

    def _forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return self._tape.run(tensors, call=self._counted)

    def _backward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves = as_leaves(tensors, self._graph.grad)
            outputs = self._tape.run(leaves, call=self._counted)
            self._at = _GOING_BACK
            return outputs + gradients(outputs, [leaves[i] for i in self._graph.grad])

    def _counted(self, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._at = index
        return function(*args, **kwargs)

    def _watched(self, seen: _Seen) -> Any:
        """Runs a node after copying what it is about to overwrite."""
        writers = [facts(node.op).mutates for node in self._graph.nodes]

        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            self._at = index
            for place, value in [*enumerate(args), *kwargs.items()]:
                if place in writers[index]:
                    seen.save(value)
            return function(*args, **kwargs)

        return call

    def _refuse(self, error: Exception) -> None:
        """Raises `Unsupported` for an error that is a refusal."""
        why = refusal(error)
        if why is not None:
            stages = {_FEEDING: "an input", _GOING_BACK: "backward"}
            raise Unsupported(stages.get(self._at) or self._graph.nodes[self._at].op, why) from error

    def _as_declared(self, tensor: torch.Tensor, dtype: str) -> Array:
        tensor = self._in_dtype(tensor, dtype)
        array = to_numpy(tensor)
        return array.copy() if self._feeds.owns(tensor) else array

    def _in_dtype(self, tensor: torch.Tensor, dtype: str) -> torch.Tensor:
        """The tensor in its declared dtype, where an option changed the precision on the way."""
        if not self._cast:
            return tensor
        name = torch_dtype_name(tensor.dtype)
        return tensor.to(TORCH_DTYPES[dtype]) if name != dtype and wide(name) == wide(dtype) else tensor


class _Seen:
    """Holds values in order. Copies one only when its memory is about to be written to."""

    def __init__(self, device: TorchDevice = CPU, inputs: int = 0, numbers: Collection[int] | None = None) -> None:
        """`numbers`: the values to hold, after `inputs` inputs; None for all."""
        self.values: list[torch.Tensor | None] = []
        self._device = device
        self._inputs, self._numbers = inputs, numbers
        self._by_storage: dict[int, list[int]] = {}

    def record(self, index: int, results: list[torch.Tensor | None]) -> None:
        # XLA would otherwise make one program of everything up to the value that is read first.
        if self._device.name == "xla":
            synchronise(self._device)
        for result in results:
            if self._numbers is not None and self._inputs + len(self.values) not in self._numbers:
                result = None
            place = None if result is None else _address(result)
            if result is not None and place is None:
                result = result.clone()
            elif place is not None:
                self._by_storage.setdefault(place, []).append(len(self.values))
            self.values.append(result)

    def save(self, target: Any) -> None:
        """Copies every value so far that lives in the memory of `target` (a tensor, or a list of them)."""
        for tensor in flatten_result(target):
            place = None if tensor is None else _address(tensor)
            for number in () if place is None else self._by_storage.pop(place, ()):
                held = self.values[number]
                self.values[number] = None if held is None else held.clone()


def _address(tensor: torch.Tensor) -> int | None:
    """Returns the address of the tensor's memory; None if the device does not tell it."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None
