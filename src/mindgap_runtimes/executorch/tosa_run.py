"""Runs a model on TOSA as its users do: export, lowering with ExecuTorch's Arm backend, Arm's reference model."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

import operator
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
    call = next(node for node in lowered.graph_module.graph.nodes if node.op == "call_function")
    block = TosaGraph.GetRootAs(part.processed_bytes, 0).Regions(0).Blocks(0)
    # The reference model takes no input of which the program uses the shape alone.
    read = {block.Inputs(number).decode() for number in range(block.InputsLength())}
    given = dict(zip(lowered.graph_signature.user_inputs, fresh(), strict=True))
    # A part reads and writes memory, in the order of dimensions that the program says: channels last is (N, H, W, C).
    arrays = [
        given[node.name].permute(node.meta["val"].dim_order()).contiguous().numpy()
        for name, node in zip(part.original_module.graph_signature.user_inputs, call.args[1:], strict=True)
        if name in read
    ]
    found, status = tosa_reference_model.run(part.processed_bytes, arrays)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    results = []
    for array, declared in zip(found, call.meta["val"], strict=True):
        order = declared.dim_order()
        held = torch.as_tensor(array).reshape([declared.shape[each] for each in order])
        results.append(held.permute([order.index(each) for each in range(len(order))]))
    return results


def run_integers(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a program of the `pt2e` flow in TOSA's INT profile. PyTorch quantises the inputs and makes
    floats of the outputs; the reference model runs all between."""
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+INT"))
    # What the quantiser wrote on the nodes of a module is lost in an export of another module around it.
    program = torch.export.export(getattr(model, "program", model), fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    values, given = {}, dict(zip(lowered.graph_signature.user_inputs, fresh(), strict=True))
    for node in lowered.graph_module.graph.nodes:
        arguments = torch.fx.node.map_arg(node.args, lambda each: values[each])
        if node.op == "placeholder":
            # Others are parameters that are in the parts now.
            values[node] = given.get(node.name)
        elif node.op == "get_attr":
            values[node] = getattr(lowered.graph_module, node.target)
        elif node.target is operator.getitem:
            values[node] = arguments[0][arguments[1]]
        elif node.target is torch.ops.higher_order.executorch_call_delegate:
            # A part reads and writes memory, as in `run`.
            orders = [each.meta["val"].dim_order() for each in node.args[1:]]
            arrays = [a.permute(order).contiguous().numpy() for a, order in zip(arguments[1:], orders, strict=True)]
            found, status = tosa_reference_model.run(arguments[0].processed_bytes, arrays)
            assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
            values[node] = []
            for array, declared in zip(found, node.meta["val"], strict=True):
                order = declared.dim_order()
                held = torch.as_tensor(array).reshape([declared.shape[each] for each in order])
                values[node].append(held.permute([order.index(each) for each in range(len(order))]))
        elif "quantize_per_tensor" in str(node.target):
            values[node] = node.target._op(*arguments, **node.kwargs)
        elif node.op != "output":
            raise NotImplementedError(f"ExecuTorch's Arm backend leaves {node.target._op} in TOSA's INT profile")
    if not any(node.op == "get_attr" for node in lowered.graph_module.graph.nodes):
        raise NotImplementedError("ExecuTorch's Arm backend leaves all of the program in TOSA's INT profile")
    return list(arguments[0])
