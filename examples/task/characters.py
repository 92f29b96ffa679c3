"""Trains a small causal attention model on the texts of Python's own help, character by character.

    python examples/task/characters.py
    mindgap study task examples/task/characters.py:make out/task/characters.npz -p onnxruntime/cpu \\
        --form bfloat16='examples/task/characters.py:make?dtype=bfloat16' \\
        --form int8=examples/task/characters.py:dynamic

Recipe: `pydoc_data.topics`, the first nine tenths; 900 steps of Adam (0.003, 32 windows of 48 characters), seed 0.
Tested on 128 windows of the rest.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER = Path("out/task")
LENGTH, WIDTH, CHARACTERS = 48, 64, 96


class Characters(nn.Module):
    """One block of attention. Takes tokens [B, 48] (ASCII from the space on), gives logits [B, 48, 96]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CHARACTERS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.norm, self.mix, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256), nn.Linear(256, WIDTH)
        self.head = nn.Linear(WIDTH, CHARACTERS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places
        q, k, v = (each.unflatten(2, (4, 16)).transpose(1, 2) for each in self.mix(self.norm(x)).chunk(3, 2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return self.head(x + self.down(nn.functional.gelu(self.up(self.norm2(x)))))


def text() -> np.ndarray:
    """Python's help topics as tokens; line ends are spaces, and other characters are left out."""
    from pydoc_data.topics import topics

    joined = " ".join(topics[name] for name in sorted(topics)).replace("\n", " ")
    codes = np.frombuffer(joined.encode("ascii", "ignore"), np.uint8).astype(np.int64) - 32
    return codes[(codes >= 0) & (codes < CHARACTERS)]


def trained() -> nn.Module:
    """The model with the weights that `main` has written."""
    file = FOLDER / "characters.pt"
    if not file.is_file():
        raise SystemExit(f"{file} is not there: run python examples/task/characters.py first")
    model = Characters()
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model as it was trained."""
    return trained(), (torch.zeros(32, LENGTH, dtype=torch.int64),)


def dynamic() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """int8 weights in dense layers; activations are quantised as they come (PyTorch's dynamic quantisation)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(trained(), {nn.Linear}), make()[1]


def main() -> None:
    """Trains, prints the loss on the test windows, and writes weights and test set."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started = time.process_time()
    tokens = torch.from_numpy(text())
    first = len(tokens) * 9 // 10
    model, order = Characters(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 0.003)
    for _ in range(900):
        starts = torch.randint(first - LENGTH - 1, (32, 1), generator=order)
        windows = tokens[starts + torch.arange(LENGTH + 1)]
        loss = nn.functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    test = tokens[first : first + 128 * (LENGTH + 1)].reshape(128, LENGTH + 1)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(test[:, :-1]).flatten(0, 1), test[:, 1:].flatten())
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), FOLDER / "characters.pt")
    np.savez(FOLDER / "characters.npz", tokens=test.numpy())
    print(
        f"trained in {time.process_time() - started:.0f} CPU s: perplexity {float(loss.exp()):.2f} on the test windows"
    )


if __name__ == "__main__":
    sys.exit(main())
