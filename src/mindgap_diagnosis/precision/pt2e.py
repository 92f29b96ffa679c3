"""Quantises a program by PyTorch's pt2e flow (torchao), as its users do, and runs it: the service of a tool."""

# pyright: basic, reportMissingImports=false
# (torchao has few types)

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mindgap.aten.torch_private.inductor import inductor_config
from mindgap.graph import Array, MindgapError
from mindgap.graph_capture.program import leaves
from mindgap.own_path.worker import opened_program
from mindgap.platforms.name import parse
from mindgap.run.server import Channel, Service
from mindgap_diagnosis.precision.tool_runs import tool_service


def pt2e_service(_: Channel, source: str, platform: str) -> Service:
    """Opens the service for the program of a source, in eager mode or by Inductor."""
    flow = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86 = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    built, compiled = opened_program(source), parse(platform).mode == "inductor"
    if not isinstance(built.program, torch.nn.Module):
        raise MindgapError(f"{source}: the quantizer is given names of modules: give it an nn.Module")
    program = built.program.eval()
    exported = torch.export.export(program, built.args, dict(built.kwargs)).module()

    def quantiser(kept: Sequence[str]) -> Any:
        made = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
        for name in kept:
            made.set_module_name_qconfig(name, None)
        return made

    def outputs(_: str, kept: Sequence[str] | None, __: str, ___: Mapping[str, Array]) -> list[Any]:
        # Inductor takes its kernels of int8 where weights are constants.
        with torch.no_grad(), inductor_config.patch(freezing=compiled):
            module: Any = program
            if kept is not None:
                prepared = flow.prepare_pt2e(copy.deepcopy(exported), quantiser(kept))
                prepared(*built.args, **built.kwargs)
                module = flow.convert_pt2e(prepared)
            run: Any = torch.compile(module) if compiled else module
            given = leaves(run(*built.args, **built.kwargs))
            return [each.numpy(force=True) for _, each in given if isinstance(each, torch.Tensor)]

    names = _annotated(quantiser(()).annotate(copy.deepcopy(exported)))
    kinds = sorted(map(str, x86.default_quantizable_ops))
    return tool_service(outputs, {"lowered": {"int8": kinds}, "names": {name: [name] for name in names}})


def _annotated(module: Any) -> set[str]:
    """Returns the modules of the nodes that a quantizer changes."""
    stacks = [
        node.meta.get("nn_module_stack", {})
        for node in module.graph.nodes
        if getattr(node.meta.get("quantization_annotation"), "input_qspec_map", None)
    ]
    return {[*stack.values()][-1][0] for stack in stacks if stack} - {""}
