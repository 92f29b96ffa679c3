"""The tape runs a graph as written: order, aliasing, hooks, and inputs left alone."""

from __future__ import annotations

import threading

import pytest
import torch

from mindgap.aten.dead_nodes import known_at_load, with_constants
from mindgap.aten.operators import facts, is_inplace, overload, overload_name
from mindgap.aten.tape import Tape, clone_strided, flatten_result, written_inputs
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import DTYPES, Constant, Device, DType, Graph, Input, Node, Ref, TensorSpec, UnknownOperator, extract
from mindgap.judge.oracle.evaluation.float64 import neutral_float64

SPEC = TensorSpec.contiguous("float32", (2, 3))
FLAT = TensorSpec.contiguous("float32", (6,))


def graph(*nodes: Node, outputs: tuple[int, ...]) -> Graph:
    return Graph((Input(SPEC, Constant(1.0)),), nodes, outputs)


def test_a_write_through_a_view_reaches_its_base_and_not_the_callers_tensor() -> None:
    g = graph(
        Node("aten.view.default", (Ref(0), (6,)), (), (FLAT,)),
        Node("aten.add_.Tensor", (Ref(1), 2), (), (FLAT,)),
        outputs=(0, 2),
    )
    x = torch.ones(2, 3)
    after, result = Tape(g).run([x])
    assert torch.equal(after, torch.full((2, 3), 3.0)) and torch.equal(result, torch.full((6,), 3.0))
    assert torch.equal(x, torch.ones(2, 3))
    assert written_inputs(g) == (0,)


def test_dropout_in_evaluation_may_return_its_operand() -> None:
    g = graph(
        Node("aten.dropout.default", (Ref(0), 0.5, False), (), (SPEC,)),
        Node("aten.mul_.Tensor", (Ref(1), 2), (), (SPEC,)),
        outputs=(2,),
    )
    x = torch.ones(2, 3)
    Tape(g).run([x])
    assert torch.equal(x, torch.ones(2, 3))


def test_hooks_see_every_node_and_may_replace() -> None:
    g = graph(
        Node("aten.sin.default", (Ref(0),), (), (SPEC,)),
        Node("aten.topk.default", (Ref(1), 1), (), (SPEC, SPEC)),
        outputs=(2,),
    )
    seen: list[tuple[int, int]] = []

    def look(index: int, flat: list[torch.Tensor | None]) -> list[torch.Tensor | None] | None:
        seen.append((index, len(flat)))
        return [torch.zeros(2, 3)] if index == 0 else None

    (result,) = Tape(g).run([torch.ones(2, 3)], on_node=look)
    assert seen == [(0, 1), (1, 2)] and not result.any()
    called: list[int] = []
    Tape(g).run([torch.ones(2, 3)], call=lambda i, f, a, k: (called.append(i), f(*a, **k))[1])
    assert called == [0, 1]


def test_factories_get_the_device_of_the_tape() -> None:
    kwargs = (("device", Device()), ("dtype", DType("float32")))
    node = Node("aten.arange.default", (3,), kwargs, (TensorSpec.contiguous("float32", (3,)),))
    bare = Node("aten.zeros.default", ((3,),), (), (TensorSpec.contiguous("float32", (3,)),))
    ranged, zeros = Tape(graph(node, bare, outputs=(1, 2)), device="meta").run([torch.ones(2, 3)])
    assert ranged.device.type == zeros.device.type == "meta"


def test_unknown_operators_are_named() -> None:
    with pytest.raises(UnknownOperator, match=r"aten\.nothing\.default"):
        Tape(graph(Node("aten.nothing.default", (), (), ()), outputs=(0,)))
    with pytest.raises(UnknownOperator):
        overload("no dots")


def test_what_schemas_say() -> None:
    assert overload_name(overload("aten.add.Tensor")) == "aten.add.Tensor"
    assert is_inplace("aten.add_.Tensor") and not is_inplace("aten.add.Tensor")
    assert facts("aten.view.default").views and facts("aten.dropout.default").views
    assert not facts("aten.add.Tensor").views
    assert facts("aten.add.out").mutates == {"out", 3}
    assert facts("aten.zeros.default").takes_device and not facts("aten.sin.default").takes_device


def test_results_flatten_to_slots() -> None:
    t = torch.ones(1)
    assert flatten_result(t) == [t]
    assert flatten_result((t, [t, t], None)) == [t, t, t, None]
    assert flatten_result(None) == []


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_arrays_and_tensors_are_the_same_bytes(name: str) -> None:
    dtype = getattr(torch, name)
    one = torch.arange(6).remainder(2).to(dtype) if name == "bool" else torch.arange(6).float().to(dtype)
    array = to_numpy(one.reshape(2, 3))
    back = to_torch(array, TensorSpec(name, (2, 3), (1, 2)))
    assert back.dtype == dtype and back.stride() == (1, 2)
    assert to_numpy(back).tobytes() == array.tobytes()


def test_expanded_tensors_keep_their_strides() -> None:
    wide = torch.arange(3.0).expand(4, 3)
    copy = clone_strided(wide)
    assert copy.stride() == (0, 1) and torch.equal(copy, wide) and copy.data_ptr() != wide.data_ptr()
    back = to_torch(to_numpy(wide), TensorSpec("float32", (4, 3), (0, 1)))
    assert back.stride() == (0, 1) and torch.equal(back, wide)
    assert to_numpy(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]


def test_another_thread_that_evaluates_in_float64_changes_no_dtype() -> None:
    """Models of one comparison are judged in threads of one process, whose default dtype all of them share."""
    held, done = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with neutral_float64():
            held.set()
            done.wait(0.5)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    held.wait()
    made = Tape(graph(Node("aten.full.default", ((2, 3), 1.0), (), (SPEC,)), outputs=(1,))).run([torch.ones(2, 3)])
    thread.join()
    assert made[0].dtype == torch.float32


def test_what_is_known_at_load_becomes_a_constant_of_a_part() -> None:
    inputs = (Input(SPEC, Constant(1.0)), Input(SPEC, Constant(2.0), "buffer"))
    whole = Graph(
        inputs,
        (
            Node("aten.neg.default", (Ref(1),), (), (SPEC,)),  # 2: of the buffer alone
            Node("aten.ones.default", ((2, 3),), (), (SPEC,)),  # 3: of nothing, and written to later
            Node("aten.mul.Tensor", (Ref(0), Ref(2)), (), (SPEC,)),  # 4: of the input too
            Node("aten.add.Tensor", (Ref(4), Ref(2)), (), (SPEC,)),
            Node("aten.add_.Tensor", (Ref(3), Ref(5)), (), (SPEC,)),
        ),
        (6,),
    )
    assert known_at_load(whole) == {1, 2}
    part, borders = extract(whole, [3, 4], [6])
    assert borders == [2, 3, 4] and {given.role for given in part.inputs} == {"input"}
    folded = with_constants(part, borders, known_at_load(whole))
    # Value 3 holds something else once the last node has run: no platform may compute with it beforehand.
    assert folded is not None and [given.role for given in folded.inputs] == ["constant", "input", "input"]
    part, borders = extract(whole, [2], [4])
    assert with_constants(part, borders, known_at_load(whole)) is not None
    assert with_constants(part, range(len(part.inputs)), known_at_load(part)) is None
