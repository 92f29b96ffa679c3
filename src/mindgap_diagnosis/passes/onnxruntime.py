"""ONNX Runtime's optimizers by name, and the argument of a session that leaves some out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final

import onnx

from mindgap.platforms.environments import find
from mindgap.platforms.name import PlatformName

#: Rules of its rule-based transformers, which its log does not name; as the sources of 1.31 do. A name that a version
#: lacks is ignored.
_RULES: Final = (
    "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination",
    "CastElimination", "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion",
    "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion", "ConvBNFusion",
    "Pad_Fusion", "MatMul_BatchNormalization_Fusion", "ClipQuantRewrite", "ReluQuantRewrite", "LabelEncoderFusion",
    "FuseReluClip", "ShapeToInitializer", "ConcatSliceElimination",
)  # fmt: skip
#: What a session of a model with one node logs: each optimizer that ran, with what it changed.
_LIST: Final = """
import onnxruntime, sys
options = onnxruntime.SessionOptions()
options.log_severity_level = 1
onnxruntime.InferenceSession(bytes.fromhex(sys.argv[1]), options, providers=["CPUExecutionProvider"])
"""
_SECONDS: Final = 60.0


def onnxruntime_passes(platform: PlatformName) -> list[str]:
    """The names that `disabled_optimizers` takes: those of the platform's version, as a session logs them, and rules.

    Transformers that stand for rules are left out: the rules are named.
    """
    python = find(platform.environment).python if platform.environment else sys.executable
    logged = re.findall(r"GraphTransformer (\w+) modified", _log(python))
    return [*dict.fromkeys(each for each in logged if not each.endswith("_RuleBasedTransformer")), *_RULES]


@cache
def _log(python: str) -> str:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    values = [helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    command = [python, "-c", _LIST, model.SerializeToString().hex()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return done.stderr


def onnxruntime_remedy(names: Sequence[str]) -> str:
    return f"onnxruntime.InferenceSession(…, disabled_optimizers={[*names]})"
