"""Language models without a cache: classifiers, encoders with padding, decoders in one pass, mixtures, state spaces."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

VOCABULARY = 64


def ids(batch, length):
    return torch.randint(1, VOCABULARY, (batch, length))


def mask_of(lengths, width, left=False):
    places = torch.arange(width)[None]
    counts = torch.tensor(lengths)[:, None]
    return (places >= width - counts) if left else (places < counts)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(VOCABULARY, 16), nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens, mask):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.layers(x, src_key_padding_mask=~mask)


class CausalBlock(nn.Module):
    """A decoder as in small teaching repositories: fused projection, a triangular buffer, a tied head."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, 16), nn.Embedding(16, 16)
        self.ln, self.attn, self.proj = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("triangle", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, idx):
        b, t = idx.size()
        x = self.wte(idx) + self.wpe(torch.arange(t, device=idx.device))
        q, k, v = (part.view(b, t, 2, 8).transpose(1, 2) for part in self.attn(self.ln(x)).split(16, dim=2))
        scores = (q @ k.transpose(-2, -1)) * 8**-0.5
        scores = scores.masked_fill(self.triangle[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, 16)
        return (x + self.proj(y)) @ self.wte.weight.T


class Rotary(nn.Module):
    """Rotary positions, grouped keys, RMS norm and a gated product, written out."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = (
            nn.Linear(16, 16, bias=False),
            nn.Linear(16, 16, bias=False),
            nn.Linear(16, 16, bias=False),
        )
        self.gate, self.up, self.down = (nn.Linear(*size, bias=False) for size in ((16, 24), (16, 24), (24, 16)))
        self.norm = nn.RMSNorm(16)
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, 4, 2).float() / 4), persistent=False)

    def turned(self, x, angles):
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.norm(x)
        angles = torch.arange(t)[:, None] * self.frequencies
        q = self.turned(self.q(h).view(b, t, 4, 4).transpose(1, 2), angles)
        k, v = self.kv(h).view(b, t, 2, 2, 4).permute(2, 0, 3, 1, 4)
        k = self.turned(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, 16))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Four experts, of which each token takes the best two; all are computed, the others weigh nothing."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(12, 4), nn.ModuleList(nn.Linear(12, 12) for _ in range(4))

    def forward(self, tokens):
        weights, chosen = torch.softmax(self.router(tokens), -1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        gates = torch.zeros(*tokens.shape[:-1], 4).scatter(-1, chosen, weights)
        return sum(gates[..., n, None] * F.gelu(expert(tokens)) for n, expert in enumerate(self.experts))


class UnsortedMixture(Mixture):
    """The same, whose router also returns its choice, by `topk(sorted=False)`, as layers of transformers do."""

    def forward(self, tokens):
        weights, chosen = torch.softmax(self.router(tokens), -1).topk(3, -1, sorted=False)
        gates = torch.zeros(*tokens.shape[:-1], 4).scatter(-1, chosen, weights)
        return sum(gates[..., n, None] * F.gelu(e(tokens)) for n, e in enumerate(self.experts)), weights, chosen


class Convolutions(nn.Module):
    """A sentence classifier with filters of three widths, the maximum of each over time."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 12, padding_idx=0)
        self.filters = nn.ModuleList(nn.Conv1d(12, 6, width) for width in (2, 3, 4))
        self.out = nn.Linear(18, 3)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        return F.log_softmax(self.out(torch.cat([F.relu(f(x)).amax(-1) for f in self.filters], 1)), -1)


def encoder_with_mask():
    torch.manual_seed(0)
    return Encoder().eval(), (ids(2, 7), torch.ones(2, 7, dtype=torch.bool))


def padded_right():
    torch.manual_seed(0)
    return Encoder().eval(), (ids(3, 8), mask_of([8, 5, 2], 8))


def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        num_labels=3,
    )
    mask = mask_of([6, 4], 6).long()
    return BertForSequenceClassification(config).eval(), (), {"input_ids": ids(2, 6), "attention_mask": mask}


def gpt2():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False)
    return GPT2LMHeadModel(config).eval(), (ids(2, 6),)


def padded_left():
    """Qwen of two layers; the first places of the second row are padding, positions count from the first real token."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, use_cache=False,
    )  # fmt: skip
    mask = mask_of([6, 4], 6, left=True).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    given = {"input_ids": ids(2, 6), "attention_mask": mask, "position_ids": positions}
    return Qwen3ForCausalLM(config).eval(), (), given


def encoder_decoder():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        use_cache=False,
    )
    given = {"input_ids": ids(1, 6), "attention_mask": mask_of([5], 6).long(), "decoder_input_ids": ids(1, 4)}
    return T5ForConditionalGeneration(config).eval(), (), given


def mamba():
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=8, state_size=4, num_hidden_layers=1, use_cache=False)
    return MambaForCausalLM(config).eval(), (ids(1, 5),)


def mixtral():
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_local_experts=4, use_cache=False,
    )  # fmt: skip
    return MixtralForCausalLM(config).eval(), (ids(1, 5),)


def small_gpt():
    torch.manual_seed(0)
    return CausalBlock().eval(), (ids(2, 9),)


def rotary():
    torch.manual_seed(0)
    return Rotary().eval(), (torch.randn(2, 6, 16),)


def mixture_of_experts():
    torch.manual_seed(0)
    return Mixture().eval(), (torch.randn(2, 5, 12),)


def mixture_unsorted():
    torch.manual_seed(0)
    return UnsortedMixture().eval(), (torch.randn(2, 5, 12),)


def sentence_filters():
    torch.manual_seed(0)
    return Convolutions().eval(), (ids(3, 9),)
