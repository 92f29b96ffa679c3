"""Names the optimizers that a session of ONNX Runtime can leave out, `disabled_optimizers`; as a module, prints it."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import onnx

from mindgap.platforms.onnxruntime.session import logged, runtime

#: Rules of its rule-based transformers, which its log does not name; as the sources of 1.31 and of versions before do.
_RULES: Final = (
    "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination",
    "CastElimination", "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion",
    "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion", "ConvBNFusion",
    "Pad_Fusion", "MatMul_BatchNormalization_Fusion", "ClipQuantRewrite", "ReluQuantRewrite", "LabelEncoderFusion",
    "FuseReluClip", "ShapeToInitializer", "ConcatSliceElimination",
)  # fmt: skip


def optimizers() -> list[str]:
    """Transformers that a session of the imported version logs, and logs less often where they are left out; then its
    rules. A rule is one of this version where a transformer runs though all other rules are left out."""
    usual = _ran()
    kept = Counter(_ran(usual))
    transformers = [name for name, count in Counter(usual).items() if kept[name] < count]
    if _rules_ran(_RULES):  # rules of this version are not listed here: which ones it lacks is unknown
        return [*transformers, *_RULES]
    return [*transformers, *(one for one in _RULES if _rules_ran([each for each in _RULES if each != one]))]


def _rules_ran(without: Sequence[str]) -> bool:
    return any(name.endswith("_RuleBasedTransformer") for name in _ran(without))


def _ran(without: Sequence[str] = ()) -> list[str]:
    """The transformers that a session of a model with one node logs, as often as it does."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "one", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = runtime().SessionOptions()
    options.log_severity_level = 1
    with logged() as log:
        runtime().InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=[*without]
        )
    return re.findall(r"GraphTransformer (\w+) modified", log.text)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(optimizers()))
