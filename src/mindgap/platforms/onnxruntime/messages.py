"""Classifies ONNX Runtime's messages, from session creation and from runs."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, failure, refusal

TABLE: Final = MessageTable(
    "ONNX Runtime",
    (
        failure(
            "kernel missing for a fusion",
            r"Failed to find kernel for com\.microsoft\.",
            "no exporter writes an operator of that domain: the optimiser made it of operators that have kernels",
        ),
        refusal(
            "kernel missing",
            r"\bNOT_IMPLEMENTED\b|\bERROR_CODE: 9\b",
            "ONNX Runtime's typed status: it has no kernel for this operator, operator set or dtype",
        ),
        refusal(
            "format version missing",
            r"Unsupported model IR version",
            "the file is of a newer format than this version of ONNX Runtime reads",
        ),
        refusal(
            "no provider for a node",
            r"IsNodeCompatibleWithProvider",
            "no provider of the session took the node: ONNX Runtime finds it while it places copies between them",
        ),
        refusal(
            "float16 on a device without it",
            r"requires f16 but the device does not support it",
            "the shader needs the feature shader-f16 of WebGPU, which the device lacks",
        ),
        failure(
            "dtype outside the definition",
            r"Type Error: Type '[^']+' of (?:input|output) parameter .* is invalid",
            "the operator's ONNX definition does not allow the dtype: the exporter wrote an invalid model",
        ),
        failure(
            "operands of unlike dtypes",
            r"Type Error: Type parameter \(\w+\) of Optype \(\w+\) bound to different types",
            "the operator's ONNX definition asks for one dtype: the exporter wrote an invalid model",
        ),
        failure(
            "shapes that do not fit",
            r"\[(?:Type|Shape)InferenceError\]",
            "shape inference contradicts the model: the exporter wrote an invalid model",
        ),
        refusal(
            "dtype not supported by a kernel",
            r"data type is not supported with|\boperator does not support \w+ yet\b",
            "the kernel was chosen, and says when it runs that it does not support the dtype",
        ),
        refusal(
            "case that a kernel lacks",
            r"\bnot implemented\b|\bcpu kernel is not supported\b|\bnot supported in \w+ cpu kernel\b",
            "the kernel of an operator of com.microsoft was chosen, and says that it does not have this case",
        ),
    ),
)

#: The WebGL provider of onnxruntime-web is a separate runtime, in JavaScript.
WEB_TABLE: Final = MessageTable(
    "onnxruntime-web",
    (
        *TABLE.rows,
        refusal(
            "operator that WebGL lacks",
            r"cannot resolve operator",
            "the WebGL provider's error: it has no such operator, or not in this operator set",
        ),
        refusal(
            "dtype that WebGL lacks",
            r"unsupported data type: \w+|input tensor\[\d+\] check failed: expected type 'int32' but got int64",
            "the WebGL provider has no tensors of this dtype; it declares int64 as int32",
        ),
        refusal(
            "case that WebGL lacks",
            r"TypeError: \w+ is not supported|^(?:Error: )?Only support \d-D input",
            "the WebGL provider says that it does not support the dtype of a constant, or the rank",
        ),
    ),
)

_RUNNING: Final = re.compile(r"while running (?P<operator>\w+) node\. Name:'(?P<node>[^']*)'")
_CREATING: Final = re.compile(
    r"[Nn]ode:? ?\((?P<node>[^)]*)\)(?: Op \((?P<operator>\w+)\))?|node with name '(?P<named>[^']*)'"
)
_OPERATOR: Final = re.compile(
    r"implementation for (\w+)\(|resolve operator '(\w+)'|operator \((\w+)\)|Optype \((\w+)\)"
)


def read(message: str, table: MessageTable = TABLE) -> Reading:
    """Classifies a message. `node` is a node of the ONNX model, `operator` an ONNX operator."""
    row = table.find(message)
    kind = "failure" if row is None else row.kind
    running = _RUNNING.search(message)
    if running:
        return Reading(kind, row, running["node"], running["operator"])
    at, op = _CREATING.search(message), _OPERATOR.search(message)
    node = (at["node"] or at["named"] or "") if at else ""
    operator = next((name for name in op.groups() if name), "") if op else (at["operator"] or "") if at else ""
    return Reading(kind, row, node, operator)
