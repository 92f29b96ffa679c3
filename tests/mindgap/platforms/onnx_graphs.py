"""Graphs of small programs, with their values and what eager PyTorch makes of them, for the tests beside."""

from __future__ import annotations

import functools
import tempfile

import numpy as np
import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, TensorStore, materialise_all
from mindgap.graph_capture import capture


@functools.cache
def _store() -> TensorStore:
    return TensorStore(tempfile.mkdtemp())


def captured(program, *args) -> tuple[Graph, list[np.ndarray]]:
    graph = capture(program, args, tensors=_store())
    return graph, materialise_all(graph, _store())


def eager(graph: Graph, inputs) -> list[np.ndarray]:
    tensors = [to_torch(array, item.spec) for array, item in zip(inputs, graph.inputs, strict=True)]
    with torch.no_grad():
        return [to_numpy(tensor) for tensor in Tape(graph).run(tensors)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape)).to(dtype)


def resnet18():
    """A network with in-place calls and batch-norm whose statistics are not trivial, which a swap would show."""
    from mindgap.sources.libraries import declare_operators

    declare_operators()
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.resnet18(weights=None).eval()
    for number, module in enumerate(model.modules()):
        if isinstance(module, torch.nn.BatchNorm2d):
            for offset, tensor in enumerate((module.weight, module.bias, module.running_mean, module.running_var)):
                tensor.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(4 * number + offset))
    return model, normal(1, 3, 64, 64)


def vit():
    from mindgap.sources.libraries import declare_operators

    declare_operators()
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=10).eval()
    return model, normal(1, 3, 32, 32)


def bert():
    from mindgap.sources.libraries import declare_operators

    declare_operators()
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50
    )
    model = transformers.BertModel(config).eval()
    return lambda ids: model(ids).last_hidden_state, torch.arange(12).reshape(1, 12)


MODELS = {"resnet18": resnet18, "vit": vit, "bert": bert}
