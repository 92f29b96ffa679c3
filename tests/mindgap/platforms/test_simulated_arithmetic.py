"""What is kept of a simulator's arithmetic: exact results, wrong ones with an example, what it does not run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindgap.cli import env
from mindgap.cli.app import main
from mindgap.graph import Graph
from mindgap.platforms.listing import PlatformInfo
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import Array, Availability, Unsupported
from mindgap.platforms.simulated_arithmetic import (
    check_arithmetic,
    checked_words,
    described_arithmetic,
    kept_arithmetic,
    not_exact,
)
from mindgap.results.rows import PlatformFacts, Report

VALUES = 1 << 14


class Flushing:
    """Adds and multiplies float32 in numpy. Denormal products are zero, and it has nothing else."""

    def describe(self) -> dict[str, Any]:
        return {"versions": {"flushing": "1"}, "execution": "simulated"}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Any:
        op = graph.nodes[0].op
        if op not in ("aten.add.Tensor", "aten.mul.Tensor") or inputs[0].dtype != np.float32:
            raise Unsupported(op, "it has no such operator")

        def run(operands: Sequence[Array]) -> list[Array]:
            with np.errstate(all="ignore"):
                found = operands[0] + operands[1] if op == "aten.add.Tensor" else operands[0] * operands[1]
            tiny = np.finfo(np.float32).tiny
            return [np.where(np.abs(found) < tiny, 0, found).astype(np.float32) if "mul" in op else found]

        return run


def test_the_answer_is_kept_with_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    platform = Flushing()
    assert "not checked" in described_arithmetic(platform.describe(), "npu")["arithmetic"]
    found = check_arithmetic(platform, VALUES, name="npu/flushing", environment="npu")
    assert found["float32 add"] == "exact"
    assert found["float32 multiply"].split(":")[0].endswith(f"of {VALUES} are not exact")
    assert "multiply(" in found["float32 multiply"]
    assert found["float32 sqrt"] == "not run: aten.sqrt.default: it has no such operator"
    assert described_arithmetic({**platform.describe(), "dtypes": {}}, "npu")["arithmetic"] == found
    for other, environment in (({"versions": {"flushing": "2"}}, "npu"), ({}, "another"), ({}, "")):
        said = described_arithmetic({**platform.describe(), **other}, environment)
        assert "not checked" in said["arithmetic"]
    assert described_arithmetic({"versions": {}}, "npu") == {}

    def installed(packages: Sequence[str], version: str = "1") -> dict[str, str]:
        return dict.fromkeys(packages, version)

    assert kept_arithmetic("npu", installed) == {"npu/flushing": found} and kept_arithmetic("another", installed) == {}
    assert kept_arithmetic("npu", lambda packages: installed(packages, "2")) == {}
    assert kept_arithmetic("npu", lambda packages: {}) == {}, "of a package that is gone"
    ran = [each for each in found.values() if not each.startswith("not run")]
    words = f"arithmetic checked: {len(ran) - 1} of {len(ran)} exact, {len(found) - len(ran)} not run"
    assert checked_words(found) == words and checked_words({}) == "arithmetic not checked"
    assert [line.partition(":")[0] for line in not_exact(found)] == ["float32 multiply"]
    folder = tmp_path / "environments/npu/arithmetic"
    (folder / "broken.json").write_text("{")
    (folder / "unknown.json").write_text(json.dumps({"platform": "npu/old", "operations": found}))
    assert [*kept_arithmetic("npu", installed)] == ["npu/flushing"]


def test_a_software_driver_is_listed_as_emulated_with_its_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    name = "ncnn/vulkan@device=swiftshader"
    info = PlatformInfo("ncnn/vulkan", "", True, "", "", {"ncnn": "1"}, {}, environment="")
    assert (info.with_options(parse("ncnn/vulkan")).execution, info.with_options(parse("ncnn/vulkan")).arithmetic) == (
        "",
        "",
    )
    told = info.with_options(parse(name))
    assert (told.execution, told.arithmetic) == ("emulated", "arithmetic not checked")
    answer = {
        "platform": name,
        "versions": {"ncnn": "1"},
        "operations": {"float32 add": "exact", "float32 sqrt": "not run: why"},
    }
    (tmp_path / "arithmetic").mkdir()
    (tmp_path / "arithmetic" / "1.json").write_text(json.dumps(answer))
    assert info.with_options(parse(name)).arithmetic == "arithmetic checked: 1 of 1 exact, 1 not run"
    words = info.with_options(parse("ncnn/vulkan")).arithmetic
    assert words == "device=swiftshader: arithmetic checked: 1 of 1 exact, 1 not run"
    upgraded = replace(info, versions={"ncnn": "2"}).with_options(parse(name))
    assert upgraded.arithmetic == "arithmetic not checked"
    facts = PlatformFacts(parse(name), "", True, execution=told.execution, arithmetic=told.arithmetic)
    report = Report(parse("cpu/eager"), (facts,), (), ())
    assert report.execution_words(facts.platform) == "emulated, arithmetic not checked"
    assert report.execution_words(parse("cpu/eager")) == ""


def test_a_check_that_fails_counts_as_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    # An environment with the name of a recipe, of an interpreter that lacks what the recipe installs.
    assert main(["env", "create", "qnn", "--python", sys.executable]) == 0
    available = asdict(Availability(True, versions={"onnxruntime-qnn": "0"}))
    monkeypatch.setattr(env, "_platforms", lambda where: {"onnxruntime/qnn@env=qnn": available})
    capfd.readouterr()
    assert main(["env", "check", "qnn", "--json"]) == 2
    said = capfd.readouterr()
    assert "NOT CHECKED: the arithmetic of onnxruntime/qnn could not be checked" in said.err
    (answer,) = json.loads(said.out)
    assert [*answer["not_checked"]] == ["onnxruntime/qnn"] and answer["simulated"] == {}
