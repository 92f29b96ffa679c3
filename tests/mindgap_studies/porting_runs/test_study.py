"""Whole studies on real frameworks: a few functions of each, twice."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mindgap.graph import MindgapError
from mindgap.platforms.environments.recipe import made_environment
from mindgap_studies.porting.repeated import compare_studies
from mindgap_studies.porting_runs import study as study_workflow
from mindgap_studies.porting_runs.other_frameworks import with_process
from mindgap_studies.porting_runs.study import PortingRequest, run_porting
from mindgap_studies.results.ported_functions import (
    CLASSES,
    FrameworkDraw,
    FunctionCell,
    Latency,
    PortingSettings,
    SampleResult,
    StudyFile,
)
from porting.ported_study import ported_study

PROGRAMS = {
    "pytorch": "import torch\ntorch.add(1, 2)\ntorch.add(3, 4)\ntorch.lgamma(1)\ntorch.nn.ReLU()\ntorch.tensor(1)\n",
    "jax": "from jax import lax, numpy as jnp\njnp.sin(1); jnp.sin(2)\nlax.while_loop(1, 2, 3)\njnp.unique(1)\n",
    "tensorflow": "import tensorflow as tf\ntf.sin(1); tf.sin(2)\ntf.linalg.lu(1)\ntf.get_static_value(1)\n",
}
#: What is lost where, by the frameworks' documentation.
LOST = {
    "pytorch": {("torch.lgamma", "onnxruntime/cpu")},
    "jax": {("jax.numpy.unique", "cpu/jit"), ("jax.numpy.unique", "cpu/export")},
    "tensorflow": {
        ("tensorflow.linalg.lu", "cpu/xla"), ("tensorflow.linalg.lu", "cpu/litert"),
        *(("tensorflow.get_static_value", target) for target in ("cpu/graph", "cpu/xla", "cpu/litert")),
    },
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", [*PROGRAMS])
def test_two_studies_agree_and_find_what_is_lost(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if framework != "pytorch" and made_environment(framework) is None:
        pytest.skip(f"mindgap env create {framework}")
    # Usage is that of one file, so that the draw is known.
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.py").write_text(PROGRAMS[framework])
    monkeypatch.setattr("mindgap_studies.porting_runs.study.own_packages", list)
    monkeypatch.setattr("mindgap_studies.porting_runs.study.environment_packages", lambda name: [])
    platforms = ("cpu/jit", "onnxruntime/cpu", "cuda/eager") if framework == "pytorch" else ()
    request = PortingRequest(
        (framework,), (tmp_path / "code",), platforms, PortingSettings(top=3, per_decile=0, processes=2, rounds=9)
    )
    studies = []
    for number in (1, 2):
        study, problems = run_porting(request, tmp_path / f"{number}.jsonl", lambda done, total, what: None)
        assert not problems
        studies.append(study)
    draw = studies[0].draws[framework]
    assert len(draw.drawn) == 3 and draw.drawn[0].uses >= 2
    assert all(why for target, why in draw.targets.items() if target.startswith(("cuda", "tpu")))
    lost = {(c.function, c.target) for c in studies[0].cells.values() if c.word in CLASSES[1:3]}
    assert lost == LOST[framework]
    assert all(cell.latency is not None for cell in studies[0].cells.values() if cell.word == "success")
    agreement = compare_studies(*studies)
    assert agreement.differences == () and agreement.cells == len(studies[0].cells)


def test_an_environment_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    with pytest.raises(MindgapError, match=r"jax: no environment jax.*mindgap env create jax"):
        run_porting(PortingRequest(("jax",)), tmp_path / "study.jsonl", lambda done, total, what: None)


class FoundFramework:
    """A framework of which only targets and versions are asked."""

    name = "tensorflow"

    def __init__(self, targets: dict[str, str], versions: dict[str, str]) -> None:
        self._targets, self._versions = targets, versions

    def targets(self) -> dict[str, str]:
        return self._targets

    def versions(self) -> dict[str, str]:
        return self._versions


def refreshed(targets: dict[str, str], here: dict[str, str], **changes: Any) -> FrameworkDraw:
    study, found = ported_study(), FoundFramework(targets, here)
    draw = replace(study.draws["tensorflow"], **changes)
    return study_workflow._refreshed(draw, found, study, Path("s.jsonl"))  # pyright: ignore[reportPrivateUsage]


def test_a_target_that_came_is_available_when_a_study_goes_on_and_results_stay() -> None:
    found = refreshed({"cuda/eager": "", "cpu/xla": "it is gone"}, {"tensorflow": "2.0", "cuda": "13"})
    assert found.targets == {"cpu/graph": "", "cpu/xla": "", "cuda/eager": ""}
    assert found.versions == {"tensorflow": "2.0", "cuda": "13"}


def test_a_study_of_another_runtime_does_not_go_on() -> None:
    with pytest.raises(MindgapError, match=r"ran with \{'onnx': '1'\}, and here is \{'onnx': '2'\}"):
        refreshed({}, {"onnx": "2"}, versions={"tensorflow": "2.0", "onnx": "1"})


class FailsFirst:
    """A framework whose measurements fail so many times, and count."""

    name = "pytorch"

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def measured_pass(self, cells: Sequence[FunctionCell], tick: Any) -> Iterator[tuple[FunctionCell, Latency | str]]:
        for cell in cells:
            self.calls += 1
            seconds = with_process(cell.latency, "x", 1.0, 2.0, [1.0], [2.0])
            yield cell, "it passed its memory limit" if self.calls <= self.failures else seconds


@pytest.mark.parametrize(("failures", "calls"), [(1, [1, 4, 4]), (9, [1, 2, 2])])
def test_what_was_not_measured_is_tried_once_more_when_a_study_goes_on(
    failures: int, calls: list[int], tmp_path: Path
) -> None:
    file = StudyFile(tmp_path / "study.jsonl")
    file.add(file.begin(PortingSettings().to_json(), "m"), FunctionCell("pytorch", "f", "t", (SampleResult("x"),)))
    framework = FailsFirst(failures)
    for expected in calls:  # runs of the study
        study_workflow._measure(framework, file, file.read(), lambda *_: None)  # pyright: ignore[reportPrivateUsage]
        assert framework.calls == expected
    (cell,) = file.read().of_framework("pytorch")
    assert (cell.latency is None, bool(cell.untimed)) == ((False, False) if failures == 1 else (True, True))
