"""Converts an ONNX file by ONNX Runtime's tools and runs it: the service of a tool."""

# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false
# (ONNX Runtime and its tools have no types)

from __future__ import annotations

import copy
import importlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from mindgap.graph import Array
from mindgap.onnx_files.model_proto import node_name, unique_name
from mindgap.platforms.name import parse
from mindgap.run.server import Channel, Service
from mindgap_diagnosis.precision.tool_runs import tool_service


def onnx_service(_: Channel, source: str, platform: str) -> Service:
    """Opens the service for one file, on ONNX Runtime or ONNX's reference evaluator."""
    model, name = named_model(source), parse(platform)
    optimise = name.options.get("opt") != "none"

    def outputs(to: str, kept: Sequence[str] | None, path: str, feeds: Mapping[str, Array]) -> list[Any]:
        if kept is not None:
            tool = _quantised if to == "int8" else _as_float16
            tool(copy.deepcopy(model), kept, feeds, path)
        return _run(source if kept is None else path, name.device, optimise, feeds)

    kinds = {node.op_type for node in model.graph.node}
    blocked = importlib.import_module("onnxruntime.transformers.float16").DEFAULT_OP_BLOCK_LIST
    registry = importlib.import_module("onnxruntime.quantization.registry")
    quantised = kinds.intersection({*registry.QDQRegistry, *registry.QLinearOpsRegistry})
    return tool_service(outputs, {"lowered": {"float16": sorted(kinds.difference(blocked)), "int8": sorted(quantised)}})


def named_model(file: str) -> Any:
    """Loads a file; nodes without a name, and of one name, get those that its translation gives them."""
    import onnx

    model, taken = onnx.load(file), set[str]()
    for index, node in enumerate(model.graph.node):
        node.name = unique_name(node_name(node, index), taken)
    return model


def _as_float16(model: Any, kept: Sequence[str], _: Mapping[str, Array], path: str) -> None:
    import onnx

    tool = importlib.import_module("onnxruntime.transformers.float16")
    sorter = importlib.import_module("onnxruntime.transformers.onnx_model").OnnxModel
    converted = tool.convert_float_to_float16(model, keep_io_types=True, node_block_list=[*kept])
    _skip_round_trips(converted)
    # The tool appends casts at the end. ONNX wants nodes in the order of the data.
    sorter(converted).topological_sort()
    onnx.save(converted, path)


def _skip_round_trips(model: Any) -> None:
    """Lets a node that stays in float32 read what another one gives. The tool casts that to float16 and back, so that
    values overflow between two nodes of its list (https://github.com/microsoft/onnxruntime/issues/21345), and it writes
    the cast of a value that is read twice two times."""
    nodes = {tuple(node.output): node for node in model.graph.node}
    del model.graph.node[:]
    model.graph.node.extend(nodes.values())
    casts = {node.output[0]: node for node in model.graph.node if node.op_type == "Cast"}
    for node in casts.values():
        inner = casts.get(node.input[0])
        if inner is not None and re.match("graph_input_cast|.*_cast_to_fp16_node$", inner.name):
            node.input[0] = inner.input[0]


def _quantised(model: Any, kept: Sequence[str], feeds: Mapping[str, Array], path: str) -> None:
    quantization = importlib.import_module("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder:
        # The tool reads a file for its calibration.
        plain = Path(folder) / "model.onnx"
        importlib.import_module("onnx").save(model, plain)
        reader = SimpleNamespace(get_next=partial(next, iter((dict(feeds),)), None))
        quantization.quantize_static(plain, path, reader, nodes_to_exclude=[*kept])


def _run(path: str, runtime: str, optimise: bool, feeds: Mapping[str, Array]) -> list[Any]:
    if runtime == "onnx":
        with np.errstate(all="ignore"):
            return importlib.import_module("onnx.reference").ReferenceEvaluator(path).run(None, dict(feeds))
    onnxruntime = importlib.import_module("onnxruntime")
    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.log_severity_level = 4
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, dict(feeds))
