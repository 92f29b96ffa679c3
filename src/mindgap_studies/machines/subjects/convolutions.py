"""Single convolutions: multiplications, kernel, filters and channels (Figure 4), and distributions (section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from mindgap.graph import Array, Graph, Input, Node, Ref, Stored, TensorSpec, TensorStore, Uniform
from mindgap.graph.graph import Role
from mindgap_studies.machines.models.distribution import inputs, weights
from mindgap_studies.machines.subjects.runnable import Runnable, runnable

ORDERS: Final = range(3, 9)
#: (kernel, filters, channels): the kernel and the filters vary at 3 channels as in Figure 4; then the channels.
SHAPES: Final = (
    *((k, f, 3) for f in (1, 3, 8, 32) for k in (2, 3, 5)),
    *((3, 8, c) for c in (1, 8, 32)),
)  # fmt: skip
#: Inputs of more elements (of 10⁸ multiplications with few filters) are left out: 16 MiB each.
_MOST: Final = 1 << 22


def ablation() -> Iterator[Runnable]:
    """Yields one convolution per shape and order of magnitude; weights and inputs uniform in [0, 1)."""
    for order in ORDERS:
        for kernel, filters, channels in SHAPES:
            side = round(math.sqrt(10**order / (kernel * kernel * filters * channels)))
            size = side + kernel - 1
            if not side or channels * size * size > _MOST:
                continue
            first = TensorSpec.contiguous("float32", (1, channels, size, size))
            second = TensorSpec.contiguous("float32", (filters, channels, kernel, kernel))
            graph = convolution(Input(first, Uniform(order)), Input(second, Uniform(100 + order), "parameter"), 1)
            facts = {
                "multiplications": side * side * kernel * kernel * filters * channels,
                "order": order, "kernel": kernel, "filters": filters, "channels": channels, "size": size,
            }  # fmt: skip
            name = f"convolution/k{kernel}-f{filters}-c{channels}/1e{order}"
            yield runnable(name, "convolutions", graph, facts, groups=("levels",))


def distributions(store: TensorStore) -> Iterator[Runnable]:
    """Yields the paper's twelve combinations of weights and inputs for one convolution of the trained ResNet-18."""
    for weights_name, weight in weights().items():
        for inputs_name, image in inputs().items():
            graph = convolution(_stored(store, image, "input"), _stored(store, weight, "parameter"), 1, padding=1)
            facts = {"weights": weights_name, "inputs": inputs_name}
            name = f"distributions/{weights_name}/{inputs_name}"
            yield runnable(name, "distributions", graph, facts)


def convolution(image: Input, weight: Input, stride: int, padding: int = 0) -> Graph:
    (n, _, *size), (filters, _, *kernel) = image.spec.shape, weight.spec.shape
    result = [(s + 2 * padding - k) // stride + 1 for s, k in zip(size, kernel, strict=True)]
    spec = TensorSpec.contiguous(image.spec.dtype, (n, filters, *result))
    args = (Ref(0), Ref(1), None, (stride,) * 2, (padding,) * 2, (1, 1), 1)
    return Graph((image, weight), (Node("aten.conv2d.default", args, (), (spec,)),), (2,))


def _stored(store: TensorStore, array: Array, role: Role) -> Input:
    return Input(TensorSpec.contiguous("float32", array.shape), Stored(store.put(array)), role)
