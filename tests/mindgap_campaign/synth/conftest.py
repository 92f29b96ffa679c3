"""A small pool, cut out of two networks with their gradients."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import nn

from mindgap import capture
from mindgap.graph import Graph, digest
from mindgap.graph.tensors import TensorStore
from mindgap_campaign.synth.regions.pool import RegionPool, join_regions, to_bytes
from mindgap_campaign.synth.regions.sampler import SamplerOptions, sample_regions


def bases(tensors: TensorStore) -> list[Graph]:
    torch.manual_seed(0)
    images = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1), nn.GELU(),
        nn.Flatten(), nn.Linear(64, 10), nn.Softmax(-1),
    ).eval()  # fmt: skip
    texts = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True).eval()
    return [
        capture(images, (torch.rand(2, 3, 8, 8),), tensors=tensors, weights="seeded"),
        capture(texts, (torch.randn(2, 7, 16),), tensors=tensors, weights="seeded"),
        capture(images, (torch.rand(2, 3, 8, 8),), tensors=tensors, weights="seeded", backward=True),
    ]


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> RegionPool:
    tensors = TensorStore(tmp_path_factory.mktemp("tensors"))
    found = [
        one.region
        for graph in bases(tensors)
        for one in sample_regions(digest(graph), graph, Random("pool"), SamplerOptions(12, 2, 12), tensors=tensors)
    ]
    return join_regions([to_bytes([region for region in found if region is not None])])
