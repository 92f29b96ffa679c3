"""The functional form has no writes, the same inputs and outputs, and the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from aten.differing_outputs import differing_outputs
from mindgap.aten.counterpart import counterpart
from mindgap.aten.functional import functionalize
from mindgap.aten.operators import is_inplace
from mindgap.aten.tape import Tape
from mindgap.graph import Constant, Graph, GraphError, Input, Node, Ref, TensorSpec
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture

X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5


def slices(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 0] = 1
    y[1:3, ::2] += 2
    y.t()[3].mul_(3)
    return y, y.sum()


def turned(x: torch.Tensor) -> Any:
    y = torch.zeros(4, 8)
    v = y.view(2, 2, 8).transpose(0, 1)
    v[0].copy_(x[:2])
    y.diagonal().fill_(5.0)
    w = v.permute(2, 0, 1)
    w.relu_()
    y.swapaxes(0, 1).movedim(0, 1).sub_(1)
    return y, v, w


def parts(x: torch.Tensor) -> Any:
    x.mul_(2)
    a, b = x.chunk(2, 1)
    a.add_(b)
    x.split([1, 3])[1].zero_()
    x.unbind(0)[0].exp_()
    x.narrow(1, -3, 2).neg_()
    x.tensor_split(3, 1)[2].add_(1)
    return a, b


MASK = torch.tensor([True, False, True, True])


def masked(x: torch.Tensor) -> Any:
    y = x.clone()
    z = y[MASK]
    y.mul_(2)
    z.add_(1)
    return y, z, y[MASK]


def indexed(x: torch.Tensor) -> Any:
    y = x.clone()
    y.index_put_((torch.tensor([0, 2]),), torch.tensor(7.0))
    y.masked_fill_(y < 0, 0)
    y.scatter_(1, torch.zeros(4, 1, dtype=torch.long), 9.0)
    y.index_add_(0, torch.tensor([1, 1]), x[:2])
    y[y > 5] = -1
    y.clamp_(max=3).unsqueeze_(0).squeeze_(0).t_().add_(1)
    return y


def written_out(x: torch.Tensor) -> Any:
    out = torch.zeros(64)
    torch.add(x, 1, out=out[:32].view(4, 8))
    torch.mm(x, x.t(), out=out[32:48].view(4, 4))
    return out


def complex_parts(x: torch.Tensor) -> Any:
    z = torch.view_as_complex(x.clone().view(4, 4, 2))
    z.mul_(1j)
    z.real.add_(1)
    z.imag[0] = 3
    torch.view_as_real(z)[..., 0].sub_(2)
    return z


def strided(x: torch.Tensor) -> Any:
    y = x.clone()
    y.as_strided((2, 2), (8, 1), 3).fill_(1)
    y.unfold(1, 2, 2).mul_(2)
    y.view(torch.int32)[0] = 0
    return y


def mixed_dtypes(x: torch.Tensor) -> Any:
    half, count, flag = x.half(), torch.arange(4), x > 0
    half.add_(x)
    half[0].copy_(x[1].double())
    count.add_(1).mul_(flag.sum(1))
    count <<= 2
    count ^= 1
    flag.logical_not_()
    flag |= x > 2
    return half, count, flag


def special_values(x: torch.Tensor) -> Any:
    y = x * 0
    y[0].fill_(float("nan"))
    y[1].fill_(-0.0)
    y[2] /= 0.0
    y.neg_()
    return y


def maybe_views(x: torch.Tensor) -> Any:
    y = x.contiguous()  # shares memory
    z = x.t().contiguous()  # copies
    w = x.to(torch.float32).reshape(-1)  # shares
    v = torch.dropout(x, 0.5, False)  # shares
    y.add_(1)
    z.add_(10)
    w[3:5].mul_(2)
    v.sub_(3)
    return y, z, w


def otherwise_named(x: torch.Tensor) -> Any:
    """Their functional overloads have other names, or the same name and another order of arguments."""
    y = x.abs() + 1
    y.pow_(-0.5).pow_(x.abs())
    y.floor_divide_(torch.full((), 0.25)).add_(x)
    y.ldexp_(torch.tensor(2)).transpose_(0, 1).mul_(2)
    z = torch.polygamma(1, y.abs() + 1).polygamma_(1)
    w = x.double()
    w.float_power_(2).float_power_(x.abs().double())
    return y, z, w


def statistics(x: torch.Tensor) -> Any:
    return nn.functional.batch_norm(x, STATS[0], STATS[1], training=True)


STATS = (torch.zeros(8), torch.ones(8))
PROGRAMS = [slices, turned, parts, indexed, masked, written_out, complex_parts, strided, mixed_dtypes, special_values,
            maybe_views, otherwise_named, statistics]  # fmt: skip


def inputs_of(graph: Graph, store: TensorStore) -> list[torch.Tensor]:
    from mindgap.aten.tensors import to_torch
    from mindgap.graph.materialisation import materialise_all

    return [to_torch(a, i.spec) for a, i in zip(materialise_all(graph, store), graph.inputs, strict=True)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bits_are_the_same(program: Any, tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    graph = capture(program, (X,), tensors=store)
    assert any(is_inplace(n.op) for n in graph.nodes)
    inputs = inputs_of(graph, store)
    found = functionalize(graph)
    assert differing_outputs(graph, found.graph, inputs) == []
    assert not any(is_inplace(n.op) for n in found.graph.nodes)
    assert found.graph.inputs == graph.inputs and len(found.graph.outputs) == len(graph.outputs)
    before = [t.clone() for t in inputs]
    expected, actual = Tape(graph).run(inputs), Tape(found.graph).run(inputs)
    for one, other in zip(expected, actual, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(torch.nan_to_num(one.float(), 123.0), torch.nan_to_num(other.float(), 123.0))
        assert torch.equal(torch.signbit(one.real.float()), torch.signbit(other.real.float())) or one.is_complex()
    assert all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_node_knows_where_it_comes_from(program: Any, tmp_path: Path) -> None:
    graph = capture(program, (X,), tensors=TensorStore(tmp_path))
    found = functionalize(graph)
    assert len(found.origin) == len(found.graph.nodes) and list(found.origin) == sorted(found.origin)
    assert found.graph.labels.nodes == tuple(graph.labels.nodes[i] for i in found.origin)


def test_a_graph_without_writes_is_returned_itself(tmp_path: Path) -> None:
    graph = capture(lambda x: x.view(-1).sin(), (X,), tensors=TensorStore(tmp_path))
    found = functionalize(graph)
    assert found.graph is graph and found.origin == (0, 1)


def test_a_changed_bit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = capture(turned, (X,), tensors=TensorStore(tmp_path))
    inputs = inputs_of(graph, TensorStore(tmp_path))
    from mindgap.aten import counterpart

    wrong = dict(counterpart._SPECIAL)
    wrong["aten.fill_.Scalar"] = lambda b, args, _: b.emit("aten.zeros_like.default", args[0])
    monkeypatch.setattr(counterpart, "_SPECIAL", wrong)
    counterpart.counterpart.cache_clear()
    try:
        assert 0 in differing_outputs(graph, functionalize(graph).graph, inputs)
    finally:
        counterpart.counterpart.cache_clear()


def test_a_write_without_functional_form_is_refused() -> None:
    spec = TensorSpec.contiguous("float32", (4,))
    node = Node("aten.resize_.default", (Ref(0), (8,)), (), (TensorSpec.contiguous("float32", (8,)),))
    graph = Graph((Input(spec, Constant(1.0)),), (node,), (1,))
    with pytest.raises(GraphError, match="resize_"):
        functionalize(graph)


def test_a_call_that_returns_no_tensor_is_in_nobodys_way() -> None:
    """`equal` gives a Python bool, which a fake tensor cannot know."""
    spec = TensorSpec.contiguous("float32", (4,))
    nodes = (
        Node("aten.equal.default", (Ref(0), Ref(0)), (), (None,)),
        Node("aten.exp_.default", (Ref(0),), (), (spec,)),
    )
    graph = Graph((Input(spec, Constant(1.0)),), nodes, (2,))
    assert [node.op for node in functionalize(graph).graph.nodes] == ["aten.exp.default"]


VIEWS = {
    "slice": lambda t: t[1:] if t.shape[0] > 1 else t, "turn": lambda t: t.transpose(0, -1),
    "flat": lambda t: t.reshape(-1),
    "first": lambda t: t[0] if t.dim() > 1 else t, "every": lambda t: t[::2], "one": lambda t: t.unsqueeze(0),
    "diagonal": lambda t: t.diagonal() if t.dim() > 1 else t, "halves": lambda t: t.chunk(2)[0],
}  # fmt: skip
WRITES = {
    "add": lambda t: t.add_(1.5), "mul": lambda t: t.mul_(-2), "fill": lambda t: t.fill_(3),
    "zero": lambda t: t.zero_(),
    "copy": lambda t: t.copy_(t.cos()), "relu": lambda t: t.relu_(), "sin": lambda t: t.sin_(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:verify=False")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(sorted(VIEWS)), st.sampled_from([*sorted(WRITES), ""])),
                min_size=1, max_size=7))  # fmt: skip
def test_any_mixture_of_views_and_writes(steps: list[tuple[int, str, str]]) -> None:
    def program(x: torch.Tensor) -> Any:
        known = [x, x * 2]
        for which, view, write in steps:
            taken = VIEWS[view](known[which % len(known)])
            if write and taken.numel():
                WRITES[write](taken)
            known.append(taken)
        return tuple(known)

    x = torch.arange(16.0).reshape(4, 4) / 4 - 2
    graph = capture(program, (x,), weights="seeded", verify=False)
    found = functionalize(graph)
    assert differing_outputs(graph, found.graph, [x]) == []
    expected, actual = program(x.clone()), Tape(found.graph).run([x])
    assert all(torch.equal(a, b) for a, b in zip(expected, actual, strict=False))


def test_operators_whose_functional_twin_says_so_in_its_name() -> None:
    for op in ("aten._batch_norm_with_update.default", "aten.rrelu_with_noise.default"):
        name, _, variant = op.rpartition(".")
        assert counterpart(op).op == f"{name}_functional.{variant}"
