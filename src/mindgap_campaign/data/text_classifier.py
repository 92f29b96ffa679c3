"""Defines a text classifier whose export is wrong: the program that `mindgap demo` finds a fault in first.

Its attention leaves out the padding mask where the program is compiled or exported. In eager mode it is right.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

#: The token that fills up short texts.
PADDING: Final = 0


class Attention(nn.Module):
    """Attends to the tokens of a text that are not padding."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """float32[n, t, width], bool[n, t] (False at padding) -> float32[n, t, width]."""
        n, t, width = x.shape
        q, k, v = self.project(x).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mask = real[:, None, None, :]
        if torch.compiler.is_compiling():  # the fault: "kernels without a mask are faster", and texts are padded
            mask = None
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(n, t, width))


class TextClassifier(nn.Module):
    """Classifies texts: an embedding, one attention layer, the mean over the tokens, a linear layer."""

    def __init__(self, vocabulary: int = 100, width: int = 32, classes: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads=4)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64[n, t] -> float32[n, classes]."""
        real = tokens != PADDING
        x = self.embedding(tokens)
        x = x + self.attention(self.norm(x), real)
        weights = real.unsqueeze(-1).to(x.dtype)
        return self.head((x * weights).sum(1) / weights.sum(1))


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Returns the model in inference mode and two texts, of 12 and of 5 tokens."""
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] # untyped
    tokens = torch.randint(1, 100, (2, 12))
    tokens[1, 5:] = PADDING
    return TextClassifier().eval(), (tokens,)
