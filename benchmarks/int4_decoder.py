"""Compares a decoder of 6.7 billion parameters whose weights are int4, two a byte, with one scale for 128 of them.

    python benchmarks/int4_decoder.py            # prints memory of all processes together, seconds, the verdict
    python benchmarks/int4_decoder.py tiny

The model unpacks its weights in `forward`: the graph holds the bytes. `mindgap diff benchmarks/int4_decoder.py:make` is
what it measures. Status 1 where the row is no `identical` or `rounding`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.nn.functional as F
from real_size import gib, measured
from torch import nn

GROUP = 128


class Int4Linear(nn.Module):
    """A linear layer without bias. `packed`: uint8[outs, ins / 2]; `scale`: bfloat16, one for each group of weights."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (outs, ins // 2), dtype=torch.uint8))
        scale = torch.full((outs, ins // GROUP, 1), 0.25 / ins**0.5, dtype=torch.bfloat16)
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outs, half = self.packed.shape
        pair = torch.stack([self.packed & 15, self.packed >> 4], -1).to(torch.bfloat16) - 8
        weight = pair.reshape(outs, -1, GROUP) * self.scale
        return F.linear(x, weight.reshape(outs, 2 * half))


class Layer(nn.Module):
    def __init__(self, hidden: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (Int4Linear(hidden, hidden) for _ in range(4))
        self.gate, self.up, self.down = Int4Linear(hidden, inner), Int4Linear(hidden, inner), Int4Linear(inner, hidden)
        self.first, self.second = (nn.RMSNorm(hidden, dtype=torch.bfloat16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, hidden: int, inner: int, heads: int, layers: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, hidden, dtype=torch.bfloat16)
        self.layers = nn.ModuleList(Layer(hidden, inner, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, dtype=torch.bfloat16)
        self.head = nn.Linear(hidden, words, bias=False, dtype=torch.bfloat16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def make(hidden: int = 4096, inner: int = 11008, heads: int = 32, layers: int = 32, words: int = 32000) -> Any:
    torch.manual_seed(0)
    return Decoder(hidden, inner, heads, layers, words).eval(), (torch.randint(0, words, (1, 16)),)


def tiny() -> Any:
    return make(256, 512, 4, 2, 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", choices=("make", "tiny"), default="make")
    parser.add_argument("-p", "--platform", default="cpu/jit")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary, "out.json")
        command = [sys.executable, "-m", "mindgap", "diff", f"{__file__}:{chosen.model}", "-p", chosen.platform]
        command += ["--json", "--no-own-path", "--deadline", "3000"]
        found = measured(command, {**os.environ, "MINDGAP_HOME": f"{temporary}/home"}, out)
        rows = json.loads(out.read_text() or '{"rows": []}')["rows"]
    words = ", ".join(f"{row['platform']} {row['word']}" for row in rows)
    print(f"{chosen.model}: {gib(found.peak)} GiB, {found.seconds:.0f} s ({found.cpu:.0f} CPU s): {words}")
    return int(not rows or any(row["verdict"] not in ("identical", "rounding") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
