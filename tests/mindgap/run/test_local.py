"""One job on a platform in this process: what is cached, what is looked at, what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from misbehaving import Run, Zoo, graph

from mindgap.graph import Graph, GraphError, Input, MindgapError, Stored, digest as graph_digest, materialise_all
from mindgap.graph.compare.digest import digested
from mindgap.platforms.protocol import Array
from mindgap.run.local import Caches, fingerprint_of, run_job
from mindgap.run.outcome import Job

HERE = "misbehaving:BACKEND"


class Counting(Zoo):
    """Counts what is loaded."""

    def __init__(self) -> None:
        super().__init__({})
        self.loads = 0

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Run:
        self.loads += 1
        return super().load(graph, inputs)


def as_parameter(graph: Graph) -> Graph:
    given = graph.inputs[0]
    return Graph((Input(given.spec, given.recipe, "parameter"),), graph.nodes, graph.outputs)


def test_an_outcome_holds_what_the_graph_gives() -> None:
    asked = graph("add", seed=3)
    outcome = run_job(Zoo({}), Job(HERE, asked, want="outputs"), fingerprint="f")
    expected = materialise_all(asked)[0] + 1
    assert (outcome.platform, outcome.graph, outcome.status) == (HERE, graph_digest(asked), "ok")
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], expected)
    assert outcome.outputs == (digested(expected),) and outcome.fingerprint == "f"


def test_a_graph_is_loaded_once_for_as_long_as_it_is_cached() -> None:
    platform, caches = Counting(), Caches()
    first = run_job(platform, Job(HERE, graph("add")), caches=caches)
    second = run_job(platform, Job(HERE, graph("add")), caches=caches)  # an equal graph, another object
    assert platform.loads == 1 and "load" in first.timings and "load" not in second.timings
    assert first.outputs == second.outputs
    run_job(platform, Job(HERE, graph("add", seed=1)), caches=caches)
    assert platform.loads == 2


def test_replaced_inputs_are_used_once_and_reload_only_what_may_be_folded() -> None:
    for asked, loads in ((graph("add"), 1), (as_parameter(graph("add")), 3)):
        platform, caches = Counting(), Caches()
        for value in (5.0, 6.0):
            sent = {0: np.full(4, value, np.float32)}
            outcome = run_job(platform, Job(HERE, asked, "outputs", inputs=sent), caches=caches)
            assert outcome.arrays is not None and outcome.arrays[0].tolist() == [value + 1] * 4
        plain = run_job(platform, Job(HERE, asked, "outputs"), caches=caches)
        assert plain.arrays is not None and np.array_equal(plain.arrays[0], materialise_all(asked)[0] + 1)
        assert platform.loads == loads


def test_the_same_buffer_handed_out_twice_is_seen_and_both_are_kept() -> None:
    outcome = run_job(Zoo({}), Job(HERE, graph("same_buffer"), "outputs"))
    assert outcome.status == "nondeterministic" and outcome.ran
    one, two = outcome.repeats
    assert np.array_equal(one[0] * 2, two[0])
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], one[0])


def test_digests_alone_keep_no_arrays_of_repetitions() -> None:
    outcome = run_job(Zoo({}), Job(HERE, graph("random")))
    assert outcome.status == "nondeterministic" and outcome.repeats == () and outcome.arrays is None


def test_one_repetition_sees_no_nondeterminism() -> None:
    outcome = run_job(Zoo({}), Job(HERE, graph("random"), repeat=1))
    assert outcome.status == "ok" and "second_run" not in outcome.timings


def test_a_platform_that_writes_its_inputs_does_not_spoil_the_next_graph() -> None:
    caches = Caches()
    assert "wrote to its input 0" in run_job(Zoo({}), Job(HERE, graph("overwrite")), caches=caches).message
    after = run_job(Zoo({}), Job(HERE, graph("add"), "outputs"), caches=caches)  # its input has the same recipe
    assert after.arrays is not None and np.array_equal(after.arrays[0], materialise_all(graph("add"))[0] + 1)


def test_an_executable_that_failed_is_not_kept() -> None:
    platform, caches = Counting(), Caches()
    for _ in range(2):
        assert run_job(platform, Job(HERE, graph("raises")), caches=caches).status == "runtime_error"
    assert platform.loads == 2


@pytest.mark.parametrize(("what", "shape"), [("scalar", ()), ("empty", (0, 3)), ("strided", (4,))])
def test_outputs_of_every_form(what: str, shape: tuple[int, ...]) -> None:
    outcome = run_job(Zoo({}), Job(HERE, graph(what), "outputs"))
    assert outcome.status == "ok" and outcome.outputs[0].shape == shape
    assert outcome.arrays is not None and outcome.arrays[0].shape == shape and outcome.arrays[0].flags.c_contiguous


def test_an_executable_that_cannot_look_inside_gives_no_values() -> None:
    class Opaque(Zoo):
        def load(self, graph: Graph, inputs: Sequence[Array]) -> Any:
            return lambda inputs: [inputs[0] + 1]

    traced = run_job(Opaque({}), Job(HERE, graph("add"), "trace"))
    assert traced.status == "ok" and traced.values is None and traced.arrays is not None
    assert run_job(Zoo({}), Job(HERE, graph("add"), "trace")).values is not None


def test_stages_are_told_for_new_graphs_only() -> None:
    stages: list[str] = []
    caches = Caches()
    for _ in range(2):
        run_job(Zoo({}), Job(HERE, graph("add")), caches=caches, on_stage=stages.append)
    assert stages == ["loading", "running"]


def test_a_missing_tensor_is_bad_input_not_an_outcome() -> None:
    base = graph("add")
    with pytest.raises(GraphError, match="input 0"):
        run_job(Zoo({}), Job(HERE, Graph((Input(base.inputs[0].spec, Stored("0" * 64)),), base.nodes, base.outputs)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs": {0: np.zeros(5, np.float32)}}, r"float32\[4\], by float32\[5\]"),
        ({"inputs": {0: np.zeros(4, np.float64)}}, "by float64"),
        ({"inputs": {0: np.zeros(4, ">f4")}}, "by >f4"),
        ({"inputs": {1: np.zeros(4, np.float32)}}, "input 1 of a graph with 1"),
        ({"repeat": 0}, "at least once"),
    ],
)
def test_jobs_that_cannot_be_meant(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(MindgapError, match=message):
        run_job(Zoo({}), Job(HERE, graph("add"), **wrong))


def test_fingerprints_depend_on_what_is_said_and_not_on_its_order() -> None:
    one: Mapping[str, Any] = {"a": 1, "b": {"c": [1, 2]}}
    assert fingerprint_of(one) == fingerprint_of({"b": {"c": [1, 2]}, "a": 1})
    assert fingerprint_of(one) != fingerprint_of({"a": 1, "b": {"c": [2, 1]}})
