"""Runs a model on ncnn as its users do: `pnnx.export`, and the script that pnnx writes."""

# pyright: basic, reportMissingImports=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import pathlib
import re
import tempfile
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
    net = ncnn.Net()
    for name, value in PROPERTIES.items():
        if hasattr(net.opt, name):
            setattr(net.opt, name, value)
    with tempfile.TemporaryDirectory() as folder:
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        net.load_param(f"{folder}/model.ncnn.param"), net.load_model(f"{folder}/model.ncnn.bin")
        script = pathlib.Path(f"{folder}/model_ncnn.py").read_text()
    # pnnx writes a script that loads the model and runs it on random numbers: here are `net` and the operands.
    script = re.sub(r"torch\.rand\w*\(.*(dtype=.*)\)", r"next(given).to(\1)", re.sub(r"net\.load.*", "", script))
    script = script.replace("with ncnn.Net() as net", "if True").replace("inference()", "inference(given)")
    exec(script, names := {"net": net, "__name__": ""})
    found = names["test_inference"](iter(fresh()))
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]
