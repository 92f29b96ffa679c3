"""ONNX Runtime's optimizers by name, and the argument of a session that leaves some out."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.platforms.name import PlatformName
from mindgap_diagnosis.passes.names import names_there


def onnxruntime_passes(platform: PlatformName) -> list[str]:
    """The names that `disabled_optimizers` takes. Transformers that stand for rules are left out: the rules are
    named."""
    names = names_there(platform, "mindgap.platforms.onnxruntime.optimizers")
    return [each for each in names if not each.endswith("_RuleBasedTransformer")]


def onnxruntime_remedy(names: Sequence[str]) -> str:
    return f"onnxruntime.InferenceSession(…, disabled_optimizers={[*names]})"
