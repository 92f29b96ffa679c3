"""LiteRT: log_plus_one loses the digits of small numbers. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.log_plus_one.
"""

import sys
from importlib.metadata import version

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from litert_converter.mlir import ir, passmanager
from litert_converter.mlir._mlir_libs import converter_api_ext as converter

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.log_plus_one %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""

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
x = np.array([0.01, 1e-3, 1e-6, 1e-9], "float32")
found, right = interpreter.get_signature_runner()(x=x)["out"], np.log1p(x.astype("float64"))
off = abs(found - right) / right
print("LiteRT gives", found, "right is", right, "relative error", off)
fault = off.max() > 1e-5
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
