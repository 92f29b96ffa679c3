"""LiteRT: an empty result that the converter folds cannot be read. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.pad of an input without elements.
"""
import sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from litert_converter.mlir import ir, passmanager
from litert_converter.mlir._mlir_libs import converter_api_ext as converter

MODULE = """
func.func @main(%x: tensor<0x3xf32>) -> tensor<0x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.pad %x, %zero, low = [0, 0], high = [0, 1], interior = [0, 0]
    : (tensor<0x3xf32>, tensor<f32>) -> tensor<0x4xf32>
  return %y : tensor<0x4xf32>
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
runner = interpreter.get_signature_runner()
fault = False
try:
    found = runner(x=np.zeros((0, 3), "float32"))["out"]
    print("LiteRT gives", found.shape)
except ValueError as problem:
    print("ValueError:", problem)
    if "Invalid tensor size" not in str(problem):
        raise
    fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
