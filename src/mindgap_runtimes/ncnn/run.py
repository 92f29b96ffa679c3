"""Runs a model on ncnn as its users do: `pnnx.export`, and the script that pnnx writes."""

# pyright: basic, reportMissingImports=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import runpy
import tempfile
from functools import cache
from typing import TYPE_CHECKING

import ncnn
import pnnx
import torch

from mindgap_runtimes.ncnn.backend import properties

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str | int] = properties({})


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the converted model."""

    class Net(ncnn.Net):
        def __init__(self):
            super().__init__()
            for name, value in PROPERTIES.items():
                setattr(self.opt, name, value)
            self.load_param, self.load_model = cache(self.load_param), cache(self.load_model)

        def __exit__(self, *_):
            """Keeps the model: the script would load it again with each call."""

    assert ncnn.get_gpu_count() or not PROPERTIES.get("use_vulkan_compute"), "ncnn finds no Vulkan device"
    net = Net()
    with tempfile.TemporaryDirectory() as folder:
        # pnnx traces the model and writes a script that runs it on random numbers: these are the operands here.
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        script = runpy.run_path(f"{folder}/model_ncnn.py")
        net.load_param(f"{folder}/model.ncnn.param")
        net.load_model(f"{folder}/model.ncnn.bin")

    def infer(given):
        original = ncnn.Net, torch.manual_seed, torch.rand, torch.randint
        ncnn.Net, torch.manual_seed = lambda: net, lambda seed: None
        torch.rand = torch.randint = lambda *shape, dtype: next(given).to(dtype)
        try:
            return script["test_inference"]()
        finally:
            ncnn.Net, torch.manual_seed, torch.rand, torch.randint = original

    found = infer(iter(fresh()))
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]
