"""The answer to one example in different company, compared with what PyTorch gives by itself."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.cli.app import main
from mindgap.graph import Graph, MindgapError
from mindgap.graph_capture import capture
from mindgap.platforms.name import CPU_EAGER
from mindgap.run.outcome import Outcome
from mindgap_surveys.decoding.answer_judge import Answer, Condition
from mindgap_surveys.decoding.decoding import Decoded
from mindgap_surveys.decoding.invariance import (
    Asked,
    Invariance,
    _decoded,  # pyright: ignore[reportPrivateUsage]
    _run_during,  # pyright: ignore[reportPrivateUsage]
    ask,
    conditions,
)
from mindgap_surveys.decoding.kernel_choice import batch_axis, example_of

SIZES = (1, 2, 4)
MODEL = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(512, 128), torch.nn.GELU()).eval(), (torch.randn(1, 512),)

def normed():
    return torch.nn.BatchNorm1d(3).train(), (torch.arange(24.0).reshape(1, 3, 8).sin(),)

def looks_ahead():
    return (lambda x: x.exp() + x.sum(1, keepdim=True)), (torch.ones(1, 4),)

def summed():
    return (lambda x: x.sum()), (torch.ones(1, 3),)

def by_size():
    return (lambda x: x.exp() if len(x) > 1 else x.sin()), (torch.ones(1, 3),)
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return f"{tmp_path}/model.py"


def answers_of_torch(rows: int, position: int = 0) -> bytes:
    """The bits that the model of the test gives for its example in a batch of others."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 128), torch.nn.GELU()).eval()
    example = torch.randn(1, 512)
    batch = torch.cat(
        [example if at == position else example.roll(at + 1, -1) * (1 + (at + 1) / 4) for at in range(rows)]
    )
    with torch.no_grad():
        return model(batch)[position].numpy().tobytes()


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_eager_mode_answers_as_torch_does_alone(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Which sizes give other bits is the processor's; that mindgap sees the same ones is not."""
    command = ["invariance", f"{source}:make", "-p", "cpu/eager@threads=1", "--batches", "1,2,4", "--json"]
    assert main(command) == 0
    (found,) = json.loads(capfd.readouterr().out)["results"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone, first = answers_of_torch(1), {size: answers_of_torch(size) for size in SIZES}
    fourth = answers_of_torch(4, 3)
    torch.set_num_threads(threads)
    said = {(each["condition"]["question"], each["condition"]["label"]): each["verdict"] for each in found["answers"]}
    for size in SIZES[1:]:
        assert said["batch size", str(size)] == ("identical" if first[size] == alone else "rounding")
    assert said["position", "3"] == ("identical" if fourth == first[4] else "rounding")
    assert said["repeat", "again"] == said["process", "a new process"] == "identical"
    assert said["process", "beside another process"] == "identical"
    assert said["neighbours", "copies"] in ("identical", "rounding")
    by_bits: dict[bytes, list[int]] = {}
    for size in SIZES:
        by_bits.setdefault(first[size], []).append(size)
    if len(by_bits) > 1:
        (choice, *_) = found["choices"]
        assert (choice["op"], choice["node"]) == ("aten.linear.default", 0)
        assert choice["shapes"][0] == [next(s for s in SIZES if first[s] != alone), 512]
        assert choice["classes"] == list(by_bits.values())


@pytest.mark.timeout(120)
@pytest.mark.nightly
def test_statistics_of_the_batch_are_beyond_rounding(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["invariance", f"{source}:normed", "-p", "cpu/eager", "--batches", "2"]) == 1
    out = " ".join(capfd.readouterr().out.split())
    assert "batch size 2 beyond classes 1" in out
    assert "neighbours copies beyond" in out and "zeros beyond" in out
    assert "aten._native_batch_norm_legit_functional.default BatchNorm1d [2,3,8]" in out
    assert "outputs without a part for each example, not compared: 1, 2, 3" in out


@pytest.mark.timeout(120)
@pytest.mark.nightly
def test_a_model_that_looks_ahead_answers_otherwise_in_a_longer_text(
    source: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["invariance", f"{source}:looks_ahead", "-p", "cpu/eager", "--batches", "2"]
    assert main([*command, "--lengths", "2,4"]) == 1
    out = " ".join(capfd.readouterr().out.split())
    assert "length 4 beyond classes 1" in out and "batch size 2 identical" in out
    assert main([*command, "--lengths", "2,3"]) == 2
    assert "--lengths 2,3: give multiples of the smallest" in capfd.readouterr().err


def test_what_cannot_be_asked(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    for what, wrong in (
        (":summed", "no output has a part for each example"),
        (":by_size", "more examples than 1 make the model call other operators"),
        (":make?examples=4", "make?examples=4: examples=4 is what --batches sets: leave it out of the source"),
    ):
        assert main(["invariance", source + what, "-p", "cpu/eager", "--batches", "2"]) == 2
        assert wrong in capfd.readouterr().err
    assert main(["invariance", f"{source}:make?tokens=2", "-p", "cpu/eager", "--lengths", "2,4"]) == 2
    assert "tokens=2 is what --lengths sets: leave it out of the source" in capfd.readouterr().err
    assert main(["invariance", f"{source}:make", "-p", "cpu/eager", "--batches", "1"]) == 2
    assert "--batches 1: give a size above 1" in capfd.readouterr().err
    assert main(["invariance", f"{source}:make", "-p", "cpu/eager", "--threads", "two"]) == 2
    assert "--threads two: write whole numbers from 1 up" in capfd.readouterr().err


def test_the_company_of_an_example() -> None:
    alone = np.arange(3.0, dtype=np.float32).reshape(1, 3)
    graphs: dict[int, Graph] = {n: capture(torch.sin, (torch.zeros(n, 3),)) for n in (1, 3)}
    asked = Asked(graphs, [alone])
    given = asked.given(Condition("position", "1", 3, 1))[0]
    assert given.tolist() == [[2.5, 0, 1.25], [0, 1, 2], [0, 1.75, 3.5]]
    spec = graphs[1].values[0]
    assert spec is not None and np.array_equal(example_of(given, spec, 1), alone)  # type: ignore[arg-type]
    assert asked.given(Condition("neighbours", "zeros", 3, neighbours="zeros"))[0].sum() == 3
    assert example_of(np.zeros((3, 4)), spec, 0) is None


def test_the_dimension_of_examples() -> None:
    assert batch_axis((1, 4), (8, 4)) == 0
    assert batch_axis((6, 1, 4), (6, 8, 4)) == 1
    assert batch_axis((24, 4), (48, 4)) == 0
    assert batch_axis((1, 4), (8, 5)) is None and batch_axis((3, 4), (8, 4)) is None and batch_axis((4,), (4,)) is None


def test_positions_and_neighbours_change_in_the_largest_batch_of_eight_at_most() -> None:
    found = list(conditions((1, 2, 8, 16), (1,)))
    assert {each.size for each in found if each.question in ("position", "neighbours")} == {8}
    assert [each.label for each in found if each.question == "batch size"] == ["2", "8", "16"]
    assert [each.label for each in conditions((1, 32), ()) if each.question == "position"] == ["1", "16", "31"]
    assert [each.question for each in found[:4]] == ["repeat", "process", "process", "threads"]


def outcome(ran: bool) -> Outcome:
    return Outcome(CPU_EAGER, "", "ok" if ran else "crash", message="" if ran else "gone")


@pytest.mark.parametrize("others", [[False], [True, False]])
def test_nothing_runs_beside_a_process_that_does_not_run(others: list[bool]) -> None:
    came = iter(others)
    failed = threading.Event()

    def other() -> Outcome:
        ran = next(came)
        if not ran:
            failed.set()
        return outcome(ran)

    def run() -> Outcome:
        assert failed.wait(5)
        return outcome(True)

    with pytest.raises(MindgapError, match="the process beside it gives crash: gone"):
        _run_during(run, other)
    assert _run_during(lambda: outcome(True), lambda: outcome(True)).ran
    assert not _run_during(lambda: outcome(False), lambda: outcome(False)).ran


def test_a_text_that_does_not_run_costs_no_other_answer() -> None:
    class Refuses:
        def ask(self, *_: object) -> Decoded:
            raise MindgapError("nothing is compared")

    decoding: Any = Refuses()
    (answer,) = _decoded(decoding, CPU_EAGER, [], ()).answers
    assert (answer.verdict, answer.condition.question, answer.detail) == ("not_run", "decoding", "nothing is compared")


def test_a_platform_that_refuses_the_model_costs_no_other(
    source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def answers(_: object, platform: str, **__: object) -> Invariance:
        if platform == "onnxruntime/cpu":
            raise MindgapError("nothing is compared: it refuses cumsum")
        return Invariance("m", CPU_EAGER, (Answer(Condition("repeat", "again"), "identical", 0),))

    monkeypatch.setattr("mindgap_surveys.decoding.invariance.ask", answers)
    command = ["invariance", f"{source}:make", "-p", "onnxruntime/cpu", "--json"]
    assert main([*command, "-p", "cpu/eager"]) == 2
    said = capfd.readouterr()
    verdicts = [each["answers"][0]["verdict"] for each in json.loads(said.out)["results"]]
    assert verdicts == ["not_run", "identical"]
    assert said.err == "mindgap: onnxruntime/cpu: nothing is compared: it refuses cumsum\n"
    assert main(command) == 2 and not capfd.readouterr().out
    assert main([*command, "-p", "no/such"]) == 2 and not capfd.readouterr().out


def test_a_model_with_gradients_has_no_answer_of_its_own() -> None:
    graph = capture(torch.nn.Linear(3, 3), (torch.ones(1, 3),), backward=True)
    if graph.grad:
        with pytest.raises(MindgapError, match="asks for gradients"):
            ask(lambda _: graph, "cpu/eager")


def test_a_model_that_is_refused_is_refused_on_every_platform(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its sizes are captured by one process, which keeps those that were not asked for yet."""
    (tmp_path / "raises.py").write_text(
        "import torch\n\ndef make():\n    def broken(x):\n        raise ValueError('the model is broken')\n"
        "    return broken, (torch.ones(1, 3),)\n"
    )
    asked = [
        "invariance",
        f"{tmp_path}/raises.py:make",
        "-p",
        "cpu/eager",
        "-p",
        "cpu/jit",
        "--batches",
        "1,2",
        "--json",
    ]
    assert main(asked) == 2
    said = capsys.readouterr()
    assert [line.split(":")[1].strip() for line in said.err.splitlines()] == ["cpu/eager", "cpu/jit"]
    assert said.err.count("the program itself raises ValueError: the model is broken (raises.py:5)") == 2
