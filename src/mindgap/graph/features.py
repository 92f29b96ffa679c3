"""Lists the coverage features of a graph: operator, dtype, layout and size classes, and operator pairs along edges."""

from __future__ import annotations

from mindgap.graph import Graph, TensorSpec, contiguous_stride, operands

#: A dimension longer than this no longer fits 16 bits, where some kernels change or break.
LONG = 65_536


def features_of(graph: Graph, kinds: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the sorted features.

    `op|dtype|layout|size` of each node, `op>op` of each edge, `kind:word` of each mutation.
    """
    features = {f"kind:{kind}" for kind in kinds}
    for node in graph.nodes:
        read = operands(node)
        leading = graph.values[read[0]] if read else next((spec for spec in node.outputs if spec is not None), None)
        features.add(f"{node.op}|{'none' if leading is None else _class(leading)}")
        for value in read:
            maker = graph.producer[value]
            if maker >= 0:
                features.add(f"{graph.nodes[maker].op}>{node.op}")
    return tuple(sorted(features))


def _class(spec: TensorSpec) -> str:
    return f"{spec.dtype}|{layout_class(spec)}|{size_class(spec)}"


def layout_class(spec: TensorSpec) -> str:
    """Returns the layout class.

    `contiguous`, `channels_last`, `expanded` (a dimension of stride 0), `permuted` (dense) or `strided`.
    """
    if spec.stride == contiguous_stride(spec.shape) or spec.numel <= 1:
        return "contiguous"
    if spec.stride == channels_last_stride(spec.shape):
        return "channels_last"
    steps = sorted((step, size) for step, size in zip(spec.stride, spec.shape, strict=True) if size > 1)
    if steps and steps[0][0] == 0:
        return "expanded"
    reach = 1
    for step, size in steps:
        if step != reach:
            return "strided"
        reach *= size
    return "permuted"


def size_class(spec: TensorSpec) -> str:
    """Returns the size class.

    `empty`, `scalar` (no dimension), `one`, `long` (a dimension past 65,536), `odd` (a last dimension that vectors of 8
    do not divide) or `even`.
    """
    if spec.numel == 0:
        return "empty"
    if not spec.shape:
        return "scalar"
    if spec.numel == 1:
        return "one"
    if max(spec.shape) > LONG:
        return "long"
    return "odd" if spec.shape[-1] % 8 else "even"


def channels_last_stride(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the strides of `torch.channels_last` (4 dimensions) and `channels_last_3d` (5); None for other shapes."""
    if len(shape) not in (4, 5):
        return None
    batch, channels, *sizes = shape
    inner: list[int] = []
    step = max(channels, 1)
    for size in reversed(sizes):
        inner.append(step)
        step *= max(size, 1)
    del batch
    return (step, 1, *reversed(inner))
