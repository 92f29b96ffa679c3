"""Single operators, repeated: distinct results, their probabilities, and what the deterministic option does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.cli.app import main
from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job, Outcome
from mindgap_surveys.decoding.operator_repeats import (
    OperatorRepeats,
    Repeated,
    RepeatLimits,
    _repeated,  # pyright: ignore[reportPrivateUsage]
    chosen,
)
from mindgap_zoo.operator_samples.accumulating import CALLS, RepeatedCall


def test_intervals_are_those_of_the_literature() -> None:
    """Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion", 2001: of 0 in 10 and 5 in 10."""
    assert Repeated({"a": 10}).share() == pytest.approx((1.0, 1 - 0.2775, 1.0), abs=1e-4)
    assert Repeated({"a": 10_000}).share() == pytest.approx((1.0, 0.99962, 1.0), abs=1e-5)
    assert Repeated({"a": 5, "b": 5}).share() == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)


ONE, OTHER, SEVERAL = Repeated({"a": 9}), Repeated({"b": 9}), Repeated({"a": 8, "b": 1})
NONE, REFUSED = Repeated({}, "the time budget was used up"), Repeated({}, "refused", unsupported=True)
CUT, SEVERAL_CUT = Repeated({"a": 4}, "timeout"), Repeated({"a": 3, "b": 1}, "timeout")


@pytest.mark.parametrize(
    ("default", "switched", "effect"),
    [
        (ONE, None, "none"), (SEVERAL, ONE, "fixes"), (SEVERAL, SEVERAL, "fails"), (ONE, SEVERAL, "fails"),
        (ONE, REFUSED, "refuses"), (ONE, ONE, "nothing"), (ONE, OTHER, "other result"), (NONE, ONE, "unknown"),
        (ONE, NONE, "unknown"), (SEVERAL, NONE, "unknown"), (SEVERAL, CUT, "unknown"), (CUT, ONE, "unknown"),
        (SEVERAL_CUT, ONE, "fixes"), (ONE, SEVERAL_CUT, "fails"), (REFUSED, REFUSED, "unknown"),
    ],
)  # fmt: skip
def test_what_the_option_does(default: Repeated, switched: Repeated | None, effect: str) -> None:
    assert OperatorRepeats("sum", "accumulates", canonical("cpu/eager"), default, switched).effect == effect


class StopsAtTheThird:
    """A pool of which the first jobs give one result each, and the third none in time."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        if len(self.jobs) == 3:
            return Outcome(job.platform, "", "timeout", message="too late")
        return Outcome(job.platform, "", "ok", counts={str(len(self.jobs)): job.repeat - 1, "a": 1})


def test_runs_before_a_failure_count() -> None:
    pool: Any = StopsAtTheThird()
    found = _repeated(pool, canonical("cpu/eager"), Graph((), (), ()), RepeatLimits(10_000), None)
    assert [job.repeat for job in pool.jobs] == [20, 20, 9_960]
    assert found == Repeated({"1": 19, "2": 19, "a": 2}, "timeout: too late")


def test_an_operator_that_is_not_captured_has_a_row_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() else -x

    monkeypatch.setattr(
        "mindgap_zoo.operator_samples.accumulating.CALLS",
        [
            RepeatedCall("one", "accumulates", torch.neg, lambda: [torch.ones(3)]),
            RepeatedCall("other", "accumulates", fails, lambda: [torch.ones(3)]),
        ],
    )
    ran = OperatorRepeats("one", "accumulates", canonical("cpu/eager"), ONE, None)
    monkeypatch.setattr("mindgap_surveys.decoding.operator_repeats.repeat_operators", lambda *_, **__: [ran])
    assert main(["repeats", "--json"]) == 2
    said = capfd.readouterr()
    assert [(each["operator"], each["default"]["reason"][:19]) for each in json.loads(said.out)["results"]] == [
        ("other", "it is not captured:"), ("one", ""),
    ]  # fmt: skip
    assert "mindgap: other: left out: " in said.err


def test_operators_are_chosen_by_a_part_of_their_names() -> None:
    known = {each.name: each.listed for each in CALLS}
    assert len(known) == len(CALLS) > 60 and set(known.values()) == {"switched", "refused", "accumulates"}
    assert chosen(["index_put"], known) == ["index_put", "index_put accumulate"]
    assert chosen([], known) == [*known]
    with pytest.raises(MindgapError, match="nothing_like_it: no such operator; there are conv1d, conv2d"):
        chosen(["nothing_like_it"], known)


def test_one_call_of_each_kind_can_be_captured(tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    by_name = {each.name: each for each in CALLS}
    for name in ("index_put accumulate", "interpolate bilinear backward", "softmax"):
        first, again = (by_name[name].graph(tensors) for _ in range(2))
        assert first == again and first.nodes


def test_platforms_may_fold_the_weights_of_convolutions(tmp_path: Path) -> None:
    calls = [each for each in CALLS if each.name.startswith("conv")]
    roles = [[given.role for given in each.graph(TensorStore(tmp_path)).inputs] for each in calls]
    assert roles == [["input", "parameter"]] * 6


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_every_call_can_be_captured(tmp_path: Path) -> None:
    assert all(each.graph(TensorStore(tmp_path)).nodes for each in CALLS)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_an_operator_with_several_results_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.toml").write_text('[[fault]]\nkind = "nondeterministic"\nwhen = { op = "aten.logsumexp*" }')
    faulty, junit = f"faulty/eager@faults={tmp_path / 'f.toml'}", tmp_path / "junit.xml"
    command = ["repeats", "logsumexp", "-p", faulty, "-p", "cpu/eager@threads=1", "--repeat", "200", "--json"]
    assert main([*command, "--junit", str(junit), "--html", str(tmp_path / "page.html")]) == 1
    said = json.loads(capfd.readouterr().out)
    broken, right = said["results"]
    shares = [each for each in said["shares"] if each["platform"] == broken["platform"]]
    assert sum(each["probability"] for each in shares) == pytest.approx(1)
    assert all(each["low"] < each["count"] / 200 < each["high"] for each in shares)
    assert sum(broken["default"]["counts"].values()) == sum(right["switched"]["counts"].values()) == 200
    assert len(broken["default"]["counts"]) > 1 and broken["switched"] is None
    assert list(right["default"]["counts"].values()) == [200]
    assert 'failures="1"' in junit.read_text() and "no such option" in (tmp_path / "page.html").read_text()
    assert main(["repeats", "ctc_loss", "-p", "onnxruntime/cpu", "--repeat", "2"]) == 2
    assert "NOTHING WAS REPEATED: no platform ran an operator" in capfd.readouterr().err
