"""Graphs for the tests of scripts: every dtype, layout and kind of argument and result."""

from __future__ import annotations

import numpy as np

from mindgap.graph import (
    DTYPES,
    Constant,
    Device,
    DType,
    Exceptional,
    Graph,
    Input,
    Integers,
    Layout,
    Literal,
    MemoryFormat,
    Node,
    Normal,
    Permutation,
    Ref,
    TensorSpec,
    Uniform,
    contiguous_stride,
    kind_of,
    numpy_dtype,
)

F32 = "float32"


def spec(*shape: int, dtype: str = F32, stride: tuple[int, ...] | None = None) -> TensorSpec:
    return TensorSpec(dtype, shape, contiguous_stride(shape) if stride is None else stride)


def normal(*shape: int, dtype: str = F32, seed: int = 1, stride: tuple[int, ...] | None = None) -> Input:
    return Input(spec(*shape, dtype=dtype, stride=stride), Normal(seed))


def node(op: str, *args: object, outputs: object = None, **kwargs: object) -> Node:
    made = outputs if isinstance(outputs, tuple) else (outputs or spec(2, 3),)
    return Node(f"aten.{op}", args, tuple(sorted(kwargs.items())), made)  # type: ignore[arg-type]


def of_recipe(dtype: str, recipe: object, *shape: int, stride: tuple[int, ...] | None = None) -> Graph:
    """One input, cloned."""
    given = Input(spec(*shape, dtype=dtype, stride=stride), recipe)  # type: ignore[arg-type]
    return Graph((given,), (node("clone.default", Ref(0), outputs=given.spec),), (1,))


def recipes() -> dict[str, Graph]:
    """Every recipe by every dtype that it fits, small enough for a list and too large for one."""
    found: dict[str, Graph] = {}
    for dtype in DTYPES:
        kind = kind_of(dtype)
        if kind in ("float", "complex"):
            made: dict[str, object] = {
                "uniform": Uniform(3, -0.7, 1.3), "normal": Normal(4, 0.1, 2.5), "exceptional": Exceptional(5, 0.3),
                "positive": Uniform(6, 0.25, 4.0), "integers": Integers(7, -9, 12), "constant": Constant(-0.0),
            }  # fmt: skip
            if kind == "float" and "float8" not in dtype:
                made["wide"] = Normal(8, 1e30, 1e38)
        else:
            top = 2 if kind == "bool" else 100
            made = {"integers": Integers(7, 0, top), "constant": Constant(1)}
            if kind == "int":
                largest = int(np.iinfo(numpy_dtype(dtype)).max)
                made["whole"] = Integers(9, int(np.iinfo(numpy_dtype(dtype)).min), largest + 1)
                made["largest"] = Constant(largest)
                made["permutation"] = Permutation(2)
        for name, recipe in made.items():
            found[f"{dtype} {name} small"] = of_recipe(dtype, recipe, 3, 4)
            large = (3, 111) if name == "permutation" else (7, 61)
            found[f"{dtype} {name} large"] = of_recipe(dtype, recipe, *large)
    return found


def literals() -> dict[str, Graph]:
    """The very bytes, NaN payloads among them, small, listed and packed."""
    found: dict[str, Graph] = {}
    for dtype in DTYPES:
        for count in (5, 300, 5000):
            width = numpy_dtype(dtype).itemsize
            data = np.random.default_rng(count).integers(0, 256, count * width, np.uint8)
            if dtype == "bool":
                data &= 1
            found[f"{dtype} literal {count}"] = of_recipe(dtype, Literal(data.tobytes()), count)
    return found


def layouts() -> dict[str, Graph]:
    """Strides: permuted, with gaps, expanded, overlapping; no dimension, no element."""
    return {
        "scalar": of_recipe(F32, Normal(1)),
        "no element": of_recipe(F32, Normal(1), 0, 3),
        "no element, own strides": of_recipe(F32, Normal(1), 2, 0, 3, stride=(1, 5, 2)),
        "transposed": of_recipe(F32, Normal(1), 4, 3, stride=(1, 4)),
        "transposed, large": of_recipe(F32, Normal(1), 40, 30, stride=(1, 40)),
        "channels last": of_recipe("float16", Uniform(1), 2, 3, 4, 5, stride=(60, 1, 15, 3)),
        "gaps": of_recipe("bool", Integers(1, 0, 2), 4, 3, stride=(10, 3)),
        "expanded": of_recipe("bfloat16", Normal(1), 4, 3, stride=(0, 1)),
        "expanded, large": of_recipe("float8_e5m2", Normal(1), 40, 300, stride=(0, 1)),
        "expanded permutation": of_recipe("int32", Permutation(1), 4, 300, stride=(0, 1)),
        "one element, expanded": of_recipe(F32, Normal(1), 1, stride=(0,)),
        "overlapping": of_recipe(F32, Normal(1), 5, 4, stride=(1, 1)),
        "overlapping, large": of_recipe("complex64", Normal(1), 500, 4, stride=(1, 1)),
        "overlapping with gaps": of_recipe("int64", Integers(1, -9, 1 << 40), 300, 3, stride=(2, 2)),
    }


def calls() -> dict[str, Graph]:
    """Arguments and results of every kind."""
    x, two = normal(2, 3), normal(2, 3, seed=2)
    index = Input(spec(2, dtype="int64"), Integers(3, 0, 2))
    running = Input(spec(3), Uniform(4, 0.5, 1.0), "buffer")
    weight = Input(spec(3), Normal(5), "parameter")
    flat = spec(6)
    return {
        "scalars": Graph((x, two), (node("add.Tensor", Ref(0), Ref(1), alpha=0.3),), (2,)),
        "not finite": Graph((x,), (node("clamp.default", Ref(0), float("-inf"), float("inf")),
                                   node("nan_to_num.default", Ref(1), float("nan"), 3, -2.5)), (1, 2)),
        "dtype": Graph((x,), (node("to.dtype", Ref(0), DType("int32"), outputs=spec(2, 3, dtype="int32")),
                              node("sum.dim_IntList", Ref(0), (1,), False, dtype=DType("float64"),
                                   outputs=spec(2, dtype="float64"))), (1, 2)),
        "factories": Graph((), (node("full.default", (2, 3), 0.1, dtype=DType("bfloat16"), layout=Layout("strided"),
                                     device=Device(), pin_memory=False, outputs=spec(2, 3, dtype="bfloat16")),
                                node("arange.start_step", 1.0, 2.0, 0.25, outputs=spec(4))), (0, 1)),
        "memory format": Graph((normal(2, 3, 4, 5),), (
            node("clone.default", Ref(0), memory_format=MemoryFormat("channels_last"),
                 outputs=spec(2, 3, 4, 5, stride=(60, 1, 15, 3))),), (1,)),
        "none and a string": Graph((x, two), (
            node("div.Tensor_mode", Ref(0), Ref(1), rounding_mode="floor"),
            node("clamp.default", Ref(0), None, 0.5),
            node("native_layer_norm.default", Ref(0), (3,), None, None, 1e-5,
                 outputs=(spec(2, 3), spec(2, 1), spec(2, 1))),
        ), (2, 3, 4, 6)),
        "members": Graph((x,), (
            node("max.dim", Ref(0), 1, outputs=(spec(2), spec(2, dtype="int64"))),
            node("split.Tensor", Ref(0), 1, outputs=(spec(1, 3), spec(1, 3))),
            node("split.Tensor", Ref(0), 2, outputs=(spec(2, 3),)),
        ), (1, 2, 4, 3, 5)),
        "lists": Graph((x, two, index), (
            node("cat.default", (Ref(0), Ref(1), Ref(0)), 0, outputs=spec(6, 3)),
            node("index.Tensor", Ref(0), (None, Ref(2)), outputs=spec(2, 2)),
            node("stack.default", (Ref(0),), outputs=spec(1, 2, 3)),
        ), (3, 4, 5)),
        "masked gradients": Graph((x, normal(2, 1, seed=3), Input(spec(2, 1), Uniform(4, 0.5, 1.0))), (
            node("native_layer_norm_backward.default", Ref(0), Ref(0), (3,), Ref(1), Ref(2), None, None,
                 (True, False, False), outputs=(spec(2, 3), None, None)),), (3,)),
        "in place": Graph((x, two), (
            node("view.default", Ref(0), (6,), outputs=flat),
            node("mul_.Scalar", Ref(2), 2.5, outputs=flat),
            node("add.Tensor", Ref(0), Ref(1)),
        ), (0, 3, 4)),
        "in place after a cast": Graph((normal(2, 3, dtype="float16"),), (
            node("to.dtype", Ref(0), DType(F32)),
            node("add_.Scalar", Ref(1), 1.5),
            node("add.Tensor", Ref(0), Ref(0), outputs=spec(2, 3, dtype="float16")),
        ), (2, 3)),
        "written buffer": Graph((x, running, weight), (
            node("native_batch_norm.default", Ref(0), Ref(2), None, Ref(1), Ref(1), True, 0.1, 1e-5,
                 outputs=(spec(2, 3), spec(3), spec(3))),
            node("mul.Tensor", Ref(3), Ref(2)),
        ), (3, 6)),
        "weights": Graph((x, weight, Input(spec(3, dtype="int64"), Integers(1, 0, 3), "constant")), (
            node("mul.Tensor", Ref(0), Ref(1)), node("index_select.default", Ref(3), 1, Ref(2))), (4,)),
        "complex": Graph((normal(4, dtype="complex64"), normal(4, dtype="complex128")), (
            node("mul.Tensor", Ref(0), Ref(1), outputs=spec(4, dtype="complex128")),
            node("mul.Scalar", Ref(0), complex(0.5, -1.5), outputs=spec(4, dtype="complex64")),
            node("fft_fft.default", Ref(0), outputs=spec(4, dtype="complex64")),
            node("_conj.default", Ref(3), outputs=spec(4, dtype="complex64")),
            node("abs.default", Ref(0), outputs=spec(4)),
        ), (2, 4, 5, 6)),
        "bits": Graph((x,), (node("view.dtype", Ref(0), DType("int32"), outputs=spec(2, 3, dtype="int32")),
                             node("nextafter.default", Ref(0), Ref(0))), (1, 2)),
        "same twice, and an input": Graph((x,), (node("neg.default", Ref(0)),), (1, 1, 0)),
        "long": Graph((normal(2, 3),), tuple(node("mul.Tensor", Ref(i), Ref(0)) for i in range(40)), (40,)),
    }  # fmt: skip


def gradients() -> Graph:
    """A parameter and an input that gradients are wanted of."""
    given = (normal(2, 3), Input(spec(3), Normal(5), "parameter"))
    return Graph(given, (node("mul.Tensor", Ref(0), Ref(1)), node("tanh.default", Ref(2))), (3,), (0, 1))
