"""What test_devices.py runs in a process of its own: a platform's variables act at import, and only once.

Arguments: the platform, and the cases to run if not all. Prints one JSON line: what it says of itself, and
case -> what came of it.
"""

import json
import sys

import numpy as np

from mindgap.graph import Arg, Graph, Input, Normal, Ref
from mindgap.platforms.protocol import Traceable
from mindgap.platforms.registry import find
from platforms.torch_graphs import arrays, cast_chain, conv_net, counter, node, run, same, spec, unary


def product() -> Graph:
    """A matrix product, what it adds up to, and its largest elements."""
    left, right = spec("float32", (33, 65)), spec("float32", (65, 17))
    nodes = (
        node("aten.mm.default", Ref(0), Ref(1), out=spec("float32", (33, 17))),
        node("aten.sum.dim_IntList", Ref(2), (1,), out=spec("float32", (33,))),
        node("aten.amax.default", Ref(2), (0,), out=spec("float32", (17,))),
    )
    return Graph((Input(left, Normal(0)), Input(right, Normal(1), "parameter")), nodes, (2, 3, 4))


def around(op: str, *rest: Arg) -> Graph:
    """An operator whose operand is an output too."""
    x = spec("float32", (3, 4))
    nodes = (node("aten.tanh.default", Ref(0), out=x), node(op, Ref(1), *rest, out=x))
    return Graph((Input(x, Normal(0)),), nodes, (1, 2))


CASES = {
    "conv_net": conv_net(),
    "gradients": conv_net(grad=(0, 1, 2)),
    "counter": counter(),
    "casts": cast_chain(),
    "product": product(),
    "bfloat16": unary("aten.sigmoid.default", "bfloat16", (9, 8)),
    "int64": unary("aten.cumsum.default", "int64", (9, 8), 0),
    "erf": around("aten.erf.default"),
    "flip": around("aten.flip.default", (0,)),
}


def agree(one: list[np.ndarray], other: list[np.ndarray]) -> str:
    """`same`, `close` to half a per cent of the largest element (TF32 keeps 10 bits), or `different`."""
    if same(one, other):
        return "same"
    for a, b in zip(one, other, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return "different"
        wide, reference = a.astype(np.float64), b.astype(np.float64)
        if not np.abs(wide - reference).max() <= 5e-3 * max(np.abs(reference).max(), 1.0):
            return "different"
    return "close"


def message_of(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def main() -> None:
    backend, options = find(sys.argv[1])
    try:
        platform = backend.open(options)
    except Exception as error:
        print(json.dumps({"open": message_of(error)}))
        return
    found = {"open": platform.describe()}
    plain = find("cpu/eager")[0].open({})
    for name in sys.argv[2:] or CASES:
        graph = {**CASES, "logit": around("aten.logit.default")}[name]
        inputs = arrays(graph)
        reference = plain.load(graph, inputs)
        try:
            executable = platform.load(graph, inputs)
            first, second = executable(inputs), executable(inputs)
            found[name] = agree(first, run("cpu/eager", graph, inputs)) if same(first, second) else "not twice the same"
        except Exception as error:
            found[name] = message_of(error)
        if graph.grad or not isinstance(executable, Traceable):
            continue
        try:
            values = [v for v in executable.trace(inputs) if v is not None]
            found[f"{name} traced"] = agree(values, [v for v in reference.trace(inputs) if v is not None])
        except Exception as error:
            found[f"{name} traced"] = message_of(error)
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
