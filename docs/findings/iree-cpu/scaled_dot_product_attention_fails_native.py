"""IREE: attention with a mask of fewer dimensions does not compile.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%q: !torch.vtensor<[1,2,4,8],f32>, %m: !torch.vtensor<[4,4],f32>) -> !torch.vtensor<[1,2,4,8],f32> {
  %dropout = torch.constant.float 0.000000e+00
  %false = torch.constant.bool false
  %none = torch.constant.none
  %y = torch.aten.scaled_dot_product_attention %q, %q, %q, %m, %dropout, %false, %none, %false : !torch.vtensor<[1,2,4,8],f32>, !torch.vtensor<[1,2,4,8],f32>, !torch.vtensor<[1,2,4,8],f32>, !torch.vtensor<[4,4],f32>, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[1,2,4,8],f32>
  return %y : !torch.vtensor<[1,2,4,8],f32>
}
"""
MESSAGE = "to have a higher (or same) rank than the collapsed type"
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
