"""LiteRT: a transposed convolution becomes a bilinear resize. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.convolution with lhs_dilate = [1, 2] and a kernel of 1 x 3, whose middle is 2.
"""

import sys
from importlib.metadata import version

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from litert_converter.mlir import ir, passmanager
from litert_converter.mlir._mlir_libs import converter_api_ext as converter

MODULE = """
func.func @main(%x: tensor<1x1x4x1xf32>) -> tensor<1x1x7x1xf32> {
  %w = stablehlo.constant dense<[[[[0.0]], [[2.0]], [[0.0]]]]> : tensor<1x3x1x1xf32>
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = [1, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x4x1xf32>, tensor<1x3x1x1xf32>) -> tensor<1x1x7x1xf32>
  return %y : tensor<1x1x7x1xf32>
}"""

print("litert-converter", version("litert-converter"), "ai-edge-litert", version("ai-edge-litert"))
context = ir.Context()
converter.prepare_mlir_context(context)
with context:
    module = ir.Module.parse(MODULE)
    converter.set_signature(module.operation, signature_name="main", input_names=["x"], output_names=["out"])
    converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), converter.ConvertToTFLConfig())
    model = converter.export_flatbuffer_to_bytes(module.operation)
interpreter = Interpreter(model_content=model)
interpreter.allocate_tensors()
print("operators:", [each["op_name"] for each in interpreter._get_ops_details()])
x, right = np.array([1, 2, 3, 4], "float32"), np.array([2, 0, 4, 0, 6, 0, 8], "float32")
found = interpreter.get_signature_runner()(x=x.reshape(1, 1, 4, 1))["out"].flatten()
print("LiteRT gives", found, "right is", right)
fault = abs(found - right).max() > 1e-5
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
