"""A worker's answers, with NumPy as the framework; comparison of outputs."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from mindgap.run.channel import Frame
from mindgap_studies.porting_runs.call_outputs import compared
from mindgap_studies.porting_runs.function_calls import call_of
from mindgap_studies.porting_runs.isolated_call import CallLimits
from mindgap_studies.porting_runs.other_frameworks import with_process
from mindgap_studies.porting_runs.worker import FrameworkServing, _PairWork
from porting_runs.numpy_modes import NumpyModes

SERVING = FrameworkServing(NumpyModes())


def ask(kind: str, **header: Any) -> dict[str, Any]:
    asked = {"kind": kind, "deadline_s": 20, "memory_bytes": 4 << 30, **header}
    return dict(getattr(SERVING, kind)(Frame(asked, []))[0])


def test_calls_of_a_function_are_those_that_run_on_the_source() -> None:
    found = ask("calls", function="np.tanh")["calls"]
    assert [each["label"] for each in found] == ["float32[3,4]", "float32[64,64]", "float32[16]", "float32[2,8,8,3]"]
    assert not any(each["random"] for each in found)
    assert all(each["random"] for each in ask("calls", function="np.noisy")["calls"])


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("np.ends", "exited with status 7 while running"),
        ("np.text", "NoArrays: it gives a str, not arrays"),
        ("np.refuses", "LinAlgError: Last 2 dimensions of the array must be square"),
    ],
)
def test_a_function_without_a_call_has_the_reason(function: str, why: str) -> None:
    found = ask("calls", function=function)
    assert found["calls"] == [] and found["why"] == why


def test_targets_say_why_they_are_missing() -> None:
    assert {k: v for k, v in ask("targets")["targets"].items() if v} == {"narrow": "no device"}


def results(target: str, function: str = "np.tanh") -> list[tuple[str, str]]:
    """Reason and message of the calls on [3, 4] and on [16]."""
    found = ask("compare", function=function, pairs=[(target, 0), (target, 2)])["results"]
    return [(each["reason"], each["message"]) for each in found]


def test_targets_are_judged_by_what_they_give() -> None:
    assert results("same") == results("rounded") == [("", ""), ("", "")]
    assert [reason for reason, _ in results("same", "np.noisy")] == ["form only", "form only"]
    assert results("narrow")[0] == ("type failure", "output 0 is float16[3,4], and the source's is float32[3,4]")
    assert [reason for reason, _ in results("wrong")] == ["precision", "precision"]
    assert results("vectors") == [("not implemented", "NotImplementedError: vectors only"), ("", "")]


def test_vectors_of_a_factorisation_may_have_either_sign() -> None:
    assert results("negative", "np.svd")[0][0] == "" and results("negative")[0][0] == "precision"
    assert results("wrong", "np.svd")[0][0] == "precision"


def test_a_call_that_ends_its_process_costs_only_itself() -> None:
    pairs = [("same", 0), ("ends", 0), ("ends", 2), ("ends", 1), ("same", 2)]
    found = ask("compare", function="np.tanh", pairs=pairs)["results"]
    assert [(each["on"], each["call"], each["reason"]) for each in found] == [
        ("same", 0, ""), ("ends", 0, ""), ("ends", 2, "crash"), ("ends", 1, ""), ("same", 2, ""),
    ]  # fmt: skip


def test_a_call_that_is_reached_late_has_the_whole_limit() -> None:
    def slow(pairs: Any, tell: Any) -> None:
        for place, (target, number) in enumerate(pairs):
            tell({"place": place, "side": "target"})
            time.sleep(9.0 if target == "hangs" else 0.3)
            tell({"on": target, "call": number})

    pairs = [("same", 0), ("same", 1), ("same", 2), ("hangs", 0)]
    work = _PairWork(SERVING._modes, "np.tanh", SERVING._public, pairs)
    found = work.done(slow, CallLimits(0.7))
    assert [(each["call"], each.get("reason", "")) for each in found] == [(0, ""), (1, ""), (2, ""), (0, "time-out")]


def test_a_slow_target_is_measured_as_slow() -> None:
    (found,) = ask("measure", function="np.tanh", pairs=[("slow", 0)], rounds=3, processor=0)["results"]
    assert len(found["source"]) == len(found["target"]) == 3 and min(found["target"]) > 0.01 > max(found["source"])
    assert found["target_first"] > 0.01


def test_a_call_of_arrays_and_other_arguments_binds_both_once() -> None:
    one, two = np.float32([1, 2]), np.float32([3, 4])
    call = call_of(np.stack, [[one, two]], {"axis": 1}, lambda value: isinstance(value, np.ndarray))
    bare = call.bare()
    assert bare.func is np.stack and bare.args == ([one, two],) and bare.keywords == {"axis": 1}
    assert call.bind([two, one]).args == ([two, one],) and call.arrays == (one, two)
    assert np.array_equal(call(), bare()) and np.array_equal(call.function(two, one), call.bind([two, one])())


def test_the_source_is_measured_without_the_placing_of_arguments() -> None:
    class BareAlone(NumpyModes):
        def run_source(self, call: Any) -> Any:
            assert isinstance(call, partial)
            return call()

    header = {"function": "np.tanh", "pairs": [("same", 0)], "rounds": 1, "processor": 0, "deadline_s": 20}
    found = FrameworkServing(BareAlone()).measure(Frame({**header, "memory_bytes": 4 << 30}, []))[0]
    (result,) = found["results"]
    assert "message" not in result and result["source"][0] > 0


def test_the_seconds_of_a_process_are_added_to_those_of_earlier_ones() -> None:
    once = with_process(None, "x", 1.0, 2.0, [0.1234567, 0.2], [0.3, 0.4])
    twice = with_process(once, "x", 3.0, 4.0, [0.5, 0.6], [0.7, 0.8])
    assert once.source == ((0.12346, 0.2),) and twice.source == (*once.source, (0.5, 0.6))
    assert (twice.source_first, twice.target_first) == ((1.0, 3.0), (2.0, 4.0))


ONE = np.float32([1.0, 2.0, np.nan, np.inf])


@pytest.mark.parametrize(
    ("left", "right", "moved", "reason"),
    [
        (ONE, ONE.copy(), ONE, ""),
        (ONE, np.float32([1.00001, 2, np.nan, np.inf]), ONE, ""),
        (ONE, np.float32([1.01, 2, np.nan, np.inf]), ONE, "precision"),
        # The source itself moves by as much where its arguments move.
        (ONE, np.float32([1.01, 2, np.nan, np.inf]), np.float32([1.001, 2, np.nan, np.inf]), ""),
        (ONE, np.float32([1, 2, 3, np.inf]), ONE, "precision"),
        (ONE, np.float32([1, 2, np.nan, -np.inf]), ONE, "precision"),
        (ONE, ONE.astype(np.float64), ONE, "type failure"),
        (ONE, ONE[:3], ONE, "type failure"),
        (np.int32([1, 2]), np.int32([2, 1]), np.int32([1, 2]), "precision"),
        # A tie: the source's own indices change.
        (np.int32([1, 2]), np.int32([2, 1]), np.int32([2, 1]), ""),
        (np.array([b"a"], object), np.array([b"b"], object), ONE, "precision"),
        # One element that moves to NaN says nothing of the others.
        (ONE, np.float32([0, 1000, np.nan, np.inf]), np.float32([1, 2, np.nan, np.nan]), "precision"),
    ],
)
def test_outputs_are_compared(left: Any, right: Any, moved: Any, reason: str) -> None:
    assert compared([left], [right], False, False, lambda: [moved], list)[0] == reason
    assert compared([left], [right, right], False, False, lambda: [moved], list)[0] == "type failure"


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        (np.float32([1.0, 2.02]), ""),  # nearer to float64 than the source
        (np.float32([1.0, 1.97]), ""),  # about as far
        (np.float32([1.0, 1.9]), "precision"),
    ],
)
def test_a_result_as_near_to_float64_as_the_source_is_no_loss(right: Any, reason: str) -> None:
    left, exact = np.float32([1.0, 2.0]), np.float64([1.0, 2.015])
    assert compared([left], [right], False, False, lambda: [left], lambda: [exact])[0] == reason
    assert compared([left], [right], False, False, lambda: [left], list)[0] == "precision"


def test_an_element_that_overflows_in_the_source_excuses_no_other() -> None:
    left, exact = np.float32([np.inf, 1, 2, 3]), np.float64([1e40, 1, 2, 3])
    found = np.float32([np.inf, 0, 0, 1000])
    assert compared([left], [found], False, False, lambda: [left], lambda: [exact])[0] == "precision"


def test_of_a_random_function_only_shape_and_dtype_are_compared() -> None:
    assert compared([ONE], [ONE + 1], True, False, list, list)[0] == "form only"
    assert compared([ONE], [ONE.copy()], True, False, list, list)[0] == ""
    assert compared([ONE], [ONE[:2]], True, False, list, list)[0] == "type failure"


def test_a_value_that_varies_may_be_equal_by_chance() -> None:
    for random in (False, True):
        assert compared([ONE], [ONE.copy()], random, True, list, list)[0] == "form only"
        assert compared([ONE], [ONE[:2]], random, True, list, list)[0] == "type failure"


def test_two_rows_that_are_shuffled_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyModes, "is_random", lambda self, name: True)
    pairs = [("same", 3)]  # float32[2,8,8,3]
    shuffled = np.random.default_rng(0).permutation
    work = _PairWork(NumpyModes(), "np.shuffled", {"np.shuffled": lambda x: shuffled(x)}, pairs)
    told: list[Mapping[str, Any]] = []
    for _ in range(20):
        work.compare(pairs, told.append)
    assert [each["reason"] for each in told if "reason" in each] == ["form only"] * 20
