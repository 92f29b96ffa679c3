"""The bisection against a linear search, and what tells two releases apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies

from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.name import parse
from mindgap.results.rows import Row
from mindgap_diagnosis.versions.bisection import State, VersionVerdict, bisected, symptom, verdict_of
from mindgap_diagnosis.versions.releases import between, package_of


@given(strategies.integers(2, 30), strategies.data())
def test_neighbours_as_a_linear_search_finds(count: int, data: strategies.DataObject) -> None:
    first = data.draw(strategies.integers(1, count - 1))
    skipped = data.draw(strategies.sets(strategies.integers(1, max(count - 2, 1))))
    skipped -= {0, count - 1}
    calls: list[str] = []

    def state(version: str) -> State:
        calls.append(version)
        at = int(version)
        return "skipped" if at in skipped else "bad" if at >= first else "good"

    low, high = bisected([str(each) for each in range(count)], "good", state)
    known = [each for each in range(count) if each not in skipped]
    assert (int(low), int(high)) == (
        max(each for each in known if each < first),
        min(each for each in known if each >= first),
    )
    assert len(calls) == len(set(calls)) <= count - 2


def verdict(version: str, *faults: str, error: float | None = None) -> VersionVerdict:
    return VersionVerdict(version, faults=frozenset(faults), error=error)


def test_a_fault_that_both_have_tells_nothing() -> None:
    good, bad = verdict("1", "wrong a"), verdict("4", "wrong a", "wrong b")
    told = symptom(good, bad)
    assert told is not None
    assert [told(each) for each in (good, bad, verdict("2"), verdict("3", "wrong b"))] == [
        "good", "bad", "good", "bad",
    ]  # fmt: skip
    assert symptom(good, good) is None
    assert symptom(bad, good) is None


def test_a_fault_of_the_reference_is_shared_by_bad_releases() -> None:
    good, bad = verdict("1", "wrong reference aten.erf.default"), verdict("4")
    told = symptom(good, bad)
    assert told is not None
    assert (told(good), told(bad)) == ("good", "bad")


@pytest.mark.parametrize(("middle", "state"), [(2e-4, "good"), (1.4e-3, "bad"), (None, "skipped")])
def test_size_tells_where_verdict_and_culprit_are_equal(middle: float | None, state: str) -> None:
    good, bad = verdict("1", "wrong a", error=3e-4), verdict("3", "wrong a", error=2e-2)
    told = symptom(good, bad)
    assert told is not None
    assert told(replace(good, error=middle)) == (state if middle != 1.4e-3 else "good")
    assert told(replace(good, error=1e-2)) == "bad"
    assert symptom(good, replace(bad, error=6e-4)) is None


def test_verdict_of_a_row() -> None:
    culprit = culprit_of(0, "aten.erf.default", "model.py:3")
    row = Row("m", parse("tiny/runtime"), "ok", "discrepant", {"relative_error": 0.5}, culprit, "platform")
    two = replace(row, faults=(Fault(culprit, "discrepant", "platform"), Fault(culprit, "structural", "reference")))
    assert verdict_of("1", "e", two).faults == {
        "discrepant aten.erf.default",
        "structural reference aten.erf.default",
    }
    found = verdict_of("1", "e", row)
    assert (found.culprit, found.error, found.skipped) == ("aten.erf.default (model.py:3)", 0.5, "")
    refused = replace(row, status="unsupported", verdict=None, culprit=culprit, message="no erf")
    assert verdict_of("1", "e", refused).faults == {"unsupported aten.erf.default"}
    assert verdict_of("1", "e", replace(row, verdict=None, unjudged=True)).skipped.startswith("unjudged")


def test_range_of_releases() -> None:
    listed = ["1.0", "1.1", "1.2.0", "2.0"]
    assert between("p", listed, "2", "1.1.0") == ("1.1", "1.2.0", "2.0")


def test_packages_that_are_released_together() -> None:
    """A module that IREE's compiler of one version writes is not read by the runtime of another."""
    iree = package_of("iree/cpu", None, ("numpy<3",))
    assert iree.requirements("3.9.0") == (
        "iree-base-compiler==3.9.0", "iree-base-runtime==3.9.0", "iree-turbine==3.9.0", "numpy<3",
    )  # fmt: skip
    assert iree.requirements("3.12.0")[1:3] == ("iree-base-runtime==3.12.0", "iree-turbine==3.9.0")
    assert package_of("cpu/eager", None).requirements("2.9.1") == ("torch==2.9.1",)
