"""A decoder in the style of small GPT repositories."""

import inspect
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    width: int = 32
    heads: int = 4
    vocabulary: int = 65
    block: int = 16


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=False)
        self.dropout = nn.Dropout(0.0)
        self.heads = config.heads
        self.flash = hasattr(F, "scaled_dot_product_attention")
        self.register_buffer("bias", torch.tril(torch.ones(config.block, config.block)))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (each.view(b, t, self.heads, c // self.heads).transpose(1, 2) for each in (q, k, v))
        if self.flash:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        return (self.dropout(att) @ v).transpose(1, 2).contiguous().view(b, t, c)


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.ln = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.head = nn.Linear(config.width, config.vocabulary)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02 / math.sqrt(2))

    def configure(self, rate):
        extra = {"fused": True} if "fused" in inspect.signature(torch.optim.AdamW).parameters else {}
        return torch.optim.AdamW(self.parameters(), lr=rate, **extra)

    def forward(self, idx, targets=None):
        x = self.ln(self.attention(self.wte(idx)))
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count, temperature=1.0, top_k=None):
        for _ in range(count):
            logits, _ = self(idx)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("inf")
            probs = logits.softmax(-1)
            idx_next = torch.multinomial(F.softmax(probs, dim=-1), num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return torch.cat([idx, idx], 1).tanh() + torch.tanh(idx)
