"""IREE: float16 to a float8 does not compile for llvm-cpu.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: tensor<4xf16>) -> tensor<4xf8E4M3FN> {
  %y = arith.truncf %x : tensor<4xf16> to tensor<4xf8E4M3FN>
  return %y : tensor<4xf8E4M3FN>
}
"""
MESSAGE = "failed to legalize operation 'arith.truncf'"
CPU = ["--iree-llvmcpu-target-cpu=generic"]


def main():
    from importlib.metadata import version

    import iree.compiler

    print("iree-base-compiler", version("iree-base-compiler"))
    iree.compiler.compile_str(MLIR.replace("f16>", "f32>"), target_backends=["llvm-cpu"], extra_args=CPU)
    print("from f32: compiles")
    try:
        iree.compiler.compile_str(MLIR, target_backends=["llvm-cpu"], extra_args=CPU)
    except iree.compiler.CompilerToolError as failure:
        text = str(failure)
        print(*("from f16: " + line.partition("error: ")[2] for line in text.splitlines() if MESSAGE in line), sep="\n")
        if MESSAGE in text:
            return 1
        raise
    return 0


try:
    status = main()
except Exception:
    traceback.print_exc()
    status = 2
if status != 2:
    print("FAULT" if status else "NO FAULT")
sys.exit(status)
