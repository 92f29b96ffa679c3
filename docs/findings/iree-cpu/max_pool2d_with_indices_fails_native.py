"""IREE: pooling with ceil_mode and one output element does not compile.

Exit status 1: the fault is there; 0: it is gone; 2: not checked.
"""
import sys
import traceback

MLIR = """
func.func @main(%x: !torch.vtensor<[1,4,7,7],f32>) -> !torch.vtensor<[1,4,1,1],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %int7 = torch.constant.int 7
  %true = torch.constant.bool true
  %kernel = torch.prim.ListConstruct %int7, %int7 : (!torch.int, !torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %dilation = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.max_pool2d %x, %kernel, %kernel, %padding, %dilation, %true : !torch.vtensor<[1,4,7,7],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,4,1,1],f32>
  return %y : !torch.vtensor<[1,4,1,1],f32>
}
"""
MESSAGE = "op inferred input/output operand #1 has shape's dimension #0 to be"
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
