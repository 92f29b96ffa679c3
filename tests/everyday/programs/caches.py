"""Decoder steps with the keys and values of earlier tokens, in the forms in which models take and return them."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.qkv, self.out = nn.Embedding(32, 16), nn.Linear(16, 48), nn.Linear(16, 32)

    def heads(self, x):
        return x.unflatten(-1, (2, 8)).transpose(1, 2)

    def projected(self, tokens):
        return (self.heads(part) for part in self.qkv(self.embedding(tokens)).chunk(3, -1))

    def answered(self, q, k, v, mask=None):
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


class TupleCache(Attention):
    """Takes and returns `((keys, values),)`, the form before caches were classes."""

    def forward(self, tokens, past):
        q, k, v = self.projected(tokens)
        keys, values = torch.cat([past[0][0], k], 2), torch.cat([past[0][1], v], 2)
        return self.answered(q, keys, values), ((keys, values),)


class ListCache(Attention):
    """Appends to the list that it is given."""

    def forward(self, tokens, history):
        q, k, v = self.projected(tokens)
        history.append((k, v))
        keys, values = (torch.cat([pair[n] for pair in history], 2) for n in range(2))
        return self.answered(q, keys, values)


class DictCache(Attention):
    """Replaces the entries of the dictionary that it is given."""

    def forward(self, tokens, cache):
        q, k, v = self.projected(tokens)
        cache["keys"] = torch.cat([cache["keys"], k], 2)
        cache["values"] = torch.cat([cache["values"], v], 2)
        return self.answered(q, cache["keys"], cache["values"])


class SlotCache(Attention):
    """Writes into preallocated keys and values among its arguments, at the positions given."""

    def forward(self, tokens, positions, keys, values):
        q, k, v = self.projected(tokens)
        keys[:, :, positions] = k
        values[:, :, positions] = v
        mask = torch.arange(keys.shape[2])[None] <= positions[:, None]
        return self.answered(q, keys, values, mask)


class BufferCache(Attention):
    """Keeps keys and values in buffers of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.randn(1, 2, 8, 8))
        self.register_buffer("values", torch.randn(1, 2, 8, 8))

    def forward(self, tokens, position):
        q, k, v = self.projected(tokens)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        mask = torch.arange(8)[None] <= position[:, None]
        return self.answered(q, self.keys, self.values, mask)


def pair(length):
    return torch.randn(1, 2, length, 8), torch.randn(1, 2, length, 8)


def llama(**options):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, **options,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def filled(cache, length):
    for layer in range(2):
        cache.update(torch.randn(1, 1, length, 8), torch.randn(1, 1, length, 8), layer)
    return cache


def prefill():
    return llama(use_cache=False), (torch.randint(0, 32, (1, 6)),)


def prefill_that_returns_its_cache():
    return llama(), (torch.randint(0, 32, (1, 6)),)


def prefill_into_an_empty_cache():
    return llama(), (), {"input_ids": torch.randint(0, 32, (1, 6)), "past_key_values": DynamicCache()}


def step_with_a_dynamic_cache():
    model = llama()
    return model, (torch.tensor([[5]]),), {"past_key_values": filled(DynamicCache(), 4)}


def step_with_a_static_cache():
    model = llama()
    cache = StaticCache(config=model.config, max_cache_len=8)
    prompt = torch.randint(0, 32, (1, 4))
    with torch.no_grad():
        model(prompt, past_key_values=cache, position_ids=torch.arange(4)[None])
    return model, (torch.tensor([[5]]),), {"past_key_values": cache, "position_ids": torch.tensor([[4]])}


def step_with_a_tuple():
    torch.manual_seed(0)
    return TupleCache().eval(), (torch.tensor([[3]]), (pair(5),))


def step_that_appends_to_a_list():
    torch.manual_seed(0)
    return ListCache().eval(), (torch.tensor([[3]]), [pair(3), pair(1)])


def step_that_replaces_entries():
    torch.manual_seed(0)
    keys, values = pair(5)
    return DictCache().eval(), (torch.tensor([[3]]), {"keys": keys, "values": values})


def step_that_writes_slots():
    torch.manual_seed(0)
    return SlotCache().eval(), (torch.tensor([[3, 9]]), torch.tensor([4, 5]), *pair(8))


def step_with_buffers():
    torch.manual_seed(0)
    return BufferCache().eval(), (torch.tensor([[3]]), torch.tensor([6]))
