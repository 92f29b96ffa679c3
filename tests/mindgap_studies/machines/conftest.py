"""A real collection of a tiny suite on three settings, made once."""

from __future__ import annotations

import pytest
import torch

from mindgap.graph_capture import capture
from mindgap.platforms.name import parse
from mindgap_studies.machines.collecting import collect
from mindgap_studies.machines.models.initial_weights import initial_weights, load, uniform
from mindgap_studies.machines.models.networks import ResNet18
from mindgap_studies.machines.settings import Setting
from mindgap_studies.machines.subjects import runnable

SETTINGS = (
    Setting(parse("cpu/eager@threads=1"), frozenset({"float32"})),
    Setting(parse("cpu/eager@onednn=off,threads=1"), frozenset({"float32"})),
    Setting(parse("cpu/eager@isa=default,threads=1"), frozenset({"float32", "tiers"})),
)


def tiny_suite(store):
    """A narrow ResNet-18 with every value, and a sum."""
    module = ResNet18(width=4).eval()
    load(module, initial_weights(module, "he", 5))
    image = torch.from_numpy(uniform((1, 3, 32, 32), 1.0, 6))
    facts = {"model": "tiny", "activation": "relu", "pooling": "max", "trained": False, "sample": 0, "dtype": "float32"}
    total = capture(torch.sum, (torch.from_numpy(uniform((10_000,), 1.0, 7)),), tensors=store)
    return [
        runnable("tiny/0", "models", capture(module, (image,), tensors=store), facts, keep="all"),
        runnable("operator/sum", "operators", total, {"operator": "sum"}, groups=("tiers",)),
    ]


@pytest.fixture(scope="session")
def collected_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("machines") / "here.json.zst"
    collect(path, tiny_suite, SETTINGS)
    return path
