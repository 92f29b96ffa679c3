"""Runs a model on TVM as its users do: Relax's front end, `tvm.compile`, Relax's virtual machine."""

# pyright: basic, reportMissingImports=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch
import tvm
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.torch import from_exported_program

from mindgap_runtimes.tvm.backend import properties

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str | int] = properties({})


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the compiled module."""
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    main, given = machine["main"], [tvm.runtime.tensor(a.numpy()) for a in fresh()]
    found = main(*given)
    return [torch.as_tensor(np.array(value.numpy())) for value in found]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file, compiled for the sizes of the arguments."""
    file = onnx.load("FILE")
    held = {one.name for one in file.graph.initializer}
    inputs = [
        (one.name, [size.dim_value if size.HasField("dim_value") else None for size in one.type.tensor_type.shape.dim])
        for one in file.graph.input
        if one.name not in held
    ]
    feeds = model.matched(inputs, fresh())
    module = from_onnx(file, {name: list(tensor.shape) for name, tensor in feeds}, sanitize_input_names=False)
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    main, given = machine["main"], [tvm.runtime.tensor(tensor.numpy()) for _, tensor in feeds]
    found = main(*given)
    several = [found] if isinstance(found, tvm.runtime.Tensor) else found
    return [torch.as_tensor(np.array(value.numpy())) for value in several]
