"""Runs a model on TOSA as its users do: export, lowering with ExecuTorch's Arm backend, Arm's reference model."""

# pyright: basic, reportMissingImports=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import tosa_reference_model
from executorch.backends.arm.tosa import TosaSpecification
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir import to_edge_transform_and_lower
from tosa.TosaGraph import TosaGraph

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the reference model, of a program that is one part."""
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+FP"))
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    (part,) = [each for _, each in lowered.graph_module.named_children()]
    block = TosaGraph.GetRootAs(part.processed_bytes, 0).Regions(0).Blocks(0)
    # The reference model takes no input of which the program uses the shape alone.
    read = {block.Inputs(number).decode() for number in range(block.InputsLength())}
    given = zip(part.original_module.graph_signature.user_inputs, fresh(), strict=True)
    arrays = [each.contiguous().numpy() for name, each in given if name in read]
    found, status = tosa_reference_model.run(part.processed_bytes, arrays)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    return [torch.as_tensor(array) for array in found]
