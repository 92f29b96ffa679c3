"""The parts of PyTorch's ONNX exporter: translations by operator, decompositions, type promotion, FX to ONNX."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
from torch.onnx._internal.exporter import _core, _decomp, _flags, _ir_passes, _registration
from torch.onnx._internal.exporter._core import TorchTensor as TorchTensor
from torch.onnx._internal.exporter._errors import ConversionError as ConversionError
from torch.onnx._internal.fx.passes import type_promotion

add_opset_imports = _ir_passes.add_opset_imports
TypePromotionTable = type_promotion.TypePromotionTable


def translation_registry(opset: int) -> Any:
    """Returns the exporter's translations (`ONNXRegistry`) for an operator set."""
    return _registration.ONNXRegistry.from_torchlib(opset_version=opset)


def decomposition_table(registry: Any) -> Any:
    """Returns the decompositions that the exporter uses for operators that `registry` does not translate."""
    exporter: Any = _decomp
    return exporter.create_onnx_friendly_decomposition_table(set(exporter.get_onnx_implemented_overloads(registry)))


@_flags.set_onnx_exporting_flag
def translate(graph: torch.fx.Graph, model: Any, registry: Any) -> Mapping[str, Any]:
    """Adds the ONNX form of an FX graph to `model`, and returns the ONNX values by FX node name.

    Raises `ConversionError`. The public function traces the program again, which takes ten times as long.
    """
    return _core._translate_fx_graph(
        graph, model, graph_like=model.graph, owned_graphs={}, lower="at_conversion", registry=registry
    )


class TypePromoter(type_promotion._TypePromotionInterpreter):
    """The exporter's type promotion, without running the nodes that it leaves alone: their values are known."""

    def run_node(self, n: torch.fx.Node) -> Any:
        rule = type_promotion.get_type_promotion_rule(n, self.type_promotion_table)
        if rule is not None:
            with self._set_current_node(n):
                self._maybe_promote_node(n, rule)
        return n.meta.get("val")
