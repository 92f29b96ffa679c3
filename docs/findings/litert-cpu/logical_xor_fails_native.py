"""LiteRT: xor of bool does not convert. Exit status 1: the fault is there; 0: it is gone; 2: not checked.

The module is one stablehlo.xor of i1.
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
    print("litert-converter", version("litert-converter"))
    text = """
        func.func @main(%x: tensor<4xTYPE>, %y: tensor<4xTYPE>) -> tensor<4xTYPE> {
          %z = stablehlo.xor %x, %y : tensor<4xTYPE>
          return %z : tensor<4xTYPE>
        }
        """
    print("i32:", len(converted(text.replace("TYPE", "i32"), ["x", "y"])), "bytes")
    try:
        print("i1:", len(converted(text.replace("TYPE", "i1"), ["x", "y"])), "bytes")
    except Exception as problem:
        print("i1:", type(problem).__name__, problem)
        if "Failed to export flatbuffer" not in str(problem):
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
