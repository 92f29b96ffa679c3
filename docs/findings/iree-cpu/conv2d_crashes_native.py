"""IREE: a convolution without a batch dimension ends the compiler.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[3,16,16],f32>, %w: !torch.vtensor<[4,3,3,3],f32>) -> !torch.vtensor<[4,14,14],f32> {
  %none = torch.constant.none
  %1 = torch.constant.int 1
  %0 = torch.constant.int 0
  %s = torch.prim.ListConstruct %1, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %0, %0 : (!torch.int, !torch.int) -> !torch.list<int>
  %op = torch.prim.ListConstruct  : () -> !torch.list<int>
  %f = torch.constant.bool false
  %y = torch.aten.convolution %x, %w, %none, %s, %p, %s, %f, %op, %1 : !torch.vtensor<[3,16,16],f32>, !torch.vtensor<[4,3,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,14,14],f32>
  return %y : !torch.vtensor<[4,14,14],f32>
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
