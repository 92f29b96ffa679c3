"""LiteRT: a scatter that adds does not load. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.scatter with a body of stablehlo.add.
"""
import sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
from ai_edge_litert.interpreter import Interpreter
from litert_converter.mlir import ir, passmanager
from litert_converter.mlir._mlir_libs import converter_api_ext as converter

MODULE = """
func.func @main(%x: tensor<4xf32>, %i: tensor<2x1xi32>, %s: tensor<2xf32>) -> tensor<4xf32> {
  %y = "stablehlo.scatter"(%x, %i, %s) <{
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""

print("litert-converter", version("litert-converter"), "ai-edge-litert", version("ai-edge-litert"))
context = ir.Context()
converter.prepare_mlir_context(context)
with context:
    module = ir.Module.parse(MODULE)
    converter.set_signature(module.operation, signature_name="main", input_names=["x", "i", "s"], output_names=["out"])
    converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), converter.ConvertToTFLConfig())
    model = converter.export_flatbuffer_to_bytes(module.operation)
fault = False
try:
    Interpreter(model_content=model).allocate_tensors()
except RuntimeError as problem:
    print("RuntimeError:", problem)
    if "currently supported for stablehlo.scatter" not in str(problem):
        raise
    fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
