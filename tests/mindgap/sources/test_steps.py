"""A model with a cache runs for several steps as one program; where tokens part is told by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import Graph, TensorStore, materialise_all
from mindgap.judge.trace.judge import Judge
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.run.outcome import Outcome
from mindgap.sources.opening import capture_built, open_source
from mindgap.sources.program import Built, Program
from mindgap.sources.source import SourceError
from mindgap.sources.steps import StepLoop, stepwise, with_tokens
from mindgap_campaign.selftest.trial import InProcessExecutor

TOKENS = torch.tensor([[1, 5, 7]])
pytestmark = pytest.mark.filterwarnings("ignore")


class Decoder(torch.nn.Module):
    """Adds up what it has seen; `twin`: two tokens have equal logits, but for rounding."""

    def __init__(self, twin: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20, bias=False)
        if twin:
            self.out.weight.data[:] = self.out.weight.data[:1] * torch.linspace(0.1, 0.5, 20)[:, None]
            self.out.weight.data[[1, 18]] = self.out.weight.data[[0, 19]]

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.table(tokens)
        seen = x if seen is None else torch.cat([seen, x], 1)
        return self.out(seen.exp().mean(1, keepdim=True) + x.exp()), seen


def graph_of(model: torch.nn.Module, steps: int, tensors: TensorStore) -> Graph:
    return capture_built(Built(StepLoop(model, steps), (TOKENS,)), tensors)


def test_each_step_takes_the_token_and_the_cache_of_the_one_before(tmp_path: Path) -> None:
    model, graph = Decoder(), graph_of(Decoder(), 3, TensorStore(tmp_path))
    names = [f"steps.{step}.{name}" for step in range(3) for name in ("token", "logits")]
    assert list(graph.labels.outputs) == [*names, "cache.0"]
    tokens, cache, taken = TOKENS, (), list[str]()
    for _ in range(3):
        logits, *cache = model(tokens, *cache)
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        taken.append(str(tokens.tolist()))
    assert [(each.kind, each.taken, each.text) for each in graph.labels.decisions] == [
        ("token", token, f"step {step}") for step, token in enumerate(taken, 1)
    ]


def test_tokens_that_part_within_rounding_are_calm_and_named_by_step(tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    graph = graph_of(Decoder(twin=True), 3, tensors)
    inputs = materialise_all(graph, tensors)
    theirs = [to_numpy(each) for each in Tape(graph).run(input_tensors(graph, inputs))]
    ours = [*theirs]
    (chosen,) = theirs[2].ravel()
    ours[2] = np.asarray([[{0: 1, 1: 0, 18: 19, 19: 18}[int(chosen)]]])
    for position in (4, 5, 6):
        ours[position] = ours[position] + np.asarray(1, ours[position].dtype)
    judge = Judge(graph, inputs, InProcessExecutor(tensors), CPU_EAGER, trace=False)
    sides = [Outcome(parse(p), "", "ok", arrays=tuple(a)) for p, a in (("cpu/jit", ours), ("cpu/eager", theirs))]
    found = judge.judge(*sides)
    assert found.verdict == "rounding"
    first = found.decisions[0]
    assert (first.text, first.came, first.stable) == ("step 2", str(ours[2].tolist()), False)
    assert "by step: 1 identical, 2 rounding, 3 ill conditioned" in found.detail


class Fixed(torch.nn.Module):
    """Returns the next tokens in place of logits."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, -1] + 1


def test_next_tokens_in_place_of_logits(tmp_path: Path) -> None:
    graph = graph_of(Fixed(), 2, TensorStore(tmp_path))
    assert list(graph.labels.outputs) == ["steps.0.token", "steps.1.token"]
    assert [each.taken for each in with_tokens(graph, TensorStore(tmp_path)).labels.decisions[:2]] == ["[[8]]", "[[9]]"]


@pytest.mark.parametrize(("program", "args", "said"), [
    (torch.sin, (TOKENS,), "takes a module, not a builtin_function_or_method"),
    (Decoder(), (torch.ones(1, 3),), r"is a tensor of tokens of shape \(batch, length\)"),
    (Decoder(), (), r"is a tensor of tokens of shape \(batch, length\)"),
])  # fmt: skip
def test_programs_without_steps_are_refused(program: Any, args: tuple[Any, ...], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        stepwise(Program("it", "it", lambda: Built(program, args)), 2).make()


def test_options_that_are_wrong_are_refused(tmp_path: Path) -> None:
    for option, said in (("steps=0", "from 1 to 1000"), ("steps=x", "from 1 to 1000"), ("path_taken=yes", "=1 or ")):
        with pytest.raises(SourceError, match=said):
            open_source(f"{tmp_path}/model.py:make?{option}")
