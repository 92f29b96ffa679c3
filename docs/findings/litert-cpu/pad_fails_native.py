"""LiteRT: an empty result that the converter folds cannot be read. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.pad of an input without elements.
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
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    print("litert-converter", version("litert-converter"), "ai-edge-litert", version("ai-edge-litert"))
    model = converted(
        """
        func.func @main(%x: tensor<0x3xf32>) -> tensor<0x4xf32> {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %y = stablehlo.pad %x, %zero, low = [0, 0], high = [0, 1], interior = [0, 0]
            : (tensor<0x3xf32>, tensor<f32>) -> tensor<0x4xf32>
          return %y : tensor<0x4xf32>
        }
        """,
        ["x"],
    )
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    print("operators:", [each["op_name"] for each in interpreter._get_ops_details()])
    runner = interpreter.get_signature_runner()
    try:
        found = runner(x=np.zeros((0, 3), "float32"))["out"]
    except ValueError as problem:
        print("ValueError:", problem)
        if "Invalid tensor size" not in str(problem):
            raise
        return 1
    print("LiteRT gives", found.shape)
    return 0


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
