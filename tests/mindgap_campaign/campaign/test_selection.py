"""Which cases a platform gets, and when blocks bring nothing new."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st
from small_source import plan_text

from mindgap.graph import Graph, Input, Node, Ref, TensorSpec, Uniform, digest, encode
from mindgap.results.support_answers import SupportTable
from mindgap_campaign.campaign.cases.case import BLOCK, Case
from mindgap_campaign.campaign.plan import parse_plan
from mindgap_campaign.campaign.schedule.block import Saturation
from mindgap_campaign.campaign.schedule.case_runner import CpuBudget
from mindgap_campaign.campaign.schedule.eligibility import Eligibility
from mindgap_campaign.campaign.schedule.selection import BlockSelector, novel_first

PLATFORMS = ["toys:EXACT", "toys:PICKY", "toys:SLOW"]


def case(index: int, features: Sequence[str], nodes: int = 3) -> Case:
    return Case(index, f"v{index}", b"", f"{index:032x}", "{}", tuple(features), nodes)


FEATURES = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), min_size=1, max_size=12)


@settings(deadline=None)
@given(FEATURES, st.sets(st.sampled_from("abcdefgh")), st.integers(0, 12))
def test_the_most_novel_come_first(features: list[list[str]], known: set[str], quota: int) -> None:
    """Against the slow way: at each step, of all that are left, the first that brings most."""
    cases = [case(index, each) for index, each in enumerate(features)]
    left, seen, wanted = list(cases), set(known), list[Case]()
    while left and len(wanted) < quota:
        best = max(left, key=lambda each: (len(set(each.features) - seen), -each.index))
        left.remove(best)
        wanted.append(best)
        seen |= set(best.features)
    assert novel_first(cases, known, quota) == wanted


def test_what_costs_less_for_what_it_brings_comes_first() -> None:
    cases = [case(0, "abcd", nodes=1000), case(1, "ab", nodes=10), case(2, "efgh", nodes=1000)]
    taken = novel_first(cases, set(), 3)
    assert [each.index for each in taken] == [1, 2, 0]


def test_quotas_add_up_and_what_was_given_is_remembered() -> None:
    text = plan_text(3 * BLOCK + 7, {"toys:EXACT": "", "toys:PICKY": "variants = 100"})
    plan = parse_plan(text, "p")
    blocks = [[case(number * BLOCK + place, [f"f{place % 40}"]) for place in range(size)]
              for number, size in enumerate((BLOCK, BLOCK, BLOCK, 7))]  # fmt: skip
    straight, selection = BlockSelector(plan, PLATFORMS[:2]), []
    for number, cases in enumerate(blocks):
        selection.append(straight.choose(number, cases))
    assert sum(len(each.orders["toys:PICKY"]) for each in selection) == 100
    assert [len(each.orders["toys:EXACT"]) for each in selection] == [BLOCK, BLOCK, BLOCK, 7]
    # 33 of the first block's 40 features at first, the other seven in the second; then nothing is new.
    assert [len(each.given["toys:PICKY"]) for each in selection] == [33, 7, 0, 0]
    assert [len(each.features) for each in selection] == [40, 0, 0, 0]
    # A selector that is told what was given chooses the same.
    resumed = BlockSelector(plan, PLATFORMS[:2])
    resumed.restore(selection[0].features, selection[0].given)
    again = resumed.choose(1, blocks[1])
    assert again.orders == selection[1].orders and again.given == selection[1].given and again.features == []


def test_budgets_are_spread_over_blocks() -> None:
    budget = CpuBudget(100.0, 4)
    assert [budget.left(position) for position in range(5)] == [25, 50, 75, 100, 100]
    budget.spent = 60.0
    assert budget.left(1) == -10 and budget.left(2) == 15


def test_saturation_counts_idle_blocks_in_order() -> None:
    saturation = Saturation([0, 2, 4, 6, 8])
    saturation.add(0, ["f"], ["k"])
    saturation.add(4, [], ["k"])
    assert saturation.idle == 0  # 2 is not there yet
    saturation.add(2, [], [])
    assert saturation.idle == 2
    saturation.add(6, [], ["new"])
    assert saturation.idle == 0
    saturation.add(8, [], ["new", "k"])
    assert saturation.idle == 1


def test_a_runtime_for_inference_is_given_no_gradient_operators() -> None:
    spec = TensorSpec.contiguous("float32", (3,))
    given = (Input(spec, Uniform(1, 0.0, 1.0)), Input(spec, Uniform(2, 0.0, 1.0)))
    graphs = [
        Graph(given, (Node(op, (Ref(0), Ref(1)), (), (spec,)),), (2,))
        for op in ("aten.add.Tensor", "aten.tanh_backward.default")
    ]
    cases = [Case(index, f"v{index}", encode(graph), digest(graph), "{}", (), 1) for index, graph in enumerate(graphs)]
    support = Eligibility(SupportTable({}, {}), frozenset({"toys:PICKY"}))
    selection = BlockSelector(
        parse_plan(plan_text(2, {"toys:EXACT": "", "toys:PICKY": ""}), "p"), PLATFORMS[:2], support
    ).choose(0, cases)
    assert [case.index for case in selection.orders["toys:EXACT"]] == [0, 1]
    assert [case.index for case in selection.orders["toys:PICKY"]] == [0]
    ((platform, reason),) = selection.refused
    assert platform == "toys:PICKY" and reason.startswith("aten.tanh_backward.default: a gradient operator")


def test_the_plan_decides_about_gradients_where_it_speaks() -> None:
    quiet = parse_plan(plan_text(2, {"toys:EXACT": ""}), "p")
    loud = parse_plan(plan_text(2, {"toys:EXACT": "gradients = true"}), "p")
    assert quiet.platforms["toys:EXACT"].gradients is None and loud.platforms["toys:EXACT"].gradients is True
    assert quiet.digest != loud.digest
