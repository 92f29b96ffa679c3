"""Finds the public function of PyTorch that calls an operator: runs candidates and compares their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.operators import packet_of
from mindgap.aten.state import TORCH_STATE
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import Graph, materialise_all, operands
from mindgap.operators import traits
from mindgap.torch_private.dispatch_modes import TorchDispatchMode

#: Where public functions are, in the order in which a user would look.
_NAMESPACES: Final = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.Tensor")
#: Packet -> names of functions that call it under another name.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "convolution": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "native_layer_norm": ("layer_norm",),
    "native_group_norm": ("group_norm",),
    "_native_batch_norm_legit": ("batch_norm",),
    "max_pool2d_with_indices": ("max_pool2d",),
    "max_pool3d_with_indices": ("max_pool3d",),
    "nll_loss_forward": ("nll_loss",),
    "nll_loss2d_forward": ("nll_loss",),
    "upsample_nearest1d": ("interpolate",),
    "linalg_vector_norm": ("vector_norm",),
    "_cdist_forward": ("cdist",),
    "_to_copy": ("to",),
}
#: Packet -> the order in which the public function takes the operator's arguments.
_REORDERED: Final[Mapping[str, tuple[int, ...]]] = {
    "_native_batch_norm_legit": (0, 3, 4, 1, 2, 5, 6, 7),
    "native_batch_norm": (0, 3, 4, 1, 2, 5, 6, 7),
    "native_group_norm": (0, 6, 1, 2, 7),
}
#: The operator that stands for another in captured graphs -> the one that the public function runs.
_STANDS_FOR: Final = {"aten._native_batch_norm_legit.default": "aten.native_batch_norm.default"}
_PREFIXES: Final = ("linalg_", "fft_", "special_", "native_", "_")
#: Trailing arguments that may be left out: internal switches such as `half_to_float`.
_MOST_DROPPED: Final = 3


@dataclass(frozen=True, slots=True)
class PublicCall:
    """`name`: the function, or `torch.Tensor.METHOD`. `args`: positions of the node's arguments that it takes, in the
    order in which it takes them. Its result is the node's first."""

    name: str
    args: tuple[int, ...]


def public_call(graph: Graph, index: int, inputs: Sequence[Any] | None = None) -> PublicCall | None:
    """Returns the public call that runs exactly the node's operator and gives its bits; None without one.

    `inputs`: the graph's inputs as arrays (default: as their recipes give them). The graph's nodes up to this one are
    run. Operators that write to an operand, or of which more than the first result is read, keep their own name.
    """
    node, packet = graph.nodes[index], packet_of(graph.nodes[index].op)
    first = graph.first_value[index]
    read = {*graph.outputs, *(value for each in graph.nodes for value in operands(each))}
    if packet.endswith("_") or not node.outputs or read & set(range(first + 1, first + len(node.outputs))):
        return None
    with TORCH_STATE:
        try:
            function, args, kwargs, expected = _run(graph, index, inputs or materialise_all(graph))
        except (RuntimeError, ValueError, TypeError, IndexError):  # eager PyTorch fails on the graph
            return None
        for name, candidate in _candidates(packet):
            for taken in _orders(packet, len(args)):
                if _same(candidate, [args[place] for place in taken], args, kwargs, function, expected):
                    return PublicCall(name, taken)
    return None


def _orders(packet: str, count: int) -> Iterator[tuple[int, ...]]:
    """Yields orders in which a public function may take the arguments, the likeliest first."""
    if packet in _REORDERED:
        yield tuple(place for place in _REORDERED[packet] if place < count)
    for taken in range(count, max(count - _MOST_DROPPED, 0), -1):
        yield tuple(range(taken))


def _run(graph: Graph, index: int, inputs: Sequence[Any]) -> tuple[Any, list[Any], dict[str, Any], torch.Tensor]:
    """Runs the node in eager PyTorch. Returns its callable, its arguments and its result."""
    seen: list[tuple[Any, list[Any], dict[str, Any]]] = []

    def call(at: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if at == index:
            seen.append((function, args, kwargs))
        return function(*args, **kwargs)

    results: list[torch.Tensor] = []

    def note(at: int, found: list[torch.Tensor | None]) -> None:
        if at == index and found[0] is not None:
            results.append(found[0])

    with torch.no_grad():
        Tape(graph).run(input_tensors(graph, inputs), note, call)
    return *seen[0], results[0]


def _candidates(packet: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    names = [
        packet,
        packet.removesuffix("_loss"),
        *(packet.removeprefix(prefix) for prefix in _PREFIXES if packet.startswith(prefix)),
    ]
    for name in dict.fromkeys((*names, *_OTHER_NAMES.get(packet, ()))):
        for namespace in _NAMESPACES:
            holder: Any = torch
            for part in namespace.split(".")[1:]:
                holder = getattr(holder, part)
            found = getattr(holder, name, None)
            if callable(found) and not name.startswith("_"):
                yield f"{namespace}.{name}", found


def _same(
    candidate: Callable[..., Any], args: Sequence[Any], node_args: Sequence[Any], kwargs: Mapping[str, Any],
    function: Any, expected: torch.Tensor,
) -> bool:  # fmt: skip
    """Returns whether the call runs the node's operators and gives the same bits."""
    ran, results = _called(candidate, args, kwargs)
    wanted, _ = _called(function, node_args, kwargs)
    found = results[0] if len(results) == 1 else None
    if found is None or ran not in (wanted, [_STANDS_FOR.get(op, op) for op in wanted]):
        return False
    return found.dtype == expected.dtype and to_numpy(found).tobytes() == to_numpy(expected).tobytes()


def _called(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[torch.Tensor | None]]:
    """Returns the operators that a call runs, without allocations, and its results."""
    calls = _Recorded()
    try:
        with torch.no_grad(), calls:
            flat = flatten_result(function(*args, **kwargs))
    except Exception:  # a candidate that does not take these arguments is not the function
        return [], []
    return [op for op in map(str, calls.ran) if not traits(op).returns_uninitialised], flat


class _Recorded(TorchDispatchMode):
    """Records the overloads that run."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.ran: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran.append(func)
        return func(*args, **(kwargs or {}))
