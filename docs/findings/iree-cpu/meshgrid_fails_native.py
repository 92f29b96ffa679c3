"""IREE: the product of meshgrid's two results ends the compiler.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[3],f32>, %y: !torch.vtensor<[4],f32>) -> !torch.vtensor<[3,4],f32> {
  %list = torch.prim.ListConstruct %x, %y : (!torch.vtensor<[3],f32>, !torch.vtensor<[4],f32>) -> !torch.list<vtensor>
  %indexing = torch.constant.str "ij"
  %grids = torch.aten.meshgrid.indexing %list, %indexing : !torch.list<vtensor>, !torch.str -> !torch.list<vtensor>
  %both:2 = torch.prim.ListUnpack %grids : !torch.list<vtensor> -> !torch.vtensor<[3,4],f32>, !torch.vtensor<[3,4],f32>
  %z = torch.aten.mul.Tensor %both#0, %both#1 : !torch.vtensor<[3,4],f32>, !torch.vtensor<[3,4],f32> -> !torch.vtensor<[3,4],f32>
  return %z : !torch.vtensor<[3,4],f32>
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
