"""The operator that makes a platform fail: found with few jobs, and few of them fatal."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from judge.oracle.bench import PLATFORM, Bench, build, normal
from mindgap.aten.dead_nodes import known_at_load
from mindgap.graph import Graph, operands
from mindgap.graph.compare.reason import Reason
from mindgap.judge.trace.failure import failing_part, judged_failure
from mindgap.judge.trace.judge import Judge
from mindgap.judge.trace.known_failures import KnownFailures, pattern_of, places_of
from mindgap.judge.trace.smallest_part import SmallestPart
from mindgap.run.outcome import Job, Outcome, Status

#: What a platform says of a graph that it fails on, nothing for another.
Fails = Callable[[Graph], "Outcome | None"]
UNARY = ("sin", "relu", "tanh", "exp", "neg", "sigmoid", "abs", "cos", "atan", "erf", "floor", "ceil")


@dataclass
class Failing(Bench):
    """A platform that fails as it is told. `fatal`: how many of its jobs ended its worker."""

    fails: Fails = lambda graph: None
    fatal: int = 0
    seen: list[Graph] = field(default_factory=list[Graph])

    def execute(self, job: Job) -> Outcome:
        self.seen.append(job.graph)
        found = self.fails(job.graph)
        if found is not None:
            self.fatal += found.status in ("crash", "timeout", "oom")
            return found
        return super().execute(job)


def outcome(status: Status, signature: str, op: str | None = None) -> Outcome:
    return Outcome(PLATFORM, "", status, message=signature, signature=signature, op=op)


CRASH = outcome("crash", "killed by SIGSEGV while loading")


def ops(graph: Graph) -> list[str]:
    return [node.op.split(".")[1] for node in graph.nodes]


def long_chain(length: int = 48) -> tuple[Graph, list[Any]]:
    """Elementwise operators one after the other, with one `log1p` and one `sqrt` among them."""
    names = [UNARY[i % len(UNARY)] for i in range(length)]
    names[30], names[37] = "log1p", "sqrt"
    arrays = [normal(4)]
    calls = [(f"v{i}", f"aten.{name}.default", "i0" if i == 0 else f"v{i - 1}") for i, name in enumerate(names)]
    return build(arrays, calls, [f"v{length - 1}"]), arrays


def search(fails: Fails, failure: Outcome, made: tuple[Graph, list[Any]]) -> tuple[SmallestPart, Failing]:
    graph, arrays = made
    bench = Failing(fails=fails)
    return failing_part(graph, failure, bench.execute, dict(enumerate(arrays))), bench


def holding(*names: str, given: Outcome = CRASH) -> Fails:
    return lambda graph: given if set(names) <= set(ops(graph)) else None


def test_a_crash_costs_one_worker() -> None:
    found, bench = search(holding("log1p"), CRASH, long_chain())
    assert found == SmallestPart((30,))
    assert bench.fatal == 1 and all(len(graph.nodes) == 1 for graph in bench.seen)


def test_one_of_each_kind_of_call_is_run_alone() -> None:
    _, bench = search(holding("log1p"), CRASH, long_chain())
    assert len(bench.seen) <= len(UNARY) + 1


@pytest.mark.parametrize("failure", [CRASH, outcome("compile_error", "Tile: repeats must be of rank <n>")])
def test_the_operator_that_the_platform_names_is_tried_first(failure: Outcome) -> None:
    named = replace(failure, op="aten.log1p.default")
    found, bench = search(holding("log1p", given=named), named, long_chain())
    assert found == SmallestPart((30,)) and len(bench.seen) == 1


def test_the_platform_may_name_the_wrong_operator() -> None:
    named = outcome("compile_error", "Tile: repeats must be of rank <n>", "aten.log1p.default")
    found, bench = search(holding("sqrt", given=named), named, long_chain())
    assert found == SmallestPart((37,))
    assert len(bench.seen) < 12


def test_a_crash_of_two_operators_together_costs_few_workers() -> None:
    found, bench = search(holding("log1p", "sqrt"), CRASH, long_chain())
    assert found == SmallestPart((30, 37))
    # The whole graph, prefixes that are too long, and the parts that still fail while nodes are dropped.
    assert bench.fatal <= 10


def reporting(refused: str = "") -> Fails:
    """A converter that reports all it could not convert: `log1p`, `sqrt`, and `sin` of what `exp` gives."""

    def fails(graph: Graph) -> Outcome | None:
        names = ops(graph)
        wrong = [name for name in ("log1p", "sqrt") if name in names] + ["sin(exp)"] * ({"sin", "exp"} <= {*names})
        failing = [name for name in wrong if name != refused]
        if not failing:
            return outcome("unsupported", f"no rule: {refused}") if wrong else None
        return outcome("compile_error", f"not converted: {', '.join(wrong)}")

    return fails


def faults_of(fails: Fails, *names: str) -> list[tuple[tuple[str, ...], str]]:
    calls = [(f"v{i}", f"aten.{name}.default", f"v{i - 1}" if i else "i0") for i, name in enumerate(names)]
    graph, arrays = build([normal(4)], calls, [f"v{len(names) - 1}"]), [normal(4)]
    bench, failure = Failing(fails=fails), fails(graph)
    assert failure is not None
    found = judged_failure(graph, failure, bench.execute, dict(enumerate(arrays)))
    assert found.culprit == found.faults[0].fault.culprit and found.detail == found.faults[0].fault.detail
    return [(tuple(ops_at(graph, each.fault.nodes)), each.fault.detail) for each in found.faults]


def ops_at(graph: Graph, nodes: Sequence[int]) -> list[str]:
    return [ops(graph)[node] for node in nodes]


def test_operators_of_one_report_that_fail_without_each_other_are_faults_of_their_own() -> None:
    assert faults_of(reporting(), "neg", "log1p", "tanh", "sqrt") == [
        (("log1p",), "compile_error (fails by itself): not converted: log1p"),
        (("sqrt",), "compile_error (fails by itself): not converted: sqrt"),
    ]


def test_operators_that_fail_only_together_are_one_fault_beside_others() -> None:
    assert faults_of(reporting(), "exp", "log1p", "sin") == [
        (("log1p",), "compile_error (fails by itself): not converted: log1p"),
        (("exp", "sin"), "compile_error (fails only together: nodes 0, 2): not converted: sin(exp)"),
    ]


def test_an_operator_of_the_report_that_the_platform_refuses_alone_is_no_fault() -> None:
    assert faults_of(reporting("sqrt"), "log1p", "neg", "sqrt") == [
        (("log1p",), "compile_error (fails by itself): not converted: log1p"),
    ]


def test_operators_that_do_not_fail_alone_stay_one_fault() -> None:
    assert faults_of(reporting(), "neg", "exp", "sin") == [
        (("exp", "sin"), "compile_error (fails only together: nodes 1, 2): not converted: sin(exp)"),
    ]


def test_a_part_that_is_too_large_to_be_named_is_described() -> None:
    def fails(graph: Graph) -> Outcome | None:
        return CRASH if ops(graph).count("sin") >= 3 and "log1p" in ops(graph) and "cos" in ops(graph) else None

    found, _ = search(fails, CRASH, long_chain())
    assert not found.nodes
    said = r"the smallest part that was found has (\d+) operators between nodes 0 and 30; at most 8 are named"
    number = re.fullmatch(said, found.reason)
    assert number and 8 < int(number[1]) <= 31


def test_what_is_named_fails_on_a_fresh_worker() -> None:
    """Parts on the way are not tried twice; the one that is named is."""
    graph, arrays = long_chain()

    @dataclass
    class Worn(Failing):
        confirmed: list[bool] = field(default_factory=list[bool])

        def execute(self, job: Job) -> Outcome:
            found = super().execute(job)
            self.confirmed += [job.confirmed] if found.status == "crash" else []
            return replace(found, status="ok") if job.confirmed and self.harmless else found

        harmless: bool = False

    bench = Worn(fails=holding("log1p", "sqrt"))
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays))) == SmallestPart((30, 37))
    assert bench.confirmed.count(True) == 1 and bench.confirmed[-1] and len(bench.confirmed) > 3
    bench = Worn(fails=holding("log1p", "sqrt"), harmless=True)
    found = failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays)))
    assert found == SmallestPart((), "the part that was found does not fail when it is run again")


def test_a_failure_of_another_kind_is_not_followed() -> None:
    """Prefixes show more values than the graph: where that alone makes the platform stop, it is another failure."""
    failure, other = outcome("compile_error", "no room for sqrt"), outcome("compile_error", "too many outputs")

    def fails(graph: Graph) -> Outcome | None:
        if "relu" in ops(graph) and len(graph.nodes) in (24, 36):
            return other
        return failure if "sqrt" in ops(graph) else None

    found, _ = search(fails, failure, long_chain())
    assert found == SmallestPart((37,))


def test_a_crash_by_another_signal_is_another_crash() -> None:
    other = outcome("crash", "killed by SIGFPE while loading")

    def fails(graph: Graph) -> Outcome | None:
        return CRASH if "sqrt" in ops(graph) else other if "log1p" in ops(graph) else None

    found, _ = search(fails, CRASH, long_chain())
    assert found == SmallestPart((37,))


def test_what_a_library_prints_before_it_aborts_does_not_matter() -> None:
    said = iter(range(1000))
    failure = outcome("crash", "killed by SIGABRT while running | free(): invalid pointer")

    def fails(graph: Graph) -> Outcome | None:
        varied = f"killed by SIGABRT while running | corrupted size {next(said)}"
        return outcome("crash", varied) if "sqrt" in ops(graph) else None

    assert search(fails, failure, long_chain())[0] == SmallestPart((37,))


def test_a_worker_that_does_not_start_accuses_no_operator() -> None:
    failure = outcome("crash", "exited with status <n> while starting")
    failure = dataclasses.replace(failure, reason=Reason("worker_ended", stage="starting"))
    found, bench = search(lambda graph: failure, failure, long_chain())
    assert found.nodes == () and not bench.seen


def test_a_failure_that_does_not_come_again_has_no_node() -> None:
    assert search(lambda graph: None, outcome("runtime_error", "x"), long_chain())[0].nodes == ()


def test_a_failure_of_the_gradients_has_no_node() -> None:
    graph, arrays = long_chain()
    failure = outcome("runtime_error", "no derivative")
    found, _ = search(lambda g: failure if g.grad else None, failure, (replace(graph, grad=(0,)), arrays))
    assert found == SmallestPart((), "only the gradients fail")


def test_an_operator_is_run_on_the_operands_that_it_had() -> None:
    """An in-place operator before it changes what it reads."""
    arrays = [normal(4)]
    calls: Sequence[tuple[Any, ...]] = [
        ("a", "aten.mul.Tensor", "i0", 0.0), ("b", "aten.add_.Tensor", "a", 7.0), ("c", "aten.log1p.default", "a"),
    ]  # fmt: skip
    graph = build(arrays, calls, ["c"])
    given: list[Any] = []

    class Watching(Failing):
        def execute(self, job: Job) -> Outcome:
            if ops(job.graph) == ["log1p"]:
                given.append(job.inputs[0].tolist())
            return super().execute(job)

    bench = Watching(fails=holding("log1p"))
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays))) == SmallestPart((2,))
    assert given == [[7.0] * 4]


ERROR = outcome("compile_error", "Tensor name is not a number")


def test_a_value_that_is_returned_twice_is_named_and_no_operator() -> None:
    """As OpenVINO refuses a graph that returns one value twice, whichever operator comes last."""
    arrays = [normal(4)]
    graph = build(
        arrays,
        [("a", "aten.sin.default", "i0"), ("b", "aten.cos.default", "a"), ("c", "aten.exp.default", "b")],
        ["b", "b", "c"],
    )
    bench = Failing(fails=lambda g: ERROR if len(set(g.outputs)) < len(g.outputs) else None)
    assert failing_part(graph, ERROR, bench.execute, dict(enumerate(arrays))) == SmallestPart((1,), twice=True)
    judgement = Judge(graph, arrays, bench.execute, "cpu/eager").judge_failure(ERROR)
    assert judgement.culprit is not None and judgement.culprit.op == "graph outputs: a value returned twice"


def test_a_value_and_its_copy_are_named_together() -> None:
    """`sub` and `clone`, both returned; `exp` comes last and was named for it."""
    arrays = [normal(4), normal(4)]
    graph = build(
        arrays,
        [("a", "aten.sub.Tensor", "i0", "i1"), ("b", "aten.clone.default", "a"), ("c", "aten.exp.default", "i0")],
        ["a", "b", "c"],
    )

    def fails(g: Graph) -> Outcome | None:
        clones = [(n, i) for i, n in enumerate(g.nodes) if n.op == "aten.clone.default"]
        made = {v for v in g.outputs if g.producer[v] >= 0}
        return ERROR if any({n.args[0].index, g.first_value[i]} <= made for n, i in clones) else None  # type: ignore[union-attr]

    found, _ = search(fails, ERROR, (graph, arrays))
    assert found == SmallestPart((0, 1))


def test_an_operator_that_does_not_fail_alone_is_not_named() -> None:
    """The platform's message names `exp`; what fails is a graph with ten others."""
    names = [UNARY[i % len(UNARY)] for i in range(12)]
    calls = [(f"v{i}", f"aten.{name}.default", "i0" if i == 0 else f"v{i - 1}") for i, name in enumerate(names)]
    arrays = [normal(4)]
    graph = build(arrays, calls, ["v11"])
    named = replace(ERROR, op="aten.exp.default")
    bench = Failing(fails=lambda g: named if len(g.nodes) > 10 else None)
    judgement = Judge(graph, arrays, bench.execute, "cpu/eager").judge_failure(named)
    assert judgement.verdict == "failed" and judgement.culprit is None
    assert "the platform names aten.exp.default, which alone does not fail" in judgement.detail


# ---- what made other graphs fail


def pair(first: int, second: int, length: int = 40) -> tuple[Graph, list[Any]]:
    """A chain of `relu`, in which `log1p` and then `sqrt` stand."""
    names = ["relu"] * length
    names[first], names[second] = "log1p", "sqrt"
    arrays = [normal(4)]
    calls = [(f"v{i}", f"aten.{name}.default", "i0" if i == 0 else f"v{i - 1}") for i, name in enumerate(names)]
    return build(arrays, calls, [f"v{length - 1}"]), arrays


def test_the_same_operators_of_another_graph_are_tried_first() -> None:
    known, bench = KnownFailures(), Failing(fails=holding("log1p", "sqrt"))
    graph, arrays = long_chain()
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays)), known) == SmallestPart((30, 37))
    searched, bench.fatal, bench.seen = bench.fatal, 0, []
    graph, arrays = pair(3, 20)
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays)), known) == SmallestPart((3, 20))
    assert (bench.fatal, len(bench.seen)) == (1, 3) and searched > 3, "the two together, then each of them"
    # Of another platform, or in another way, nothing is known.
    for other in (outcome("crash", "killed by SIGFPE while loading"), outcome("timeout", "")):
        assert not [*known.places(other, graph)]


def test_what_does_not_fail_here_is_not_named() -> None:
    known, bench = KnownFailures(), Failing(fails=lambda graph: CRASH if "sqrt" in ops(graph) else None)
    first, _ = pair(3, 20)
    known.add(CRASH, first, (3,))
    graph, arrays = pair(5, 9)
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays)), known) == SmallestPart((9,))
    assert [ops(each) for each in bench.seen[:1]] == [["log1p"]]


def test_one_operator_of_a_known_set_is_named_where_it_fails_by_itself() -> None:
    known, bench = KnownFailures(), Failing(fails=lambda graph: CRASH if "sqrt" in ops(graph) else None)
    graph, arrays = pair(3, 20)
    known.add(CRASH, graph, (3, 20))
    assert failing_part(graph, CRASH, bench.execute, dict(enumerate(arrays)), known) == SmallestPart((20,))
    assert next(known.places(CRASH, graph)) == (20,)


def test_operands_come_from_the_same_operators() -> None:
    arrays = [normal(4)]
    calls = [
        ("a", "aten.sin.default", "i0"), ("b", "aten.cos.default", "i0"), ("c", "aten.cos.default", "a"),
        ("d", "aten.mul.Tensor", "b", "c"), ("e", "aten.mul.Tensor", "c", "b"),
    ]  # fmt: skip
    graph = build(arrays, calls, ["d", "e"])
    assert [*places_of(graph, pattern_of(graph, (0, 2)))] == [(0, 2)]
    assert [*places_of(graph, pattern_of(graph, (1,)))] == [(1,), (2,)]
    assert [*places_of(graph, pattern_of(graph, (2, 3)))] == [(1, 4), (2, 3)]
    assert [*places_of(graph, pattern_of(graph, (1, 2, 4)))] == [(1, 2, 4)]


def test_looking_for_a_pattern_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [(f"v{i}", "aten.relu.default", "i0") for i in range(40)]
    graph = build([normal(4)], calls, ["v39"])
    pattern = pattern_of(graph, tuple(range(3)))
    assert sum(1 for _ in places_of(graph, pattern)) == 40 * 39 * 38 // 6
    monkeypatch.setattr("mindgap.judge.trace.known_failures._MOST_STEPS", 100)
    assert 0 < sum(1 for _ in places_of(graph, pattern)) < 100


def test_a_failure_of_constant_folding_is_found_with_constant_operands() -> None:
    """`sqrt` of a buffer's `log1p` fails where the platform computes it when it loads the graph."""

    def fails(graph: Graph) -> Outcome | None:
        known = known_at_load(graph)
        roots = [node for node in graph.nodes if node.op == "aten.sqrt.default"]
        return CRASH if any(known.issuperset(operands(node)) for node in roots) else None

    arrays = [normal(4), normal(4)]
    calls = [("a", "aten.log1p.default", "i1"), ("b", "aten.sqrt.default", "a"), ("c", "aten.mul.Tensor", "b", "i0")]
    graph = build(arrays, calls, ["c"])
    graph = replace(graph, inputs=(graph.inputs[0], replace(graph.inputs[1], role="buffer")))
    found, bench = search(fails, CRASH, (graph, arrays))
    assert found == SmallestPart((1,)) and bench.seen[-1].inputs[0].role == "constant"
