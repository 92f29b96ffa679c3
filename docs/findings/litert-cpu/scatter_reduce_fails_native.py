"""LiteRT: a scatter that adds does not load. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.scatter with a body of stablehlo.add.
"""
import sys
import traceback
from importlib.metadata import version


def converted(text, inputs):
    """The LiteRT model of a StableHLO module, by LiteRT's converter alone."""
    from litert_converter.mlir import ir, passmanager
    from litert_converter.mlir._mlir_libs import converter_api_ext as converter

    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context:
        module = ir.Module.parse(text)
        converter.set_signature(
            module.operation, signature_name="main", input_names=inputs, output_names=["out"]
        )
        converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), converter.ConvertToTFLConfig())
        return converter.export_flatbuffer_to_bytes(module.operation)


def main():
    from ai_edge_litert.interpreter import Interpreter

    print("litert-converter", version("litert-converter"), "ai-edge-litert", version("ai-edge-litert"))
    model = converted(
        """
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
        """,
        ["x", "i", "s"],
    )
    try:
        Interpreter(model_content=model).allocate_tensors()
    except RuntimeError as problem:
        print("RuntimeError:", problem)
        if "currently supported for stablehlo.scatter" not in str(problem):
            raise
        return 1
    return 0


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
