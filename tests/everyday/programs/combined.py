"""Models of libraries, and modules as users write them, in combinations."""

import torch
import transformers as tr
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class WhisperStep(nn.Module):
    def __init__(self):
        super().__init__()
        config = tr.WhisperConfig(
            vocab_size=60,
            d_model=16,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_mel_bins=8,
            max_source_positions=20,
            max_target_positions=12,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        self.model = tr.WhisperForConditionalGeneration(config)

    def forward(self, encoded, token, past, cross):
        cache = tr.EncoderDecoderCache(tr.DynamicCache(), tr.DynamicCache())
        for layer, (k, v) in enumerate(past):
            cache.self_attention_cache.update(k, v, layer)
            cache.cross_attention_cache.update(*cross[layer], layer)
            cache.is_updated[layer] = True
        out = self.model(
            encoder_outputs=(encoded,),
            decoder_input_ids=token,
            past_key_values=cache,
            use_cache=True,
            cache_position=torch.tensor([3]),
        )
        return out.logits.log_softmax(-1)[:, -1].argmax(-1), out.logits


class RegisteredCache:
    """A cache of the user's, known to PyTorch's pytrees."""

    def __init__(self, keys, values, length):
        self.keys, self.values, self.length = keys, values, length


torch.utils._pytree.register_pytree_node(
    RegisteredCache,
    lambda c: ([c.keys, c.values], c.length),
    lambda leaves, length: RegisteredCache(*leaves, length),
    serialized_type_name="user.RegisteredCache",
    flatten_with_keys_fn=lambda c: (
        [(torch.utils._pytree.GetAttrKey("keys"), c.keys), (torch.utils._pytree.GetAttrKey("values"), c.values)],
        c.length,
    ),
)


class WithRegistered(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, cache):
        q, k, v = self.qkv(x).chunk(3, -1)
        at = torch.tensor([cache.length])
        keys, values = cache.keys.index_copy(1, at, k), cache.values.index_copy(1, at, v)
        seen = torch.arange(keys.shape[1]) <= cache.length
        weights = (q @ keys.mT / 8**0.5).masked_fill(~seen, float("-inf")).softmax(-1)
        return weights @ values, RegisteredCache(keys, values, cache.length + 1)


class BiGru(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.out = nn.Linear(12, 3)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        output, state = self.rnn(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=ids.shape[1])
        return self.out(output), self.out(torch.cat([state[-2], state[-1]], -1))


class StreamingLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 6, 2, proj_size=4)

    def forward(self, chunk, state=None):
        out, state = self.rnn(chunk, state)
        return out, state


class Alibi(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(16, 48, bias=False)
        self.register_buffer("slopes", 2 ** (-8 / heads * torch.arange(1, heads + 1)), persistent=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        n = x.shape[1]
        distance = torch.arange(n)[None] - torch.arange(n)[:, None]
        bias = self.slopes.view(-1, 1, 1) * distance
        bias = bias.masked_fill(torch.triu(torch.ones(n, n, dtype=torch.bool), 1), torch.finfo(x.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, bias[None]).transpose(1, 2).flatten(2)


class Grouped(nn.Module):
    def forward(self, q, k, v, bias):
        grouped = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        masked = F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), attn_mask=bias, scale=0.3
        )
        return grouped, masked


class Layouts(nn.Module):
    """Arguments that are expanded, transposed, overlapping, empty or without dimensions."""

    def forward(self, expanded, transposed, empty, scalar, step: int, flag: bool, mode: str, nothing=None):
        total = (expanded + transposed) * scalar + step
        joined = torch.cat([empty, total], 0)
        return (
            joined.sum(0) if mode == "sum" and flag and nothing is None else joined,
            empty.sum(),
            scalar.exp(),
            empty.shape[0],
        )


class Intermediate(nn.Module):
    """Features taken by forward hooks, as for a perceptual loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
        self.taken = {}
        for n in (1, 3):
            self.net[n].register_forward_hook(lambda m, i, o, n=n: self.taken.__setitem__(f"layer{n}", o))

    def forward(self, a, b):
        self.net(a)
        first = dict(self.taken)
        self.net(b)
        return sum(F.l1_loss(first[name], self.taken[name]) for name in first), first


class Spatial(nn.Module):
    """A spatial transformer: a predicted affine map, applied by sampling."""

    def __init__(self, mode="bilinear", padding="zeros", align=False):
        super().__init__()
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        self.locate = nn.Linear(3 * 64, 6)
        nn.init.normal_(self.locate.weight, std=0.01)
        with torch.no_grad():
            self.locate.bias.copy_(torch.tensor([1.0, 0.1, 0.2, -0.1, 0.9, 0.3]))

    def forward(self, x):
        theta = self.locate(x.flatten(1)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.shape, align_corners=self.options["align_corners"])
        return F.grid_sample(x, grid, **self.options)


class ArcFace(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight)).clamp(-1 + 1e-6, 1 - 1e-6)
        target = torch.cos(torch.acos(cosine) + 0.5)
        logits = torch.where(F.one_hot(label, 5).bool(), target, cosine) * 30
        return F.cross_entropy(logits, label), logits


def segformer():
    torch.manual_seed(0)
    config = tr.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    return tr.SegformerForSemanticSegmentation(config).eval(), (torch.randn(1, 3, 32, 40),)


def clip_two_towers():
    torch.manual_seed(0)
    text = {
        "vocab_size": 64,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 12,
        "eos_token_id": 2,
        "bos_token_id": 1,
        "pad_token_id": 0,
        "projection_dim": 8,
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
        "projection_dim": 8,
    }
    model = tr.CLIPModel(tr.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).eval()
    ids = torch.tensor([[1, 5, 9, 2, 0, 0], [1, 7, 8, 11, 12, 2]])
    return model, (), {"input_ids": ids, "pixel_values": torch.randn(2, 3, 16, 16), "attention_mask": (ids != 0).long()}


def bert_with_token_types():
    torch.manual_seed(0)
    config = tr.BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=3,
    )
    model = tr.BertForTokenClassification(config).eval()
    ids = torch.tensor([[1, 5, 9, 2, 8, 3, 0, 0], [1, 7, 8, 11, 2, 12, 20, 3]])
    return (
        model,
        (ids,),
        {
            "attention_mask": (ids != 0).long(),
            "token_type_ids": torch.tensor([[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1]]),
            "labels": torch.randint(0, 3, (2, 8)),
        },
    )


def whisper_step():
    torch.manual_seed(0)

    def kv(n):
        return tuple((torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8)) for _ in range(2))

    return WhisperStep().eval(), (torch.randn(1, 20, 16), torch.tensor([[7]]), kv(3), kv(20))


def registered_cache():
    torch.manual_seed(0)
    return WithRegistered().eval(), (
        torch.randn(2, 1, 8),
        RegisteredCache(torch.randn(2, 6, 8), torch.zeros(2, 6, 8), 3),
    )


def bidirectional_gru_packed():
    torch.manual_seed(0)
    return BiGru().eval(), (torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 1, 2, 0]]), torch.tensor([4, 2, 3]))


def lstm_projected_state():
    torch.manual_seed(0)
    return StreamingLstm().eval(), (torch.randn(4, 2, 5), (torch.randn(2, 2, 4), torch.randn(2, 2, 6)))


def alibi():
    torch.manual_seed(0)
    return Alibi().eval(), (torch.randn(2, 6, 16),)


def grouped_and_biased_attention():
    torch.manual_seed(0)
    return Grouped(), (
        torch.randn(2, 4, 5, 8),
        torch.randn(2, 2, 5, 8),
        torch.randn(2, 2, 5, 8),
        torch.randn(1, 4, 5, 5),
    )


def layouts_and_a_size_returned():
    torch.manual_seed(0)
    return Layouts(), (
        torch.randn(1, 4).expand(3, 4),
        torch.randn(4, 3).t(),
        torch.zeros(0, 4),
        torch.tensor(0.5),
        3,
        True,
        "sum",
        None,
    )


def features_by_hooks():
    torch.manual_seed(0)
    return Intermediate().eval(), (torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8))


def spatial_transformer():
    torch.manual_seed(0)
    return Spatial().eval(), (torch.rand(2, 3, 8, 8),)


def arcface():
    torch.manual_seed(0)
    return ArcFace().eval(), (torch.randn(3, 8), torch.tensor([0, 4, 2]))
