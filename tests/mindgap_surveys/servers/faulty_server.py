"""A server with a small random model of transformers that makes one kind of mistake, and such models."""

from __future__ import annotations

import copy
import importlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from mindgap.sources.libraries import declare_operators

SIZES = {"vocab_size": 259, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
WIDE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {**WIDE, "num_key_value_heads": 2, "max_position_embeddings": 256}
#: Architecture -> the settings of a model of two layers.
MODELS: dict[str, dict[str, Any]] = {
    "Llama": {**GROUPED}, "Qwen2": {**GROUPED}, "Mistral": {**GROUPED, "sliding_window": None},
    # A quarter of a head, the default, is one frequency here, which no base changes.
    "GPTNeoX": {**WIDE, "max_position_embeddings": 256, "rotary_pct": 1.0},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "Gemma": {**GROUPED, "head_dim": 8}, "Phi": {**GROUPED}, "Qwen3": {**GROUPED, "head_dim": 8},
}  # fmt: skip
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def transformers() -> Any:
    declare_operators()
    return importlib.import_module("transformers")


def make_tokenizer(folder: Path, begins: bool = False) -> None:
    """A tokenizer of bytes. begins: a text begins with <s>."""
    tokenizers = importlib.import_module("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({each: number for number, each in enumerate(alphabet)}, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(["<s>", "</s>", "<pad>"])
    if begins:
        inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    made = transformers().PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


def make_model(
    folder: Path, name: str = "Llama", seed: int = 0, dtype: str = "float32", begins: bool = False, spread: float = 0.2,
    **settings: Any,
) -> Path:  # fmt: skip
    library = transformers()
    torch.manual_seed(seed)
    config = getattr(library, f"{name}Config")(**SIZES, **{**MODELS[name], "initializer_range": spread, **settings})
    ends = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    model = getattr(library, f"{name}{ends}")(config).eval().to(getattr(torch, dtype))
    model.save_pretrained(folder)
    make_tokenizer(folder, begins)
    return folder


@dataclass(frozen=True)
class Fault:
    """What the server does otherwise.

    before, after: tokens added to a prompt. shift: of positions. config: of other settings. dtype: of the model.
    bits: of its weights. cache: how decoding goes wrong. second: it chooses the second token. numbers:
    whether it takes tokens. form: of its answer. logprobs: whether it gives them. attention: the implementation.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    shift: int = 0
    config: tuple[tuple[str, Any], ...] = ()
    dtype: str = ""
    weights: str = ""
    bits: int = 0
    cache: str = ""
    second: bool = False
    numbers: bool = True
    form: str = "vllm"
    logprobs: bool = True
    attention: str = "sdpa"
    beside: int = 0
    compiled: bool = False
    usage: bool = True
    chat: str = ""


class Engine:
    """Answers prompts with a folder's model, with a fault."""

    def __init__(self, folder: Path, fault: Fault) -> None:
        library = transformers()
        self.fault = fault
        self.tokenizer = library.AutoTokenizer.from_pretrained(folder)
        config = library.AutoConfig.from_pretrained(folder)
        for name, value in fault.config:
            setattr(config, name, {**getattr(config, name), **value} if isinstance(value, dict) else value)
        self.model = library.AutoModelForCausalLM.from_pretrained(
            folder, config=config, attn_implementation=fault.attention
        ).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                if fault.weights:
                    parameter.copy_(parameter.to(getattr(torch, fault.weights)).to(parameter.dtype))
                if fault.bits and parameter.dim() > 1:
                    step = parameter.abs().amax(-1, keepdim=True).clamp(min=1e-9) / (2 ** (fault.bits - 1) - 1)
                    parameter.copy_((parameter / step).round() * step)
        if fault.dtype:
            self.model.to(getattr(torch, fault.dtype))
        if fault.compiled:
            self.forward: Any = torch.compile(self.model)
        else:
            self.forward = self.model
        self.lock = threading.Lock()

    def encode(self, prompt: Any, chat: bool) -> list[int]:
        if isinstance(prompt, list) and not chat:
            return [int(each) for each in prompt]
        if chat:
            text = self.tokenizer.apply_chat_template(
                prompt, tokenize=False, add_generation_prompt=self.fault.chat != "without answer"
            )
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            ids = self.tokenizer(prompt)["input_ids"]
        return [*self.fault.before, *ids, *self.fault.after]

    @torch.no_grad()
    def generate(self, ids: list[int], count: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields each token with log-probabilities of all."""
        batch = torch.tensor([ids] * (1 + self.fault.beside))
        for row in range(1, len(batch)):
            batch[row] = batch[row].roll(row)
        cache, given, start = None, batch, self.fault.shift
        for step in range(count):
            positions = torch.arange(start, start + given.shape[1])[None].expand(len(batch), -1)
            if step and self.fault.cache == "position":
                positions = positions + 1
            output = self.forward(input_ids=given, position_ids=positions, past_key_values=cache, use_cache=True)
            cache, start = output.past_key_values, start + given.shape[1]
            if self.fault.cache == "lost" and not step:
                for layer in cache.layers:
                    layer.keys, layer.values = layer.keys[:, :, 1:], layer.values[:, :, 1:]
            if self.fault.cache == "twice" and not step:
                for layer in cache.layers:
                    layer.keys = torch.cat([layer.keys, layer.keys[:, :, -1:]], 2)
                    layer.values = torch.cat([layer.values, layer.values[:, :, -1:]], 2)
            if self.fault.cache == "narrow" and not step:
                for layer in cache.layers:
                    layer.keys = layer.keys.to(torch.float8_e4m3fn).to(layer.keys.dtype)
                    layer.values = layer.values.to(torch.float8_e4m3fn).to(layer.values.dtype)
            logits = output.logits[0, -1].float()
            logprobs = torch.log_softmax(logits, -1)
            token = int(logprobs.topk(2).indices[int(self.fault.second)])
            yield token, logprobs
            given = torch.full((len(batch), 1), token)

    def answer(self, asked: dict[str, Any], chat: bool) -> dict[str, Any]:
        prompt = asked["messages"] if chat else asked["prompt"]
        if isinstance(prompt, list) and not chat and not self.fault.numbers:
            raise ValueError("prompt must be a string")
        if self.fault.form == "strict" and "return_tokens_as_token_ids" in asked:
            raise ValueError("unknown field return_tokens_as_token_ids")
        ids = self.encode(prompt, chat)
        top = asked.get("top_logprobs", 0) if chat else asked.get("logprobs", 0)
        with self.lock:
            made = list(self.generate(ids, asked["max_tokens"]))
        text = self.tokenizer.decode([token for token, _ in made])
        numbered = asked.get("return_tokens_as_token_ids", False) and self.fault.form == "vllm"

        def name(token: int) -> str:
            if self.fault.form == "text":
                return self.tokenizer.decode([token])
            return f"token_id:{token}" if numbered else self.tokenizer.convert_ids_to_tokens(token)

        best = [[(int(i), float(v)) for v, i in zip(*each.topk(max(top, 1)), strict=True)] for _, each in made]
        if chat or self.fault.form == "llama.cpp":

            def entry(token: int, number: float) -> dict[str, Any]:
                named = {"token": name(token), "logprob": number, "bytes": None}
                return {**named, "id": token} if self.fault.form == "llama.cpp" else named

            content = [
                {**entry(token, float(each[token])), "top_logprobs": [entry(*one) for one in tops]}
                for (token, each), tops in zip(made, best, strict=True)
            ]
            logprobs: Any = {"content": content}
        else:
            logprobs = {
                "tokens": [name(token) for token, _ in made],
                "token_logprobs": [float(each[token]) for token, each in made],
                "top_logprobs": [{name(token): number for token, number in tops} for tops in best],
            }
        part = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice = {**part, "finish_reason": "length", "logprobs": logprobs if self.fault.logprobs else None}
        usage = {"usage": {"prompt_tokens": len(ids)}} if self.fault.usage else {}
        return {"choices": [choice], **usage}


@contextmanager
def serving(folder: Path, fault: Fault | None = None) -> Iterator[str]:
    """The address of a server."""
    engine = Engine(folder, fault or Fault())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "m"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                self._send(200, engine.answer(asked, self.path.endswith("chat/completions")))
            except ValueError as error:
                self._send(400, {"error": str(error)})

        def _send(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


__all__ = ["MODELS", "Engine", "Fault", "copy", "make_model", "make_tokenizer", "replace", "serving"]
