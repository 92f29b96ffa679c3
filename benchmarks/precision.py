"""Compares the list of `mindgap precision` with the smallest one, and its runs with keeping each operator alone.

    python benchmarks/precision.py                    # ten models in two formats each, minutes
    python benchmarks/precision.py --only plain_conv  # one of them

For each model and format: the length of the list, the runs of the platform (cpu/eager), the smallest length that an
exhaustive search finds (small models, up to `--sets` sets), and the length and runs of the obvious way: keep each
operator alone, rank them by the error that is left, and take as many as the bound needs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, TensorStore, default_tensor_store, materialise_all
from mindgap.graph_capture import capture
from mindgap.platforms.name import parse
from mindgap.platforms.pytorch.device.devices import CPU
from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable
from mindgap.run.outcome import Job, Outcome
from mindgap.sources.libraries import declare_operators
from mindgap_diagnosis.precision.candidates import candidates
from mindgap_diagnosis.precision.finding import Bound, find_precision
from mindgap_diagnosis.precision.targets import GraphTarget

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class _ConvNet(nn.Module):
    """Three blocks; the weights of the second are so large that what follows leaves the range of float16."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.wide, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(8, 10)
        self.norm = nn.BatchNorm2d(8)
        self.wide.weight.data *= 3e5
        self.norm.running_var *= 1e10

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.wide(F.relu(self.stem(x)))))
        return self.head(x.mean((2, 3)))


class _SpatialMean(nn.Module):
    """A mean that is written as a sum over all places, divided afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv(x)) * 30
        return self.head(x.sum((2, 3)) / (x.shape[2] * x.shape[3]))


class _RmsNorm(nn.Module):
    """The root mean square by hand, as in LLaMA."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, norm: Callable[[int], nn.Module], causal: bool) -> None:
        super().__init__()
        self.before, self.between = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2) for each in self.qkv(self.before(x)).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) / (width / self.heads) ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), torch.finfo(torch.float32).min)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class _Transformer(nn.Module):
    """`massive`: how large one channel of the residual stream becomes after the first layer (Sun et al., 2024)."""

    def __init__(self, layers: int, norm: Callable[[int], nn.Module], massive: float, causal: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.Sequential(*(_Layer(32, 4, norm, causal) for _ in range(layers)))
        self.norm, self.head = norm(32), nn.Linear(32, 50)
        first: Any = self.layers[0]
        first.down.bias.data[3] = massive

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.embed(tokens))))


class _SharpAttention(nn.Module):
    """One layer of attention whose scores are scaled after the product: they leave the range before."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.query.weight.data *= 700
        self.key.weight.data *= 700

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) * 1e-6
        return scores.softmax(-1) @ self.value(x)


class _Normalised(nn.Module):
    """Instance normalisation by hand, of small contrasts: squares of 1e-5 are zero in float16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3)

    def normalised(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean((2, 3), keepdim=True)
        return centred / torch.sqrt((centred * centred).mean((2, 3), keepdim=True) + 1e-12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.normalised(self.second(F.relu(self.normalised(self.first(x * 1e-4)))))


class _Head(nn.Module):
    """A detector's head: centres and sizes of boxes in pixels, areas of boxes, scores."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Linear(16, 4), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        raw = self.boxes(x)
        size, centre = torch.exp(raw[..., 2:]) * 300, torch.sigmoid(raw[..., :2]) * 640
        area = size[..., :1] * size[..., 1:]
        scores = torch.sigmoid(self.scores(x)) * area / (area + 1)
        return torch.cat((centre - size / 2, centre + size / 2), -1), scores


class _LogSumExp(nn.Module):
    """A likelihood by exponentials and a logarithm, without taking off the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.layer(x) * 8
        return logits - torch.log(torch.exp(logits).sum(-1, keepdim=True))


def _images(*shape: int) -> tuple[torch.Tensor]:
    return (torch.rand(*shape),)


def _bert() -> Made:
    declare_operators()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        attn_implementation="eager",
    )  # fmt: skip
    model: Any = BertModel(config).eval()
    model.encoder.layer[0].output.dense.bias.data[5] = 9e4
    return _Last(model), (torch.randint(0, 99, (1, 12)),)


class _Last(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens).last_hidden_state


@dataclass(frozen=True)
class Case:
    """A model and the bound for each of its formats."""

    make: Callable[[], Made]
    bounds: dict[str, float]


CASES: dict[str, Case] = {
    "plain_conv": Case(lambda: (_ConvNet(), _images(1, 3, 12, 12)), {"float16": 1e-2, "bfloat16": 1e-3}),
    "spatial_mean": Case(lambda: (_SpatialMean(), _images(1, 3, 130, 130)), {"float16": 1e-2, "bfloat16": 3e-3}),
    "massive": Case(
        lambda: (_Transformer(2, nn.LayerNorm, 9e4), (torch.arange(8)[None],)), {"float16": 1e-2, "bfloat16": 3e-3}
    ),
    "sharp": Case(lambda: (_SharpAttention(), (torch.randn(1, 6, 16),)), {"float16": 1e-2, "bfloat16": 1e-2}),
    "decoder": Case(
        lambda: (_Transformer(2, _RmsNorm, 600.0, causal=True), (torch.arange(8)[None],)),
        {"float16": 4e-3, "bfloat16": 5e-3},
    ),
    "normalised": Case(lambda: (_Normalised(), _images(1, 3, 10, 10)), {"float16": 2e-2, "bfloat16": 2e-2}),
    "head": Case(lambda: (_Head(), (torch.randn(1, 7, 16),)), {"float16": 1e-2, "bfloat16": 3e-3}),
    "likelihood": Case(lambda: (_LogSumExp(), (torch.randn(3, 8) * 3,)), {"float16": 1e-2, "bfloat16": 3e-3}),
    "bert": Case(_bert, {"float16": 1e-2, "bfloat16": 5e-4}),
    "rms": Case(
        lambda: (nn.Sequential(nn.Linear(8, 16), _RmsNorm(16), nn.Linear(16, 4)), (torch.randn(2, 8) * 2000,)),
        {"float16": 1e-2, "bfloat16": 3e-3},
    ),
}


class _Here:
    """Runs graphs on cpu/eager in this process."""

    def __init__(self, tensors: TensorStore) -> None:
        self._tensors = tensors
        self.arrays: Sequence[Array] = ()

    def __call__(self, job: Job) -> Outcome:
        try:
            results = EagerExecutable(job.graph, {}, CPU)(self.arrays)
        except RuntimeError as error:
            return Outcome(job.platform, "", "runtime_error", message=str(error))
        return Outcome(job.platform, "", "ok", arrays=tuple(results))


def _target(graph: Graph, tensors: TensorStore, to: str) -> GraphTarget:
    here = _Here(tensors)
    here.arrays = materialise_all(graph, tensors)
    return GraphTarget(graph, here.arrays, candidates(graph), to, parse("cpu/eager"), here, 60.0)


def _smallest(count: int, measure: Callable[[frozenset[int]], float], bound: float, length: int, sets: int) -> str:
    """The smallest length below `length` that meets the bound, `?` where there are too many sets."""
    tried = 0
    for size in range(length):
        tried += math.comb(count, size)
        if tried > sets:
            return f">={size}"
        if any(measure(frozenset(each)) <= bound for each in itertools.combinations(range(count), size)):
            return str(size)
    return str(length)


def _alone(count: int, measure: Callable[[frozenset[int]], float], bound: float) -> str:
    """The obvious way: runs with each operator alone in float32, then more and more of the best."""
    order = sorted(range(count), key=lambda i: (measure(frozenset((i,))), i))
    for length in range(1, count + 1):
        if measure(frozenset(order[:length])) <= bound:
            return f"{length} in {count + length}"
    return "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--sets", type=int, default=20_000, help="for the exhaustive search")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tensors = default_tensor_store()
    worst_runs, worst_ratio, count = 0, 0.0, 0
    for name in arguments.only:
        for to, limit in CASES[name].bounds.items():
            torch.manual_seed(0)
            model, args = CASES[name].make()
            graph = functionalize(capture(model.eval(), args, {}, tensors=tensors)).graph
            target = _target(graph, tensors, to)
            before = time.process_time()
            found, _, exact = find_precision(target, Bound(limit), name)
            seconds = time.process_time() - before
            known: dict[frozenset[int], float] = {}

            def measure(kept: frozenset[int], target=target, exact=exact, known=known, limit=limit) -> float:
                if kept not in known:
                    outputs = target.outputs(kept)
                    known[kept] = math.inf if outputs is None else Bound(limit).measured(exact, outputs)
                return known[kept]

            chosen = sum(not each.refused for each in found.kept)  # a platform without a kernel leaves no choice
            smallest = _smallest(found.operators, measure, limit, chosen, arguments.sets)
            alone = _alone(found.operators, measure, limit)
            if smallest.isdigit() and int(smallest):
                worst_ratio = max(worst_ratio, chosen / int(smallest))
            worst_runs, count = max(worst_runs, found.runs), count + 1
            print(
                f"{name:13} {to:9} {found.operators:3} operators, {found.before:8.3g} -> {found.after:8.3g}: "
                f"{chosen:2} kept in {found.runs:2} runs (smallest {smallest:>4}; alone {alone}), "
                f"{seconds:.1f} CPU s", flush=True,
            )  # fmt: skip
    print(f"{count} lists: at most {worst_runs} runs, at most {worst_ratio:.2f} times the smallest")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
