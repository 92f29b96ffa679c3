"""Lowers an ONNX file as OpenVINO's users do, by NNCF or by its hint of precision, and runs it: the service of a
tool."""

# pyright: basic, reportMissingImports=false
# (NNCF and OpenVINO have no types)

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mindgap.graph import Array
from mindgap.platforms.name import parse
from mindgap.platforms.openvino.pytorch_frontend import import_openvino
from mindgap.run.server import Channel, Service
from mindgap_diagnosis.precision.onnx_file import named_model
from mindgap_diagnosis.precision.paste import mark_precise
from mindgap_diagnosis.precision.tool_runs import tool_service


def openvino_service(_: Channel, source: str, platform: str) -> Service:
    """Opens the service for one file."""
    openvino, proto = import_openvino(), named_model(source)
    core = openvino.Core()
    model = core.read_model(source)
    names = _names(model, proto)
    precision = parse(platform).options.get("precision")

    def outputs(to: str, kept: Sequence[str] | None, path: str, feeds: Mapping[str, Array]) -> list[Any]:
        # Without a hint the plug-in chooses: bfloat16 where the processor has it.
        given, hint = model, precision if to == "int8" else "f32" if kept is None else "bf16"
        if kept is not None:
            apart = [each for name in kept for each in names[name]]
            if to == "int8":
                nncf = importlib.import_module("nncf")
                nncf.set_log_level(logging.ERROR)
                scope, data = nncf.IgnoredScope(names=apart), nncf.Dataset([dict(feeds)])
                given = nncf.quantize(model.clone(), data, ignored_scope=scope)
            openvino.save_model(given, path, compress_to_fp16=False)
            if to != "int8":
                mark_precise(path, apart)
            given = core.read_model(path)
        compiled = core.compile_model(given, "CPU", {"INFERENCE_PRECISION_HINT": hint} if hint else {})
        results = compiled(dict(feeds))
        return [results[number].copy() for number in range(len(given.outputs))]

    kinds = sorted({node.op_type for node in proto.graph.node if node.name in names})
    return tool_service(outputs, {"lowered": {"int8": kinds, "bfloat16": kinds}, "names": names})


def _names(model: Any, proto: Any) -> dict[str, list[str]]:
    """Returns the operators of OpenVINO's model by ONNX node, those without floats left out. The front end names the
    last one of a node after it (before that, `conv/WithoutBiases`), or after its output; others get no name of it."""
    owner = {output: node.name for node in proto.graph.node for output in node.output}
    owner |= {node.name: node.name for node in proto.graph.node}
    named: dict[str, list[str]] = {}
    before: list[str] = []
    for each in model.get_ordered_ops():
        if each.get_type_name() in ("Constant", "Parameter", "Result") or not each.get_output_element_type(0).is_real():
            continue
        before.append(each.get_friendly_name())
        results = [name for output in each.outputs() for name in output.get_names()]
        if nodes := [owner[name] for name in (before[-1], *results) if name in owner]:
            named[nodes[0]] = named.get(nodes[0], []) + before
            before = []
    return named
