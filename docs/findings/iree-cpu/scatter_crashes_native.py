"""IREE: scatter along a negative dimension ends the compiler.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[2,4],f32>, %i: !torch.vtensor<[2,2],si64>, %s: !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[2,4],f32> {
  %dim = torch.constant.int -1
  %y = torch.aten.scatter.src %x, %dim, %i, %s : !torch.vtensor<[2,4],f32>, !torch.int, !torch.vtensor<[2,2],si64>, !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,4],f32>
  return %y : !torch.vtensor<[2,4],f32>
}
"""
MESSAGE = "Error code: -"
CPU = ["--iree-llvmcpu-target-cpu=generic"]


def main():
    from importlib.metadata import version

    import iree.compiler

    print("iree-base-compiler", version("iree-base-compiler"))
    try:
        iree.compiler.compile_str(MLIR, input_type="torch", target_backends=["llvm-cpu"], extra_args=CPU)
    except iree.compiler.CompilerToolError as failure:
        text = str(failure)
        print(*(line for line in text.splitlines() if MESSAGE in line), sep="\n")
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
