"""Lists the operators that eager PyTorch runs for the composite operators of a graph."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.findings.causes.packets import function_of
from mindgap.graph import Graph

#: Operators that only move or cast values; what is left of a composite is what it computes.
_MOVES: Final = frozenset(
    """
    alias as_strided clone conj conj_physical contiguous copy detach empty empty_like empty_strided expand full
    lift_fresh ones permute reshape resolve_conj scalar_tensor select slice squeeze t to transpose unsafe_view unsqueeze
    view view_as_complex view_as_real zeros
    """.split()  # noqa: SIM905 # a list of so many words would take a line each
)
#: The place of the flag of `convolution` that makes it another one.
_TRANSPOSED: Final = 6


class _Inner(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.functions: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = function_of(str(func))
        transposed = name == "convolution" and len(args) > _TRANSPOSED and bool(args[_TRANSPOSED])
        self.functions.append("transposed convolution" if transposed else name)
        return func(*args, **(kwargs or {}))


def inner_functions(graph: Graph) -> tuple[str, ...]:
    """The functions that eager PyTorch runs for the graph, without those that only move values; sorted.

    `fft_ifftshift` gives `roll`, `linalg_norm` gives `linalg_vector_norm`. The graph runs on tensors without data;
    empty where that fails. Where nothing but moves is run, they are given.
    """
    mode = _Inner()
    try:
        given = [_empty(each.spec.shape, each.spec.stride, each.spec.dtype) for each in graph.inputs]
        with torch.no_grad(), mode:
            Tape(graph, "meta").run(given)
    except Exception:  # an operator may raise anything on tensors without data
        return ()
    computed = sorted(set(mode.functions) - _MOVES)
    return tuple(computed or sorted(set(mode.functions)))


def _empty(shape: tuple[int, ...], stride: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=TORCH_DTYPES[dtype], device="meta")
