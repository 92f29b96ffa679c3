"""A server against its model: servers with one mistake each, on models of several architectures, and healthy ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mindgap.cli.app import main
from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.sources.opening import capture_program, open_source
from mindgap_surveys.servers.against_model import ComparedText, compared
from mindgap_surveys.servers.completion_client import CompletionClient, CompletionRequest
from mindgap_surveys.servers.diagnosis import Diagnosis, diagnose
from mindgap_surveys.servers.local_model import LocalModel
from mindgap_surveys.servers.served_texts import ServedText, TextServer, Vocabulary
from mindgap_zoo.hubs.tokenizer import tokenizer_of
from servers.faulty_server import MODELS, Fault, make_model, serving

PROMPTS = ("Once up", "def main(a)")
TOKENS = 4
BOS, EOS = 256, 257
TOKEN, PLACE, DTYPE = "template or BOS token", "positions or RoPE scaling", "another dtype"


class Compared:
    """A model in a folder, and servers of it with faults."""

    def __init__(self, folder: Path, name: str, **settings: Any) -> None:
        self.folder = make_model(folder / "model", name, **settings)
        self.rotates = name != "GPT2"
        tensors = TensorStore(folder / "tensors")

        def graph_of(tokens: int, dtype: str) -> Graph:
            options = f"decoding={tokens},0" + (f"&dtype={dtype}" if dtype else "")
            (program,) = open_source(f"hub:{self.folder}?{options}")
            return capture_program(program, tensors)

        self.model = LocalModel(graph_of, tensors)
        tokenizer, self.most = tokenizer_of(f"hub:{self.folder}")
        self.vocabulary = Vocabulary(tokenizer)
        self.model.prepare(20)

    def with_fault(self, fault: Fault, chat: bool = False) -> tuple[list[ComparedText], Diagnosis | None]:
        with serving(self.folder, fault) as url:
            server = TextServer(CompletionClient(url), CompletionRequest("m", "", TOKENS, chat), self.vocabulary)
            served = [server.ask(each) for each in PROMPTS]
        texts = [compared(each, self.model.text(each.ids), server.step) for each in served]
        return texts, diagnose(self.model, self.vocabulary, texts, server.step, self.most)


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Compared]:
    made: dict[str, Compared] = {}

    def get(name: str = "Llama", **settings: Any) -> Compared:
        key = f"{name} {settings}"
        if key not in made:
            made[key] = Compared(tmp_path_factory.mktemp("served"), name, **settings)
        return made[key]

    return get


def rotary(**parameters: Any) -> Fault:
    return Fault(config=(("rope_parameters", {"rope_type": "default", "rope_theta": 1e4, **parameters}),))


#: Reports of servers whose answers were not the model's, rebuilt: what the server did, what is named, and by which
#: words where a run of the model with this change explains the log-probabilities.
REPORTED = {
    # https://github.com/huggingface/trl/issues/3853: the server puts a second BOS token before a prompt that has one.
    "two BOS tokens": ({"begins": True}, Fault(before=(BOS,)), False, TOKEN, "an additional <s> at the start"),
    # https://github.com/vllm-project/vllm/pull/16976: so it does after the chat template, which begins with one.
    "BOS before a template": ({}, Fault(before=(BOS,), usage=False), True, TOKEN, "an additional <s> at the start"),
    # https://github.com/vllm-project/vllm/issues/2012: completions of a tokenizer that also adds EOS.
    "EOS after the prompt": ({}, Fault(after=(EOS,), numbers=False), False, TOKEN, "an additional </s> at the end"),
    # https://github.com/Blaizzy/mlx-vlm/pull/1710: rope_scaling of the configuration is left out.
    "scaling left out": (
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}, rotary(), False, PLACE,
        "4 times as fast",
    ),
    # https://github.com/vllm-project/vllm/issues/9490: another rope_theta than the configuration's.
    "another base": ({}, rotary(rope_theta=5e5), False, PLACE, "a base of rotary embeddings of 500000"),
    # https://github.com/skyzh/tiny-llm/pull/46: the offset of decoding grows by too much after the first step.
    "offset of decoding": ({}, Fault(cache="position"), False, "cache", "generated token 2"),
    # https://github.com/ggml-org/llama.cpp/issues/7859: a token stands in the cache twice.
    "a token twice in the cache": ({}, Fault(cache="twice"), False, "cache", "generated token 2"),
    # https://github.com/allenai/olmo-cookbook/issues/60: the server takes float16 for a model in float32.
    "float16 for float32": ({}, Fault(dtype="float16"), False, DTYPE, "float16"),
}  # fmt: skip


@pytest.mark.parametrize("case", REPORTED)
def test_a_reported_server(case: str, of: Callable[..., Compared]) -> None:
    settings, fault, chat, cause, words = REPORTED[case]
    texts, looks_like = of(**settings).with_fault(fault, chat)
    assert looks_like is not None and looks_like.cause == cause and words in looks_like.detail, looks_like
    assert any(each.verdict == "beyond" and each.first is not None for each in texts)


#: Other mistakes, with what is named: the cause for models with rotary embeddings, and for one that learns positions.
FAULTS: dict[str, tuple[Fault, str | None, str | None]] = {
    "BOS": (Fault(before=(BOS,)), TOKEN, TOKEN),
    "BOS, not counted": (Fault(before=(BOS,), usage=False), TOKEN, TOKEN),
    "BOS, texts alone": (Fault(before=(BOS,), usage=False, numbers=False), TOKEN, TOKEN),
    "a system prompt": (Fault(before=(70, 71, 72)), TOKEN, TOKEN),
    # A rotation by the same angle of all positions changes nothing.
    "positions from 1 on": (Fault(shift=1), None, PLACE),
    "twice as slow": (rotary(rope_type="linear", factor=2.0), PLACE, None),
    "a base that no one has": (rotary(rope_theta=3e5), PLACE, None),
    "bfloat16 weights": (Fault(weights="bfloat16"), DTYPE, DTYPE),
    "bfloat16": (Fault(dtype="bfloat16"), DTYPE, DTYPE),
    "8 bits": (Fault(bits=8), "quantisation", "quantisation"),
    "4 bits": (Fault(bits=4), "quantisation", "quantisation"),
    "a lost token": (Fault(cache="lost"), "cache", "cache"),
    "an 8-bit cache": (Fault(cache="narrow"), "cache", "cache"),
    "the second token": (Fault(second=True), "sampling", "sampling"),
    "none": (Fault(), None, None),
    "eager attention": (Fault(attention="eager"), None, None),
    "a batch": (Fault(beside=3), None, None),
}


def check(model: Compared, fault: str) -> None:
    given, rotating, learning = FAULTS[fault]
    want = rotating if model.rotates else learning
    texts, looks_like = model.with_fault(given)
    assert (looks_like.cause if looks_like else None) == want, (looks_like, texts)
    assert all(each.verdict == "rounding" for each in texts) == (want is None)


@pytest.mark.parametrize("fault", ["none", "eager attention", "a batch", "8 bits", "the second token"])
def test_a_server_of_a_small_llama(fault: str, of: Callable[..., Compared]) -> None:
    check(of(), fault)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_every_fault_of_every_architecture(name: str, seed: int, of: Callable[..., Compared]) -> None:
    model = of(name, seed=seed, begins=seed == 2)
    for fault, (given, _, _) in FAULTS.items():
        if model.rotates or not given.config:  # GPT-2 has no rotary embeddings
            check(model, fault)


@pytest.mark.nightly
def test_a_model_in_bfloat16(of: Callable[..., Compared]) -> None:
    """Its own dtype, float32 and other kernels are within what the oracle gives for it; a fault is not."""
    model = of(dtype="bfloat16")
    for healthy in (Fault(), Fault(dtype="float32"), Fault(attention="eager"), Fault(beside=3)):
        texts, looks_like = model.with_fault(healthy)
        assert looks_like is None, (healthy, texts)
    for fault, cause in ((Fault(before=(BOS,)), TOKEN), (Fault(cache="position"), "cache")):
        _, looks_like = model.with_fault(fault)
        assert looks_like is not None and looks_like.cause == cause


@pytest.mark.nightly
def test_a_compiled_server(of: Callable[..., Compared]) -> None:
    texts, looks_like = of().with_fault(Fault(compiled=True))
    assert looks_like is None and all(each.verdict == "rounding" for each in texts)


@pytest.mark.parametrize("form", ["llama.cpp", "strict"])
def test_forms_of_answers(form: str, of: Callable[..., Compared]) -> None:
    """llama.cpp's objects with numbers; a server that refuses a field that it does not know."""
    for chat in (False, True):
        texts, looks_like = of().with_fault(Fault(form=form), chat)
        assert looks_like is None and sum(place.compared for text in texts for place in text.places) > 20


def test_the_command(tmp_path: Path, of: Callable[..., Compared], capfd: pytest.CaptureFixture[str]) -> None:
    folder = of().folder
    with serving(folder, Fault(before=(BOS,))) as url:
        capfd.readouterr()
        status = main([
            "invariance", url, "--against", f"hf:{folder}", "--prompt", "Once up", "--max-tokens", "4", "--json",
            "--html", str(tmp_path / "page.html"), "--junit", str(tmp_path / "cases.xml"),
        ])  # fmt: skip
    found = json.loads(capfd.readouterr().out)
    assert status == 1 and found["dtype"] == "float32" and found["against"] == f"hub:{folder}"
    assert found["looks_like"]["cause"] == TOKEN and found["looks_like"]["explained"]
    assert TOKEN in (tmp_path / "page.html").read_text() and "<failure" in (tmp_path / "cases.xml").read_text()


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that is wrong use."""
    capfd.readouterr()
    assert main(["invariance", *arguments]) == 2
    written = capfd.readouterr()
    (line,) = written.err.splitlines()
    assert not written.out
    return line


def test_what_is_refused(tmp_path: Path, of: Callable[..., Compared], capfd: pytest.CaptureFixture[str]) -> None:
    folder = of().folder
    against = ("--against", f"hub:{folder}", "--max-tokens", "4")
    with serving(folder, Fault(logprobs=False)) as url:
        assert "it gives no log-probabilities (logprobs)" in refused(capfd, url, *against)
        assert "are more than the model's 256 positions" in refused(capfd, url, *against, "--prompt", "x" * 253)
        assert "not with --against" in refused(capfd, url, *against, "--requests", "3")
        assert "name a folder of Hugging Face" in refused(capfd, url, "--against", "timm:resnet18")
        assert "no such folder" in refused(capfd, url, "--against", f"hub:{tmp_path}/none")
    assert "no server answers" in refused(capfd, url, *against)
    assert "the connection failed" in refused(capfd, url, *against, "--model", "m")
    assert "only a server" in refused(capfd, "timm:resnet18", "-p", "cpu/eager", *against)
    words = tmp_path / "words"
    make_words(words, folder)
    with serving(folder, Fault(form="strict")) as url:
        assert "the folder is of another model" in refused(capfd, url, "--against", f"hub:{words}")


def make_words(folder: Path, model: Path) -> None:
    """A model with a tokenizer of words."""
    import importlib

    library, tokenizers = importlib.import_module("transformers"), importlib.import_module("tokenizers")
    words = {each: number for number, each in enumerate(["[UNK]", "Once", "upon", "a", "time"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]").save_pretrained(folder)
    (folder / "config.json").write_text((model / "config.json").read_text())


def test_names_of_tokens_that_stand_for_several(of: Callable[..., Compared]) -> None:
    """128 bytes are no text alone, and have one name. A text is compared up to the first of them."""
    model = of()
    served: list[ServedText] = []
    for form in ("vllm", "text"):
        with serving(model.folder, Fault(form=form)) as url:
            server = TextServer(CompletionClient(url), CompletionRequest("m", "", 16), model.vocabulary)
            served.append(server.ask(PROMPTS[1]))
    whole, part = served
    assert len(part.ids) < len(whole.ids) == len(PROMPTS[1]) + 15 and whole.ids[: len(part.ids)] == part.ids
    for one in part.places:
        full = next(each for each in whole.places if (each.index, each.how) == (one.index, one.how))
        assert one.logprobs.items() <= full.logprobs.items()
    assert compared(part, model.model.text(part.ids), server.step).verdict == "rounding"
    with pytest.raises(MindgapError, match="names no token by a name that one token alone has"):
        compared(replace(part, places=()), model.model.text(part.ids), server.step)
