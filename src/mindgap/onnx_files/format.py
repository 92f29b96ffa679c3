"""Describes the format of ONNX files: who decides about one, and what it leaves open of integers."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.model_formats import ModelFormat, QuantisationRule, Referee
from mindgap.platforms.name import parse

ONNX_RULE: Final = QuantisationRule("one that ONNX's definition allows", "other integers than ONNX's definition allows")
_REFEREES: Final = (
    Referee(parse("onnx/reference"), "ONNX's reference evaluator"),
    Referee(parse("onnxruntime/cpu"), "ONNX Runtime"),
    Referee(parse("openvino/cpu@precision=f32"), "OpenVINO", shared="openvino"),
)
FORMAT: Final = ModelFormat(
    suffix=".onnx",
    scheme="onnxfile",
    probe="mindgap.onnx_files.probing:write_probed",
    shows_results=False,
    referees=_REFEREES,
    reference_defines=True,
    rule=ONNX_RULE,
    checks=lambda judged: [each.platform for each in _REFEREES if each.is_independent(judged)],
    checks_words="other implementations give",
    quantising=tuple(
        f"{domain}{op}" for domain in ("", "com.microsoft.") for op in ("QuantizeLinear", "DequantizeLinear")
    ),
)
