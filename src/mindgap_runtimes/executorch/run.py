"""Runs a model on ExecuTorch as its users do: export, lowering with the XNNPACK delegate, the Python runtime."""

# pyright: basic, reportMissingImports=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the lowered program."""
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    method, count = loaded.load_method("forward"), len(program.graph_signature.user_outputs)
    found = method.execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-count:]]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a program file."""
    loaded = Runtime.get().load_program("FILE").load_method("forward")
    inputs = [("", loaded.metadata.input_tensor_meta(n).sizes()) for n in range(loaded.metadata.num_inputs())]
    return [value.clone() for value in loaded.execute([tensor for _, tensor in model.matched(inputs, fresh())])]
