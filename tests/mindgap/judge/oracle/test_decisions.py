"""Discrete results: exact where nothing rounds upstream, calm at ties and near ties, findings elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from judge.oracle.applied import applied
from judge.oracle.bench import build, normal
from mindgap.graph import Decision, DType, Labels
from mindgap.judge.oracle import MANY, Oracle, decision_slots, local_expectation
from mindgap.judge.oracle.decisions import implausible
from mindgap.judge.oracle.evaluation.unordered import at_chosen

TIED = torch.tensor([[3.0, 1.0, 3.0, 2.0], [0.0, 5.0, 4.0, 5.0]])


def positions(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


def test_exact_ties_leave_any_choice_among_the_tied() -> None:
    one = applied("aten.argmax.default", TIED, -1)
    assert one.kind(torch.tensor([2, 3])) is None and one.kind(torch.tensor([0, 1])) is None
    assert one.kind(torch.tensor([1, 1])) == "discrepant"
    assert one.kind(torch.tensor([4, 1])) == "discrepant"
    assert one.kind(torch.tensor([-1, 1])) == "discrepant"


def test_max_with_indices() -> None:
    one = applied("aten.max.dim", TIED, 1)
    assert one.kind(torch.tensor([2, 3]), 1) is None and one.kind(torch.tensor([3, 3]), 1) == "discrepant"
    assert one.kind(torch.tensor([3.0, 4.0]), 0) == "discrepant"


def test_topk_and_sort_choose_each_position_once() -> None:
    one = applied("aten.topk.default", TIED, 2)
    assert one.kind(positions([2, 0], [3, 1]), 1) is None
    assert one.kind(positions([0, 0], [3, 1]), 1) == "discrepant"
    sort = applied("aten.sort.default", TIED)
    assert sort.kind(positions([1, 3, 2, 0], [0, 2, 3, 1]), 1) is None
    assert sort.kind(positions([1, 3, 2, 2], [0, 2, 3, 1]), 1) == "discrepant"


def unsorted(x: torch.Tensor, k: int, largest: bool = True) -> Any:
    return applied("aten.topk.default", x, k, -1, largest, False)


@pytest.mark.parametrize("largest", [True, False])
def test_an_unsorted_topk_may_give_its_elements_in_any_order(largest: bool) -> None:
    x = torch.tensor([[4.0, 1.0, 3.0, 2.0], [0.0, 5.0, 4.0, 7.0]]) * (1 if largest else -1)
    one = unsorted(x, 3, largest)
    assert one.kind(positions([3, 0, 2], [2, 3, 1]), 1) is None, "the right ones, in another order"
    assert one.kind(x.gather(1, positions([3, 0, 2], [2, 3, 1])), 0) is None
    assert one.kind(positions([3, 0, 1], [2, 3, 1]), 1) == "discrepant", "one of the others"
    assert one.kind(positions([3, 0, 0], [2, 3, 1]), 1) == "discrepant", "one twice"
    assert one.kind(x.gather(1, positions([3, 0, 1], [2, 3, 1])), 0) == "discrepant"


def test_values_follow_the_indices_that_a_platform_chose() -> None:
    torch.manual_seed(1)
    x = torch.randn(40, 12)
    calls = [("k", "aten.topk.default", "i0", 5, -1, True, False), ("y", "aten.mul.Scalar", "k", 2.0)]
    graph = build([x.numpy()], calls, ["k", "k.1", "y"])
    values, indices = torch.topk(x, 5)
    order = torch.rand(values.shape).argsort(-1)
    chosen = indices.gather(-1, order)
    number = graph.outputs[1]
    oracle = Oracle(graph, [x.numpy()], decisions={number: chosen})
    assert torch.equal(oracle.step.wide(graph.outputs[0]), values.gather(-1, order).double())
    assert torch.equal(oracle.step.wide(graph.outputs[2]), 2 * values.gather(-1, order).double())
    free = Oracle(graph, [x.numpy()])
    assert (free.expectation(graph.outputs[2]).sigma > 0).any(), "nobody knows the order"


def test_an_index_that_rounding_chose_takes_the_place_of_one_that_it_did_not_choose() -> None:
    node = build([np.zeros((1, 6), "float32")], [("k", "aten.topk.default", "i0", 3, -1, True, False)], ["k"]).nodes[0]
    own = [torch.tensor([[9.0, 8.0, 7.0]]), torch.tensor([[4, 1, 5]])]
    assert at_chosen(node, own, torch.tensor([[5, 2, 4]]))[0].tolist() == [[7.0, 8.0, 9.0]]


def test_a_stable_sort_keeps_the_order_of_the_tied() -> None:
    stable = applied("aten.sort.stable", TIED, stable=True)
    right, swapped = positions([1, 3, 0, 2], [0, 2, 1, 3]), positions([1, 3, 2, 0], [0, 2, 1, 3])
    assert stable.kind(right, 1) is None and stable.kind(swapped, 1) == "discrepant"


@pytest.mark.parametrize("batch", [(1, 1), (1,)])
@pytest.mark.parametrize(
    ("op", "plane", "size"),
    [
        ("max_pool2d_with_indices", (2, 2), [2, 2]),
        ("adaptive_max_pool2d", (2, 2), [1, 1]),
        ("max_pool3d_with_indices", (2, 2, 1), [2, 2, 1]),
        ("adaptive_max_pool1d", (4,), [1]),
    ],
)
def test_pooling_indices_may_name_any_of_the_tied(
    op: str, plane: tuple[int, ...], size: list[int], batch: tuple[int, ...]
) -> None:
    image = torch.tensor([1.0, 2.0, 2.0, 0.0]).reshape(*batch, *plane)
    one = applied(f"aten.{op}.default", image, size)
    for place, kind in ((1, None), (2, None), (0, "discrepant"), (7, "discrepant")):
        assert one.kind(torch.full((*batch, *[1] * len(plane)), place), 1) == kind


def rounded_input() -> tuple[Any, torch.Tensor]:
    """Values that an upstream operator rounds: i0·0.1, some of which are compared with their own result."""
    x = normal(400)
    return x, (torch.from_numpy(x) * 0.1)


@pytest.mark.parametrize("op", ["gt", "ge", "lt", "le", "eq", "ne"])
def test_comparisons_near_equality_may_go_either_way(op: str) -> None:
    x, product = rounded_input()
    # Half of the values sit within the rounding error of what they are compared with.
    other = product.clone()
    other[::2] *= 1 + 2**-23
    other[1::2] += 0.01
    graph = build([x, other.numpy()], [("a", "aten.mul.Tensor", "i0", 0.1), ("b", f"aten.{op}.Tensor", "a", "i1")],
                  ["b"])  # fmt: skip
    oracle = Oracle(graph, [x, other.numpy()])
    right = oracle.step.values[graph.outputs[0]]
    flipped = right.clone()
    flipped[::2] = ~flipped[::2]
    assert oracle.examine([flipped.numpy()], MANY)[0].kind == "calm"
    wrong = right.clone()
    wrong[1] = ~wrong[1]
    assert oracle.examine([wrong.numpy()], MANY)[0].kind == "discrepant"


def test_comparisons_of_inputs_are_exact() -> None:
    a, b = torch.tensor([1.0, 1.0]), torch.tensor([1.0, float(np.nextafter(np.float32(1), np.float32(2)))])
    one = applied("aten.gt.Tensor", b, a)
    assert one.kind(torch.tensor([False, True])) is None
    assert one.kind(torch.tensor([False, False])) == "discrepant"
    graph = build([b.numpy(), a.numpy()], [("a", "aten.gt.Tensor", "i0", "i1")], ["a"])
    oracle = Oracle(graph, [b.numpy(), a.numpy()])
    assert oracle.examine([np.array([False, False])], MANY)[0].kind == "discrepant"


@pytest.mark.parametrize("op", ["round", "floor", "ceil", "trunc"])
def test_steps_may_go_either_way_where_rounding_reaches_the_step(op: str) -> None:
    """Every fourth product is a half or a whole number, up to its rounding."""
    x = ((torch.arange(-40.0, 40.0) + torch.tensor([0.0, 0.3, 0.3, 0.3]).repeat(20)) / 2 / 0.7).numpy()
    graph = build([x], [("a", "aten.mul.Tensor", "i0", 0.7), ("c", "aten.mul.Tensor", "a", 1.0),
                        ("b", f"aten.{op}.default", "c")], ["b"])  # fmt: skip
    oracle = Oracle(graph, [x])
    value = torch.from_numpy(x) * 0.7
    for nudge in (1 - 2**-22, 1 + 2**-22):
        other = getattr(torch, op)(value * nudge)
        assert oracle.examine([other.numpy()], MANY)[0].kind == "calm", nudge
    wrong = getattr(torch, op)(value)
    wrong[11] += 2
    assert oracle.examine([wrong.numpy()], MANY)[0].kind == "discrepant"


@pytest.mark.parametrize(("calls", "exact"), [
    ([("a", "aten.mul.Tensor", "i0", 0.25)], True), ([("a", "aten.div.Tensor", "i0", 4.0)], True),
    ([("a", "aten.sub.Tensor", "i0", "i0"), ("c", "aten.add.Tensor", "a", 2.5)], True),
    ([("a", "aten.mul.Tensor", "i0", 0.1)], False), ([("a", "aten.div.Tensor", "i0", 10.0)], False),
    ([("a", "aten.add.Tensor", "i0", 2**-24), ("c", "aten.mul.Tensor", "a", 0.25)], False),
])  # fmt: skip
def test_a_tie_has_one_answer_where_nothing_rounded_before_it(calls: list[Any], exact: bool) -> None:
    """A product with a power of two and a sum that float32 holds are exact (IEEE 754, §4.3)."""
    x = (torch.arange(1.0, 40.0, 2) * (2 if calls[0][-1] in (0.25, 4.0, 2**-24) else 5)).numpy()
    graph = build([x], [*calls, ("b", "aten.round.default", calls[-1][0])], ["b"])
    oracle = Oracle(graph, [x])
    value = oracle.graph.producer[graph.outputs[0]] + len(graph.inputs) - 1
    right = oracle.step.wide(value)
    away = (right.sign() * (right.abs() + 0.5).floor()).to(torch.float32)
    kinds = [oracle.examine([y.numpy()], MANY)[0].kind for y in (right.round().to(torch.float32), away)]
    assert kinds == ["calm", "discrepant" if exact else "calm"]


@pytest.mark.parametrize("op", ["aten.mm.default", "aten.linear.default"])
@pytest.mark.parametrize(("largest", "exact"), [(127, True), (1 << 20, False)])
def test_small_sums_of_whole_numbers_are_exact(op: str, largest: int, exact: bool) -> None:
    """A float32 accumulator holds whole numbers up to 2^24."""
    numbers = np.random.default_rng(0)
    arrays = [numbers.integers(-largest, largest, (8, 8)).astype(np.float32) for _ in range(2)]
    graph = build(arrays, [("a", op, "i0", "i1"), ("b", "aten.to.dtype", "a", DType("int64"))], ["b"])
    oracle = Oracle(graph, arrays)
    off = oracle.step.values[graph.outputs[0]].clone()
    off[2, 3] += 1
    assert oracle.examine([off.numpy()], MANY)[0].kind == ("discrepant" if exact else "calm")


def test_casts_to_integers() -> None:
    x = ((torch.arange(40.0) * 4 + 1) / 0.7).numpy()
    graph = build([x], [("a", "aten.mul.Tensor", "i0", 0.7), ("b", "aten.to.dtype", "a", DType("int32"))], ["b"])
    oracle = Oracle(graph, [x])
    below = (torch.from_numpy(x) * 0.7).to(torch.int32)
    assert oracle.examine([below.numpy()])[0].kind == "calm"
    for near in (13, 12):
        below[3] = near
        assert oracle.examine([below.numpy()], MANY)[0].kind == "calm", "13 - ulp is truncated to 12"
    below[3] = 11
    assert oracle.examine([below.numpy()], MANY)[0].kind == "discrepant"


@pytest.mark.parametrize("op", ["aten.view.dtype", "aten.hash_tensor.default"])
def test_what_looks_at_bits_is_held_to_them_on_equal_operands_only(op: str) -> None:
    arguments = (DType("int32"),) if op == "aten.view.dtype" else ()
    arrays = [normal(3, 5)]
    for calls, expected in [
        ([("y", op, "i0", *arguments)], "discrepant"),
        ([("a", "aten.exp.default", "i0"), ("y", op, "a", *arguments)], "calm"),
    ]:
        graph = build(arrays, calls, ["y"])
        oracle = Oracle(graph, arrays)
        exact = oracle.step.values[graph.outputs[0]].numpy()
        assert oracle.examine([exact], MANY)[0].kind == "calm"
        assert oracle.examine([np.asarray(exact + 12345, exact.dtype)], MANY)[0].kind == expected


def test_decisions_of_others_are_followed_downstream() -> None:
    x = normal(16, 8)
    calls = [("k", "aten.argmax.default", "i0", -1), ("g", "aten.index_select.default", "i1", 0, "k")]
    table = normal(8, 4, seed=1)
    graph = build([x, table], calls, ["g"])
    chosen = torch.arange(16) % 8
    oracle = Oracle(graph, [x, table], decisions={2: chosen})
    assert oracle.examine([table[chosen.numpy()]])[0].kind == "calm"
    assert Oracle(graph, [x, table]).examine([table[chosen.numpy()]])[0].kind == "discrepant"


def test_a_decision_that_is_imposed_is_not_what_its_operator_gives() -> None:
    """The operator by itself is held to its own result, whatever a platform or the captured graph decided."""
    x = normal(16)
    graph = build([x], [("c", "aten.gt.Scalar", "i0", 0.0), ("y", "aten.masked_fill.Scalar", "i0", "c", 2.0)], ["y"])
    right = x > 0
    imposed = right.copy()
    imposed[3] = not imposed[3]
    expected = local_expectation(Oracle(graph, [x], decisions={1: torch.from_numpy(imposed)}), 0)
    assert expected.examine(0, right).kind == "calm" and expected.examine(0, imposed).kind == "discrepant"


def test_which_results_are_decisions() -> None:
    x = normal(4, 8)
    calls = [("e", "aten.exp.default", "i0"), ("c", "aten.gt.Scalar", "e", 1.0), ("k", "aten.topk.default", "e", 2),
             ("r", "aten.round.default", "e"), ("s", "aten.size.int", "e", 0)][:4]  # fmt: skip
    graph = build([x], calls, ["r"])
    assert decision_slots(graph) == {2: 1, 4: 2, 5: 3}


def decided(op: str, *more: Any, shown: str = "c") -> Oracle:
    """`op` on i0·i1, which carries rounding noise, near the steps of whole numbers."""
    arrays = [normal(512, seed=1, scale=4.0), normal(512, seed=2), np.zeros(512, np.int32)]
    calls = [("m", "aten.mul.Tensor", "i0", "i1"), ("c", op, *more)]
    return Oracle(build(arrays, calls, [shown]), arrays)


@pytest.mark.parametrize(
    "call",
    [("aten.type_as.default", "m", "i2"), ("aten.copy.default", "i2", "m")],
    ids=lambda call: call[0],
)
def test_every_cast_to_integers_is_held_to_what_rounding_explains(call: tuple[Any, ...]) -> None:
    """A platform that is off by three has not rounded, whichever operator casts."""
    oracle = decided(*call)
    right = oracle.step.values[oracle.graph.outputs[0]]
    assert right.dtype == torch.int32
    (seen,) = oracle.examine([right.numpy()], MANY)
    assert seen.kind == "calm"
    (seen,) = oracle.examine([(right + 3).numpy()], MANY)
    assert seen.kind == "discrepant"


def test_a_scalar_of_any_comparison_may_be_rounded_to_a_narrow_operand() -> None:
    x = torch.tensor([0.1, 0.2], dtype=torch.bfloat16)
    for op in ("aten.ne.Scalar", "aten.not_equal.Scalar"):
        one = applied(op, x, 0.1)
        assert one.kind(torch.tensor([False, True])) is None and one.kind(torch.tensor([True, True])) is None
        assert one.kind(torch.tensor([True, False])) == "discrepant"


def test_rounding_to_decimals_may_fall_on_either_side_of_a_step() -> None:
    arrays = [normal(4096, seed=1), normal(4096, seed=2)]
    graph = build(arrays, [("m", "aten.mul.Tensor", "i0", "i1"), ("r", "aten.round.default", "m")], ["r"])
    last = replace(graph.nodes[-1], op="aten.round.decimals", kwargs=(("decimals", 2),))
    graph = replace(graph, nodes=(graph.nodes[0], last))
    oracle = Oracle(graph, arrays)
    number, noise = graph.outputs[0], torch.full((4096,), 1e-6)
    product = oracle.step.wide(number - 1)
    stepped = torch.round(product + 8 * noise, decimals=2)
    assert not torch.equal(stepped, torch.round(product, decimals=2))
    mask = implausible(graph, number, stepped.float().double(), lambda n: (oracle.step.wide(n), noise))
    assert mask is not None and not bool(mask.any())
    mask = implausible(graph, number, stepped + 0.5, lambda n: (oracle.step.wide(n), noise))
    assert mask is not None and bool(mask.all())


def test_whole_numbers_that_a_narrow_dtype_does_not_hold_are_rounded_where_they_land() -> None:
    x = torch.ones(4, dtype=torch.bfloat16)
    one = applied("aten.where.ScalarOther", torch.tensor([True, False, True, False]), x, 1000001)
    assert one.kinds() == [None]


def decided_by_mask(*calls: tuple[Any, ...], close: Sequence[int] = (5,)) -> Oracle:
    """Calls on the mask `c`: whether i0·0.1 is larger than i1, which lies within rounding of it in `close` only, and
    below it in every other element."""
    x = np.linspace(1, 2, 1000).astype(np.float32)
    other = x * np.float32(0.1) + np.where(np.arange(1000) % 2, 0.5, -0.5).astype(np.float32)
    other[list(close)] = x[list(close)] * np.float32(0.1)
    made = [("m", "aten.mul.Tensor", "i0", 0.1), ("c", "aten.gt.Tensor", "m", "i1"), *calls]
    return Oracle(build([x, other], made, [made[-1][0]]), [x, other])


def test_a_count_may_be_off_by_what_rounding_can_flip() -> None:
    oracle = decided_by_mask(("n", "aten.sum.default", "c"), close=(4, 6))
    (number,) = oracle.graph.outputs
    assert oracle.unsettled(number)
    calm = [n for n in (0, *range(495, 503)) if oracle.examine([np.asarray(n)])[0].kind == "calm"]
    assert calm == [498, 499, 500]


@pytest.mark.parametrize("negated", [False, True])
def test_what_other_elements_settle_does_not_hang_on_one_that_may_flip(negated: bool) -> None:
    """Half of the mask holds by far."""
    calls = (
        [("o", "aten.logical_not.default", "c"), ("n", "aten.all.default", "o")]
        if negated
        else [("n", "aten.any.default", "c")]
    )
    oracle = decided_by_mask(*calls)
    (number,) = oracle.graph.outputs
    assert not oracle.unsettled(number)
    assert oracle.examine([(~oracle.step.values[number]).numpy()])[0].kind == "discrepant"


@pytest.mark.parametrize("op", ["aten.isnan.default", "aten.isinf.default"])
def test_rounding_makes_no_nan_of_a_number(op: str) -> None:
    x = normal(16)
    calls = [("m", "aten.mul.Tensor", "i0", 0.1), ("c", op, "m"), ("n", "aten.any.default", "c")]
    oracle = Oracle(build([x], calls, ["n"]), [x])
    assert not oracle.unsettled(oracle.graph.outputs[0])
    assert oracle.examine([np.asarray(True)])[0].kind == "discrepant"


def test_a_truth_value_of_unstable_counts_is_calm_and_says_nothing_of_what_is_before_it() -> None:
    oracle = decided_by_mask(("n", "aten.sum.default", "c"), ("e", "aten.eq.Scalar", "n", 3))
    (found,) = oracle.examine([np.asarray(True)])
    assert found.kind == "calm" and found.ill


@pytest.mark.parametrize(
    ("op", "more"), [("aten.argmax.default", (-1,)), ("aten.topk.default", (1,)), ("aten.topk.default", (2,))]
)
@pytest.mark.parametrize(("other", "unsettled"), [(np.nextafter(np.float32(3), np.float32(4)), True), (2.9, False)])
def test_a_chosen_position_may_be_that_of_any_element_within_reach(
    op: str, more: tuple[int, ...], other: float, unsettled: bool
) -> None:
    x = np.linspace(0, 1, 10_000).reshape(2, 5000).astype(np.float32)
    x[:, [5, 4021]] = 3.0, 2.8
    x[1, 4021] = other
    out = "k.1" if len(more) and op.startswith("aten.topk") else "k"
    graph = build([x], [("m", "aten.mul.Tensor", "i0", 0.1), ("k", op, "m", *more)], [out])
    oracle = Oracle(replace(graph, labels=Labels(decisions=(Decision(0, "token", "", "", ""),))), [x])
    assert oracle.unsettled(graph.outputs[0]) == unsettled
