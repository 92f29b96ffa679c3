"""A causal model computed whole, in chunks, with padding and with a cache, compared with what it gives whole."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.cli.app import main
from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.graph_capture import capture
from mindgap.platforms.name import CPU_EAGER
from mindgap.platforms.pytorch.eager import CPU
from mindgap.platforms.registry import canonical
from mindgap.run.local import run_job
from mindgap.run.outcome import Job, Outcome
from mindgap.source_worker.client import GeneratedText
from mindgap.sources import cached_decoding
from mindgap.sources.generation import WAYS, _batch  # pyright: ignore[reportPrivateUsage]
from mindgap.sources.opening import capture_program, open_source
from mindgap_surveys.decoding.decoding import CachedModel, Decoding, Divergence

WIDTH, WORDS = 8, 16
IDS = np.array([[3, 1, 4, 1, 5, 9, 2]])


class Attention(torch.nn.Module):
    """One layer of causal attention with a cache. fault: `mask`: it sees padding; `cache`: keys of a cache are
    shifted by one; `window`: no fault: it sees the last three tokens only."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(64, WIDTH)
        self.project, self.head = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WORDS)
        self.fault = fault

    def forward(self, ids: Any, mask: Any, positions: Any, *cache: Any) -> Any:
        query, key, value = self.project(self.words(ids) + self.places(positions))[:, None].chunk(3, -1)
        if cache:
            before = cache[0].roll(1, 2) if self.fault == "cache" else cache[0]
            key, value = torch.cat([before, key], 2), torch.cat([cache[1], value], 2)
        count, total = query.shape[2], key.shape[2]
        seen = torch.ones(count, total, dtype=torch.bool).tril(total - count)
        if self.fault == "window":
            seen = seen.triu(total - count - 2)
        if self.fault != "mask":
            seen = seen & mask[:, None, None, :].bool()
        weights = (query @ key.transpose(-1, -2)).masked_fill(~seen, -1e4).softmax(-1)
        return self.head((weights @ value)[:, 0]), key, value


def calls_of(fault: str, tensors: TensorStore) -> Callable[[int, int], Graph]:
    def call_of(tokens: int, cached: int) -> Graph:
        ids, mask = torch.arange(tokens)[None] % WORDS, torch.ones(1, cached + tokens, dtype=torch.int64)
        cache = [torch.ones(1, 1, cached, WIDTH) for _ in range(2 * bool(cached))]
        return capture(Attention(fault).eval(), (ids, mask, torch.arange(tokens)[None], *cache), tensors=tensors)

    return call_of


class InThisProcess:
    """Runs jobs on eager PyTorch in this process."""

    def __init__(self, tensors: TensorStore) -> None:
        self._platform, self._tensors = CPU.open({}), tensors

    def run(self, job: Job) -> Outcome:
        return run_job(self._platform, job, tensors=self._tensors)


def model(fault: str, folder: Path) -> CachedModel:
    tensors = TensorStore(folder)
    pool: Any = InThisProcess(tensors)
    return CachedModel(calls_of(fault, tensors), CPU_EAGER, pool, 60.0)


def far(answer: Any, base: Any) -> float:
    assert [each.shape for each in answer] == [each.shape for each in base]
    return max(float(np.abs(one - other).max()) for one, other in zip(answer, base, strict=True))


def test_a_model_gives_the_same_in_every_way(tmp_path: Path) -> None:
    right = model("", tmp_path)
    whole = right.in_chunks(IDS, [7])
    assert whole[0].shape == (1, 7, WORDS) and whole[1].shape == (1, 1, 7, WIDTH)
    tokens, steps = right.decode(IDS, 4, forced=True)
    assert tokens.tolist() == np.argmax(whole[0][0, 3:], -1).tolist()
    for answer in (right.in_chunks(IDS, [3, 3, 1]), right.padded(IDS, 2, 0), right.padded(IDS, 0, 3), steps):
        assert far(answer, whole) < 1e-5
    chosen, free = right.decode(np.pad(IDS[:, :4], ((0, 0), (0, 3))), 4, forced=False)
    again = right.in_chunks(np.concatenate([IDS[:, :4], chosen[None, :3]], 1), [7])
    assert far(free, again) < 1e-5


def test_a_window_over_the_last_tokens_holds_tokens_in_every_way(tmp_path: Path) -> None:
    windowed, full = model("window", tmp_path / "windowed"), model("", tmp_path / "full")
    whole = windowed.in_chunks(IDS, [7])
    assert far(full.in_chunks(IDS, [7])[:1], whole[:1]) > 1e-2
    steps = windowed.decode(IDS, 4, forced=True)[1]
    for answer in (windowed.in_chunks(IDS, [3, 3, 1]), windowed.padded(IDS, 2, 0), windowed.padded(IDS, 0, 3), steps):
        assert far(answer, whole) < 1e-5


def test_layers_without_keys_and_values_of_each_token_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Language(torch.nn.Module):
        config = None

        def can_generate(self) -> bool:
            return True

    kinds = ["full_attention", "sliding_attention", "chunked_attention"]
    monkeypatch.setattr(cached_decoding, "_layers", lambda _: kinds)
    built: Any = SimpleNamespace(program=Language())
    assert cached_decoding.causal_model(built, "m") is built.program
    kinds += ["linear_attention", "linear_attention"]
    with pytest.raises(MindgapError, match=r"m: 2 of its layers are linear_attention: they keep no keys and values"):
        cached_decoding.causal_model(built, "m")


_HYBRID = """
import torch, transformers

def make():
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=64, initializer_range=0.3,
    )
    return transformers.Gemma3ForCausalLM(config).eval(), (torch.arange(1, 13)[None] * 7 % 60,)
"""


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_hybrid_of_window_and_full_attention_with_grouped_queries(tmp_path: Path) -> None:
    """Gemma 3: a step with a cache is refused where transformers leaves the mask out as it reads the arguments."""
    (tmp_path / "model.py").write_text(_HYBRID)
    tensors = TensorStore(tmp_path / "tensors")

    @functools.cache
    def call_of(tokens: int, cached: int) -> Graph:
        programs = open_source(f"{tmp_path}/model.py:make?decoding={tokens},{cached}")
        return capture_program(programs[0], tensors=tensors)  # type: ignore[arg-type]

    pool: Any = InThisProcess(tensors)
    hybrid, ids = CachedModel(call_of, CPU_EAGER, pool, 60.0), (np.arange(1, 13) * 7 % 60)[None]
    whole = hybrid.in_chunks(ids, [12])
    assert whole[1].shape == (1, 1, 12, 8)
    steps = hybrid.decode(ids, 5, forced=True)[1]
    for answer in (hybrid.in_chunks(ids, [4, 7, 1]), hybrid.padded(ids, 3, 0), hybrid.padded(ids, 0, 3), steps):
        assert far(answer, whole) < 1e-5


def test_a_model_that_sees_padding_or_shifts_its_cache_is_seen(tmp_path: Path) -> None:
    sees_padding, shifts = model("mask", tmp_path), model("cache", tmp_path)
    whole = sees_padding.in_chunks(IDS, [7])
    assert far(sees_padding.padded(IDS, 2, 0), whole) > 1e-2
    assert max(far(sees_padding.padded(IDS, 0, 2), whole), far(sees_padding.in_chunks(IDS, [4, 3]), whole)) < 1e-5
    assert far(shifts.in_chunks(IDS, [4, 3]), whole) > 1e-2


@pytest.mark.parametrize("tokens", [2, 3, 4, 9])
def test_every_way_to_generate_has_a_batch(tokens: int) -> None:
    ids = torch.arange(tokens)[None]
    for way in WAYS:
        batch, mask = _batch(ids, way)
        assert batch.shape == mask.shape == (1 + way.others + way.longer, tokens + max(way.left, 4 * way.longer))
        assert batch[0][mask[0].bool()].tolist() == ids[0].tolist() and mask[1:].all()
        if way.longer:
            assert batch[1].tolist() == [at % tokens for at in range(tokens + 4)]


def test_what_a_divergence_says_of_tokens() -> None:
    def of(*other: bool) -> Divergence:
        return Divergence("free-running", CPU_EAGER, tuple(map(float, other)), other, None, "rounding")

    assert (of(False, True, False).first_token, of(False, True, False).rejoined) == (2, 3)
    assert (of(False, True).first_token, of(False, True).rejoined) == (2, 0)
    assert (of(False, False).first_token, of(False).first_step, of(False).rejoined) == (0, 0, 0)


def test_sources_that_decode_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\ndef make():\n    return torch.sin, (torch.ones(1, 3),)\n")
    source = f"{tmp_path}/model.py:make"
    with pytest.raises(MindgapError, match=r"decoding=1; it takes TOKENS,CACHED, as in decoding=1,8"):
        open_source(f"{source}?decoding=1")
    with pytest.raises(MindgapError, match="sin is no causal language model of transformers, such as"):
        capture_program(open_source(f"{source}?decoding=1,2")[0])  # type: ignore[arg-type]
    with pytest.raises(MindgapError, match="a prompt of 8 and 1 steps: both take 2 tokens or more"):
        Decoding(lambda tokens, cached: Graph((), (), ()), 8, 1, tensors=TensorStore(tmp_path))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_oracle_tells_rounding_from_a_fault(tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    said: dict[str, dict[str, str]] = {}
    for fault in ("mask", "cache", ""):
        decoding = Decoding(calls_of(fault, tensors), 5, 4, tensors=tensors)
        text = GeneratedText("alone", decoding.chosen, decoding._eager[0][0, 4:])  # pyright: ignore[reportPrivateUsage]
        other = GeneratedText("other", np.roll(decoding.chosen, 1) + 1, text.logits)
        found = decoding.ask(CPU_EAGER, notes := [], [text, other])
        assert not notes and not found.divergences
        said[fault] = {f"{each.condition.question} {each.condition.label}": each.verdict for each in found.answers}
        generated = [each for each in found.answers if each.condition.question == "generate"]
        assert [each.token for each in generated] == [0, 1]
    assert set(said[""].values()) <= {"identical", "rounding"}
    failed = GeneratedText("alone", np.zeros(0), np.zeros(0), "it raised")
    assert [(each.verdict, each.detail) for each in decoding.ask(CPU_EAGER, [], [failed]).answers[-1:]] == [
        ("not_run", "it raised")
    ]
    assert said["mask"]["padding 4 left"] == "beyond" and said["mask"]["padding 4 right"] != "beyond"
    assert said["cache"]["chunked 2 tokens"] == said["cache"]["static cache the last 3 tokens one by one"] == "beyond"
    assert said["cache"]["repeat the whole text again"] == said["cache"]["generate alone"] == "identical"
    forced, free = decoding.ask(canonical("onnxruntime/cpu"), []).divergences
    assert (forced.kind, free.kind) == ("teacher-forced", "free-running") and forced.verdict in (
        "rounding",
        "identical",
    )
    assert len(forced.distances) == 4 and max(forced.distances) < 1e-5


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_model_of_transformers_through_modules_and_generate(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["invariance", "transformers:LlamaForCausalLM", "-p", "cpu/eager", "--batches", "1,2", "--json"]
    assert main([*command, "--decoding", "6,4", "--kernels"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["results"]
    asked = {each["condition"]["question"] for each in found["answers"]}
    assert {"padding", "chunked", "decoding", "static cache", "generate"} <= asked
    labels = {each["condition"]["label"] for each in found["answers"] if each["condition"]["question"] == "generate"}
    assert {"alone", "no cache", "static cache", "in a batch of 4", "beside a longer prompt"} <= labels
    assert {each["verdict"] for each in found["answers"]} <= {"identical", "rounding"}
    assert not any(each["token"] for each in found["answers"])
    ops = {each["op"] for each in found["kernels"]}
    assert {"aten.linear.default", "aten.scaled_dot_product_attention.default"} <= ops
    assert all(sorted(size for sizes in each["classes"] for size in sizes) == [1, 2] for each in found["kernels"])
