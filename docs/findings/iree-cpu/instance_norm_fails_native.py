"""IREE: instance_norm without a weight does not compile.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[2,3,8,8],f32>) -> !torch.vtensor<[2,3,8,8],f32> {
  %none = torch.constant.none
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %momentum = torch.constant.float 1.000000e-01
  %eps = torch.constant.float 1.000000e-05
  %y = torch.aten.instance_norm %x, %none, %none, %none, %none, %true, %momentum, %eps, %false : !torch.vtensor<[2,3,8,8],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[2,3,8,8],f32>
  return %y : !torch.vtensor<[2,3,8,8],f32>
}
"""
MESSAGE = "'torch.aten.unsqueeze' op operand #0 must be Any Torch tensor type"
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
