"""IREE: max_unpool3d with stride 3 does not compile.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[1,1,2,2,2],f32>, %i: !torch.vtensor<[1,1,2,2,2],si64>) -> !torch.vtensor<[1,1,6,6,6],f32> {
  %int0 = torch.constant.int 0
  %int3 = torch.constant.int 3
  %int6 = torch.constant.int 6
  %size = torch.prim.ListConstruct %int6, %int6, %int6 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %stride = torch.prim.ListConstruct %int3, %int3, %int3 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %int0, %int0, %int0 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.max_unpool3d %x, %i, %size, %stride, %padding : !torch.vtensor<[1,1,2,2,2],f32>, !torch.vtensor<[1,1,2,2,2],si64>, !torch.list<int>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[1,1,6,6,6],f32>
  return %y : !torch.vtensor<[1,1,6,6,6],f32>
}
"""
MESSAGE = "semi-affine"
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
