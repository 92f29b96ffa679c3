"""Single operators, repeated: distinct results, their probabilities, and what the deterministic option does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.cli.app import main
from mindgap.graph import MindgapError, TensorStore
from mindgap.models.corpus.operator_samples.accumulating import CALLS
from mindgap.platforms.registry import canonical
from mindgap.workflows.diff.operator_repeats import OperatorRepeats, Repeated, chosen


def test_intervals_are_those_of_the_literature() -> None:
    """Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion", 2001: of 0 in 10 and 5 in 10."""
    assert Repeated({"a": 10}).share() == pytest.approx((1.0, 1 - 0.2775, 1.0), abs=1e-4)
    assert Repeated({"a": 10_000}).share() == pytest.approx((1.0, 0.99962, 1.0), abs=1e-5)
    assert Repeated({"a": 5, "b": 5}).share() == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)


ONE, OTHER, SEVERAL, NONE = Repeated({"a": 9}), Repeated({"b": 9}), Repeated({"a": 8, "b": 1}), Repeated({}, "refused")


@pytest.mark.parametrize(
    ("default", "switched", "effect"),
    [
        (ONE, None, "none"), (SEVERAL, ONE, "fixes"), (SEVERAL, SEVERAL, "fails"), (ONE, SEVERAL, "fails"),
        (ONE, NONE, "refuses"), (ONE, ONE, "nothing"), (ONE, OTHER, "other result"), (NONE, ONE, "unknown"),
    ],
)  # fmt: skip
def test_what_the_option_does(default: Repeated, switched: Repeated | None, effect: str) -> None:
    assert OperatorRepeats("sum", "accumulates", canonical("cpu/eager"), default, switched).effect == effect


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
