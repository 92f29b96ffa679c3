"""`numpy/eager`: a few ATen operators with numpy. The whole of a platform that mindgap does not know of."""

import platform

import numpy as np

from mindgap.graph import Ref, numpy_dtype
from mindgap.platforms.protocol import Availability, PlatformError, Unsupported

OPERATORS = {
    "aten.add.Tensor": lambda a, b: a + b,
    "aten.sub.Tensor": lambda a, b: a - b,
    "aten.mul.Tensor": lambda a, b: a * b,
    "aten.mm.default": lambda a, b: a @ b,
    "aten.matmul.default": lambda a, b: a @ b,
    "aten.linear.default": lambda x, w, b=None: x @ w.T if b is None else x @ w.T + b,
    "aten.relu.default": lambda a: np.maximum(a, 0),
    "aten.t.default": lambda a: a.T,
}


class Backend:
    options = {"order": "C|F: memory order of the operands"}

    def probe(self):
        return Availability(True, hardware=platform.machine(), versions={"numpy": np.__version__})

    def environment(self, options):
        if options.get("order", "C") not in ("C", "F"):
            raise PlatformError(f"option order={options['order']}: not C or F")
        return {"MINDGAP_NUMPY_ORDER": options.get("order", "C")}

    def open(self, options):
        return Platform(options.get("order", "C"))


class Platform:
    def __init__(self, order):
        self.order = order

    def describe(self):
        return {"numpy": np.__version__, "order": self.order}

    def load(self, graph, inputs):
        for node in graph.nodes:
            if node.op not in OPERATORS or node.kwargs:
                raise Unsupported(node.op, "not among the operators of this platform")
        for spec in graph.values:
            if spec.dtype not in ("float32", "float64"):
                raise Unsupported("input", f"no {spec.dtype} here")
        return Executable(graph, self.order)


class Executable:
    def __init__(self, graph, order):
        self.graph = graph
        self.order = order

    def __call__(self, inputs):
        return [np.ascontiguousarray(self.run(inputs)[i]) for i in self.graph.outputs]

    def trace(self, inputs, numbers=None):
        first = len(self.graph.inputs)
        found = list(enumerate(self.run(inputs)))[first:]
        return [value if numbers is None or number in numbers else None for number, value in found]

    def run(self, inputs):
        values = [np.asarray(a, order=self.order) for a in inputs]
        for node in self.graph.nodes:
            (spec,) = node.outputs
            args = [values[a.index] if isinstance(a, Ref) else a for a in node.args]
            values.append(np.asarray(OPERATORS[node.op](*args), numpy_dtype(spec.dtype)))
        return values


BACKEND = Backend()
