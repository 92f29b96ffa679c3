"""Edits are exact, and survive JSON."""

import json
import math

import pytest

from mindgap.graph import (
    Constant,
    Device,
    DType,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Layout,
    Literal,
    MemoryFormat,
    Node,
    Normal,
    Permutation,
    Ref,
    Stored,
    TensorSpec,
    Uniform,
)
from mindgap_campaign.synth.mutation.edit import DraftCall, InputEdit, Rewrite, apply, from_json, recipe_json, to_json

SPEC = TensorSpec.contiguous("float32", (2, 3))


def graph() -> Graph:
    """relu(x) + max(x): three nodes, one with two slots."""
    return Graph(
        (Input(SPEC, Normal(1)),),
        (
            Node("aten.relu.default", (Ref(0),), (), (SPEC,)),
            Node("aten.max.dim", (Ref(0), 1, True), (), (TensorSpec.contiguous("float32", (2, 1)), None)),
            Node("aten.add.Tensor", (Ref(1), Ref(2)), (), (SPEC,)),
        ),
        (4,),
    )


def test_a_node_is_replaced_by_two_and_later_references_follow() -> None:
    steps = (DraftCall("aten.sigmoid.default", (Ref(0),)), DraftCall("aten.mul.Tensor", (Ref(0), Ref(-1))))
    edited = apply(graph(), [Rewrite(0, steps, (Ref(-2),))])
    assert [node.op for node in edited.nodes] == [
        "aten.sigmoid.default", "aten.mul.Tensor", "aten.max.dim", "aten.add.Tensor",
    ]  # fmt: skip
    assert edited.nodes[1].args == (Ref(0), Ref(1))
    assert edited.nodes[3].args == (Ref(2), Ref(3))
    assert edited.outputs == (5,)


def test_no_steps_delete_a_node() -> None:
    edited = apply(graph(), [Rewrite(0, (), (Ref(0),))])
    assert [node.op for node in edited.nodes] == ["aten.max.dim", "aten.add.Tensor"]
    assert edited.nodes[1].args == (Ref(0), Ref(1))


def test_a_value_that_is_still_read_cannot_go() -> None:
    with pytest.raises(GraphError, match="still needed"):
        apply(graph(), [Rewrite(0, (), (None,))])


def test_new_slots_can_be_shown() -> None:
    steps = (DraftCall("aten.relu.default", (Ref(0),)), DraftCall("aten.neg.default", (Ref(-1),)))
    edited = apply(graph(), [Rewrite(0, steps, (Ref(-1),), new_outputs=(1,))])
    assert edited.outputs == (5, 2)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Rewrite(7, (), ()), "no node 7"),
        (Rewrite(0, (), ()), "1 slots, 0 are replaced"),
        (Rewrite(0, (DraftCall("aten.relu.default", (Ref(3),)),), (Ref(-1),)), "reads value 3"),
        (Rewrite(0, (DraftCall("aten.relu.default", (Ref(-1),)),), (Ref(-1),)), "reads value -1"),
        (Rewrite(0, (), (Ref(2),)), "give value 2"),
        (InputEdit(2, SPEC, Constant(0)), "no input 2"),
    ],
)
def test_what_is_not_there_is_named(edit: Rewrite | InputEdit, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        apply(graph(), [edit])


@pytest.mark.parametrize(
    "recipe",
    [
        Uniform(3, -1.0, 2.0), Normal(4, 0.5, 2.0), Integers(5, 0, 9), Permutation(6), Exceptional(7, 0.5),
        Constant(True), Constant(3), Constant(3.0), Constant(1 - 2j), Constant(math.inf), Literal(b"\x00\xff"),
    ],
)  # fmt: skip
def test_an_input_edit_survives_json(recipe: Uniform) -> None:
    edit = InputEdit(0, TensorSpec("float32", (2, 3), (1, 2)), recipe)
    again = from_json(json.loads(json.dumps(to_json(edit))))
    assert again == edit
    assert isinstance(again, InputEdit)
    assert type(getattr(again.recipe, "value", None)) is type(getattr(recipe, "value", None))


def test_a_rewrite_survives_json() -> None:
    step = DraftCall(
        "aten.x.y",
        (Ref(0), (Ref(-1), 1, 1.0, True, None), 1.5, math.inf, 2 + 1j, "text"),
        (("a", DType("float32")), ("b", MemoryFormat("channels_last")), ("c", Layout("strided")), ("d", Device())),
        3,
    )
    edit = Rewrite(4, (step,), (Ref(-1), None, Ref(0)), (2,))
    again = from_json(json.loads(json.dumps(to_json(edit))))
    assert repr(again) == repr(edit)


def test_stored_tensors_stay_out_of_edits() -> None:
    with pytest.raises(GraphError, match="stored tensor"):
        recipe_json(Stored("00" * 16))


@pytest.mark.parametrize("data", [None, [], ["given", 1], ["rewrite", 0, [["a"]], [], []], {"a": 1}, 7])
def test_anything_else_is_no_edit(data: object) -> None:
    with pytest.raises(GraphError, match="no edit"):
        from_json(data)
