"""Small graphs, built by hand, that the tests of the PyTorch platforms run."""

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Arg, DType, Graph, Input, Node, Normal, Ref, TensorSpec
from mindgap.platforms.registry import find

spec = TensorSpec.contiguous


def node(op: str, *args: Arg, out: TensorSpec | tuple[TensorSpec, ...], **kwargs: Arg) -> Node:
    return Node(op, args, tuple(sorted(kwargs.items())), out if isinstance(out, tuple) else (out,))


def unary(op: str, dtype: str, shape: tuple[int, ...] = (3, 4), *rest: Arg, out: str | None = None) -> Graph:
    """One operator on one input."""
    return Graph(
        (Input(spec(dtype, shape), Normal(0)),), (node(op, Ref(0), *rest, out=spec(out or dtype, shape)),), (1,)
    )


def conv_net(grad: tuple[int, ...] = ()) -> Graph:
    """conv2d -> relu_ -> view -> split -> softmax: an in-place call, a view, two results, two parameters."""
    image = spec("float32", (2, 4, 6, 6))
    inputs = (
        Input(spec("float32", (2, 3, 8, 8)), Normal(0)),
        Input(spec("float32", (4, 3, 3, 3)), Normal(1), "parameter"),
        Input(spec("float32", (4,)), Normal(2), "parameter"),
    )
    half = spec("float32", (2, 72))
    nodes = (
        node("aten.conv2d.default", Ref(0), Ref(1), Ref(2), out=image),
        node("aten.relu_.default", Ref(3), out=image),
        node("aten.view.default", Ref(4), (2, 144), out=spec("float32", (2, 144))),
        node("aten.split.Tensor", Ref(5), 72, 1, out=(half, half)),
        node("aten.softmax.int", Ref(7), -1, out=half),
    )
    return Graph(inputs, nodes, (6, 8, 5), grad)


def counter() -> Graph:
    """A buffer that the graph adds to, given out with what was computed from it."""
    buffer = spec("float32", (3, 4))
    nodes = (
        node("aten.mul.Tensor", Ref(0), 2.0, out=buffer),
        node("aten.add_.Tensor", Ref(0), 1.5, out=buffer),
        node("aten.mul.Tensor", Ref(2), Ref(1), out=buffer),
    )
    return Graph((Input(buffer, Normal(0), "buffer"),), nodes, (0, 3))


def cast_chain() -> Graph:
    """float32 -> float16 -> float32: the rounding in the middle disappears in float64."""
    wide, half = spec("float32", (64,)), spec("float16", (64,))
    nodes = (
        node("aten._to_copy.default", Ref(0), dtype=DType("float16"), out=half),
        node("aten._to_copy.default", Ref(1), dtype=DType("float32"), out=wide),
        node("aten.exp.default", Ref(2), out=wide),
    )
    return Graph((Input(wide, Normal(0)),), nodes, (3, 1))


def arrays(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Standard normal values for every input."""
    draw = np.random.Generator(np.random.Philox(seed))
    return [np.asarray(draw.standard_normal(i.spec.shape)).astype(_numpy(i.spec)) for i in graph.inputs]


def _numpy(of: TensorSpec) -> np.dtype:
    from mindgap.graph import numpy_dtype

    return numpy_dtype(of.dtype)


def opened(name: str):
    """The platform of that name, opened in this process."""
    backend, options = find(name)
    return backend.open(options)


def run(name: str, graph: Graph, inputs: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """The outputs of `graph` on a platform."""
    inputs = arrays(graph) if inputs is None else inputs
    return opened(name).load(graph, inputs)(inputs)


def plain_conv_net(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """`conv_net` as a user writes it."""
    image, weight, bias = (to_torch(a) for a in inputs)
    with torch.no_grad():
        flat = torch.relu(torch.conv2d(image, weight, bias)).view(2, 144)
        return [flat[:, :72].numpy(), torch.softmax(flat[:, 72:], -1).numpy(), flat.numpy()]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Equal in dtype, shape and bytes."""
    return [(a.dtype, a.shape, a.tobytes()) for a in one] == [
        (b.dtype, b.shape, np.ascontiguousarray(b).tobytes()) for b in other
    ]
