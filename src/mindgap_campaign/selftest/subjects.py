"""Makes the graphs for fault injection: small programs, and small architectures of the installed model zoos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import Graph, MindgapError
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.sources.opening import capture_source
from mindgap_campaign.selftest.programs import PROGRAMS

_QUICK: Final = (
    "convnet", "attention", "pointwise", "reductions", "exceptional", "discrete", "in_place", "mlp@bfloat16",
    "convnet@float16", "transformers:BertModel?layers=1",
)  # fmt: skip
_FULL: Final = (
    *PROGRAMS,
    "mlp@bfloat16", "convnet@float16", "attention@bfloat16", "attention@float16", "recurrent@float16",
    "reductions@bfloat16", "pointwise@float64", "convnet@float64", "pointwise@float16", "normalised@bfloat16",
    "transformers:BertModel", "transformers:LlamaForCausalLM?layers=1",
    "transformers:GPT2Model?layers=1&dtype=bfloat16", "timm:resnet10t?size=64", "timm:mobilenetv3_small_050?size=32",
    "timm:convnext_atto?size=32", "torchvision:squeezenet1_1?size=64&dtype=float16",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NotHere(MindgapError):
    """A subject cannot be made on this machine, for instance because its zoo is not installed."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def names(quick: bool) -> Sequence[str]:
    """Lists subjects by name: `PROGRAM`, `PROGRAM@DTYPE`, or a source of the corpus."""
    return _QUICK if quick else _FULL


def graph_of(name: str, seed: int, tensors: TensorStore) -> Graph:
    """Makes the graph of a subject, the same for the same seed. Raises `NotHere`."""
    try:
        return _from_source(name, seed, tensors) if ":" in name else _from_program(name, seed, tensors)
    except MindgapError as error:
        raise NotHere(name, str(error)) from error


def _from_source(name: str, seed: int, tensors: TensorStore) -> Graph:
    joined = f"{name}{'&' if '?' in name else '?'}seed={seed}"
    for _, graph in capture_source(joined, tensors):
        if isinstance(graph, Graph):
            return graph
        raise MindgapError(graph.reason)
    raise MindgapError("the source is empty")


def _from_program(name: str, seed: int, tensors: TensorStore) -> Graph:
    program, _, dtype = name.partition("@")
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        # Uniform: seeded normal draws differ between instruction sets.
        values = torch.rand(shape, generator=generator, dtype=torch.float64) * 3 - 1.5
        return values.to(TORCH_DTYPES[dtype or "float32"])

    function, args = PROGRAMS[program](draw)
    return capture(_module(function), args, tensors=tensors)


def _module(function: Any) -> torch.nn.Module:
    class SubjectModule(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return SubjectModule()
