"""The share of a model's time that some operators take."""

from pathlib import Path

import torch
from torch import nn

from mindgap.graph import TensorStore
from mindgap_diagnosis.precision.finding import time_share
from precision.eager_here import target_of


def test_the_large_product_takes_most_of_the_time(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).eval()
    target = target_of(model, (torch.randn(512, 512),), "float16", TensorStore(tmp_path))
    kinds = [node.op for node in target.graph.nodes]
    shares = [time_share(target.graph, target.arrays, [index]) for index in range(len(kinds))]
    assert time_share(target.graph, target.arrays, range(len(kinds))) == 1.0
    assert time_share(target.graph, target.arrays, ()) == 0.0
    assert all(share is not None for share in shares)
    assert (shares[kinds.index("aten.linear.default")] or 0) > 0.5
