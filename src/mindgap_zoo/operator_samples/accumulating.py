"""Calls of the operators that PyTorch lists as non-deterministic, and of those that accumulate.

The list is that of `torch.use_deterministic_algorithms` in PyTorch 2.13: operators that act deterministically with that
switch, and those that are refused. Most of the list is about CUDA. Gradients are captured with a backward pass, or
their operators are called themselves. Left out, because a graph has no such tensors: products with sparse matrices
(`bmm`), `resize_` of quantised tensors.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
# (the calls are lambdas over functions of PyTorch, which are typed in parts)

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mindgap.graph import Graph, TensorStore
from mindgap.graph_capture import capture

#: PyTorch's rule for an operator: `switched`: deterministic with the switch; `refused`: an error with the switch;
#: `accumulates`: it is not on the list, and sums or multiplies many elements.
Listed = Literal["switched", "refused", "accumulates"]

_aten: Final[Any] = torch.ops.aten
_N: Final = 1 << 15
#: Lengths of inputs and targets of a CTC loss.
_CTC: Final = [24] * 8, [6] * 8


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """One call. make: returns the arguments, drawn after a fixed seed. data_sized: their data, which are always the
    same, decide the size of the result. gradient: the graph gives the gradients of the arguments."""

    name: str
    listed: Listed
    call: Callable[..., Any]
    make: Callable[[], Sequence[Any]]
    data_sized: bool = False
    gradient: bool = False

    def graph(self, tensors: TensorStore) -> Graph:
        torch.manual_seed(0)
        graph = capture(self.call, self.make(), tensors=tensors, path_taken=self.data_sized, backward=self.gradient)
        if not self.gradient:
            return graph
        labels = dict(zip(graph.outputs, graph.labels.outputs, strict=True))
        gradients = tuple(number for number, label in labels.items() if label.startswith("grad:"))
        named = replace(graph.labels, outputs=tuple(labels[number] for number in gradients))
        return replace(graph, outputs=gradients, labels=named)


def _at(most: int, *shape: int) -> Tensor:
    """Indices, many of them several times."""
    return torch.randint(0, most, shape)


def _x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def _rows() -> Sequence[Any]:
    return _x(64, 16), _at(64, 2048), _x(2048, 16)


def _scattered() -> Sequence[Any]:
    return _x(64, 16), _at(64, 2048, 16), _x(2048, 16)


def _fractional(x: Tensor, dimensions: int) -> Any:
    pool: Any = getattr(functional, f"fractional_max_pool{dimensions}d")
    return pool(x, 2, output_size=5, _random_samples=torch.full((*x.shape[:2], dimensions), 0.25))


def _unpooled(dimensions: int) -> Callable[[Tensor], Any]:
    pool: Any = getattr(functional, f"max_pool{dimensions}d")
    unpool: Any = getattr(functional, f"max_unpool{dimensions}d")

    def call(x: Tensor) -> Any:
        out, indices = pool(x, 2, return_indices=True)
        return unpool(out, indices, 2, output_size=x.shape[-dimensions:])

    return call


def _ctc() -> Sequence[Any]:
    """Arguments of the gradient of a CTC loss of 8 texts, 24 steps, 12 letters."""
    log_probs, targets = _x(24, 8, 12).log_softmax(-1), _at(11, 8, 6) + 1
    return log_probs, targets, *_aten._ctc_loss(log_probs, targets, *_CTC)


def _ctc_backward(log_probs: Tensor, targets: Tensor, loss: Tensor, alpha: Tensor) -> Any:
    return _aten._ctc_loss_backward(torch.ones_like(loss), log_probs, targets, *_CTC, loss, alpha, 0)


def _image() -> Sequence[Any]:
    return (_x(2, 8, 24, 24),)


def _volume() -> Sequence[Any]:
    return (_x(1, 4, 12, 12, 12),)


_SHAPES: Final = {1: (2, 8, 64), 2: (1, 8, 16, 16), 3: (1, 8, 8, 8, 8)}


class _Convolution(nn.Module):
    """A convolution with its weights, [8, 8, 3, …], as deployed models have them: OpenVINO takes no others."""

    def __init__(self, function: Callable[..., Tensor], dimensions: int) -> None:
        super().__init__()
        self._function = function
        self.weight = nn.Parameter(torch.randn(8, 8, *[3] * dimensions, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x, self.weight)


def _convolution(name: str, dimensions: int) -> RepeatedCall:
    function: Any = getattr(functional, f"{name}{dimensions}d")
    call = _Convolution(function, dimensions)
    return RepeatedCall(function.__name__, "switched", call, lambda: (_x(*_SHAPES[dimensions]),))


def _gradient(name: str, listed: Listed, call: Callable[..., Any], make: Callable[[], Sequence[Any]]) -> RepeatedCall:
    return RepeatedCall(f"{name} backward", listed, call, make, gradient=True)


def _padded(kind: str, mode: str, listed: Listed) -> Iterator[RepeatedCall]:
    for n, shape in _SHAPES.items():
        pad = partial(functional.pad, pad=[2] * (2 * n), mode=mode)
        yield _gradient(f"{kind}_pad{n}d", listed, pad, lambda shape=shape: (_x(*shape),))


def _shaped(name: str, listed: Listed, call: Callable[..., Any], *shapes: tuple[int, ...]) -> RepeatedCall:
    return RepeatedCall(name, listed, call, lambda: tuple(_x(*shape) for shape in shapes))


CALLS: Final = (
    *(_convolution(name, n) for name in ("conv", "conv_transpose") for n in (1, 2, 3)),
    *_padded("replication", "replicate", "switched"),
    RepeatedCall("index backward", "switched", lambda x, i, v: torch.zeros_like(x).index_put((i,), v, True), _rows),
    RepeatedCall("index_put", "switched", lambda x, i, v: x.index_put((i,), v), _rows),
    RepeatedCall("index_put accumulate", "switched", lambda x, i, v: x.index_put((i,), v, True), _rows),
    RepeatedCall("put accumulate", "switched", lambda x, i, v: x.put(i, v[:, 0], True), _rows),
    RepeatedCall("put", "refused", lambda x, i, v: x.put(i, v[:, 0]), _rows),
    RepeatedCall("scatter_add (gather backward)", "switched", lambda x, i, v: x.scatter_add(0, i, v), _scattered),
    RepeatedCall("index_add (index_select backward)", "switched", lambda x, i, v: x.index_add(0, i, v), _rows),
    RepeatedCall("index_copy", "switched", lambda x, i, v: x.index_copy(0, i, v), _rows),
    RepeatedCall("scatter", "switched", lambda x, i, v: x.scatter(0, i, v), _scattered),
    RepeatedCall("scatter_reduce sum", "switched", lambda x, i, v: x.scatter_reduce(0, i, v, "sum"), _scattered),
    RepeatedCall("scatter_reduce mean", "switched", lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), _scattered),
    RepeatedCall("scatter_reduce prod", "refused", lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), _scattered),
    RepeatedCall(
        "repeat_interleave backward", "switched", lambda x: _aten.sum.dim_IntList(x.reshape(64, 32, 16), [1]),
        lambda: (_x(2048, 16),),
    ),
    _gradient("max_pool3d", "switched", partial(functional.max_pool3d, kernel_size=3, stride=1, padding=1), _volume),
    _gradient("avg_pool3d", "refused", partial(functional.avg_pool3d, kernel_size=3, stride=1, padding=1), _volume),
    _gradient("adaptive_avg_pool2d", "refused", partial(functional.adaptive_avg_pool2d, output_size=5), _image),
    _gradient("adaptive_avg_pool3d", "refused", partial(functional.adaptive_avg_pool3d, output_size=5), _volume),
    _gradient("adaptive_max_pool2d", "refused", partial(functional.adaptive_max_pool2d, output_size=5), _image),
    _gradient("fractional_max_pool2d", "refused", partial(_fractional, dimensions=2), _image),
    _gradient("fractional_max_pool3d", "refused", partial(_fractional, dimensions=3), _volume),
    *(_shaped(f"max_unpool{n}d", "refused", _unpooled(n), _SHAPES[n]) for n in (1, 2, 3)),
    *(
        _gradient(
            f"interpolate {mode}", "refused", partial(functional.interpolate, scale_factor=2, mode=mode),
            lambda n=n: (_x(*_SHAPES[n]),),
        )
        for mode, n in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
    ),
    *_padded("reflection", "reflect", "refused"),
    RepeatedCall("nll_loss", "refused", functional.nll_loss, lambda: (_x(2048, 16), _at(16, 2048))),
    RepeatedCall("ctc_loss backward", "refused", _ctc_backward, _ctc),
    RepeatedCall(
        "embedding_bag max", "refused",
        lambda i, w: functional.embedding_bag(i, w, mode="max"), lambda: (_at(64, 256, 8), _x(64, 16)),
    ),
    RepeatedCall("histc", "refused", lambda x: torch.histc(x, 64), lambda: (_x(_N),)),
    RepeatedCall(
        "bincount weights", "refused", lambda i, w: torch.bincount(i, w, 64), lambda: (_at(64, _N), _x(_N)),
        data_sized=True,
    ),
    RepeatedCall("median with indices", "refused", lambda x: torch.median(x, 1), lambda: (_at(9, 64, 257).float(),)),
    _gradient(
        "grid_sample", "refused", partial(functional.grid_sample, align_corners=False),
        lambda: (_x(2, 8, 24, 24), _x(2, 24, 24, 2) / 2),
    ),
    RepeatedCall("cumsum", "refused", lambda x: x.cumsum(0), lambda: (_x(_N),)),
    *(
        _shaped(name, "accumulates", call, (_N * 2,))
        for name, call in (
            ("sum", torch.sum), ("mean", torch.mean), ("var", torch.var), ("norm", torch.linalg.vector_norm),
            ("logsumexp", lambda x: x.logsumexp(0)), ("softmax", lambda x: x.softmax(0)),
            ("cumprod", lambda x: (1 + x / _N).cumprod(0)), ("prod", lambda x: (1 + x / _N).prod()),
        )
    ),
    _shaped("dot", "accumulates", torch.dot, (_N,), (_N,)),
    _shaped("mm", "accumulates", torch.mm, (64, 512), (512, 64)),
    _shaped("bmm", "accumulates", torch.bmm, (8, 32, 128), (8, 128, 32)),
    _shaped("linear", "accumulates", functional.linear, (32, 512), (64, 512), (64,)),
    _shaped("scaled_dot_product_attention", "accumulates", functional.scaled_dot_product_attention,
              (1, 4, 64, 32), (1, 4, 64, 32), (1, 4, 64, 32)),
    _shaped("layer_norm", "accumulates", lambda x: functional.layer_norm(x, x.shape[1:]), (64, 512)),
    _shaped("group_norm", "accumulates", lambda x: functional.group_norm(x, 4), (4, 16, 24, 24)),
    _shaped("batch_norm training", "accumulates",
              lambda x: functional.batch_norm(x, None, None, training=True), (4, 16, 24, 24)),
    _shaped("mse_loss", "accumulates", functional.mse_loss, (_N,), (_N,)),
    RepeatedCall("cross_entropy", "accumulates", functional.cross_entropy, lambda: (_x(2048, 16), _at(16, 2048))),
    RepeatedCall(
        "embedding_bag sum", "accumulates",
        lambda i, w: functional.embedding_bag(i, w, mode="sum"), lambda: (_at(64, 256, 8), _x(64, 16)),
    ),
    RepeatedCall(
        "embedding backward", "accumulates",
        lambda g, i: _aten.embedding_dense_backward(g, i, 64, -1, False), lambda: (_x(2048, 16), _at(64, 2048)),
    ),
)  # fmt: skip
