"""Small graphs that several tests start from."""

from __future__ import annotations

from mindgap.graph import Graph, Input, Labels, Node, Normal, Ref, TensorSpec, Uniform

F4 = TensorSpec.contiguous("float32", (4,))


def call(op: str, *args: object, outputs: int = 1, spec: TensorSpec = F4) -> Node:
    """A node of the aten namespace; ints among `args` that are wrapped in Ref are its operands."""
    return Node(f"aten.{op}", args, (), (spec,) * outputs)  # type: ignore[arg-type]


def chain() -> Graph:
    """relu(x) + w, and its product with itself."""
    return Graph(
        inputs=(Input(F4, Normal(0)), Input(F4, Uniform(1), "parameter")),
        nodes=(
            call("relu.default", Ref(0)),
            call("add.Tensor", Ref(2), Ref(1)),
            call("mul.Tensor", Ref(3), Ref(3)),
        ),
        outputs=(4,),
        labels=Labels(("x", "w"), ("first", "second", "third"), ("y",)),
    )
