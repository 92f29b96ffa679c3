"""Rule tables: what comes with mindgap is sound, and what is not says where and why."""

import shutil
from pathlib import Path

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import Arg, Graph, Input, MindgapError, Node, Normal, Ref, TensorSpec
from mindgap_campaign.synth.mutation.rules import OperatorGroup, load, read
from mindgap_campaign.synth.mutation.rules.alike import exchange
from mindgap_campaign.synth.mutation.rules.language import parse_expression, parse_line, parse_pattern
from mindgap_campaign.synth.mutation.rules.tables import FOLDER
from mindgap_campaign.synth.mutation.schemas import bind, call, signature
from mindgap_campaign.synth.mutation.spec_inference import infer_specs

GROUPS = list({group.name: group for groups in load().alike.values() for group in groups}.values())


def test_tables_are_read_once():
    assert load() is load()


GROUP = '[[group]]\nname = "a"\nkinds = ["float"]\n'
RULE = '[[rule]]\nname = "a"\n'
TWICE = "\nsamples = [{ x = [1] }, { x = [2] }]"
ELU = '[[attribute]]\noperators = ["aten.elu.default"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in FOLDER.glob("*.toml"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "row", "words"),
    [
        ("alike", GROUP + 'members = ["aten.nosuch.default"]', "no operator 'aten.nosuch.default'"),
        ("alike", GROUP + 'members = ["aten.exp.default", "aten.max.dim"]', "different numbers of tensors"),
        ("alike", GROUP + 'members = [{ op = "aten.elu.default", beta = 1 }]', "no argument 'beta'"),
        ("alike", GROUP + 'members = [{ op = "aten.elu.default", alpha = "x" }]', "'x' is no number"),
        ("alike", GROUP + "member = []", "unknown key 'member'"),
        (
            "equivalent",
            RULE + 'from = "aten.relu.default(x, y)"\nto = ["aten.exp.default(x)"]' + TWICE,
            "takes 1 arguments",
        ),
        ("equivalent", RULE + 'from = "aten.relu.default(x)"\nto = ["aten.exp.default(y)"]' + TWICE, "'y' in"),
        ("equivalent", RULE + 'from = "aten.relu.default(x)"\nto = ["aten.add.Tensor(x)"]' + TWICE, "not given other"),
        (
            "equivalent",
            RULE + 'from = "aten.relu.default(x)"\nto = ["aten.exp.default(x)"]\nsamples = [{ x = [1] }]',
            "two samples",
        ),
        (
            "equivalent",
            RULE + 'from = "aten.max.dim(x, d)"\nto = ["aten.exp.default(x)"]' + TWICE,
            "returns 2 tensors, 1 are given",
        ),
        ("attributes", ELU + 'argument = "beta"\nchoices = [1]', "no argument 'beta'"),
        ("attributes", ELU + 'argument = "alpha"\ndraw = "sideways"', "no draw is called 'sideways'"),
        ("attributes", ELU + 'argument = "alpha"', "either 'choices' or 'draw'"),
        ("identities", '[[identity]]\nname = "a"\nto = ["aten.clone.default(y)"]', "'y' in"),
    ],
)
def test_a_bad_row_is_named(folder: Path, file: str, row: str, words: str):
    path = folder / f"{file}.toml"
    path.write_text(path.read_text() + "\n" + row + "\n")
    count = path.read_text().count("\n[[")
    with pytest.raises(MindgapError) as error:
        read(folder)
    assert words in str(error.value)
    assert f"{file}.toml" in str(error.value)
    assert str(count) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ("[[other]]\na = 1", r"should hold [[group]]")],
)
def test_a_table_that_is_none_is_named(folder: Path, text: str, words: str):
    (folder / "alike.toml").write_text(text)
    with pytest.raises(MindgapError) as error:
        read(folder)
    assert words in str(error.value)


def test_a_row_is_all_that_a_new_formulation_needs(folder: Path):
    path = folder / "equivalent.toml"
    row = '[[rule]]\nname = "new"\nfrom = "aten.frac.default(x)"\n'
    row += 'to = ["t = aten.trunc.default(x)", "aten.sub.Tensor(x, t)"]'
    path.write_text(path.read_text() + "\n" + row + "\nsamples = [{ x = [2] }, { x = [3] }]\n")
    assert [rule.name for rule in read(folder).equivalent["aten.frac.default"]] == ["new"]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "x.shape",
        "(lambda: 1)()",
        "[y for y in x]",
        "shape(x)(0)",
        "f'{x}'",
        "x if",
        "open('a')",
        "1 < 2 < 3",
    ],
)
def test_only_the_language_is_understood(text: str):
    with pytest.raises(MindgapError, match=r"^here: "):
        parse_expression(text, {"x"}, "here")


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "a = b = aten.exp.default(x)",
        "exp(x)",
        "aten.exp(x)",
        "x",
        "x[0] = aten.exp.default(x)",
        "aten.exp.default(**x)",
        "x = aten.exp.default(x)",
        "a.b.c(x); b",
    ],
)
def test_a_line_is_one_call(text: str):
    with pytest.raises(MindgapError, match=r"^here: "):
        parse_line(text, {"x"}, "here")


def test_a_pattern_names_a_variable_once():
    with pytest.raises(MindgapError, match="twice"):
        parse_pattern("aten.add.Tensor(x, x)", "here")


def test_expressions_compute():
    spec = TensorSpec.contiguous("float32", (2, 3, 4))
    for text, wanted in [
        ("size(x, -1) // 2 + 1", 3),
        ("shape(x)[:-1] + [7]", (2, 3, 7)),
        ("rank(x) == 3 and numel(x) > 23", True),
        ("not (d in [1, 2])", False),
        ("without(shape(x), 1)", (2, 4)),
        ("holding(shape(x), -1, 9)", (2, 3, 9)),
        ("swapped(rank(x), 0, -1)", (2, 1, 0)),
        ("sqrt(size(x, 2)) if d == 1 else 0", 2.0),
        ("dtype(x) == dtype('float32')", True),
        ("range(1, rank(x))", (1, 2)),
    ]:
        assert parse_expression(text, {"x", "d"}, "here")({"x": Ref(0), "d": 1}, lambda _: spec) == wanted


#: Shapes of the tensors of an operator whose arguments do not all take [2, 6]; numbers of its other arguments.
SAMPLES: dict[str, tuple[list[object], dict[str, Arg]]] = {
    "pooling, 1d": ([[2, 3, 8]], {"kernel_size": (2,)}),
    "pooling, 2d": ([[2, 3, 8, 8]], {"kernel_size": (2, 2)}),
    "pooling, 3d": ([[2, 3, 4, 4, 4]], {"kernel_size": (2, 2, 2)}),
    "adaptive pooling, 2d": ([[2, 3, 8, 8]], {"output_size": (2, 2)}),
    "padding, 1d": ([[2, 3, 8]], {"padding": (1, 1), "pad": (1, 1)}),
    "padding, 2d": ([[2, 3, 8, 8]], {"padding": (1, 1, 1, 1)}),
    "resampling, 2d": ([[2, 3, 4, 4]], {"output_size": (8, 8), "scale_factors": None}),
    "resampling to the nearest, 2d": ([[2, 3, 4, 4]], {"output_size": (8, 8), "scale_factors": None}),
    "resampling in numbers, 2d": ([[2, 3, 4, 4]], {"output_size": (8, 8), "align_corners": False}),
    "stacked": ([[[2, 6], [2, 6]]], {"dim": 1}),
    "scatter of values": ([[2, 6], "int64[2, 6]", [2, 6]], {"dim": 0}),
    "scatter by reduction": ([[2, 6], "int64[2, 6]", [2, 6]], {"dim": 0}),
    "index writes": ([[2, 6], "int64[2]", [2, 6]], {"dim": 0}),
    "inverses and factors": ([[4, 4]], {}),
    "filled from sizes": ([[2, 6]], {"size": (3, 4)}),
    "selection by a mask": ([[2, 6], "bool[2, 6]"], {"value": 0}),
    "polynomials": ([[2, 6], [2, 6]], {}),
    "windows": ([[2, 6]], {"shifts": (1,), "dims": (0,)}),
    "softmax": ([[2, 6]], {"dim": 1, "half_to_float": False}),
    "clamping": ([[2, 6]], {"min": 0, "max": 1}),
    "shifts": ([[2, 6]], {"other": 1}),
    "sums over dimensions": ([[2, 6]], {"dim": (1,)}),
}
NUMBERS: dict[str, Arg] = {
    "dim": 1, "other": 2, "exponent": 2, "n": 2, "p": 2, "grad_output": None, "threshold": 1, "shifts": (1,),
    "dims": (0,),     "value": 1, "size": (2, 6), "ord": 2,
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_member_of_a_group_runs(group: OperatorGroup):
    shapes, numbers = SAMPLES.get(group.name, ([], {}))
    for kind in sorted(group.kinds):
        dtype = {"float": "float32", "int": "int64", "bool": "bool"}[kind]
        for member in group.members:
            assert runs(member.op, dict(member.fill), shapes, numbers, dtype), (member.op, dtype)


def runs(op: str, fill: dict[str, Arg], shapes: list[object], numbers: dict[str, Arg], dtype: str) -> bool:
    given: dict[str, Arg] = {}
    tensors: list[torch.Tensor] = []

    def tensor(shape: object) -> Ref:
        kind = dtype
        if isinstance(shape, str):
            kind, _, sizes = shape.rstrip("]").partition("[")
            shape = [int(size) for size in sizes.split(",")]
        assert isinstance(shape, list)
        if kind == "float32":
            tensors.append(torch.rand(shape) * 0.8 + 0.1)
        else:
            tensors.append(torch.randint(0, 2, shape).to(TORCH_DTYPES[kind]))
        return Ref(len(tensors) - 1)

    at = 0
    for parameter in signature(op).parameters:
        if parameter.tensor and (parameter.required or at < len(shapes)):
            given[parameter.name] = tensor(shapes[at] if at < len(shapes) else [2, 6])
            at += 1
        elif parameter.type.startswith("List[Tensor"):
            listed = shapes[at]
            assert isinstance(listed, list)
            given[parameter.name] = tuple(tensor(shape) for shape in listed)
        elif parameter.name in fill:
            given[parameter.name] = fill[parameter.name]
        elif parameter.name in numbers:
            given[parameter.name] = numbers[parameter.name]
        elif parameter.required:
            value = NUMBERS[parameter.name]
            given[parameter.name] = (value,) if parameter.many and not isinstance(value, tuple) else value
    step = call(op, given)
    inputs = tuple(Input(TensorSpec.contiguous(dtype, tuple(t.shape)), Normal(1)) for t in tensors)
    graph = Graph(inputs, (Node(step.op, step.args, step.kwargs, (None,) * step.slots),), ())
    with torch.no_grad():
        Tape(graph).run(tensors)
    return True


def test_arguments_are_taken_over_by_name_and_type():
    groups = {group.name: group for group in GROUPS}
    spec = TensorSpec.contiguous("float32", (2, 6))
    node = Node("aten.sum.dim_IntList", (Ref(0), (1,), True), (), (spec,))
    member = {m.op: m for m in groups["reductions along one dimension"].members}["aten.prod.dim_int"]
    step = exchange(node, member)
    assert step is not None
    assert bind(step) == {"self": Ref(0), "dim": 1, "keepdim": True}
    both = Node("aten.sum.dim_IntList", (Ref(0), (0, 1)), (), (spec,))
    assert exchange(both, member) is None  # a product runs along one dimension
    number = Node("aten.add.Tensor", (Ref(0), 2), (), (spec,))
    members = {m.op: m for m in groups["arithmetic"].members}
    assert exchange(number, members["aten.maximum.default"]) is None  # it takes no numbers
    assert exchange(number, members["aten.mul.Tensor"]) is not None


def test_shapes_can_be_imagined_without_running():
    spec = TensorSpec.contiguous("float32", (2, 6))
    made = infer_specs([call("aten.sum.dim_IntList", {"self": Ref(0), "dim": (1,)})], lambda _: spec)
    assert made == [TensorSpec.contiguous("float32", (2,))]
    assert infer_specs([call("aten.sum.dim_IntList", {"self": Ref(0), "dim": (5,)})], lambda _: spec) is None
